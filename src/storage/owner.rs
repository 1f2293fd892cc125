//! Who owns a data file: a lock on a file beside it, which the system drops with the process, however that ends. One on the
//! file itself stands for those who reach it in another directory and find nothing beside it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::Path;

use super::{StoreError, beside};

/// What the name of the file with the lock ends in.
pub(super) const OWNER: &str = "-owner";

/// The locks. Dropped, they are free again; the database has to be closed before, since the system takes its locks away when
/// this process closes the file anywhere.
pub(super) struct Owner {
    _beside: File,
    _itself: Option<File>,
}

impl Owner {
    /// Takes the locks and leaves word who has them.
    ///
    /// # Errors
    /// [`StoreError::InUse`] with what the owner has left; [`StoreError::Linked`]; what [`StoreError::opening`] says.
    pub(super) fn acquire(path: &Path) -> Result<Self, StoreError> {
        refuse_linked(path)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(beside(path, OWNER))
            .map_err(StoreError::opening)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut by = String::new();
                // Windows lets nobody read what is locked; then who it is stays unknown.
                let _ = file.read_to_string(&mut by);
                return Err(in_use(by.trim()));
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let itself = if path.exists() { lock(path)? } else { None };
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "process {}", std::process::id())?;
        Ok(Self {
            _beside: file,
            _itself: itself,
        })
    }
}

fn in_use(by: &str) -> StoreError {
    let by = if by.is_empty() { "another process" } else { by };
    StoreError::InUse { by: by.to_owned() }
}

/// The write-ahead file goes by the name, so that what one name has written is missing under another, and later spoils it.
#[cfg(unix)]
fn refuse_linked(path: &Path) -> Result<(), StoreError> {
    let names =
        std::fs::metadata(path).map_or(1, |file| std::os::unix::fs::MetadataExt::nlink(&file));
    if names > 1 {
        return Err(StoreError::Linked { names });
    }
    Ok(())
}

#[cfg(not(unix))]
fn refuse_linked(_: &Path) -> Result<(), StoreError> {
    Ok(())
}

/// Where the lock on the file is: far behind everything that a database can hold or locks itself (around its first GiB).
#[cfg(target_os = "linux")]
const LOCKED_BYTE: i64 = 1 << 62;

/// Locks the file itself, where the system and the file system have locks that are no process's but an open file's.
#[cfg(target_os = "linux")]
fn lock(path: &Path) -> Result<Option<File>, StoreError> {
    use nix::errno::Errno;
    use nix::fcntl::{FcntlArg, fcntl};
    use nix::libc;

    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).open(path);
    let file = file.map_err(StoreError::opening)?;
    let lock = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: LOCKED_BYTE,
        l_len: 1,
        l_pid: 0,
    };
    match fcntl(&file, FcntlArg::F_OFD_SETLK(&lock)) {
        Ok(_) => Ok(Some(file)),
        Err(Errno::EAGAIN | Errno::EACCES) => Err(in_use("")),
        Err(_) => Ok(None),
    }
}

/// Elsewhere a lock that is taken this way stands in the way of the database's own.
#[cfg(not(target_os = "linux"))]
fn lock(_: &Path) -> Result<Option<File>, StoreError> {
    Ok(None)
}
