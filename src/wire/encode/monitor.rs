//! Figures (tcp protocol section 23).

use super::{Success, Tried};
use crate::command::Reply;
use crate::wire::reply::Surroundings;
use crate::wire::shape::Monitor;

pub(super) fn write<'a>(
    success: Success<'a>,
    _shape: &Monitor,
    _reply: &Reply,
    _around: &dyn Surroundings,
) -> Tried<'a> {
    Tried::NotMine(success)
}
