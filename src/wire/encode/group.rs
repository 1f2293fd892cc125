//! Groups (tcp protocol section 16.2).

use super::{Success, Tried};
use crate::command::Reply;
use crate::wire::shape::Group;

pub(super) fn write<'a>(success: Success<'a>, _shape: &Group, _reply: &Reply) -> Tried<'a> {
    Tried::NotMine(success)
}
