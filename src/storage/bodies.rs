//! The bodies of cold jobs, read beside the writer. Nobody waits for another one's reading.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::load::{DATA, JOBS, read_job};
use super::row::{signed, small};
use super::{BUSY_TIMEOUT, StoreError};
use crate::engine::Body;

/// Connections kept for the next reading; more are opened when more read at once.
const IDLE_MAX: usize = 2;
/// Bytes of the page cache of each.
const CACHE_BYTES: u32 = 2 * 1_024 * 1_024;

/// Bytes of a body: of its payloads, and of everything else. By the primary keys of three tables; `length` of a column looks
/// at the head of its row only.
const WEIGHT: &str = "SELECT
    coalesce(length(job.data), 0) + coalesce(length(job_data.data), 0) + coalesce(length(course.result), 0),
    coalesce(length(job.options), 0) + coalesce(length(course.life), 0)
  FROM job LEFT JOIN course ON course.job = job.seq LEFT JOIN job_data ON job_data.seq = job.seq
  WHERE job.seq = ?1";

/// Bytes that bodies take together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Those of data and results.
    pub payloads: usize,
    /// Those of everything else.
    pub rest: usize,
}

/// Reads bodies from the file of a [`super::Store`].
pub struct Bodies {
    path: PathBuf,
    /// `None` once closed.
    idle: Mutex<Option<Vec<Connection>>>,
}

impl Bodies {
    pub(super) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            idle: Mutex::new(Some(Vec::new())),
        }
    }

    /// The bodies of these jobs ([`Body::seq`]), as they were last committed. Jobs that are not there are left out.
    ///
    /// # Errors
    /// [`StoreError`], when the file cannot be read.
    pub fn read(&self, jobs: &[u64]) -> Result<Vec<Body>, StoreError> {
        self.with_connection(|connection| read(connection, jobs))
    }

    /// What the bodies of these jobs take; they are not read for it.
    ///
    /// # Errors
    /// [`StoreError`], when the file cannot be read.
    pub fn weigh(&self, jobs: &[u64]) -> Result<Weight, StoreError> {
        self.with_connection(|connection| weigh(connection, jobs))
    }

    fn with_connection<R>(
        &self,
        act: impl FnOnce(&mut Connection) -> Result<R, StoreError>,
    ) -> Result<R, StoreError> {
        let idle = self.idle.lock().as_mut().and_then(Vec::pop);
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.open()?,
        };
        let result = act(&mut connection)?;
        let mut idle = self.idle.lock();
        if let Some(idle) = idle.as_mut().filter(|idle| idle.len() < IDLE_MAX) {
            idle.push(connection);
        }
        Ok(result)
    }

    /// Closes the file for good, so that its writer is the last one to do so and can tidy up.
    pub fn close(&self) {
        let idle = self.idle.lock().take();
        drop(idle);
    }

    fn open(&self) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(BUSY_TIMEOUT)?;
        // Negative: KiB instead of pages.
        connection.pragma_update(None, "cache_size", -i64::from(CACHE_BYTES / 1_024))?;
        Ok(connection)
    }
}

fn weigh(connection: &mut Connection, jobs: &[u64]) -> Result<Weight, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let mut weight = transaction.prepare_cached(WEIGHT)?;
    let mut sum = Weight::default();
    for seq in jobs {
        let mut rows = weight.query([signed(*seq)])?;
        if let Some(row) = rows.next()? {
            sum.payloads += small(row, 0)? as usize;
            sum.rest += small(row, 1)? as usize;
        }
    }
    Ok(sum)
}

fn read(connection: &mut Connection, jobs: &[u64]) -> Result<Vec<Body>, StoreError> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Deferred)?;
    let mut job = transaction.prepare_cached(&format!("{JOBS} WHERE seq = ?1"))?;
    let mut data = transaction.prepare_cached(DATA)?;
    // The engine knows the queue.
    let queue: Arc<str> = "".into();
    let mut bodies = Vec::with_capacity(jobs.len());
    for seq in jobs {
        let mut rows = job.query([signed(*seq)])?;
        if let Some(row) = rows.next()? {
            let record = read_job(row, Arc::clone(&queue), &mut data)?;
            bodies.push(Body {
                id: record.id,
                seq: *seq,
                data: record.data,
                options: record.options,
                life: record.life,
                result: record.result,
            });
        }
    }
    Ok(bodies)
}
