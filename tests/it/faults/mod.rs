//! The data file on a disk that fails, fills up or loses its power, and beside other programs: the real process, with a
//! library loaded before all others that stands between it and the disk (`disk.c`, compiled here with `cc`).

mod failing;
mod killed;
mod load;
mod outside;
mod power;
mod reload;

use std::fs::{self, File};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::process::{Env, Process, Serve};
use crate::tcp::client::{Conn, frame, read_body};
use crate::tcp::value::{Wire, decode};

/// How long anything may take that has to happen once the disk works again.
const PATIENCE: Duration = Duration::from_secs(30);

pub const ENOSPC: u64 = 28;
pub const EIO: u64 = 5;

/// The numbers that the library shares with a test; `disk.c` tells what they mean.
#[derive(Clone, Copy)]
enum Word {
    WriteError,
    SyncError,
    ErrorsLeft,
    KillAt,
    KillInHalf,
    Hold,
    Writes,
    Syncs,
    Errors,
    Held,
}

const WORDS: u64 = 10;

/// A directory with a data file, and the disk below it.
pub struct Disk {
    _directory: TempDir,
    /// As the system names it: that is what the library compares.
    root: PathBuf,
    control: File,
}

impl Disk {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/faults/disk.c");
        let compiled = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-o"])
            .args([root.join("disk.so"), source])
            .status();
        assert!(compiled.expect("a C compiler").success());
        for name in ["data", "synced"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        let path = root.join("control");
        let control = File::create_new(path).unwrap();
        control.set_len(WORDS * 8).unwrap();
        Self {
            _directory: directory,
            root,
            control,
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn file(&self) -> PathBuf {
        self.at("data/data")
    }

    /// Bytes of the write-ahead file.
    pub fn log_len(&self) -> u64 {
        fs::metadata(self.at("data/data-wal")).map_or(0, |log| log.len())
    }

    /// Starts a broker on the file.
    pub fn start(&self) -> Serve {
        self.start_with(&[])
    }

    pub fn start_with(&self, env: &Env) -> Serve {
        self.with_env(env, Serve::start_with)
    }

    /// A process that may end before it listens.
    pub fn begin(&self) -> Process {
        self.with_env(&[], Serve::begin)
    }

    fn with_env<T>(&self, env: &Env, start: impl FnOnce(&Env) -> T) -> T {
        let paths = ["disk.so", "data/data", "control", "synced"].map(|name| self.at(name));
        let [library, file, control, synced] = paths.each_ref().map(|path| path.to_str().unwrap());
        let own = [
            ("LD_PRELOAD", library),
            ("FAULTS_FILE", file),
            ("FAULTS_CONTROL", control),
            ("FAULTS_SYNCED", synced),
            ("BUNQUEUE_DATA_PATH", file),
            // What a killed process had in work holds no stop up.
            ("SHUTDOWN_TIMEOUT_MS", "0"),
        ];
        start(&[&own, env].concat())
    }

    /// Removes the data file and what stands beside it.
    pub fn clear(&self) {
        for entry in fs::read_dir(self.at("data")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    fn set(&self, word: Word, value: u64) {
        let at = word as u64 * 8;
        self.control.write_all_at(&value.to_ne_bytes(), at).unwrap();
    }

    fn get(&self, word: Word) -> u64 {
        let file = File::open(self.at("control")).unwrap();
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, word as u64 * 8).unwrap();
        u64::from_ne_bytes(bytes)
    }

    /// Writes get this error until told otherwise.
    pub fn fail_writes(&self, error: u64) {
        self.fail(Word::WriteError, error, u64::MAX);
    }

    /// Syncs get this error until told otherwise.
    pub fn fail_syncs(&self, error: u64) {
        self.fail(Word::SyncError, error, u64::MAX);
    }

    /// So many writes get this error, and then all work again.
    pub fn fail_some_writes(&self, error: u64, calls: u64) {
        self.fail(Word::WriteError, error, calls);
    }

    fn fail(&self, word: Word, error: u64, calls: u64) {
        self.set(Word::ErrorsLeft, calls);
        self.set(word, error);
    }

    /// Everything works again.
    pub fn heal(&self) {
        self.set(Word::WriteError, 0);
        self.set(Word::SyncError, 0);
    }

    /// Writes and syncs wait until [`Disk::release`].
    pub fn hold(&self) {
        self.set(Word::Held, 0);
        self.set(Word::Hold, 1);
    }

    /// Ends once a write or a sync waits.
    pub fn await_held(&self) {
        until("a write that waits", || self.get(Word::Held) > 0);
    }

    pub fn release(&self) {
        self.set(Word::Hold, 0);
    }

    /// The process dies at the write behind so many others, before it or in the middle of it.
    pub fn kill_after(&self, writes: u64, in_half: bool) {
        self.set(Word::KillInHalf, u64::from(in_half));
        self.set(Word::KillAt, self.writes() + writes + 1);
    }

    /// Nothing is killed any more.
    pub fn spare(&self) {
        self.set(Word::KillAt, 0);
    }

    pub fn writes(&self) -> u64 {
        self.get(Word::Writes)
    }

    pub fn syncs(&self) -> u64 {
        self.get(Word::Syncs)
    }

    /// Calls that have got an error.
    pub fn errors(&self) -> u64 {
        self.get(Word::Errors)
    }

    /// What a power cut would leave: each file as it was last synced. With dice, each sector of a file that has been written
    /// since is there or not, and so is its length.
    pub fn power_cut(&self, mut dice: Option<&mut Dice>) -> Self {
        let other = Self::new();
        for suffix in ["", "-wal"] {
            let [synced, written] = ["synced/data", "data/data"].map(|name| {
                let path = self.at(&format!("{name}{suffix}"));
                fs::read(path).unwrap_or_default()
            });
            let left = match dice.as_deref_mut() {
                Some(dice) => mixed(synced, &written, dice),
                None => synced,
            };
            if !left.is_empty() {
                fs::write(other.at(&format!("data/data{suffix}")), left).unwrap();
            }
        }
        other
    }
}

/// Bytes that a disk writes whole or not at all.
const SECTOR: usize = 512;

fn mixed(mut synced: Vec<u8>, written: &[u8], dice: &mut Dice) -> Vec<u8> {
    if dice.below(2) == 0 {
        synced.resize(written.len(), 0);
    }
    for (left, new) in synced.chunks_mut(SECTOR).zip(written.chunks(SECTOR)) {
        if left.len() == new.len() && dice.below(2) == 0 {
            left.copy_from_slice(new);
        }
    }
    synced
}

/// Numbers that look random and are the same in each run.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % end
    }
}

/// Asks until it is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what} was waited for");
        std::thread::yield_now();
    }
}

/// How much a test does: more when there is time.
pub fn is_slow() -> bool {
    std::env::var_os("RUN_SLOW").is_some()
}

/// A connection that bears with the end of the process.
pub struct Line {
    stream: TcpStream,
}

impl Line {
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the worker door accepts");
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream }
    }

    /// The answer; `None` when the process ends without one.
    pub fn ask(&mut self, command: &Value) -> Option<Value> {
        let bytes = Wire::from_notation(command).encode();
        self.stream.write_all(&frame(&bytes)).ok()?;
        let body = read_body(&mut self.stream).ok()??;
        Some(decode(&body).expect("a reply").value.to_json())
    }
}

pub fn push(id: &str) -> Value {
    json!({ "cmd": "PUSH", "queue": "q", "name": "n", "data": { "id": id }, "jobId": id })
}

/// Whether what was asked was done.
pub fn is_done(conn: &mut Conn, command: &Value) -> bool {
    let reply = conn.call(command);
    if reply["ok"] == true {
        return true;
    }
    assert_eq!(reply["error"], "Internal server error");
    false
}

/// Asks the same until it is done.
pub fn insist(conn: &mut Conn, command: &Value) {
    until("a change that is accepted", || is_done(conn, command));
}

/// The state of a job that may not be there.
pub fn state(conn: &mut Conn, id: &str) -> String {
    let reply = conn.call(&json!({ "cmd": "GetState", "id": id }));
    reply["state"].as_str().unwrap_or("unknown").to_owned()
}

pub fn storage_status(conn: &mut Conn) -> Value {
    conn.ok(&json!({ "cmd": "StorageStatus" }))["data"].take()
}

/// The status of the page for probes.
pub fn health(serve: &Serve) -> u16 {
    crate::mcp::http::exchange(serve.http, "GET", "/health", &[], b"").status
}
