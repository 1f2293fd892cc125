//! Why a file cannot be used.

use rusqlite::ErrorCode;
use thiserror::Error;

use crate::engine::LoadError;

/// Why a file cannot be used. The texts name neither SQL nor paths: they go to clients.
#[derive(Debug, Error)]
pub enum StoreError {
    /// Another process owns the file.
    #[error("the data file is in use by {by}: stop that process, or use another file")]
    InUse {
        /// Who, as far as it is known.
        by: String,
    },
    /// It has more than one name.
    #[error(
        "the data file has {names} names (hard links), and each would have a write-ahead log of its own: \
         remove the others, or make them symbolic links"
    )]
    Linked {
        /// How many.
        names: u64,
    },
    /// There is no table in it.
    #[error("the data file is empty: no broker has used it yet, or its content is lost")]
    Empty,
    /// A newer version has written it.
    #[error("SQLite schema version {found} is newer than supported version {supported}")]
    Newer {
        /// The version of the file.
        found: i64,
        /// The newest version that this program knows.
        supported: i64,
    },
    /// It is a database of another program.
    #[error("the data file is a SQLite database of another program")]
    Foreign,
    /// There is no room left on the disk.
    #[error("database or disk is full")]
    Full,
    /// Somebody else's transaction on it takes too long.
    #[error("the data file is locked by another program")]
    Busy,
    /// It may not be written.
    #[error("the data file cannot be written: it or its directory is read-only")]
    ReadOnly,
    /// It cannot be opened.
    #[error("the data file cannot be opened: check that its directory exists and may be written")]
    CannotOpen,
    /// Its name is that of a directory.
    #[error("the data file cannot be opened: it is a directory")]
    Directory,
    /// Its name leads to another file than at the opening, or to none.
    #[error(
        "the data file was moved, replaced or deleted while it was in use: put it back, or start again with another"
    )]
    Replaced,
    /// It is no database, or a damaged one.
    #[error("the data file is damaged or no SQLite database")]
    Corrupt,
    /// Its file system has no shared memory.
    #[error("the data file cannot have a write-ahead log where it is (journal mode {0})")]
    NoWal(String),
    /// What it holds is not what an engine has left there.
    #[error("the data file is damaged: {0}")]
    Load(#[from] LoadError),
    /// A value in it cannot be read.
    #[error("the data file is damaged: {what} cannot be read")]
    Value {
        /// Of what.
        what: &'static str,
    },
    /// The disk failed, or something else.
    #[error("the data file cannot be used: {0}")]
    Other(&'static str),
    /// The system refused something.
    #[error("{0}")]
    System(#[from] std::io::Error),
}

impl StoreError {
    /// Why a file beside it cannot be opened or made.
    pub(super) fn opening(error: std::io::Error) -> Self {
        use std::io::ErrorKind;
        match error.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            ErrorKind::NotFound | ErrorKind::NotADirectory => Self::CannotOpen,
            ErrorKind::StorageFull => Self::Full,
            _ => error.into(),
        }
    }

    /// Whether it is for want of room.
    pub const fn is_full(&self) -> bool {
        matches!(self, Self::Full)
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        let Some(code) = error.sqlite_error_code() else {
            return Self::Value { what: "a row" };
        };
        tracing::debug!(%error, "the database refused");
        match code {
            ErrorCode::DiskFull => Self::Full,
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => Self::Busy,
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied => Self::ReadOnly,
            ErrorCode::CannotOpen => Self::CannotOpen,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Self::Corrupt,
            ErrorCode::SystemIoFailure => Self::Other("the disk failed"),
            ErrorCode::OutOfMemory => Self::Other("there is no memory left"),
            ErrorCode::TooBig => Self::Other("a value is too large"),
            ErrorCode::ConstraintViolation => Self::Other("a row contradicts another"),
            _ => Self::Other("the database refused"),
        }
    }
}
