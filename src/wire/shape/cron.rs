//! Schedules (tcp protocol section 19).

/// The form of a reply of this family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cron {
    /// `Cron` and `CronGet`
    One,
    /// `CronList`
    List,
    /// `CronDelete`
    Deleted,
}
