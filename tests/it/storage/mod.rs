//! The data file: who may open it, what it gives back, and copies of it.

mod copy;
mod file;
mod restart;

use std::fs;
use std::path::{Path, PathBuf};

use bunqueue_mcp::engine::{Config, Effects, Engine, Millis};
use bunqueue_mcp::storage::{Store, StoreError};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::world::World;

/// The name of the data file in its directory.
const NAME: &str = "queue.db";

/// An engine that is kept in a data file.
pub struct Kept {
    pub directory: TempDir,
    pub world: World,
    store: Option<Store>,
}

impl Kept {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut world = World::new();
        world.act(|engine, _| engine.record());
        let store = Store::open(&directory.path().join(NAME)).unwrap();
        Self {
            directory,
            world,
            store: Some(store),
        }
    }

    pub fn path(&self) -> PathBuf {
        self.at(NAME)
    }

    pub fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Stores what has changed.
    pub fn commit(&mut self) {
        let store = self.store.as_mut().expect("the file is open");
        self.world.act(|engine, _| {
            let changes = engine.take_changes();
            store.commit(&changes, false).unwrap();
        });
    }

    pub fn close(&mut self) {
        self.store = None;
    }

    /// A process that starts so many ms later, after one that has stored everything.
    pub fn restart(&mut self, after: Millis) {
        self.commit();
        self.world.now += after;
        self.reopen();
    }

    /// What each process would find that starts now, if the one before had ended after some part of the last commit.
    pub fn cuts(&mut self) -> Vec<World> {
        let log = self.at("queue.db-wal");
        let before = fs::metadata(&log).map_or(0, |log| log.len());
        self.commit();
        let after = fs::metadata(&log).unwrap().len();
        assert!(after > before, "the commit is behind those before it");
        let lengths = (before..after).step_by(997).chain([after]);
        lengths.map(|len| self.cut(len)).collect()
    }

    fn cut(&self, log_len: u64) -> World {
        let other = tempfile::tempdir().unwrap();
        let (file, log) = (other.path().join(NAME), other.path().join("queue.db-wal"));
        fs::copy(self.path(), &file).unwrap();
        fs::copy(self.at("queue.db-wal"), &log).unwrap();
        let log = fs::OpenOptions::new().write(true).open(log).unwrap();
        log.set_len(log_len).unwrap();
        let (_store, engine) = load(&file, &self.world);
        World::of(engine, self.world.now)
    }

    /// A process that starts now.
    pub fn reopen(&mut self) {
        self.close();
        let path = self.path();
        // A program that another test is just starting has a copy of every open file for a moment, locks included.
        let store = loop {
            match Store::open(&path) {
                Err(StoreError::InUse { .. }) => std::thread::yield_now(),
                opened => break opened.unwrap(),
            }
        };
        let engine = begin(&store, &self.world);
        self.store = Some(store);
        self.world = World::of(engine, self.world.now);
    }
}

/// Opens a file and begins with it at the time of `world`.
fn load(path: &Path, world: &World) -> (Store, Engine) {
    let store = Store::open(path).unwrap();
    let engine = begin(&store, world);
    (store, engine)
}

fn begin(store: &Store, world: &World) -> Engine {
    let mut effects = Effects::default();
    let loaded = store.load(Config::default(), [7; 32], world.now, &mut effects);
    loaded.unwrap()
}

/// Changes a file behind the program's back.
fn tamper(path: &Path, sql: &str) {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
}

/// The names in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
