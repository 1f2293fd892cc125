//! What a store keeps of an engine, and how an engine begins with it (engine contract, section 24).
//!
//! While an engine [records](Engine::record), it marks whatever changes: jobs, their ties and logs, queues, groups, crons,
//! webhooks. [`Engine::take_changes`] turns the marks into [`Changes`]: for each marked thing its state at this moment, or
//! that it is gone. So what changes ten times between two takes is written once, and what came and went is not written at
//! all; the changes of a step are always taken together. A store applies them in one transaction. [`Loader`] makes an
//! engine of what a store holds.
//!
//! Kept is what cannot be worked out: places in queues, deadlines, who waits for whom, counts and key owners are made anew
//! from the jobs. Workers, connections, waits, tokens of past deliveries and the fill of rate limits end with the process.

mod inherit;
mod load;
mod mark;
mod record;
mod take;

pub(super) use inherit::Unstored;
pub use load::{LoadError, Loader};
pub(super) use mark::{JobMarks, Marks, QueueMarks};
pub use record::{
    Changes, CronRecord, GroupRecord, JobRecord, KeyRecord, LifeRecord, LogRecord, MinuteRecord,
    ProofRecord, QueueRecord, TieRecord, WebhookRecord,
};
