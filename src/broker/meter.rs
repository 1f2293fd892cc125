//! Measures how long adding, pulling and acknowledging take (engine contract, section 22).
//!
//! Reading a clock costs about as much as a fiftieth of such an operation, so only some batches are measured: one in
//! [`EVERY`] commands. A batch takes one reading before and one after; its commands share the time evenly.

use std::time::Duration;

use super::Clock;
use crate::command::Command;
use crate::engine::{Engine, Timed};

/// Commands from one measurement to the next.
const EVERY: usize = 16;

/// What is measured, in the order of [`Measured::times`].
const TIMED: [Timed; 3] = [Timed::Push, Timed::Pull, Timed::Ack];

/// Decides which batches are measured.
#[derive(Debug, Default)]
pub(super) struct Meter {
    /// Commands that may pass before the next measurement.
    pass: usize,
}

/// A measurement in progress.
#[derive(Debug)]
pub(super) struct Measured {
    started: Duration,
    commands: usize,
    /// How many commands of each kind the batch holds.
    times: [u64; 3],
}

impl Meter {
    /// Starts a measurement of these commands, when it is time for one.
    pub(super) fn begin(&mut self, commands: &[Command], clock: &dyn Clock) -> Option<Measured> {
        if self.pass >= commands.len() {
            self.pass -= commands.len();
            return None;
        }
        self.pass = EVERY - 1;
        let mut times = [0; 3];
        for command in commands {
            let [push, pull, ack] = &mut times;
            match command {
                Command::Add(_) | Command::AddMany(_) | Command::AddFlow(_) => *push += 1,
                Command::Pull(_) => *pull += 1,
                Command::Ack(_) | Command::AckMany(_) => *ack += 1,
                _ => {}
            }
        }
        Some(Measured {
            started: clock.fine(),
            commands: commands.len(),
            times,
        })
    }
}

impl Measured {
    /// Ends it and hands the figures in.
    pub(super) fn end(self, engine: &mut Engine, clock: &dyn Clock) {
        let elapsed = clock.fine().saturating_sub(self.started);
        let each = elapsed.as_secs_f64() * 1_000.0 / self.commands as f64;
        for (what, times) in TIMED.into_iter().zip(self.times) {
            if times > 0 {
                engine.observe(what, each, times);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::ManualClock;
    use crate::command::{GetOverview, ListQueues, Pull, QueueName};

    fn pull() -> Command {
        Pull {
            queue: QueueName::lenient("q"),
            count: 1,
            wait: 0,
            locked: false,
            lock_ttl: 1.0,
            detach: false,
            group: None,
        }
        .into()
    }

    #[test]
    fn one_command_in_sixteen_is_measured_and_every_large_batch() {
        let (mut meter, clock) = (Meter::default(), ManualClock::new(0));
        let mut single = || meter.begin(&[pull()], &clock).is_some();
        let measured: Vec<usize> = (0..40).filter(|_| single()).collect::<Vec<_>>();
        assert_eq!(measured, [0, 16, 32]);
        let batch = vec![pull(); 20];
        assert!(meter.begin(&batch, &clock).is_some());
        assert!(meter.begin(&batch, &clock).is_some());
        assert!(meter.begin(&[], &clock).is_none());
    }

    #[test]
    fn commands_of_a_batch_share_its_time() {
        let (mut meter, clock) = (Meter::default(), ManualClock::new(0));
        let mut engine = Engine::new(crate::engine::Config::default(), [1; 32]);
        let commands = [pull(), pull(), ListQueues.into(), GetOverview::ALL.into()];
        let measured = meter
            .begin(&commands, &clock)
            .expect("the first is measured");
        clock.advance(20);
        measured.end(&mut engine, &clock);
        let mut effects = crate::engine::Effects::default();
        let latency = engine.latency(&mut crate::engine::Turn {
            now: 1,
            caller: None,
            effects: &mut effects,
        });
        assert_eq!((latency.pull.count(), latency.pull.sum()), (2, 10.0));
        assert_eq!(latency.push.count(), 0);
    }
}
