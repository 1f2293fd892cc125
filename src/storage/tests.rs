//! A disk that is full, by a bound that only the connection itself can have.

use std::sync::Arc;

use tempfile::TempDir;

use super::*;
use crate::command::flow::annotate;
use crate::engine::{Effects, JobId, NewJob, Payload, Turn};

const NOW: Millis = 1_800_000_000_000;

struct Kept {
    engine: Engine,
    store: Store,
    directory: TempDir,
}

impl Kept {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("queue.db")).unwrap();
        let mut engine = Engine::new(Config::default(), [1; 32]);
        engine.record();
        Self {
            engine,
            store,
            directory,
        }
    }

    /// Adds a job with data of so many bytes, named by its id.
    fn add(&mut self, queue: &str, id: &str, bytes: usize) {
        let job = NewJob {
            custom_id: Some(JobId::from_text(id)),
            data: Some(Payload::new(&vec![7; bytes])),
            ..NewJob::default()
        };
        let mut effects = Effects::default();
        let mut turn = Turn {
            now: NOW,
            caller: None,
            effects: &mut effects,
        };
        let queue: Arc<str> = queue.into();
        self.engine.add(&mut turn, &queue, job, annotate).unwrap();
    }

    /// Room for so many pages more than there are.
    fn allow(&self, pages: i64) {
        let there = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        let connection = &self.store.connection;
        let count = connection.query_row("PRAGMA page_count", [], there);
        let most = count.unwrap() + pages;
        let set = connection.query_row(&format!("PRAGMA max_page_count = {most}"), [], there);
        assert_eq!(set, Ok(most));
    }

    /// Rows of the tables that an add writes.
    fn rows(&self) -> [i64; 3] {
        ["queue", "job", "job_data"].map(|table| {
            let sql = format!("SELECT count(*) FROM {table}");
            let count = self.store.connection.query_row(&sql, [], |row| row.get(0));
            count.unwrap()
        })
    }
}

#[test]
fn b_14_a_durable_commit_is_synced_in_full() {
    let mut kept = Kept::new();
    // As the database counts them: NORMAL is 1, FULL is 2.
    for (sync, level) in [(false, 1), (true, 2), (true, 2), (false, 1)] {
        kept.add("q", &format!("{sync}{level}"), 1);
        let changes = kept.engine.take_changes();
        kept.store.commit(&changes, sync).unwrap();
        let there = |row: &rusqlite::Row<'_>| row.get::<_, i64>(0);
        let connection = &kept.store.connection;
        let set = connection.query_row("PRAGMA synchronous", [], there);
        assert_eq!(set, Ok(level), "a commit that is to be synced: {sync}");
    }
}

#[test]
fn pe_18_a_commit_that_finds_no_room_leaves_nothing_and_can_be_made_again() {
    let mut kept = Kept::new();
    kept.add("q", "first", 10);
    let changes = kept.engine.take_changes();
    kept.store.commit(&changes, false).unwrap();
    assert_eq!(kept.rows(), [1, 1, 0]);

    // The small one finds room, the large one after it does not.
    kept.allow(3);
    kept.add("other", "small", 10);
    kept.add("q", "large", 200_000);
    let changes = kept.engine.take_changes();
    for sync in [false, true] {
        let error = kept.store.commit(&changes, sync).unwrap_err();
        assert!(error.is_full());
        assert_eq!(error.to_string(), "database or disk is full");
        assert_eq!(kept.rows(), [1, 1, 0]);
    }
    let probed = kept.store.probe(200_000).unwrap_err();
    assert!(probed.is_full());

    kept.allow(1_000);
    kept.store.probe(200_000).unwrap();
    kept.store.commit(&changes, true).unwrap();
    assert_eq!(kept.rows(), [2, 3, 1]);
}

#[test]
fn a_commit_that_found_no_room_is_not_there_after_a_start() {
    let mut kept = Kept::new();
    kept.add("q", "first", 10);
    let changes = kept.engine.take_changes();
    kept.store.commit(&changes, false).unwrap();
    kept.allow(0);
    kept.add("q", "second", 5_000);
    let changes = kept.engine.take_changes();
    kept.store.commit(&changes, false).unwrap_err();
    drop(kept.store);
    let store = Store::open(&kept.directory.path().join("queue.db")).unwrap();
    let mut effects = Effects::default();
    let loaded = store.load(Config::default(), [2; 32], NOW, &mut effects);
    let mut engine = loaded.unwrap();
    engine.mark_everything();
    let jobs: Vec<_> = engine.take_changes().jobs;
    let ids: Vec<_> = jobs.iter().map(|job| job.id.to_string()).collect();
    assert_eq!(ids, ["first"]);
}

#[test]
fn durable_commits_wait_for_the_disk_and_others_do_not() {
    let mut kept = Kept::new();
    let level = |kept: &Kept| {
        let connection = &kept.store.connection;
        connection.pragma_query_value(None, "synchronous", |row| row.get::<_, i64>(0))
    };
    // 1 is NORMAL, 2 is FULL.
    for (sync, expected) in [(false, 1), (true, 2), (false, 1)] {
        kept.add("q", &format!("{sync} {expected}"), 10);
        let changes = kept.engine.take_changes();
        kept.store.commit(&changes, sync).unwrap();
        assert_eq!(level(&kept), Ok(expected));
    }
}

#[cfg(unix)]
#[test]
fn a_link_to_a_file_that_is_not_there_yet_has_one_owner() {
    let directory = tempfile::tempdir().unwrap();
    let (link, file) = (directory.path().join("link"), directory.path().join("file"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let _first = Store::open(&link).unwrap();
    for path in [&link, &file] {
        assert!(matches!(Store::open(path), Err(StoreError::InUse { .. })));
    }
}
