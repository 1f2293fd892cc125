//! Large answers: how much of a listing fits, and how a caller goes on after it.
//!
//! No listing answers more than [`ANSWER_MAX`] bytes, whatever was asked for: it ends at an item, says so and names the next call
//! (MCP contract, B12). A cursor is a position, not a count: it stays right while jobs come and go (B9).

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Bytes of the JSON text of a listing.
pub const ANSWER_MAX: usize = 100_000;
/// Bytes of it that the members around the list may take: an id of full length may stand there twice, escaped, once in a cursor.
const ENVELOPE: usize = 16_000;
/// Items of a listing that are looked at; more can never fit.
pub const ITEMS_MAX: usize = 1_000;

/// The items of a listing that fit.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// Those.
    pub items: Vec<Value>,
    /// There are more of them.
    pub is_cut: bool,
}

/// As many items as fit, at least one; callers see to it that none is longer than [`ITEM_MAX`].
pub fn fit(items: impl IntoIterator<Item = Value>) -> Fitted {
    let mut room = ANSWER_MAX - ENVELOPE;
    let mut fitted = Fitted {
        items: Vec::new(),
        is_cut: false,
    };
    for item in items {
        let bytes = item.to_string().len() + 1;
        if bytes > room && !fitted.items.is_empty() {
            fitted.is_cut = true;
            break;
        }
        room = room.saturating_sub(bytes);
        fitted.items.push(item);
    }
    fitted
}

/// Bytes that one item of a listing may take by itself.
pub const ITEM_MAX: usize = ANSWER_MAX - ENVELOPE;

/// Whether an item, as it is answered, is too long for any answer.
pub fn is_too_long(item: &Map<String, Value>) -> bool {
    is_longer(item, ITEM_MAX)
}

/// Whether an object, as it is answered, has `max` bytes or more.
pub fn is_longer(object: &Map<String, Value>, max: usize) -> bool {
    serde_json::to_string(object).is_ok_and(|text| text.len() >= max)
}

/// A cursor of the listing that `scope` names, at `position`.
pub fn cursor(scope: &[&str], position: impl Serialize) -> String {
    let sealed = serde_json::to_vec(&(scope, position)).unwrap_or_default();
    URL_SAFE_NO_PAD.encode(sealed)
}

/// The position of a cursor, if it is one of that listing.
pub fn position<P: DeserializeOwned>(scope: &[&str], cursor: &str) -> Option<P> {
    let sealed = URL_SAFE_NO_PAD.decode(cursor).ok()?;
    let (of, position): (Vec<String>, P) = serde_json::from_slice(&sealed).ok()?;
    (of == scope).then_some(position)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_ends_at_an_item_within_its_bound() {
        let item = Value::String("é".repeat(1_000));
        let fitted = fit(std::iter::repeat_n(item.clone(), 500));
        assert!(fitted.is_cut);
        assert!(
            (40..50).contains(&fitted.items.len()),
            "{}",
            fitted.items.len()
        );
        assert!(Value::from(fitted.items).to_string().len() <= ANSWER_MAX);
        assert_eq!(fit([item.clone(), item]).items.len(), 2);
    }

    #[test]
    fn one_item_is_always_answered() {
        let fitted = fit([Value::String("x".repeat(2 * ANSWER_MAX)), Value::Null]);
        assert_eq!((fitted.items.len(), fitted.is_cut), (1, true));
    }

    #[test]
    fn a_cursor_belongs_to_its_listing() {
        let cursor = cursor(&["jobs", "email", "failed"], (5_i64, "é-1", 20_u64));
        assert_eq!(
            position(&["jobs", "email", "failed"], &cursor),
            Some((5_i64, "é-1".to_owned(), 20_u64))
        );
        for scope in [
            ["jobs", "reports", "failed"],
            ["jobs", "email", ""],
            ["logs", "email", "failed"],
        ] {
            assert_eq!(position::<(i64, String, u64)>(&scope, &cursor), None);
        }
        for text in ["", "x", "AAAA", &cursor[1..]] {
            assert_eq!(
                position::<(i64, String, u64)>(&["jobs", "email", "failed"], text),
                None
            );
        }
    }
}
