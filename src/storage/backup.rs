//! Copies of data files: made while a broker uses the file, checked, and put back in its place.
//!
//! A copy is one file in its full length before it has its name, so that whoever finds it under that name finds all of it.
//! It is taken from one snapshot of the database, which neither waits for the broker nor makes it wait.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use thiserror::Error;

use super::owner::{OWNER, Owner};
use super::part::Part;
use super::row::state_of;
use super::{BUSY_TIMEOUT, SIDES, StoreError, beside, load, resolved, schema};
use crate::engine::{Config, Effects, Millis, State};

/// Which file of a copy a fault is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The file that a broker uses.
    DataFile,
    /// The copy of it.
    Copy,
}

impl Role {
    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::DataFile => "FILE",
            Self::Copy => "COPY",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why a copy was not made, or not put in place. Whatever stood at the target is still there.
#[derive(Debug, Error)]
#[error("{role} {path:?}: {fault}")]
pub struct CopyError {
    /// The file.
    pub role: Role,
    /// Its path.
    pub path: PathBuf,
    /// What is wrong with it.
    pub fault: CopyFault,
}

/// What is wrong with a file.
#[derive(Debug, Error)]
pub enum CopyFault {
    /// Nothing to copy.
    #[error("there is no such file")]
    Missing,
    /// It would be lost.
    #[error("it exists already: give another path, or --force to replace it")]
    Exists,
    /// A file cannot be its own copy.
    #[error("FILE and COPY are the same file")]
    Same,
    /// It would be taken for a part of the other file.
    #[error("a file of that name belongs to {0}: give another path")]
    Part(Role),
    /// The database contradicts itself.
    #[error("the file is damaged: {0}")]
    Damaged(String),
    /// What was copied is not what was there.
    #[error("the copy does not hold what the file held: {copied} of {there} jobs")]
    Uneven {
        /// Jobs in the copy.
        copied: u64,
        /// Jobs in the file at that moment.
        there: u64,
    },
    /// It cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for CopyFault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

impl From<std::io::Error> for CopyFault {
    fn from(error: std::io::Error) -> Self {
        Self::Store(error.into())
    }
}

/// What a copy holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Jobs by state, in the order of [`State::ALL`].
    pub jobs: Vec<(State, u64)>,
    /// Bytes of the file.
    pub bytes: u64,
}

impl Contents {
    /// Jobs in all states.
    pub fn total(&self) -> u64 {
        self.jobs.iter().map(|(_, count)| count).sum()
    }
}

/// Makes a copy of a data file, whether a broker uses it or not. With `replace` it may take the place of an existing copy.
///
/// # Errors
/// [`CopyError`]: there is no such file, it is no data file of this version, a copy is there, it is damaged, or the
/// system refuses it.
pub fn backup(data: &Path, copy: &Path, replace: bool) -> Result<Contents, CopyError> {
    let data = Subject::new(Role::DataFile, data)?;
    let copy = Subject::new(Role::Copy, copy)?;
    data.require()?;
    copy.refuse_part_of(&data)?;
    copy.refuse_existing(replace)?;
    // A file that a broker uses is no copy to be replaced.
    let _owner = copy.owned_before()?;
    let source = data.says(open_live(&data.path))?;
    data.says(schema::refuse_foreign(&source))?;
    let part = copy.says(Part::beside(&copy.path).map_err(StoreError::opening))?;
    let (there, made) = data.says_or(&copy, take(&source, &part))?;
    let contents = data.says(check(&made, &part))?;
    if contents.jobs != there {
        return Err(data.error(CopyFault::Uneven {
            copied: contents.total(),
            there: there.iter().map(|(_, count)| count).sum(),
        }));
    }
    copy.says(close(made))?;
    copy.says(part.become_like(&data.path))?;
    copy.publish(part, replace)?;
    Ok(contents)
}

/// Puts a copy in the place of a data file that no broker uses. The copy is checked first, also that an engine can begin
/// with it at `now`; it stays as it is. With `replace` an existing file is replaced, in one step.
///
/// # Errors
/// [`CopyError`]: as [`backup`], and when a process owns the data file.
pub fn restore(
    copy: &Path,
    data: &Path,
    replace: bool,
    now: Millis,
) -> Result<Contents, CopyError> {
    let data = Subject::new(Role::DataFile, data)?;
    let copy = Subject::new(Role::Copy, copy)?;
    copy.require()?;
    copy.refuse_part_of(&data)?;
    data.refuse_part_of(&copy)?;
    data.refuse_existing(replace)?;
    let owner = data.owned_before()?;
    let source = copy.says(open_copy(&copy.path))?;
    copy.says(schema::refuse_foreign(&source))?;
    let part = data.says(Part::beside(&data.path).map_err(StoreError::opening))?;
    let (_, mut made) = copy.says_or(&data, take(&source, &part))?;
    copy.says(check(&made, &part))?;
    copy.says(schema::migrate(&mut made))?;
    let mut effects = Effects::default();
    copy.says(load::load(
        &made,
        Config::default(),
        [0; 32],
        now,
        &mut effects,
    ))?;
    let contents = copy.says(check(&made, &part))?;
    data.says(close(made))?;
    let model = if data.path.exists() { &data } else { &copy };
    data.says(part.become_like(&model.path))?;
    // Only now, so that a refused copy leaves no mark beside a file that was never there.
    let _owner = match owner {
        Some(owner) => owner,
        None => data.says(Owner::acquire(&data.path))?,
    };
    data.says(settle(&data.path))?;
    data.publish(part, replace)?;
    Ok(contents)
}

/// A file by its role.
struct Subject<'a> {
    role: Role,
    /// As the caller names it.
    name: &'a Path,
    path: PathBuf,
}

impl<'a> Subject<'a> {
    fn new(role: Role, name: &'a Path) -> Result<Self, CopyError> {
        let path = PathBuf::new();
        let mut subject = Self { role, name, path };
        subject.path = subject.says(resolved(name))?;
        Ok(subject)
    }

    fn error(&self, fault: impl Into<CopyFault>) -> CopyError {
        CopyError {
            role: self.role,
            path: self.name.to_owned(),
            fault: fault.into(),
        }
    }

    fn says<T, E: Into<CopyFault>>(&self, result: Result<T, E>) -> Result<T, CopyError> {
        result.map_err(|fault| self.error(fault))
    }

    /// Errors of a copying from this file to another one, in whose place there may be no room.
    fn says_or<T>(&self, target: &Self, result: Result<T, CopyFault>) -> Result<T, CopyError> {
        result.map_err(|fault| match fault {
            CopyFault::Store(StoreError::Full) => target.error(fault),
            _ => self.error(fault),
        })
    }

    fn require(&self) -> Result<(), CopyError> {
        if self.path.is_file() {
            return Ok(());
        }
        Err(self.error(CopyFault::Missing))
    }

    fn refuse_existing(&self, replace: bool) -> Result<(), CopyError> {
        if replace || !self.path.exists() {
            return Ok(());
        }
        Err(self.error(CopyFault::Exists))
    }

    /// Refuses a path that is the other one, or stands beside it as a part of the database.
    fn refuse_part_of(&self, whole: &Self) -> Result<(), CopyError> {
        if self.path == whole.path {
            return Err(self.error(CopyFault::Same));
        }
        let parts = SIDES.iter().chain([&OWNER]);
        let mut parts = parts.map(|suffix| beside(&whole.path, suffix));
        if parts.any(|part| part == self.path) {
            return Err(self.error(CopyFault::Part(whole.role)));
        }
        Ok(())
    }

    /// Takes the lock of a file that has had an owner.
    fn owned_before(&self) -> Result<Option<Owner>, CopyError> {
        let is_owned = beside(&self.path, OWNER).exists();
        let owner = is_owned.then(|| Owner::acquire(&self.path));
        self.says(owner.transpose())
    }

    fn publish(&self, part: Part, replace: bool) -> Result<(), CopyError> {
        match part.publish(&self.path, replace) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                Err(self.error(CopyFault::Exists))
            }
            published => self.says(published),
        }
    }
}

/// A file that a broker may be using. Whoever opens it last clears up its write-ahead file, so it is opened for that.
fn open_live(path: &Path) -> Result<Connection, StoreError> {
    open(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
}

/// A copy, which is not to be changed.
fn open_copy(path: &Path) -> Result<Connection, StoreError> {
    open(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

fn open(path: &Path, mode: OpenFlags) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Copies one snapshot; what comes back are the jobs in it and the copy, open and in a single file.
fn take(source: &Connection, part: &Part) -> Result<(Vec<(State, u64)>, Connection), CopyFault> {
    let snapshot = source.unchecked_transaction()?;
    let jobs = count(&snapshot)?;
    let mut made = open(part.path(), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // All pages in one step: a copy in several begins anew with every change that the broker makes meanwhile.
    let copied = Backup::new(&snapshot, &mut made)?.step(-1)?;
    if copied != StepResult::Done {
        return Err(StoreError::Busy.into());
    }
    snapshot.finish()?;
    drop(made);
    let made = open(part.path(), OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    // That of the source was the write-ahead log, which is two more files.
    let mode = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    made.query_row("PRAGMA journal_mode = DELETE", [], mode)?;
    Ok((jobs, made))
}

/// Jobs by state.
fn count(connection: &Connection) -> Result<Vec<(State, u64)>, CopyFault> {
    let mut counts: Vec<_> = State::ALL.into_iter().map(|state| (state, 0)).collect();
    let sql = "SELECT coalesce(course.state, job.state), count(*) \
        FROM job LEFT JOIN course ON course.job = job.seq GROUP BY 1";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let state = state_of(row.get(0)?)?;
        let found: i64 = row.get(1)?;
        let of_state = counts.iter_mut().find(|(of, _)| *of == state);
        if let Some((_, count)) = of_state {
            *count = found.unsigned_abs();
        }
    }
    Ok(counts)
}

/// Whether a database agrees with itself, and what is in it.
fn check(connection: &Connection, part: &Part) -> Result<Contents, CopyFault> {
    schema::refuse_foreign(connection)?;
    let first = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let verdict = connection.query_row("PRAGMA integrity_check(1)", [], first)?;
    if verdict != "ok" {
        return Err(CopyFault::Damaged(verdict.replace('\n', " ")));
    }
    Ok(Contents {
        jobs: count(connection)?,
        bytes: part.bytes()?,
    })
}

/// Closes a database; what it could not write it says now.
fn close(connection: Connection) -> Result<(), StoreError> {
    connection.close().map_err(|(_, error)| error.into())
}

/// Moves everything that a file has beside it into it. Then those beside it can go before it is replaced, and a process
/// that is killed between the two leaves the old file whole. One that is damaged has nothing to lose by it.
///
/// # Errors
/// [`StoreError::Busy`], when somebody is using the file.
fn settle(path: &Path) -> Result<(), StoreError> {
    if !path.exists() {
        return Ok(());
    }
    let settled = open_live(path).and_then(|connection| {
        // Who reads it may go on for long; the person at the command knows better whom to end.
        connection.busy_timeout(Duration::ZERO)?;
        let mode = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
        Ok(connection.query_row("PRAGMA journal_mode = DELETE", [], mode)?)
    });
    match settled {
        Err(StoreError::Busy) => Err(StoreError::Busy),
        Err(error) => {
            tracing::debug!(%error, "the file that is replaced could not be opened");
            Ok(())
        }
        Ok(_) => Ok(()),
    }
}
