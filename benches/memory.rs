//! What does a waiting job cost? Resident bytes per job with 1,000,000 waiting, default options and 100-byte payloads.
//!
//! Budget: 300 bytes in all. Linux only (it reads `/proc`); elsewhere it says so. Run: `cargo bench --bench memory`.

use std::io::Write;
use std::sync::Arc;

use bunqueue_mcp::engine::{Config, Effects, Engine, NewJob, Payload, Turn};

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const JOBS: usize = 1_000_000;
const BATCH: usize = 1_000;

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kibibytes * 1_024)
}

fn main() -> std::io::Result<()> {
    let mut engine = Engine::new(Config::default(), [1; 32]);
    let mut effects = Effects::default();
    let queue: Arc<str> = "work".into();
    let before = resident_bytes();
    for batch in 0..JOBS / BATCH {
        let jobs = (0..BATCH)
            .map(|_| NewJob {
                name: "work".into(),
                data: Some(Payload::new(&[0xc0; 100])),
                ..NewJob::default()
            })
            .collect();
        let mut turn = Turn {
            now: 1_800_000_000_000 + batch as i64,
            caller: None,
            effects: &mut effects,
        };
        let added = engine.add_many(&mut turn, &queue, jobs, |_, _| None);
        assert!(added.is_ok_and(|added| added.len() == BATCH));
    }
    let mut out = std::io::stdout();
    match before.zip(resident_bytes()) {
        Some((before, after)) => {
            let each = (after - before) as f64 / JOBS as f64;
            writeln!(out, "{each:.0} bytes resident per waiting job, of {JOBS}")
        }
        None => writeln!(out, "resident memory cannot be read here"),
    }
}
