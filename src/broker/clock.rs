//! Where time comes from: the system, or a test.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::engine::Millis;

/// A source of Unix time in milliseconds that never goes back.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Millis;
}

/// The system's time.
///
/// It runs on the monotonic clock, so a wall clock that is set back neither repeats nor freezes time; one that
/// is set ahead by more than [`SystemClock::STEP`] is followed.
pub struct SystemClock {
    anchor: Mutex<(Millis, Instant)>,
}

impl SystemClock {
    /// Ms by which the wall clock may run ahead before it is followed.
    pub const STEP: Millis = 1_000;

    /// A clock that starts at the wall clock's time.
    pub fn new() -> Self {
        Self {
            anchor: Mutex::new((wall_clock(), Instant::now())),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let mut anchor = self.anchor.lock();
        let now = anchor.0 + i64::try_from(anchor.1.elapsed().as_millis()).unwrap_or(i64::MAX);
        let wall = wall_clock();
        if wall > now + Self::STEP {
            *anchor = (wall, Instant::now());
            return wall;
        }
        now
    }
}

fn wall_clock() -> Millis {
    let since_epoch = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

/// A clock that stands still until it is told to move; for tests and executed examples.
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// A clock that shows `start`.
    pub const fn new(start: Millis) -> Self {
        Self(AtomicI64::new(start))
    }

    /// Moves it ahead by `ms`.
    pub fn advance(&self, ms: Millis) {
        self.0.fetch_add(ms.max(0), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }
}

impl<C: Clock> Clock for std::sync::Arc<C> {
    fn now(&self) -> Millis {
        (**self).now()
    }
}
