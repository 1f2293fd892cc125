//! Limits of queues (tcp protocol section 16.1).

use super::{Success, Tried};
use crate::command::Reply;
use crate::wire::shape::Limit;

pub(super) fn write<'a>(success: Success<'a>, _shape: &Limit, _reply: &Reply) -> Tried<'a> {
    Tried::NotMine(success)
}
