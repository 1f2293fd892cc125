//! Stand-in.
/// Stand-in.
pub fn json_len_utf16(data: &[u8], _stop: usize) -> usize {
    data.len()
}
/// Stand-in.
pub fn json_len_utf8(data: &[u8], _stop: usize) -> usize {
    data.len()
}
