//! Dead letters, reruns and policies per queue (tcp protocol section 15).

use super::{Success, Tried};
use crate::command::Reply;
use crate::wire::shape::Dlq;

pub(super) fn write<'a>(success: Success<'a>, _shape: &Dlq, _reply: &Reply) -> Tried<'a> {
    Tried::NotMine(success)
}
