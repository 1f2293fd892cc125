//! Whether the names of open files still lead to them.
//!
//! A file that is deleted stays open, and commits to it succeed; the next start would find none of them.

use std::fs;
use std::path::{Path, PathBuf};

use super::StoreError;

/// Files by their names, as they were found at one time.
pub(super) struct Identity {
    files: [(PathBuf, Option<Mark>); 2],
}

/// What no two files have in common at the same time.
type Mark = (u64, u64);

impl Identity {
    pub(super) fn of(paths: [PathBuf; 2]) -> Self {
        let files = paths.map(|path| {
            let mark = mark(&path);
            (path, mark)
        });
        Self { files }
    }

    /// Whether the names lead to the same files as then.
    ///
    /// # Errors
    /// [`StoreError::Replaced`].
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let is_same = |(path, before): &(PathBuf, _)| mark(path) == *before;
        let all = self.files.iter().all(is_same);
        all.then_some(()).ok_or(StoreError::Replaced)
    }
}

#[cfg(unix)]
fn mark(path: &Path) -> Option<Mark> {
    use std::os::unix::fs::MetadataExt;
    let file = fs::metadata(path).ok()?;
    Some((file.dev(), file.ino()))
}

/// Elsewhere nobody can move or delete a file that is open.
#[cfg(not(unix))]
fn mark(path: &Path) -> Option<Mark> {
    fs::metadata(path).ok().map(|_| (0, 0))
}
