//! Which toolsets a server exposes (MCP contract, section 5.1).

use thiserror::Error;

use super::Registry;

/// The word for every toolset.
const ALL: &str = "all";
/// The word for toolsets that clients load themselves.
const DYNAMIC: &str = "dynamic";
/// A toolset that needs a database of workflows, which no configuration of this version has.
const WORKFLOWS: &str = "workflows";

/// How toolsets come to be exposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disclosure {
    /// All are, from the start.
    All,
    /// Those that the operator has listed.
    Static,
    /// Those, and what a client loads.
    Dynamic,
}

impl Disclosure {
    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => ALL,
            Self::Static => "static",
            Self::Dynamic => DYNAMIC,
        }
    }
}

/// The toolsets that a server exposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    disclosure: Disclosure,
    toolsets: Vec<&'static str>,
}

impl Selection {
    /// How the rest can be had.
    pub const fn disclosure(&self) -> Disclosure {
        self.disclosure
    }

    /// Whether tools of that toolset are exposed to everybody.
    pub fn exposes(&self, toolset: &str) -> bool {
        self.toolsets.contains(&toolset)
    }

    /// The ids that are, in order.
    pub fn toolsets(&self) -> &[&'static str] {
        &self.toolsets
    }
}

/// Why a setting selects no toolsets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectionError {
    /// Some ids are unknown.
    #[error("Unknown {setting} value(s): {given}. Valid: all, dynamic, {valid}")]
    Unknown {
        /// The setting, as it was spelled.
        setting: String,
        /// Those ids.
        given: String,
        /// The known ones.
        valid: String,
    },
    /// Separators only.
    #[error("{setting} lists no toolset")]
    Empty {
        /// The setting, as it was spelled.
        setting: String,
    },
    /// A toolset that has no tools here.
    #[error(
        "{setting} selects toolsets with no tool in this configuration: {given} (this version has no workflow tools)"
    )]
    NoTools {
        /// The setting, as it was spelled.
        setting: String,
        /// The toolset.
        given: &'static str,
    },
}

impl Registry {
    /// Every toolset.
    pub fn everything(&self) -> Selection {
        Selection {
            disclosure: Disclosure::All,
            toolsets: self.ids().collect(),
        }
    }

    fn ids(&self) -> impl Iterator<Item = &'static str> {
        self.toolsets().map(|toolset| toolset.id)
    }

    /// The toolsets that a setting exposes, given as its name and its value: none or `all` is every one, `dynamic` leaves
    /// the loading to clients, otherwise a list of ids, in any case.
    ///
    /// # Errors
    /// When the list names an unknown toolset, one that has no tools, or none at all.
    pub fn select(&self, given: Option<(&str, &str)>) -> Result<Selection, SelectionError> {
        let Some((setting, list)) = given.filter(|(_, list)| !list.trim().is_empty()) else {
            return Ok(self.everything());
        };
        let setting = setting.to_owned();
        let named: Vec<_> = list
            .split(',')
            .map(|id| id.trim().to_lowercase())
            .filter(|id| !id.is_empty())
            .collect();
        if named.is_empty() {
            return Err(SelectionError::Empty { setting });
        }
        let is_word = |id: &str| [ALL, DYNAMIC, WORKFLOWS].contains(&id);
        let is_known = |id: &String| is_word(id) || self.ids().any(|toolset| toolset == id);
        let unknown: Vec<_> = named.iter().filter(|id| !is_known(id)).cloned().collect();
        if !unknown.is_empty() {
            return Err(SelectionError::Unknown {
                setting,
                given: unknown.join(", "),
                valid: self.ids().collect::<Vec<_>>().join(", "),
            });
        }
        let is_named = |id: &str| named.iter().any(|named| named == id);
        if is_named(WORKFLOWS) {
            let given = WORKFLOWS;
            return Err(SelectionError::NoTools { setting, given });
        }
        let disclosure = match (is_named(DYNAMIC), is_named(ALL)) {
            (true, _) => Disclosure::Dynamic,
            (false, true) => Disclosure::All,
            (false, false) => Disclosure::Static,
        };
        let is_exposed = |id: &&str| is_named(ALL) || is_named(id);
        Ok(Selection {
            disclosure,
            toolsets: self.ids().filter(is_exposed).collect(),
        })
    }
}
