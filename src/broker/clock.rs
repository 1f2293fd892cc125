//! Where time comes from: the system, or a test.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::engine::Millis;

/// A source of Unix time in milliseconds that never goes back.
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Millis;

    /// Time since a fixed moment, as fine as the clock can tell; for measuring, not for deciding.
    fn fine(&self) -> Duration {
        Duration::from_millis(self.now().max(0).unsigned_abs())
    }

    /// How long it is until `deadline`; zero once it has come.
    fn until(&self, deadline: Millis) -> Duration {
        let ms = deadline.saturating_sub(self.now());
        Duration::from_millis(ms.max(0).unsigned_abs())
    }
}

/// The system's time.
///
/// It runs on the monotonic clock, so a wall clock that is set back neither repeats nor freezes time; one that
/// is set ahead by more than [`SystemClock::STEP`] is followed.
pub struct SystemClock {
    /// Wall clock and monotonic clock at the same moment; in full precision, or each reading would lose up to 2 ms.
    anchor: Mutex<(Duration, Instant)>,
    started: Instant,
}

impl SystemClock {
    /// By how much the wall clock may run ahead before it is followed.
    pub const STEP: Duration = Duration::from_secs(1);

    /// A clock that starts at the wall clock's time.
    pub fn new() -> Self {
        Self {
            anchor: Mutex::new((wall_clock(), Instant::now())),
            started: Instant::now(),
        }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl SystemClock {
    fn since_epoch(&self) -> Duration {
        let mut anchor = self.anchor.lock();
        let now = anchor.0 + anchor.1.elapsed();
        let wall = wall_clock();
        if wall > now + Self::STEP {
            *anchor = (wall, Instant::now());
            return wall;
        }
        now
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        i64::try_from(self.since_epoch().as_millis()).unwrap_or(i64::MAX)
    }

    fn fine(&self) -> Duration {
        self.started.elapsed()
    }

    /// In full precision: whole milliseconds would make everything that is due up to one of them late.
    fn until(&self, deadline: Millis) -> Duration {
        let deadline = Duration::from_millis(deadline.max(0).unsigned_abs());
        deadline.saturating_sub(self.since_epoch())
    }
}

/// Time since the Unix epoch by the wall clock.
fn wall_clock() -> Duration {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
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

    fn fine(&self) -> Duration {
        (**self).fine()
    }

    fn until(&self, deadline: Millis) -> Duration {
        (**self).until(deadline)
    }
}
