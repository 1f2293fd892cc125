//! The settings of what is kept, where and for how long. A data file is never passed over in silence: whoever names one, or
//! asks for what only a file can give, gets it or no broker.

use super::read::Reader;
use super::{ConfigError, Given, Key, Retention, Setting};
use crate::engine::{Durability, Millis};
use crate::storage::DataFile;

impl Reader<'_> {
    /// The data file, with the setting that names it.
    ///
    /// # Errors
    /// What names no file, two of them, or a promise that memory cannot keep.
    pub(super) fn data(&self) -> Result<Option<(DataFile, String)>, ConfigError> {
        let path = self.data_path()?;
        let durability = match &*self.choice(
            Key::Durability,
            "buffered, committed or durable",
            &["buffered", "committed", "durable"],
        )? {
            "buffered" => Durability::Buffered,
            "durable" => Durability::Durable,
            _ => Durability::Committed,
        };
        let driver = self.driver()?;
        if let Some(Given { setting, value }) = path {
            if let Some(memory) = driver.filter(|driver| driver.value == "memory") {
                return Err(ConfigError::FileForMemory {
                    setting: memory.setting,
                    given: memory.value,
                    file: setting,
                });
            }
            let path = value.trim().into();
            return Ok(Some((DataFile { path, durability }, setting)));
        }
        let sqlite = driver.filter(|driver| driver.value == "sqlite");
        let Some(promise) = sqlite.or_else(|| self.given(Key::Durability)) else {
            return Ok(None);
        };
        let missing = Setting::of(Key::DataPath).map(|setting| setting.beside(&promise));
        Err(ConfigError::NoDataFile {
            setting: promise.setting,
            given: promise.value,
            missing: missing.unwrap_or_default(),
        })
    }

    /// The path of the data file. Of two variables that name different ones none wins: the jobs of the other would be
    /// missed, or worse, deleted.
    fn data_path(&self) -> Result<Option<Given>, ConfigError> {
        let Some(given) = self.given(Key::DataPath) else {
            return Ok(None);
        };
        let names = Setting::of(Key::DataPath).map_or(&[][..], |setting| setting.variables);
        let values = names
            .iter()
            .filter_map(|name| Some((*name, self.source.variable(name)?)));
        let mut set = values.filter(|(_, value)| !value.trim().is_empty());
        if !given.setting.starts_with("--")
            && let Some((first, first_path)) = set.next()
            && let Some((second, second_path)) = set.find(|(_, path)| *path != first_path)
        {
            return Err(ConfigError::TwoDataFiles {
                first,
                first_path,
                second,
                second_path,
            });
        }
        let path = given.value.trim();
        // Whoever writes these does not mean a file of that name, and the mark stands where a name was no text.
        let is_other = path == ":memory:" || path.starts_with("file:");
        if path.is_empty() || is_other || path.contains(char::REPLACEMENT_CHARACTER) {
            return Err(ConfigError::DataPath {
                setting: given.setting,
                given: given.value,
            });
        }
        Ok(Some(given))
    }

    fn driver(&self) -> Result<Option<Given>, ConfigError> {
        let Some(Given { setting, .. }) = self.given(Key::StorageDriver) else {
            return Ok(None);
        };
        let words = ["memory", "sqlite"];
        let value = self.choice(Key::StorageDriver, "memory or sqlite", &words)?;
        Ok(Some(Given { setting, value }))
    }

    pub(super) fn retention(&self) -> Result<Retention, ConfigError> {
        let max = self.integer(Key::CompletedMax, "positive", 1)?;
        let stored_max = self.integer(Key::StoredCompletedMax, "positive", 1)?;
        let age = match self.given(Key::CompletedRetention) {
            None => None,
            Some(_) => Some(self.integer(Key::CompletedRetention, "non-negative", 0)?),
        };
        Ok(Retention {
            completed_max: max.try_into().unwrap_or(usize::MAX),
            stored_max: stored_max.try_into().unwrap_or(usize::MAX),
            completed_age: age.map(|ms| ms.try_into().unwrap_or(Millis::MAX)),
        })
    }
}
