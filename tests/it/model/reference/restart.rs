//! The end of the process, and what the next one begins with (section 24; B-8, B-10, B-22, B-32; tcp protocol, section 24).

use bunqueue_mcp::engine::EventKind;
use bunqueue_mcp::engine::{FailureReason, Millis, StallDetail};

use super::{Place, Reference};

impl Reference {
    /// The process ends, and another one begins at `now`. What is due by then happens.
    pub fn restart(&mut self, now: Millis) {
        self.now = self.now.max(now);
        (self.began_at, self.instant) = (self.now, self.now);
        self.end_what_lives_in_memory();
        self.number_anew();
        self.turns.clear();
        for job in &mut self.jobs {
            job.ripe = job.view.run_at <= self.now;
        }
        self.note_turns();
        for queue in &mut self.queues {
            queue.empty_since = None;
        }
        self.note_emptiness();
        self.miss_slots();
        self.interrupt();
        self.tick(now);
    }

    fn end_what_lives_in_memory(&mut self) {
        self.waiters.clear();
        self.discarded.clear();
        self.greatest_id = None;
        self.workers = super::worker::Registry::default();
        self.figures.restart(self.now);
        for queue in &mut self.queues {
            queue.token_at = None;
            if let Some(rate) = &mut queue.rate {
                rate.fill(self.now);
            }
        }
        self.end_group_counts();
        for job in &mut self.jobs {
            job.late_token = None;
            job.finalized_unlocked = false;
            job.spent.clear();
            job.refused_until = None;
            if let Place::Active(active) = &mut job.place {
                active.connection = None;
            }
        }
    }

    /// Numbers go on behind the greatest that is left; what was used last is forgotten, and the order of what is kept takes
    /// its place.
    fn number_anew(&mut self) {
        let seqs = self.jobs.iter().map(|job| job.seq);
        self.next_seq = seqs.max().unwrap_or(0);
        let lines = self.jobs.iter().flat_map(|job| &job.logs);
        self.next_line = lines.map(|line| line.seq).max().unwrap_or(0);
        let done = self.jobs.iter().map(|job| match &job.place {
            Place::Failed(letter) => letter.seq,
            Place::Completed => job.done_seq,
            _ => job.was_letter.as_ref().map_or(0, |letter| letter.seq),
        });
        self.next_done = done.max().unwrap_or(0);
        for job in &mut self.jobs {
            self.next_use += 1;
            job.log_used = self.next_use;
        }
        for id in self.completed.clone() {
            self.next_use += 1;
            let at = self.find(&id).expect("completed jobs are there");
            self.jobs[at].result_used = self.next_use;
        }
    }

    /// A delivery that no lock protects was interrupted, which costs an attempt and a stall.
    fn interrupt(&mut self) {
        let unlocked = |job: &&super::Job| matches!(&job.place, Place::Active(active) if active.token.is_none());
        let ids: Vec<_> = self
            .jobs
            .iter()
            .filter(unlocked)
            .map(|job| job.view.id.clone())
            .collect();
        for id in ids {
            let at = self
                .find(&id)
                .expect("an active job is not deleted by the way");
            if self.discard_lost(at) {
                continue;
            }
            let (max, stall_count, spent) = self.charge(at);
            let detail = Some(StallDetail {
                stall_count,
                to_dlq: spent.is_some(),
            });
            self.emit_for(at, EventKind::Stalled { detail });
            let (reason, error) = match spent {
                None => {
                    let error = "Interrupted during recovery";
                    self.retry(at, FailureReason::Stalled, Some(error.into()));
                    self.jobs[at].late_token = None;
                    self.back_off(at);
                    continue;
                }
                Some(true) => (
                    FailureReason::MaxAttemptsExceeded,
                    format!("Job reached max attempts ({max}) during startup recovery"),
                ),
                Some(false) => (
                    FailureReason::Stalled,
                    format!("Job stalled {stall_count} times (recovered at startup)"),
                ),
            };
            self.end_lost(at, reason, &error, &error);
        }
    }
}
