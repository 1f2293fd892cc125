//! Rows become an engine. Jobs, their ties and their logs are three streams in the order of admission, read side by side:
//! the file is gone through once, and nothing of it is held but the engine itself.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row, Rows, Statement};

use super::StoreError;
use super::row::{
    Flags, id_in, payload_in, signed, small, state_of, text_in, unpacked, unpacked_some, unsigned,
    unsigned_if_any,
};
use super::write::{DEFAULT_NAME, TOTALS, kind_of};
use crate::command::flow::annotate;
use crate::engine::{
    Config, CronRecord, Effects, Engine, GroupRecord, JobRecord, KeyRecord, Loader, LogLine,
    Millis, MinuteRecord, Payload, ProofRecord, QueueRecord, TieRecord, WebhookRecord,
};

/// Data that stands apart from its job.
pub(super) const DATA: &str = "SELECT data FROM job_data WHERE seq = ?1";

/// Names of queues by their numbers in the file.
type QueueNames = HashMap<i64, Arc<str>>;

/// Makes the engine.
///
/// # Errors
/// [`StoreError`].
pub(super) fn load(
    connection: &Connection,
    config: Config,
    seed: [u8; 32],
    now: Millis,
    effects: &mut Effects,
) -> Result<Engine, StoreError> {
    Ok(read(connection, config, seed, now)?.finish(effects))
}

/// Everything that the file holds, before anything is made of it.
///
/// # Errors
/// [`StoreError`].
pub(super) fn read(
    connection: &Connection,
    config: Config,
    seed: [u8; 32],
    now: Millis,
) -> Result<Loader, StoreError> {
    let mut loader = Loader::new(config, seed, now, annotate);
    let totals = connection.query_row("SELECT value FROM meta WHERE name = ?1", [TOTALS], |row| {
        Ok(unpacked(row, 0, "the totals"))
    });
    if let Some(totals) = totals.optional()?.transpose()?.flatten() {
        loader.totals(totals);
    }
    let names = load_queues(connection, &mut loader)?;
    load_rest(connection, &mut loader, &names)?;
    load_jobs(connection, &mut loader, &names)?;
    Ok(loader)
}

fn each(
    connection: &Connection,
    sql: &str,
    mut take: impl FnMut(&Row<'_>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        take(row)?;
    }
    Ok(())
}

fn name_of(names: &QueueNames, row: &Row<'_>, column: usize) -> Result<Arc<str>, StoreError> {
    let what = "the queue of a row";
    let name = names
        .get(&row.get(column)?)
        .ok_or(StoreError::Value { what })?;
    Ok(Arc::clone(name))
}

fn load_queues(connection: &Connection, loader: &mut Loader) -> Result<QueueNames, StoreError> {
    let mut names = QueueNames::new();
    each(connection, "SELECT id, name, settings FROM queue", |row| {
        let what = "the name of a queue";
        let name = text_in(row, 1)?.ok_or(StoreError::Value { what })?;
        names.insert(row.get(0)?, Arc::clone(&name));
        let record: QueueRecord = unpacked_some(row, 2, "the settings of a queue")?;
        loader.queue(&QueueRecord { name, ..record });
        Ok(())
    })?;
    let sql = "SELECT queue, name, settings FROM job_group";
    each(connection, sql, |row| {
        let what = "the name of a group";
        let record: GroupRecord = unpacked_some(row, 2, "the settings of a group")?;
        loader.group(&GroupRecord {
            queue: name_of(&names, row, 0)?,
            name: text_in(row, 1)?.ok_or(StoreError::Value { what })?,
            ..record
        });
        Ok(())
    })?;
    Ok(names)
}

fn load_rest(
    connection: &Connection,
    loader: &mut Loader,
    names: &QueueNames,
) -> Result<(), StoreError> {
    let sql = "SELECT queue, kind, minute, count FROM minute ORDER BY queue, kind, minute";
    each(connection, sql, |row| {
        loader.minute(&MinuteRecord {
            queue: name_of(names, row, 0)?,
            kind: kind_of(row.get(1)?)?,
            minute: small(row, 2)?,
            count: small(row, 3)?,
        });
        Ok(())
    })?;
    each(
        connection,
        "SELECT number, id FROM proof ORDER BY number",
        |row| {
            loader.proof(ProofRecord {
                number: unsigned(row, 0)?,
                id: id_in(row, 1)?,
            });
            Ok(())
        },
    )?;
    each(
        connection,
        "SELECT place, webhook FROM webhook ORDER BY place",
        |row| {
            let place = unsigned(row, 0)?;
            let record: WebhookRecord = unpacked_some(row, 1, "a webhook")?;
            loader.webhook(WebhookRecord { place, ..record });
            Ok(())
        },
    )?;
    each(
        connection,
        "SELECT place, cron FROM cron ORDER BY place",
        |row| {
            let place = unsigned(row, 0)?;
            let cron = unpacked_some(row, 1, "a cron")?;
            loader.cron(CronRecord { place, cron });
            Ok(())
        },
    )
}

/// A stream of rows that belong to jobs, in the order of the jobs.
struct Side<'a, T> {
    rows: Rows<'a>,
    read: fn(&Row<'_>) -> Result<T, StoreError>,
    /// What comes next, and its job.
    next: Option<(i64, T)>,
}

impl<'a, T> Side<'a, T> {
    fn new(
        rows: Rows<'a>,
        read: fn(&Row<'_>) -> Result<T, StoreError>,
    ) -> Result<Self, StoreError> {
        let next = None;
        let mut side = Self { rows, read, next };
        side.advance()?;
        Ok(side)
    }

    /// What came next.
    fn advance(&mut self) -> Result<Option<T>, StoreError> {
        let next = match self.rows.next()? {
            Some(row) => Some((row.get(0)?, (self.read)(row)?)),
            None => None,
        };
        let came = std::mem::replace(&mut self.next, next);
        Ok(came.map(|(_, came)| came))
    }

    /// What belongs to a job; rows of jobs before it belong to nobody.
    fn take<L: Default + Extend<T>>(&mut self, job: i64) -> Result<L, StoreError> {
        let mut list = L::default();
        while let Some(of) = self.next.as_ref().map(|(of, _)| *of)
            && of <= job
        {
            let came = self.advance()?;
            list.extend(came.filter(|_| of == job));
        }
        Ok(list)
    }
}

fn load_jobs(
    connection: &Connection,
    loader: &mut Loader,
    names: &QueueNames,
) -> Result<(), StoreError> {
    let mut ties = connection.prepare("SELECT * FROM tie ORDER BY job")?;
    let mut logs = connection.prepare("SELECT * FROM log ORDER BY job, line")?;
    let mut data = connection.prepare(DATA)?;
    let mut jobs = connection.prepare(&format!("{JOBS} ORDER BY seq"))?;
    let mut ties = Side::new(ties.query([])?, read_tie)?;
    let mut logs = Side::new(logs.query([])?, read_line)?;
    let mut rows = jobs.query([])?;
    while let Some(row) = rows.next()? {
        let record = read_job(row, name_of(names, row, 1)?, &mut data)?;
        let seq = signed(record.seq);
        let (tied, log) = (ties.take(seq)?, logs.take(seq)?);
        loader.job(record, tied, log)?;
    }
    Ok(())
}

/// Jobs as [`read_job`] reads them.
pub(super) const JOBS: &str = "SELECT * FROM job LEFT JOIN course ON course.job = job.seq";
/// Where the columns begin that both tables have, in `job` and in `course`, which follows it.
const ADMITTED: usize = 9;
const COURSE: usize = 14;
/// The columns that both have.
const STATE: usize = 0;
const FLAGS: usize = 1;
const PRIORITY: usize = 2;
const RUN_AT: usize = 3;
const KEY_UNTIL: usize = 4;

/// Where the columns begin that hold.
fn moving(row: &Row<'_>) -> Result<usize, StoreError> {
    let is_as_admitted = row.get_ref(COURSE)? == ValueRef::Null;
    Ok(if is_as_admitted { ADMITTED } else { COURSE + 1 })
}

/// A row of [`JOBS`]; `data` is [`DATA`].
pub(super) fn read_job(
    row: &Row<'_>,
    queue: Arc<str>,
    data: &mut Statement<'_>,
) -> Result<JobRecord, StoreError> {
    let moving = moving(row)?;
    let flags = Flags(row.get(moving + FLAGS)?);
    let seq: i64 = row.get(0)?;
    let data = if flags.has(Flags::DATA_APART) {
        let apart = data.query_row([seq], |row| Ok(payload_in(row, 0)));
        let what = "the data of a job";
        let apart = apart.optional()?.transpose()?.flatten();
        Some(apart.ok_or(StoreError::Value { what })?)
    } else {
        payload_in(row, 8)?
    };
    let key_until: Option<Millis> = row.get(moving + KEY_UNTIL)?;
    let key = match (flags.has(Flags::OWNS_KEY), key_until) {
        (false, _) => KeyRecord::NotOwned,
        (true, None) => KeyRecord::Owned,
        (true, Some(at)) => KeyRecord::OwnedUntil(at),
    };
    let options = unpacked(row, 6, "the options of a job")?;
    Ok(JobRecord {
        seq: unsigned(row, 0)?,
        is_new: false,
        id: id_in(row, 2)?,
        has_custom_id: flags.has(Flags::CUSTOM_ID),
        queue,
        name: text_in(row, 3)?.unwrap_or_else(|| DEFAULT_NAME.into()),
        data,
        body_changed: false,
        unwritten: flags.has(Flags::UNWRITTEN),
        priority: row.get(moving + PRIORITY)?,
        created_at: row.get(4)?,
        run_at: row.get(moving + RUN_AT)?,
        attempts: row.get::<_, Option<u32>>(COURSE + 6)?.unwrap_or(0),
        max_attempts: small(row, 5)?,
        state: state_of(row.get(moving + STATE)?)?,
        admitted_as: flags.admitted_as()?,
        lifo: flags.has(Flags::LIFO),
        remove_on_complete: flags.has(Flags::REMOVE_ON_COMPLETE),
        remove_on_fail: flags.has(Flags::REMOVE_ON_FAIL),
        durable: flags.has(Flags::DURABLE),
        gone_if_lost: flags.has(Flags::GONE_IF_LOST),
        parked: flags.has(Flags::PARKED),
        key,
        options: options.map(Arc::new),
        parent: unpacked(row, 7, "the parent of a job")?,
        life: unpacked(row, COURSE + 7, "the history of a job")?.map(Box::new),
        result: payload_in(row, COURSE + 8)?,
    })
}

fn read_tie(row: &Row<'_>) -> Result<TieRecord, StoreError> {
    let value: Option<Payload> = payload_in(row, 6)?;
    let failure = unpacked(row, 8, "the failure of a child")?;
    Ok(TieRecord {
        job: unsigned(row, 0)?,
        other: id_in(row, 1)?,
        dependency: unsigned_if_any(row, 2)?,
        child: unsigned_if_any(row, 3)?,
        unmet: row.get(4)?,
        value: text_in(row, 5)?.zip(value),
        failure: unsigned_if_any(row, 7)?.zip(failure),
    })
}

fn read_line(row: &Row<'_>) -> Result<LogLine, StoreError> {
    let what = "a line of a log";
    Ok(LogLine {
        seq: unsigned(row, 1)?,
        at: row.get(2)?,
        level: text_in(row, 3)?.ok_or(StoreError::Value { what })?,
        message: text_in(row, 4)?.ok_or(StoreError::Value { what })?,
    })
}
