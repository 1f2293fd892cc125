//! The data file: who may open it, what it gives back, and copies of it.

mod copy;
mod file;

use std::fs;
use std::path::{Path, PathBuf};

use bunqueue_mcp::engine::{Config, Effects, Engine};
use bunqueue_mcp::storage::Store;
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

    /// A process that starts now.
    pub fn reopen(&mut self) {
        self.close();
        let path = self.path();
        let (store, engine) = load(&path, &self.world);
        self.store = Some(store);
        self.world = World::of(engine, self.world.now);
    }
}

/// Opens a file and begins with it at the time of `world`.
fn load(path: &Path, world: &World) -> (Store, Engine) {
    let store = Store::open(path).unwrap();
    let mut effects = Effects::default();
    let loaded = store.load(Config::default(), [7; 32], world.now, &mut effects);
    let engine = loaded.unwrap();
    (store, engine)
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
