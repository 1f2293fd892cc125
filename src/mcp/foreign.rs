//! Text that others wrote, on its way into a sentence of ours.

use std::borrow::Cow;
use std::fmt::Write;

/// The text with every character shown that could pass for something else: controls, and marks that turn the direction of
/// writing around (hard case R6).
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_hidden(character) {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown.into()
}

fn is_hidden(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{61c}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2069}'
                | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hides_is_shown_and_the_rest_stays() {
        assert_eq!(visible("größe 漢字 🙂"), "größe 漢字 🙂");
        assert_eq!(visible("a\nb\u{202e}c"), "a\\u{a}b\\u{202e}c");
        assert_eq!(visible("\u{1b}[31m\u{200b}"), "\\u{1b}[31m\\u{200b}");
    }
}
