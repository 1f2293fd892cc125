//! Webhooks (tcp protocol section 21).

use super::{Success, Tried};
use crate::command::Reply;
use crate::wire::shape::Webhook;

pub(super) fn write<'a>(success: Success<'a>, _shape: &Webhook, _reply: &Reply) -> Tried<'a> {
    Tried::NotMine(success)
}
