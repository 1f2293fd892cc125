//! Changes become rows. What is gone goes first, so that a name or an id may come again in the same transaction.

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::{Connection, Statement, ToSql, Transaction, params};

use super::StoreError;
use super::row::{Flags, id_value, is_apart, packed, signed, state_number};
use crate::engine::{Changes, JobRecord, KeyRecord, MetricKind, Payload, QueueRecord, TieRecord};

/// The name that most jobs have.
pub(super) const DEFAULT_NAME: &str = "default";
/// Where the lifetime totals stand.
pub(super) const TOTALS: &str = "totals";

/// The numbers of queues in the file.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: HashMap<Arc<str>, i64>,
    next: i64,
}

impl Names {
    /// Those of a file.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(super) fn read(connection: &Connection) -> Result<Self, StoreError> {
        let mut names = Self::default();
        let mut statement = connection.prepare("SELECT id, name FROM queue")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (id, name): (i64, String) = (row.get(0)?, row.get(1)?);
            names.next = names.next.max(id + 1);
            names.known.insert(name.into(), id);
        }
        Ok(names)
    }

    /// Takes over the numbers that a transaction has given, now that it is committed.
    pub(super) fn merge(&mut self, new: Self, changes: &Changes) {
        for name in &changes.gone_queues {
            self.known.remove(name);
        }
        self.known.extend(new.known);
        self.next = new.next;
    }
}

/// The names of a transaction in progress: those of the file, and its own.
struct Naming<'a> {
    file: &'a Names,
    own: Names,
    gone: &'a [Arc<str>],
}

impl Naming<'_> {
    fn find(&self, name: &Arc<str>) -> Option<i64> {
        let own = self.own.known.get(name).copied();
        own.or_else(|| {
            let known = self.file.known.get(name).copied()?;
            (!self.gone.contains(name)).then_some(known)
        })
    }

    fn give(&mut self, name: &Arc<str>) -> i64 {
        self.find(name).unwrap_or_else(|| {
            let id = self.own.next;
            self.own.next += 1;
            self.own.known.insert(Arc::clone(name), id);
            id
        })
    }

    fn get(&self, name: &Arc<str>) -> Result<i64, StoreError> {
        let what = "the queue of a row";
        self.find(name).ok_or(StoreError::Value { what })
    }
}

/// Writes all of them; what it returns are the new names of queues.
///
/// # Errors
/// [`StoreError`]; the transaction is to be given up then.
pub(super) fn write(
    transaction: &Transaction<'_>,
    names: &Names,
    changes: &Changes,
) -> Result<Names, StoreError> {
    let mut naming = Naming {
        file: names,
        own: Names {
            known: HashMap::new(),
            next: names.next,
        },
        gone: &changes.gone_queues,
    };
    remove(transaction, names, changes)?;
    write_queues(transaction, &mut naming, changes)?;
    write_jobs(transaction, &naming, changes)?;
    for record in &changes.ties {
        write_tie(transaction, record)?;
    }
    write_logs(transaction, changes)?;
    write_rest(transaction, changes)?;
    Ok(naming.own)
}

fn run(
    transaction: &Transaction<'_>,
    sql: &'static str,
    values: &[&dyn ToSql],
) -> Result<(), StoreError> {
    transaction.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

fn remove(
    transaction: &Transaction<'_>,
    names: &Names,
    changes: &Changes,
) -> Result<(), StoreError> {
    for (first, last) in runs(&changes.gone_jobs) {
        for sql in [
            "DELETE FROM job WHERE seq BETWEEN ?1 AND ?2",
            "DELETE FROM course WHERE job BETWEEN ?1 AND ?2",
            "DELETE FROM job_data WHERE seq BETWEEN ?1 AND ?2",
            "DELETE FROM tie WHERE job BETWEEN ?1 AND ?2",
            "DELETE FROM log WHERE job BETWEEN ?1 AND ?2",
        ] {
            run(transaction, sql, &[&first, &last])?;
        }
    }
    for name in &changes.gone_queues {
        let Some(id) = names.known.get(name) else {
            continue;
        };
        run(transaction, "DELETE FROM queue WHERE id = ?1", &[id])?;
        run(transaction, "DELETE FROM job_group WHERE queue = ?1", &[id])?;
        run(transaction, "DELETE FROM minute WHERE queue = ?1", &[id])?;
    }
    let known = |name: &Arc<str>| names.known.get(name).copied();
    for (queue, group) in &changes.gone_groups {
        let sql = "DELETE FROM job_group WHERE queue = ?1 AND name = ?2";
        if let Some(queue) = known(queue) {
            run(transaction, sql, &[&queue, group])?;
        }
    }
    for (queue, kind, minute) in &changes.gone_minutes {
        let sql = "DELETE FROM minute WHERE queue = ?1 AND kind = ?2 AND minute = ?3";
        if let Some(queue) = known(queue) {
            run(transaction, sql, &[&queue, &kind_number(*kind), minute])?;
        }
    }
    for seq in &changes.untied_jobs {
        run(
            transaction,
            "DELETE FROM tie WHERE job = ?1",
            &[&signed(*seq)],
        )?;
    }
    for (seq, other) in &changes.gone_ties {
        let sql = "DELETE FROM tie WHERE job = ?1 AND other = ?2";
        run(transaction, sql, &[&signed(*seq), &id_value(other)])?;
    }
    for (first, last) in runs(&changes.gone_proofs) {
        let sql = "DELETE FROM proof WHERE number BETWEEN ?1 AND ?2";
        run(transaction, sql, &[&first, &last])?;
    }
    for place in &changes.gone_crons {
        let sql = "DELETE FROM cron WHERE place = ?1";
        run(transaction, sql, &[&signed(*place)])?;
    }
    for place in &changes.gone_webhooks {
        let sql = "DELETE FROM webhook WHERE place = ?1";
        run(transaction, sql, &[&signed(*place)])?;
    }
    Ok(())
}

/// Numbers as the first and the last ones of runs without a gap. What goes together mostly came together, and a run costs
/// hardly more than one number.
fn runs(numbers: &[u64]) -> Vec<(i64, i64)> {
    let mut numbers: Vec<i64> = numbers.iter().copied().map(signed).collect();
    numbers.sort_unstable();
    let adjoin = |one: &i64, next: &i64| next - one <= 1;
    let runs = numbers.chunk_by(adjoin);
    runs.filter_map(|run| run.first().copied().zip(run.last().copied()))
        .collect()
}

/// The number that stands for a kind in a file; it never changes.
const fn kind_number(kind: MetricKind) -> i64 {
    match kind {
        MetricKind::Completed => 0,
        MetricKind::Failed => 1,
    }
}

/// The kind of that number.
pub(super) fn kind_of(number: i64) -> Result<MetricKind, StoreError> {
    let is = |kind: &MetricKind| kind_number(*kind) == number;
    let what = "the kind of a count";
    let found = MetricKind::ALL.into_iter().find(is);
    found.ok_or(StoreError::Value { what })
}

fn write_queues(
    transaction: &Transaction<'_>,
    naming: &mut Naming<'_>,
    changes: &Changes,
) -> Result<(), StoreError> {
    for record in &changes.queues {
        let id = naming.give(&record.name);
        let settings = packed::<QueueRecord>(record, "the settings of a queue")?;
        let sql =
            "INSERT INTO queue VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET settings = ?3";
        run(transaction, sql, &[&id, &record.name, &settings])?;
    }
    for record in &changes.groups {
        let sql = "INSERT OR REPLACE INTO job_group VALUES (?1, ?2, ?3)";
        let queue = naming.get(&record.queue)?;
        let settings = packed(record, "the settings of a group")?;
        run(transaction, sql, &[&queue, &record.name, &settings])?;
    }
    for record in &changes.minutes {
        let Some(queue) = naming.find(&record.queue) else {
            continue;
        };
        let sql = "INSERT OR REPLACE INTO minute VALUES (?1, ?2, ?3, ?4)";
        let kind = kind_number(record.kind);
        let values: [&dyn ToSql; 4] = [&queue, &kind, &record.minute, &record.count];
        run(transaction, sql, &values)?;
    }
    Ok(())
}

fn write_jobs(
    transaction: &Transaction<'_>,
    naming: &Naming<'_>,
    changes: &Changes,
) -> Result<(), StoreError> {
    if changes.jobs.is_empty() {
        return Ok(());
    }
    // Held, as most of what is written passes through them.
    let mut insert = transaction.prepare_cached(
        "INSERT INTO job VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?;
    let mut course = transaction.prepare_cached(
        "INSERT OR REPLACE INTO course VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for record in &changes.jobs {
        if record.is_new {
            insert_job(&mut insert, naming.get(&record.queue)?, record)?;
            write_data_apart(transaction, record)?;
        } else if record.body_changed {
            update_body(transaction, record)?;
        }
        let is_as_admitted =
            record.attempts == 0 && record.life.is_none() && record.result.is_none();
        if !record.is_new || !is_as_admitted {
            write_course(&mut course, record)?;
        }
    }
    Ok(())
}

fn insert_job(
    insert: &mut Statement<'_>,
    queue: i64,
    record: &JobRecord,
) -> Result<(), StoreError> {
    let name = Some(&*record.name).filter(|name| *name != DEFAULT_NAME);
    insert.execute(params![
        signed(record.seq),
        queue,
        id_value(&record.id),
        name,
        record.created_at,
        record.max_attempts,
        packed_options(record)?,
        packed_parent(record)?,
        data_inline(record),
        state_number(record.state),
        Flags::of(record).0,
        record.priority,
        record.run_at,
        key_until(record),
    ])?;
    Ok(())
}

fn update_body(transaction: &Transaction<'_>, record: &JobRecord) -> Result<(), StoreError> {
    let seq = signed(record.seq);
    let sql = "UPDATE job SET options = ?2, parent = ?3, data = ?4 WHERE seq = ?1";
    transaction.prepare_cached(sql)?.execute(params![
        seq,
        packed_options(record)?,
        packed_parent(record)?,
        data_inline(record),
    ])?;
    if is_apart(record.data.as_ref()) {
        return write_data_apart(transaction, record);
    }
    run(transaction, "DELETE FROM job_data WHERE seq = ?1", &[&seq])
}

fn write_data_apart(transaction: &Transaction<'_>, record: &JobRecord) -> Result<(), StoreError> {
    let data = record.data.as_ref();
    let Some(data) = data.filter(|data| is_apart(Some(data))) else {
        return Ok(());
    };
    let sql = "INSERT OR REPLACE INTO job_data VALUES (?1, ?2)";
    run(transaction, sql, &[&signed(record.seq), &data.bytes()])
}

fn write_course(course: &mut Statement<'_>, record: &JobRecord) -> Result<(), StoreError> {
    let life = record.life.as_deref();
    let life = life.map(|life| packed(life, "the history of a job"));
    course.execute(params![
        signed(record.seq),
        state_number(record.state),
        Flags::of(record).0,
        record.priority,
        record.run_at,
        key_until(record),
        record.attempts,
        life.transpose()?,
        record.result.as_ref().map(Payload::bytes),
    ])?;
    Ok(())
}

fn packed_options(record: &JobRecord) -> Result<Option<Vec<u8>>, StoreError> {
    let options = record.options.as_deref();
    let options = options.map(|options| packed(options, "the options of a job"));
    options.transpose()
}

fn packed_parent(record: &JobRecord) -> Result<Option<Vec<u8>>, StoreError> {
    let parent = record.parent.as_ref();
    let parent = parent.map(|parent| packed(parent, "the parent of a job"));
    parent.transpose()
}

fn data_inline(record: &JobRecord) -> Option<&[u8]> {
    let data = record.data.as_ref();
    data.filter(|data| !is_apart(Some(data)))
        .map(Payload::bytes)
}

const fn key_until(record: &JobRecord) -> Option<i64> {
    match record.key {
        KeyRecord::OwnedUntil(at) => Some(at),
        KeyRecord::NotOwned | KeyRecord::Owned => None,
    }
}

fn write_tie(transaction: &Transaction<'_>, record: &TieRecord) -> Result<(), StoreError> {
    let sql = "INSERT OR REPLACE INTO tie VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let (value_queue, value) = record
        .value
        .as_ref()
        .map(|(queue, value)| (queue, value))
        .unzip();
    let (place, failure) = record
        .failure
        .as_ref()
        .map(|(place, failure)| (place, failure))
        .unzip();
    let failure = failure.map(|failure| packed(failure, "the failure of a child"));
    transaction.prepare_cached(sql)?.execute(params![
        signed(record.job),
        id_value(&record.other),
        record.dependency.map(signed),
        record.child.map(signed),
        record.unmet,
        value_queue.map(|queue| &**queue),
        value.map(Payload::bytes),
        place.map(|place| signed(*place)),
        failure.transpose()?,
    ])?;
    Ok(())
}

fn write_logs(transaction: &Transaction<'_>, changes: &Changes) -> Result<(), StoreError> {
    for record in &changes.logs {
        let job = signed(record.job);
        let sql = "DELETE FROM log WHERE job = ?1 AND line < ?2";
        run(transaction, sql, &[&job, &signed(record.first)])?;
        for line in &record.lines {
            let sql = "INSERT OR REPLACE INTO log VALUES (?1, ?2, ?3, ?4, ?5)";
            let values: [&dyn ToSql; 5] = [
                &job,
                &signed(line.seq),
                &line.at,
                &line.level,
                &line.message,
            ];
            run(transaction, sql, &values)?;
        }
    }
    Ok(())
}

fn write_rest(transaction: &Transaction<'_>, changes: &Changes) -> Result<(), StoreError> {
    for record in &changes.proofs {
        let sql = "INSERT OR REPLACE INTO proof VALUES (?1, ?2)";
        run(
            transaction,
            sql,
            &[&signed(record.number), &id_value(&record.id)],
        )?;
    }
    for record in &changes.crons {
        let sql = "INSERT OR REPLACE INTO cron VALUES (?1, ?2)";
        let cron = packed(&record.cron, "a cron")?;
        run(transaction, sql, &[&signed(record.place), &cron])?;
    }
    for record in &changes.webhooks {
        let sql = "INSERT OR REPLACE INTO webhook VALUES (?1, ?2)";
        let webhook = packed(record, "a webhook")?;
        run(transaction, sql, &[&signed(record.place), &webhook])?;
    }
    if let Some(totals) = changes.totals.as_ref() {
        let sql = "INSERT OR REPLACE INTO meta VALUES (?1, ?2)";
        let totals = packed(totals, "the totals")?;
        run(transaction, sql, &[&TOTALS, &totals])?;
    }
    Ok(())
}
