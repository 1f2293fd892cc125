//! How many frames a connection may send: a sliding window (tcp protocol section 2).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// A bound on the frames of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimit {
    /// Frames within one window.
    pub frames: usize,
    /// The window. Zero means no limit.
    pub window: Duration,
}

/// What one connection has used of its [`FrameLimit`]; 16 bytes per admitted frame of the window.
#[derive(Debug)]
pub(super) struct FrameWindow {
    limit: FrameLimit,
    admitted: VecDeque<Instant>,
}

impl FrameWindow {
    pub(super) const fn new(limit: FrameLimit) -> Self {
        Self {
            limit,
            admitted: VecDeque::new(),
        }
    }

    /// Whether one more frame may pass at `now`. One that may not does not count.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        if self.limit.window.is_zero() {
            return true;
        }
        let over = |at: &Instant| now.duration_since(*at) >= self.limit.window;
        while self.admitted.front().is_some_and(over) {
            self.admitted.pop_front();
        }
        let admitted = self.admitted.len() < self.limit.frames;
        if admitted {
            self.admitted.push_back(now);
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_slides_and_refused_frames_do_not_count() {
        let mut window = FrameWindow::new(FrameLimit {
            frames: 2,
            window: Duration::from_millis(100),
        });
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let admitted = [0, 50, 60, 99, 100, 101, 150].map(|ms| window.admit(at(ms)));
        assert_eq!(admitted, [true, true, false, false, true, false, true]);
    }

    #[test]
    fn a_window_of_nothing_is_no_limit() {
        let mut window = FrameWindow::new(FrameLimit {
            frames: 0,
            window: Duration::ZERO,
        });
        assert!(window.admit(Instant::now()));
    }
}
