//! Every maximum and default of the product, with its unit, and the checks of names that all surfaces share.
//!
//! Sources: engine contract sections 2.3 and 27, tcp protocol sections 8 and 25. A tool may publish a
//! narrower bound in its own parameter type; nothing widens one.

use std::sync::Arc;

use super::argument::ArgumentError;
use super::given::Text;
use crate::engine::SPAN_MAX;

/// Characters of a queue name.
pub const QUEUE_NAME_MAX: usize = 256;
/// Characters (UTF-16 units) of a job name.
pub const JOB_NAME_MAX: usize = 256;
/// Characters (UTF-16 units) of the id of a group.
pub const GROUP_ID_MAX: usize = 256;
/// Priority of a job in a group.
pub const GROUP_PRIORITY_MAX: i64 = 2_097_151;
/// Ms in which a rate limit of a queue allows its number, when the client gives no time that can be meant.
pub const RATE_DURATION_DEFAULT: i64 = 1_000;
/// Characters (UTF-16 units) of the name of a cron.
pub const CRON_NAME_MAX: usize = 1_024;
/// Job name when the client gives none.
pub const JOB_NAME_DEFAULT: &str = "default";
/// Characters (UTF-16 units) of the JSON form of job data.
pub const JOB_DATA_MAX: usize = 10_485_760;
/// Bytes of job data. Only entries without a value, which have no JSON text, can reach it: numbers take at most 45 MiB.
pub const JOB_DATA_BYTES_MAX: usize = 47 * 1_024 * 1_024;
/// Characters (UTF-16 units) of an id or a key that a client chooses for a job.
pub const JOB_ID_MAX: usize = 1_024;
/// Characters (UTF-16 units) of the id, the name and the host of a worker.
pub const WORKER_TEXT_MAX: usize = 1_024;
/// Bytes of all tags of a job, or of all queue names of a worker: ten thousand of 256 characters without accents.
pub const LABEL_BYTES_MAX: usize = LABELS_MAX * 256;
/// Attempts when the client gives none.
pub const ATTEMPTS_DEFAULT: u32 = 3;
/// Attempts at most; more is stored as this.
pub const ATTEMPTS_MAX: u32 = 2_147_483_647;
/// Ms a bounded time or delay may be away; the range of a JavaScript date halved, as the protocol has it.
pub const TIME_MAX: f64 = SPAN_MAX as f64;
/// Ms of `backoff.maxDelay`.
pub const BACKOFF_CAP_MAX: i64 = 86_400_000;
/// Jobs of one pull.
pub const PULL_COUNT_MAX: i64 = 1_000;
/// Ms a pull may wait.
pub const PULL_WAIT_MAX: i64 = 60_000;
/// Ms a wait for a job may last.
pub const JOB_WAIT_MAX: i64 = 600_000;
/// Ms a wait for a job lasts when the client gives no time.
pub const JOB_WAIT_DEFAULT: i64 = 30_000;
/// Ms a lock lasts when the client gives no time.
pub const LOCK_TTL_DEFAULT: f64 = 30_000.0;
/// Stack lines looked at.
pub const STACK_LINES_MAX: usize = 100;
/// Jobs of a listing when the client gives no limit.
pub const LISTING_DEFAULT: usize = 100;
/// Jobs removed by one clean when the client gives no limit.
pub const CLEAN_DEFAULT: usize = 1_000;
/// Jobs of each state that the page of a queue shows when the client gives no limit.
pub const PREVIEWS_DEFAULT: usize = 10;
/// Jobs of each state that the page of a queue shows at most.
pub const PREVIEWS_MAX: usize = 50;
/// Greatest whole number that every client can hold exactly.
pub const SAFE_INTEGER_MAX: f64 = 9_007_199_254_740_991.0;
/// Bytes of one frame, without its length.
pub const FRAME_MAX: usize = 67_108_864;
/// Bytes of a frame that are read before its client has authenticated itself; a longer one is refused by its beginning.
pub const AUTH_FRAME_MAX: usize = 16_384;
/// Levels of nesting of one frame, its own map included.
pub const FRAME_DEPTH_MAX: usize = super::payload::DEPTH_MAX;
/// Event names of one subscription.
pub const EVENT_TYPES_MAX: usize = 32;
/// Bytes of one text that a client adds to a job: an error, a stack line, a progress message, a log line. Longer ones
/// are cut, so that no job outgrows the frame that delivers it.
pub const TEXT_MAX: usize = 65_536;
/// Bytes of the level of a log line, which may be any text; longer ones are cut.
pub const LOG_LEVEL_MAX: usize = 256;
/// Bytes of the data that an update may put into a job.
pub const UPDATE_MAX: usize = 32 * 1_024 * 1_024;
/// Jobs of one listing; no frame holds more.
pub const LISTING_MAX: usize = 100_000;
/// Entries of one batch. A full frame of real jobs has fewer; a frame of empty ones would need a hundred
/// times its size in memory.
pub const BATCH_MAX: usize = 1_000_000;
/// Jobs of one flow.
pub const FLOW_JOBS_MAX: usize = crate::engine::FLOW_JOBS_MAX;
/// Levels of one flow that is planned here.
pub const FLOW_DEPTH_MAX: usize = crate::engine::FLOW_DEPTH_MAX;
/// Characters (UTF-16 units) of the JSON form of all data of one flow.
pub const FLOW_DATA_MAX: usize = 67_108_864;
/// Characters (UTF-16 units) of the id of a job in a flow.
pub const FLOW_ID_MAX: usize = 1_024;
/// Characters (UTF-16 units) of a tag of a job in a flow.
pub const FLOW_TAG_MAX: usize = 256;
/// Tags of a job, queues of a worker.
pub const LABELS_MAX: usize = 10_000;
/// Characters (UTF-16 units) of the URL of a webhook.
pub const WEBHOOK_URL_MAX: usize = 2_048;
/// Characters (UTF-16 units) of the secret of a webhook.
pub const WEBHOOK_SECRET_MAX: usize = 1_024;

/// The name of a queue.
///
/// Commands that bring a job in or take one out check it ([`QueueName::new`]); the others accept any text,
/// since a queue with an impossible name is simply empty ([`QueueName::lenient`]). What is kept under a name bounds its
/// length ([`QueueName::to_keep`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName(Arc<str>);

impl QueueName {
    /// A checked name: 1 to 256 of letters, digits, `_ - . :`.
    ///
    /// # Errors
    /// The rule that the text breaks.
    pub fn new(text: &str) -> Result<Self, ArgumentError> {
        if text.is_empty() {
            Err(ArgumentError::QueueRequired)
        } else if is_longer(text, QUEUE_NAME_MAX) {
            Err(ArgumentError::QueueTooLong)
        } else if !text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.:".contains(&byte))
        {
            Err(ArgumentError::QueueInvalid)
        } else {
            Ok(Self(text.into()))
        }
    }

    /// Any text as the name of a queue that may not exist.
    pub fn lenient(text: &str) -> Self {
        Self(text.into())
    }

    /// The text, for a command that leaves something behind under it: any, of at most 256 characters.
    ///
    /// # Errors
    /// [`ArgumentError::QueueTooLong`].
    pub fn to_keep(&self) -> Result<Arc<str>, ArgumentError> {
        at_most("queue", &self.0, QUEUE_NAME_MAX).map_err(|_| ArgumentError::QueueTooLong)?;
        Ok(self.shared())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shared text.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

/// The id of a group: 1 to 256 characters without NUL.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupId(Arc<str>);

impl GroupId {
    /// The id, or `None` when it was not sent.
    ///
    /// # Errors
    /// The rule that the value breaks.
    pub fn new(given: Text<'_>) -> Result<Option<Self>, ArgumentError> {
        const FIELD: &str = "groupId";
        match given {
            Text::Absent => Ok(None),
            Text::NotText => Err(ArgumentError::NotText(FIELD)),
            Text::Value("") => Err(ArgumentError::EmptyText(FIELD)),
            Text::Value(text) if is_longer(text, GROUP_ID_MAX) => Err(ArgumentError::TextTooLong {
                field: FIELD,
                max: GROUP_ID_MAX,
            }),
            Text::Value(text) if text.contains('\0') => Err(ArgumentError::NulInText(FIELD)),
            Text::Value(text) => Ok(Some(Self(text.into()))),
        }
    }

    /// The id, for what cannot do without.
    ///
    /// # Errors
    /// As [`GroupId::new`], and when it was not sent.
    pub fn required(given: Text<'_>) -> Result<Self, ArgumentError> {
        Self::new(given)?.ok_or(ArgumentError::Required("groupId"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The shared text.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }
}

/// A text cut to [`TEXT_MAX`], at the border of a character, with a mark at its end.
pub fn cut(text: Arc<str>) -> Arc<str> {
    cut_to(TEXT_MAX, text)
}

/// The same with another bound, of at least the mark's 3 bytes.
pub fn cut_to(max: usize, text: Arc<str>) -> Arc<str> {
    if text.len() <= max {
        return text;
    }
    cut_copy_to(max, &text)
}

/// [`cut`] of a text that is somebody else's, so that nothing longer is ever copied.
pub fn cut_copy(text: &str) -> Arc<str> {
    cut_copy_to(TEXT_MAX, text)
}

/// The same with another bound, of at least the mark's 3 bytes.
pub fn cut_copy_to(max: usize, text: &str) -> Arc<str> {
    const MARK: &str = "…";
    if text.len() <= max {
        return text.into();
    }
    let end = text.floor_char_boundary(max.saturating_sub(MARK.len()));
    let kept = text.get(..end).unwrap_or_default();
    format!("{kept}{MARK}").into()
}

/// Whether a text has more than `max` UTF-16 units.
pub fn is_longer(text: &str, max: usize) -> bool {
    // No text has more of them than bytes.
    text.len() > max && text.encode_utf16().count() > max
}

/// Checks the length of a text in UTF-16 units.
///
/// # Errors
/// [`ArgumentError::TextTooLong`].
pub fn at_most(field: &'static str, text: &str, max: usize) -> Result<(), ArgumentError> {
    if is_longer(text, max) {
        return Err(ArgumentError::TextTooLong { field, max });
    }
    Ok(())
}

/// Checks a job name.
///
/// # Errors
/// When it is empty or longer than 256 UTF-16 units.
pub fn job_name(text: &str) -> Result<Arc<str>, ArgumentError> {
    if text.is_empty() || is_longer(text, JOB_NAME_MAX) {
        return Err(ArgumentError::JobName);
    }
    Ok(text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lm_1_queue_names_follow_the_rule() {
        for good in ["a", "a-b_c.d:e9", &"q".repeat(256)] {
            assert!(QueueName::new(good).is_ok(), "{good}");
        }
        assert_eq!(QueueName::new(""), Err(ArgumentError::QueueRequired));
        assert_eq!(
            QueueName::new(&"q".repeat(257)),
            Err(ArgumentError::QueueTooLong)
        );
        for bad in ["a b", "é", "a/b", "a\0b"] {
            assert_eq!(
                QueueName::new(bad),
                Err(ArgumentError::QueueInvalid),
                "{bad:?}"
            );
        }
    }

    /// The greatest job: its data, the ids of its children once more in the data of a parent, the id twice and three
    /// keys, its tags with their lengths, and the texts that workers add.
    #[test]
    fn no_job_outgrows_the_frame_that_delivers_it() {
        use crate::engine::{TIES_BYTES_MAX, TIMELINE_MAX};
        let data = JOB_DATA_BYTES_MAX.max(UPDATE_MAX) + TIES_BYTES_MAX / 2;
        let keys = 6 * JOB_ID_MAX * 3;
        let tags = LABEL_BYTES_MAX + 5 * LABELS_MAX;
        let texts = (STACK_LINES_MAX + TIMELINE_MAX + 2) * TEXT_MAX;
        let rest = 16 * 1_024;
        assert!(data + TIES_BYTES_MAX + keys + tags + texts + rest < FRAME_MAX);
    }

    #[test]
    fn long_texts_are_cut_at_the_border_of_a_character() {
        let short: Arc<str> = "é".repeat(TEXT_MAX / 2).into();
        assert_eq!(cut(Arc::clone(&short)), short);
        let long = cut("é".repeat(TEXT_MAX).into());
        assert!(long.len() <= TEXT_MAX && long.ends_with("é…"));
    }

    #[test]
    fn jm_4_job_names_are_counted_in_utf16_units() {
        assert!(job_name(&"é".repeat(256)).is_ok());
        assert!(job_name(&"😀".repeat(128)).is_ok());
        assert_eq!(job_name(&"😀".repeat(129)), Err(ArgumentError::JobName));
        assert_eq!(job_name(""), Err(ArgumentError::JobName));
    }
}
