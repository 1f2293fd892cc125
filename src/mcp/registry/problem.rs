//! What can be wrong with the declared tools and their prose.

use std::fmt;

use thiserror::Error;

use crate::mcp::prose::Fault;

/// Everything that is wrong with the declared tools and their prose.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct RegistryError {
    /// In the order in which they were found.
    pub problems: Vec<Problem>,
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("The tools and their texts do not agree:")?;
        self.problems
            .iter()
            .try_for_each(|problem| write!(f, "\n- {problem}"))
    }
}

/// One mismatch.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// A prose file cannot be read as one.
    #[error("toolsets/{toolset}.md: {fault}")]
    Prose {
        /// Its toolset.
        toolset: &'static str,
        /// What is wrong.
        fault: Fault,
    },
    /// The title of a prose file is another toolset's.
    #[error("toolsets/{toolset}.md has the title {heading:?}")]
    Heading {
        /// The toolset.
        toolset: &'static str,
        /// The title.
        heading: String,
    },
    /// The first sentence of a prose file is too long for the catalog.
    #[error("toolsets/{0}.md begins with a sentence that is too long for the catalog")]
    Line(&'static str),
    /// A prose file does not say what its toolset is for.
    #[error("toolsets/{0}.md does not say what the toolset is for")]
    NoSummary(&'static str),
    /// A tool has two sections.
    #[error("toolsets/{toolset}.md has two sections {name}")]
    TwiceInProse {
        /// The toolset.
        toolset: &'static str,
        /// The tool.
        name: String,
    },
    /// A section belongs to no tool.
    #[error("toolsets/{toolset}.md has a section {name}, which is no tool")]
    NoTool {
        /// The toolset.
        toolset: &'static str,
        /// The heading.
        name: String,
    },
    /// Two tools have one name.
    #[error("{0} is declared twice")]
    Twice(&'static str),
    /// A name that clients may refuse.
    #[error("{0} is no tool name")]
    Name(&'static str),
    /// A tool has a target or an impact and not both, or its target is no required argument.
    #[error("{0} is half guarded")]
    Guard(&'static str),
    /// A tool has no section.
    #[error("{0} has no section in its prose file")]
    NoProse(&'static str),
    /// A description is missing or too long.
    #[error("{tool} has a description of {length} characters")]
    Description {
        /// The tool.
        tool: &'static str,
        /// Characters of its description.
        length: usize,
    },
    /// A tool has no example.
    #[error("{0} has no example")]
    NoExample(&'static str),
}
