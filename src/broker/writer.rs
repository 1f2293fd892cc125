//! Stores what the engine has changed: one thread, which commits together whatever has come since its last commit, so that a
//! commit costs the less the more there is to do. It begins as soon as somebody waits for it. What nobody waits for, such as
//! a delivery, gathers for a while: most jobs end before that, and then their delivery costs nothing.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::shared::Shared;
use crate::engine::{Changes, Durability};
use crate::storage::{Store, StoreError};

/// How long changes gather that nobody waits for.
const GATHER_TIME: Duration = Duration::from_millis(10);
/// The first pause after a failed commit; each further one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// From one look at the sizes of the files to the next.
const SIZES_PERIOD: Duration = Duration::from_secs(1);
/// The pause between two tries to shorten the write-ahead file while an outside reader holds it up.
const SHORTEN_PAUSE: Duration = Duration::from_secs(1);
/// Bytes that must find room before changes are accepted again.
const PROBE_BYTES: u32 = 1_048_576;

/// Starts the writer; it ends when the broker is dropped, or closed with everything stored.
///
/// # Errors
/// The system gives no thread.
pub(super) fn spawn(shared: &Arc<Shared>, store: Store, level: Durability) -> io::Result<Thread> {
    let broker = Arc::downgrade(shared);
    let writer = thread::Builder::new().name("writer".to_owned());
    let handle = writer.spawn(move || {
        let mut writer = Writer {
            broker,
            store,
            level,
            told: None,
        };
        let ended = catch_unwind(AssertUnwindSafe(|| writer.run()));
        if ended.is_err() {
            tracing::error!("the writer ended with a fault; nothing is stored any more");
        }
        if let Some(shared) = writer.broker.upgrade() {
            let fault = StoreError::Other("a fault of the writer");
            if ended.is_err() {
                shared.lose(&fault);
            }
            shared.end_storing();
            shared.close_readers();
            drop(writer.store);
            shared.file_closed();
        }
    })?;
    Ok(handle.thread().clone())
}

/// Waits for changes; whether that took its whole time.
fn gather() -> bool {
    let began = Instant::now();
    thread::park_timeout(GATHER_TIME);
    began.elapsed() >= GATHER_TIME
}

struct Writer {
    broker: Weak<Shared>,
    store: Store,
    level: Durability,
    /// When the sizes were last told.
    told: Option<Instant>,
}

impl Writer {
    fn run(&mut self) {
        let mut late = false;
        // Upgraded for a moment only: the writer must not keep the broker alive.
        while let Some(shared) = self.broker.upgrade() {
            let closing = shared.is_closing();
            if let Some((changes, step)) = shared.take_changes(late || closing) {
                if !self.store_changes(&shared, &changes, step) {
                    return;
                }
                late = false;
                continue;
            }
            drop(shared);
            if closing {
                return;
            }
            late = if late {
                self.rest();
                false
            } else {
                gather()
            };
        }
    }

    /// Until there may be something to do.
    fn rest(&self) {
        // Where nothing more is stored, no commit shortens what a reader has held up.
        if self.store.shorten_log() {
            thread::park();
        } else {
            thread::park_timeout(SHORTEN_PAUSE);
        }
    }

    /// False when nothing may be stored any more, because that would leave out what came before.
    fn store_changes(&mut self, shared: &Arc<Shared>, changes: &Changes, step: u64) -> bool {
        if changes.is_empty() {
            shared.stored(step, changes);
            return true;
        }
        match self.commit(changes) {
            Ok(()) => shared.stored(step, changes),
            Err(error) if self.level == Durability::Buffered => {
                tracing::error!(%error, "changes could not be stored; they wait and are tried again");
                shared.note_retry(changes.len(), &error);
                if !self.insist(changes) {
                    let lost = changes.len() + shared.unsaved();
                    tracing::error!(
                        changes = lost,
                        "the broker ends and these changes were not stored"
                    );
                    return false;
                }
                tracing::info!("changes can be stored again");
                shared.note_retried();
                shared.stored(step, changes);
            }
            Err(error) => {
                shared.lose(&error);
                return self.recover();
            }
        }
        true
    }

    fn commit(&mut self, changes: &Changes) -> Result<(), StoreError> {
        let sync = changes.durable || self.level == Durability::Durable;
        let began = Instant::now();
        self.store.commit(changes, sync)?;
        self.tell_usage(began.elapsed());
        Ok(())
    }

    /// Tells how large the files are, now and then.
    fn tell_usage(&mut self, commit: Duration) {
        if self.told.is_some_and(|told| told.elapsed() < SIZES_PERIOD) {
            return;
        }
        self.told = Some(Instant::now());
        if let Some(shared) = self.broker.upgrade() {
            shared.note_usage(self.store.sizes(), commit);
        }
    }

    /// Tries again until it works, as nobody waits for it any more; false when the broker ends before that.
    fn insist(&mut self, changes: &Changes) -> bool {
        let mut pause = PAUSE_MIN;
        loop {
            let is_last = !self.pause(pause);
            if self.commit(changes).is_ok() {
                return true;
            }
            if is_last {
                return false;
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Goes on once the file holds again what the engine does, and has room for more; false when the broker ends before
    /// that.
    fn recover(&mut self) -> bool {
        let (mut pause, mut reloaded, mut is_last) = (PAUSE_MIN, false, false);
        loop {
            let Some(shared) = self.broker.upgrade() else {
                return false;
            };
            if !reloaded {
                match shared.reload(&self.store) {
                    Ok(()) => reloaded = true,
                    Err(error) => {
                        shared.note_trouble(Some(&error));
                        shared.give_up();
                    }
                }
            }
            if reloaded && self.store.probe(PROBE_BYTES).is_ok() {
                shared.resume();
                return true;
            }
            if is_last {
                return false;
            }
            drop(shared);
            is_last = !self.pause(pause);
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Waits that long, however often this thread is woken meanwhile; false, and at once, when the broker ends.
    fn pause(&self, time: Duration) -> bool {
        let end = Instant::now() + time;
        loop {
            let shared = self.broker.upgrade();
            if shared.is_none_or(|shared| shared.is_closing()) {
                return false;
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::park_timeout(left);
        }
    }
}
