//! Flows and ties between jobs (tcp protocol section 18).

/// The form of a reply of this family; the names are those of the protocol's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// `PUSHF`
    Push {
        /// The client asked how the jobs came to be.
        outcome: bool,
    },
    /// `GetChildrenValues`
    ChildrenValues,
    /// `GetFailedChildrenValues`
    FailedChildren,
    /// `GetIgnoredChildrenFailures`
    IgnoredChildren,
    /// `RemoveChildDependency`
    ChildRemoved,
}
