//! One SQLite file that keeps what an engine tells ([`Changes`]) and gives it back at the next start.
//!
//! The file has one owner at a time, found by a lock on a file beside it. It is written by one thread: whatever has changed
//! since the last commit is one transaction. Ordering stays in memory; the tables are storage alone, with keys that grow, so
//! that a row costs one write to one place (engine contract, section 24).

mod backup;
mod bodies;
mod error;
mod identity;
mod load;
mod owner;
mod part;
mod row;
mod schema;
#[cfg(test)]
mod tests;
mod write;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, TransactionBehavior};

pub use backup::{Contents, CopyError, CopyFault, Role, backup, restore};
pub use bodies::{Bodies, Weight};
pub use error::StoreError;
use identity::Identity;
use owner::{OWNER, Owner};
use write::Names;

use crate::engine::{Changes, Config, Durability, Effects, Engine, Millis};

/// How long a commit waits for somebody else's transaction on the file.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Pages of the write-ahead file after which its content moves into the main file.
const CHECKPOINT_PAGES: u32 = 4_000;
/// Bytes that the write-ahead file keeps once everything has moved out of it.
pub const WAL_BYTES_KEPT: u64 = 32 * 1_024 * 1_024;
/// Bytes of the page cache. Rows are written where others were written just now, and the system keeps the file as well.
const CACHE_BYTES: u32 = 4 * 1_024 * 1_024;
/// Prepared statements kept; more than there are.
const STATEMENTS: usize = 64;

/// What a database may have beside its file. Left behind, it would be taken for a part of another file of that name.
const SIDES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// A file that is to keep the jobs of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFile {
    /// Where it is; it is made if it is not there, its directory is not.
    pub path: PathBuf,
    /// What of an answered change survives. [`Durability::None`] has no place here.
    pub durability: Durability,
}

/// The file, open.
pub struct Store {
    connection: Connection,
    path: PathBuf,
    names: Names,
    /// Whether the next commit waits for the disk.
    syncs: bool,
    identity: Identity,
    _owner: Owner,
}

/// Sizes of the files, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// The main file.
    pub main: u64,
    /// The write-ahead file.
    pub wal: u64,
}

impl Store {
    /// Opens the file, or makes it; nobody else can own it until this is dropped.
    ///
    /// # Errors
    /// [`StoreError`], when another process owns it, it is no such file, a newer version has written it, or the system
    /// refuses it. Nothing has changed then.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        // So two names of one file have one owner, and none is one that the database gives a meaning of its own.
        let path = made(path)?;
        if path.is_dir() {
            return Err(StoreError::Directory);
        }
        let is_used = beside(&path, OWNER).exists();
        let owner = Owner::acquire(&path)?;
        if is_used && fs::metadata(&path).is_ok_and(|file| file.len() == 0) {
            tracing::warn!(file = ?path, "the data file is empty although a broker has used it before");
        }
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(&path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        schema::refuse_newer(&connection)?;
        set_up(&connection)?;
        schema::migrate(&mut connection)?;
        let names = Names::read(&connection)?;
        let identity = Identity::of([path.clone(), beside(&path, "-wal")]);
        Ok(Self {
            connection,
            path,
            names,
            syncs: false,
            identity,
            _owner: owner,
        })
    }

    /// The engine that goes on from what the file holds, at `now`. What that changes is to be committed before anybody
    /// hears of it; what there is to hear of it is left in `effects`.
    ///
    /// # Errors
    /// [`StoreError`], when the file cannot be read or what it holds is not what an engine has left there.
    pub fn load(
        &self,
        config: Config,
        seed: [u8; 32],
        now: Millis,
        effects: &mut Effects,
    ) -> Result<Engine, StoreError> {
        load::load(&self.connection, config, seed, now, effects)
    }

    /// As [`Store::load`], in the process that has handed out what the file says is handed out: that goes on.
    ///
    /// # Errors
    /// Those of [`Store::load`].
    pub fn reload(
        &self,
        config: Config,
        seed: [u8; 32],
        now: Millis,
        effects: &mut Effects,
    ) -> Result<Engine, StoreError> {
        Ok(load::read(&self.connection, config, seed, now)?.go_on(effects))
    }

    /// Reads what the engine has let go of ([`Engine::chill`]), from any thread.
    pub fn bodies(&self) -> Bodies {
        Bodies::new(&self.path)
    }

    /// Stores changes, all or none. With `sync` they survive a power cut once this returns; without, only the end of this
    /// process.
    ///
    /// # Errors
    /// [`StoreError`]; nothing has changed then.
    pub fn commit(&mut self, changes: &Changes, sync: bool) -> Result<(), StoreError> {
        self.identity.check()?;
        if self.syncs != sync {
            let level = if sync { "FULL" } else { "NORMAL" };
            self.connection.pragma_update(None, "synchronous", level)?;
            self.syncs = sync;
        }
        let behavior = TransactionBehavior::Immediate;
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        let names = write::write(&transaction, &self.names, changes)?;
        transaction.commit()?;
        self.names.merge(names, changes);
        Ok(())
    }

    /// Whether a commit of `bytes` would succeed now; nothing changes.
    ///
    /// # Errors
    /// [`StoreError`], what stands in the way.
    pub fn probe(&mut self, bytes: u32) -> Result<(), StoreError> {
        self.identity.check()?;
        let behavior = TransactionBehavior::Immediate;
        let probe = "INSERT OR REPLACE INTO meta VALUES ('probe', zeroblob(?1))";
        let transaction = self.connection.transaction_with_behavior(behavior)?;
        transaction.execute(probe, [bytes])?;
        transaction.commit()?;
        self.connection
            .execute("DELETE FROM meta WHERE name = 'probe'", [])?;
        Ok(())
    }

    /// Moves what the write-ahead file holds into the main file, as far as readers allow.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn checkpoint(&self) -> Result<(), StoreError> {
        let none = |_: &rusqlite::Row<'_>| Ok(());
        self.connection
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], none)?;
        Ok(())
    }

    /// Brings a write-ahead file that has grown beyond [`WAL_BYTES_KEPT`] back to that, unless somebody still reads it; waits
    /// for nobody. False when it is to be tried again.
    pub fn shorten_log(&self) -> bool {
        let is_short = || self.sizes().wal <= WAL_BYTES_KEPT;
        if is_short() {
            return true;
        }
        let patience = |time| self.connection.busy_timeout(time);
        let moved = patience(Duration::ZERO).map_err(StoreError::from);
        let moved = moved.and_then(|()| self.checkpoint());
        if let Err(error) = patience(BUSY_TIMEOUT).map_err(StoreError::from).and(moved) {
            tracing::debug!(%error, "the write-ahead file keeps its size");
        }
        is_short()
    }

    /// How large the files are.
    pub fn sizes(&self) -> Sizes {
        let size = |path: &Path| fs::metadata(path).map_or(0, |file| file.len());
        Sizes {
            main: size(&self.path),
            wal: size(&beside(&self.path, "-wal")),
        }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // What is not moved now is moved at the next start, so no reader keeps this process.
        let _ = self.connection.busy_timeout(Duration::ZERO);
        let _ = self.checkpoint();
    }
}

fn set_up(connection: &Connection) -> Result<(), StoreError> {
    let text = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], text)?;
    if mode != "wal" {
        return Err(StoreError::NoWal(mode));
    }
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.pragma_update(None, "journal_size_limit", WAL_BYTES_KEPT as i64)?;
    // Negative: KiB instead of pages.
    connection.pragma_update(None, "cache_size", -i64::from(CACHE_BYTES / 1_024))?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(())
}

/// The file whose name is that of `path` with something behind it.
fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Makes a file that is not there, so that there is something to lock, and finds its path ([`resolved`]).
///
/// # Errors
/// [`StoreError::opening`].
fn made(path: &Path) -> Result<PathBuf, StoreError> {
    if !path.exists() {
        let mut options = fs::OpenOptions::new();
        options.append(true).create(true);
        options.open(path).map_err(StoreError::opening)?;
    }
    Ok(resolved(path)?)
}

/// Links that lead to links, before they are taken for a circle; as many as Linux follows.
const LINKS_MAX: usize = 40;

/// The path of a file by which everybody finds what stands beside it: absolute, and not that of a link to it, whether the
/// file is there or not.
///
/// # Errors
/// What the system says.
fn resolved(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = std::path::absolute(path)?;
    for _ in 0..LINKS_MAX {
        if let Ok(found) = path.canonicalize() {
            return Ok(found);
        }
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        let directory = directory.canonicalize().unwrap_or(directory);
        match fs::read_link(&path) {
            Ok(target) => path = directory.join(target),
            Err(_) => {
                return Ok(path
                    .file_name()
                    .map_or(directory.clone(), |name| directory.join(name)));
            }
        }
    }
    Ok(path)
}
