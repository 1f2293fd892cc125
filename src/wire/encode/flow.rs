//! Flows and ties between jobs (tcp protocol section 18).

use super::{Success, Tried};
use crate::command::Reply;
use crate::wire::shape::Flow;

pub(super) fn write<'a>(success: Success<'a>, _shape: &Flow, _reply: &Reply) -> Tried<'a> {
    Tried::NotMine(success)
}
