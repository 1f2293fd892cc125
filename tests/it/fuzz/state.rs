//! States of engines, to be compared: by a print as a rule, by their parts when the prints differ.

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use bunqueue_mcp::engine::Engine;

/// What stands between the parts of a state.
const BETWEEN: [u8; 9] = *b"{}[]()#, ";

/// The same for equal states and another one for any two others. The order of parts does not count: that within hash
/// maps is another one in each engine.
pub fn print(engine: &Engine) -> u64 {
    let mut print = Print::default();
    write!(print, "{engine:?}").expect("a state as text");
    print.sum
}

/// All parts of a state.
pub fn parts(engine: &Engine) -> BTreeSet<String> {
    let text = format!("{engine:?}");
    let parts = text.split(|letter| BETWEEN.contains(&(letter as u8)));
    parts.map(str::to_owned).collect()
}

/// Takes a text and keeps the sum of the prints of its parts.
#[derive(Default)]
struct Print {
    part: u64,
    sum: u64,
}

impl fmt::Write for Print {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if BETWEEN.contains(&byte) {
                // Mixed once more, or the sum would not tell which byte belongs to which part.
                let part = std::mem::take(&mut self.part);
                self.sum = self
                    .sum
                    .wrapping_add((part ^ (part >> 29)).wrapping_mul(part | 1));
            } else {
                self.part = (self.part ^ u64::from(byte))
                    .wrapping_mul(0x0100_0000_01b3)
                    .rotate_left(5);
            }
        }
        Ok(())
    }
}
