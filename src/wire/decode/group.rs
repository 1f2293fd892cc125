//! Groups (tcp protocol section 16.2).

use super::{Decoded, Decoder};
use crate::wire::fields::Fields;

pub(super) fn by_name(
    _decoder: &mut Decoder,
    _name: &[u8],
    _fields: &Fields<'_>,
) -> Option<Decoded> {
    None
}
