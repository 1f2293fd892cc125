//! Which toolsets a server exposes (MCP contract, section 5.1).

use thiserror::Error;

use super::Registry;

/// The toolsets that a server exposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    toolsets: Vec<&'static str>,
}

impl Selection {
    /// Whether tools of that toolset are exposed.
    pub fn exposes(&self, toolset: &str) -> bool {
        self.toolsets.contains(&toolset)
    }

    /// The ids, in order.
    pub fn toolsets(&self) -> &[&'static str] {
        &self.toolsets
    }
}

/// Why a setting selects no toolsets.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SelectionError {
    /// Some ids are unknown.
    #[error("Unknown {setting} value(s): {given}. Valid: all, {valid}")]
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
}

impl Registry {
    /// Every toolset.
    pub fn everything(&self) -> Selection {
        Selection {
            toolsets: self.toolsets().map(|toolset| toolset.id).collect(),
        }
    }

    /// The toolsets that a setting exposes, given as its name and its value: none or `all` is every one, otherwise a list
    /// of ids, in any case.
    ///
    /// # Errors
    /// When the list names an unknown toolset, or none at all.
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
        let is_all = |id: &String| id == "all";
        let known = |id: &String| is_all(id) || self.toolsets().any(|toolset| toolset.id == id);
        if !named.iter().all(known) {
            return Err(SelectionError::Unknown {
                setting,
                given: named
                    .into_iter()
                    .filter(|id| !known(id))
                    .collect::<Vec<_>>()
                    .join(", "),
                valid: self
                    .toolsets()
                    .map(|toolset| toolset.id)
                    .collect::<Vec<_>>()
                    .join(", "),
            });
        }
        let is_named = |id: &str| named.iter().any(|named| is_all(named) || named == id);
        Ok(Selection {
            toolsets: self
                .toolsets()
                .map(|toolset| toolset.id)
                .filter(|id| is_named(id))
                .collect(),
        })
    }
}
