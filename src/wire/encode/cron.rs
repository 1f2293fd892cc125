//! Schedules (tcp protocol section 19).

use super::{Success, Tried};
use crate::command::Reply;
use crate::wire::shape::Cron;

pub(super) fn write<'a>(success: Success<'a>, _shape: &Cron, _reply: &Reply) -> Tried<'a> {
    Tried::NotMine(success)
}
