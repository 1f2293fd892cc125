//! Webhooks (tcp protocol section 21).

use super::Decoded;
use crate::wire::fields::Fields;

pub(super) fn by_name(_name: &[u8], _fields: &Fields<'_>) -> Option<Decoded> {
    None
}
