//! Values as clients send them: perhaps missing, perhaps of another type. A door reads into these; what a command allows
//! is checked once, here.

use super::argument::ArgumentError;
use super::bounds;

/// A number as a client sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Number {
    /// Not sent.
    #[default]
    Absent,
    /// Sent, but not as a number.
    NotNumber,
    /// Sent; NaN and infinities are still possible.
    Value(f64),
}

impl Number {
    /// Reads a plain decimal text such as `"3"` or `" -2.5 "`.
    pub fn from_text(text: &str) -> Self {
        let text = text.trim();
        let plain = !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
        match text.parse() {
            Ok(value) if plain => Self::Value(value),
            _ => Self::NotNumber,
        }
    }

    /// The number, finite, or `None` when it was not sent.
    ///
    /// # Errors
    /// When it is no number, or not finite.
    pub fn finite(self, field: &'static str) -> Result<Option<f64>, ArgumentError> {
        match self {
            Self::Absent => Ok(None),
            Self::NotNumber => Err(ArgumentError::NotNumber(field)),
            Self::Value(value) if value.is_finite() => Ok(Some(value)),
            Self::Value(_) => Err(ArgumentError::NotFinite(field)),
        }
    }

    /// How many of something are meant: fractions count down, less than nothing is nothing, more than there can be is all.
    /// `None` when it was not sent.
    ///
    /// # Errors
    /// When it is no number.
    pub fn count(self, field: &'static str) -> Result<Option<usize>, ArgumentError> {
        match self {
            Self::Absent => Ok(None),
            Self::Value(value) if !value.is_nan() => Ok(Some(value as usize)),
            Self::Value(_) | Self::NotNumber => Err(ArgumentError::NotNumber(field)),
        }
    }

    /// A whole number from 0 to [`bounds::SAFE_INTEGER_MAX`], or `None` when it was not sent.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn safe_integer(self, field: &'static str) -> Result<Option<usize>, ArgumentError> {
        match self {
            Self::Absent => Ok(None),
            Self::Value(value)
                if value.fract() == 0.0 && (0.0..=bounds::SAFE_INTEGER_MAX).contains(&value) =>
            {
                Ok(Some(value as usize))
            }
            Self::Value(_) | Self::NotNumber => Err(ArgumentError::NotSafeInteger(field)),
        }
    }

    /// The number, whole and from 1 to [`bounds::SAFE_INTEGER_MAX`]; one that was not sent is none.
    ///
    /// # Errors
    /// [`ArgumentError::NotPositiveInteger`].
    pub fn positive_integer(self, field: &'static str) -> Result<u64, ArgumentError> {
        match self {
            Self::Value(value)
                if value.fract() == 0.0 && (1.0..=bounds::SAFE_INTEGER_MAX).contains(&value) =>
            {
                Ok(value as u64)
            }
            _ => Err(ArgumentError::NotPositiveInteger(field)),
        }
    }

    /// The number, finite and at least `min`.
    ///
    /// # Errors
    /// When it is no number, not finite or below `min`.
    pub fn at_least(self, field: &'static str, min: i64) -> Result<Option<f64>, ArgumentError> {
        match self.finite(field)? {
            Some(value) if value < min as f64 => Err(ArgumentError::TooSmall { field, min }),
            value => Ok(value),
        }
    }

    /// The number, finite and within the bounds.
    ///
    /// # Errors
    /// When it is no number, not finite or out of bounds.
    pub fn within(
        self,
        field: &'static str,
        min: i64,
        max: i64,
    ) -> Result<Option<f64>, ArgumentError> {
        match self.at_least(field, min)? {
            Some(value) if value > max as f64 => Err(ArgumentError::TooLarge { field, max }),
            value => Ok(value),
        }
    }
}

/// A text as a client sent it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Text<'a> {
    /// Not sent.
    #[default]
    Absent,
    /// Sent, but not as text.
    NotText,
    /// Sent.
    Value(&'a str),
}
