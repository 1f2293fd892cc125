//! Frames: four bytes of length, big-endian, then that many bytes holding one MessagePack value
//! (tcp protocol section 2).
//!
//! Nothing here allocates for a length that is merely announced; a frame above [`FRAME_MAX`] is
//! recognised by its header alone. [`append`] is the only writer: it patches the length in place, so
//! that a reply is encoded straight into the buffer it leaves from.

use crate::command::bounds::FRAME_MAX;

/// Bytes in front of every frame.
pub const HEADER_LEN: usize = 4;

/// What stands at the front of received bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Front<'a> {
    /// No complete frame yet.
    Partial {
        /// Bytes that are missing at least.
        missing: usize,
    },
    /// A complete frame.
    Frame {
        /// Its bytes, without the length.
        body: &'a [u8],
        /// What was received after it.
        rest: &'a [u8],
    },
    /// A header that announces more than [`FRAME_MAX`] bytes.
    TooLarge {
        /// The bytes announced.
        announced: u32,
    },
}

/// Looks at the front of received bytes.
pub fn front(received: &[u8]) -> Front<'_> {
    let Some((header, after)) = received.split_first_chunk::<HEADER_LEN>() else {
        return Front::Partial {
            missing: HEADER_LEN - received.len(),
        };
    };
    let announced = u32::from_be_bytes(*header);
    let len = announced as usize;
    if len > FRAME_MAX {
        return Front::TooLarge { announced };
    }
    match after.split_at_checked(len) {
        Some((body, rest)) => Front::Frame { body, rest },
        None => Front::Partial {
            missing: len - after.len(),
        },
    }
}

/// Appends one frame; `write` appends its body and nothing else. A body above [`FRAME_MAX`] is taken
/// back, and the answer is false.
#[must_use]
pub fn append(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> bool {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_LEN]);
    write(out);
    let len = out.len() - start - HEADER_LEN;
    let header = out.get_mut(start..start + HEADER_LEN);
    match (u32::try_from(len), header) {
        (Ok(announced), Some(header)) if len <= FRAME_MAX => {
            header.copy_from_slice(&announced.to_be_bytes());
            true
        }
        _ => {
            out.truncate(start);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(mut received: &[u8]) -> Vec<&[u8]> {
        let mut bodies = Vec::new();
        while let Front::Frame { body, rest } = front(received) {
            bodies.push(body);
            received = rest;
        }
        bodies
    }

    #[test]
    fn a_header_says_what_is_missing() {
        assert_eq!(front(&[]), Front::Partial { missing: 4 });
        assert_eq!(front(&[0, 0]), Front::Partial { missing: 2 });
        assert_eq!(front(&[0, 0, 0, 5, 1]), Front::Partial { missing: 4 });
        let rest: &[u8] = &[9];
        let body: &[u8] = &[];
        assert_eq!(front(&[0, 0, 0, 0, 9]), Front::Frame { body, rest });
    }

    #[test]
    fn hard_w3_an_oversized_frame_is_seen_by_its_header() {
        let limit = 67_108_864_u32;
        let missing = limit as usize;
        assert_eq!(front(&limit.to_be_bytes()), Front::Partial { missing });
        let announced = limit + 1;
        assert_eq!(
            front(&announced.to_be_bytes()),
            Front::TooLarge { announced }
        );
        let announced = u32::MAX;
        assert_eq!(front(&[0xff; 9]), Front::TooLarge { announced });
    }

    #[test]
    fn a_body_above_the_limit_is_taken_back() {
        let mut out = vec![1, 2, 3];
        assert!(!append(&mut out, |out| out.resize(out.len() + FRAME_MAX + 1, 0)));
        assert_eq!(out, [1, 2, 3]);
        assert!(append(&mut out, |out| out.push(7)));
        assert_eq!(out, [1, 2, 3, 0, 0, 0, 1, 7]);
    }

    proptest! {
        #[test]
        fn frames_come_back_however_they_were_joined(
            bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..8),
            cut in 0_usize..200,
        ) {
            let mut wire = Vec::new();
            for body in &bodies {
                prop_assert!(append(&mut wire, |out| out.extend_from_slice(body)));
            }
            prop_assert_eq!(split(&wire), bodies.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let part = &wire[..cut.min(wire.len())];
            let whole = split(part);
            prop_assert_eq!(&whole[..], &split(&wire)[..whole.len()]);
        }
    }
}
