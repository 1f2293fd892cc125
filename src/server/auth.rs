//! Who may ask: tokens and their comparison (tcp protocol section 5).

use subtle::{Choice, ConstantTimeEq};

/// The tokens that the server accepts.
#[derive(Debug)]
pub(super) struct Tokens {
    accepted: Vec<String>,
    /// Tokens were configured, even if all of them are blank: then nobody gets in rather than everybody.
    required: bool,
}

impl Tokens {
    /// Takes over configured tokens; surrounding blanks do not count, and a blank one never matches.
    pub(super) fn new(configured: &[String]) -> Self {
        let trimmed = configured.iter().map(|token| token.trim().to_owned());
        Self {
            accepted: trimmed.filter(|token| !token.is_empty()).collect(),
            required: !configured.is_empty(),
        }
    }

    /// Whether a connection has to present one.
    pub(super) const fn required(&self) -> bool {
        self.required
    }

    /// Whether the token is one of them. Every token is compared whole, so that the time tells nothing
    /// about which one came close.
    pub(super) fn accept(&self, token: &str) -> bool {
        let token = token.trim().as_bytes();
        let mut found = Choice::from(0);
        for accepted in &self.accepted {
            found |= accepted.as_bytes().ct_eq(token);
        }
        found.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(configured: &[&str]) -> Tokens {
        let configured: Vec<String> = configured.iter().map(|&token| token.to_owned()).collect();
        Tokens::new(&configured)
    }

    #[test]
    fn any_of_the_tokens_opens_the_door() {
        let tokens = tokens(&["one", " two "]);
        assert!(tokens.required());
        for good in ["one", "two", " one\n", "\ttwo"] {
            assert!(tokens.accept(good), "{good:?}");
        }
        for bad in ["", " ", "on", "ones", "One", "one two"] {
            assert!(!tokens.accept(bad), "{bad:?}");
        }
    }

    #[test]
    fn without_tokens_nothing_is_required_and_nothing_matches() {
        let tokens = tokens(&[]);
        assert!(!tokens.required());
        assert!(!tokens.accept("") && !tokens.accept("x"));
    }

    #[test]
    fn blank_tokens_keep_everybody_out() {
        let tokens = tokens(&["", "  "]);
        assert!(tokens.required());
        assert!(!tokens.accept("") && !tokens.accept("  "));
    }
}
