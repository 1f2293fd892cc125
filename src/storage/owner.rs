//! Who owns a data file: a lock on a file beside it, which the system drops with the process, however that ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::{StoreError, beside};

/// The lock. Dropped, it is free again.
pub(super) struct Owner {
    _file: File,
}

impl Owner {
    /// Takes the lock and leaves word who has it.
    ///
    /// # Errors
    /// [`StoreError::InUse`] with what the owner has left; what [`StoreError::opening`] says.
    pub(super) fn acquire(path: &Path) -> Result<Self, StoreError> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(beside(path, "-owner"))
            .map_err(StoreError::opening)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                // Windows lets nobody read what is locked; then who it is stays unknown.
                let _ = file.read_to_string(&mut by);
                let by = by.trim();
                let by = if by.is_empty() { "another process" } else { by };
                return Err(StoreError::InUse { by: by.to_owned() });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "process {}", std::process::id())?;
        Ok(Self { _file: file })
    }
}
