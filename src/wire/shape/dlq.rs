//! Dead letters and policies per queue (tcp protocol section 15).

/// The form of a reply of this family; the names are those of the protocol's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dlq {
    /// `Dlq`
    List,
    /// `GetDlqStats`
    Stats,
    /// `GetDlqConfig`
    Config,
    /// `GetStallConfig`
    StallConfig,
}
