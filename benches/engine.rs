//! What does the engine itself cost, without sockets?
//!
//! Budget: adding, pulling and acknowledging a job together stay under 3 µs, so that system calls and not the engine's
//! lock bound a broker on two cores. Compare rows of one run with each other, not with another machine.

use std::hint::black_box;
use std::sync::Arc;

use bunqueue_mcp::engine::{
    Config, ConnectionId, Dedup, Effects, Engine, JobOptions, NewJob, Payload, Progressing,
    PullGroup, PullRequest, RateLimit, TokenGiven, Turn,
};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

/// Bytes of each job's data.
const PAYLOAD: usize = 100;
/// Jobs per measured batch.
const BATCH: usize = 1_000;
/// Groups whose windows stand at different counts.
const GROUPS: usize = 300;

fn job() -> NewJob {
    NewJob {
        name: "work".into(),
        data: Some(Payload::new(&[0xc0; PAYLOAD])),
        ..NewJob::default()
    }
}

fn job_with(options: JobOptions) -> NewJob {
    NewJob {
        options: Some(Arc::new(options)),
        ..job()
    }
}

/// An engine and everything a turn needs.
struct Bench {
    engine: Engine,
    effects: Effects,
    queue: Arc<str>,
    group: Option<Box<PullGroup>>,
    now: i64,
}

impl Bench {
    fn new(waiting: usize) -> Self {
        let mut bench = Self {
            engine: Engine::new(Config::default(), [1; 32]),
            effects: Effects::default(),
            queue: "q".into(),
            group: None,
            now: 1_700_000_000_000,
        };
        bench.add(waiting);
        bench
    }

    fn add(&mut self, count: usize) {
        for _ in 0..count {
            self.add_one(job());
        }
    }

    fn add_one(&mut self, job: NewJob) {
        self.now += 1;
        let mut turn = Turn {
            now: self.now,
            caller: None,
            effects: &mut self.effects,
        };
        let added = self.engine.add(&mut turn, &self.queue, job, |_, _| None);
        black_box(added).ok();
    }

    fn add_many(&mut self, count: usize, batch: usize) {
        for _ in 0..count / batch {
            self.now += 1;
            let mut turn = Turn {
                now: self.now,
                caller: None,
                effects: &mut self.effects,
            };
            let jobs = (0..batch).map(|_| job()).collect();
            let added = self
                .engine
                .add_many(&mut turn, &self.queue, jobs, |_, _| None);
            black_box(added).ok();
        }
    }

    fn pull_and_ack(&mut self, count: usize, batch: usize) {
        for _ in 0..count / batch {
            self.now += 1;
            let mut turn = Turn {
                now: self.now,
                caller: Some(ConnectionId(1)),
                effects: &mut self.effects,
            };
            let request = PullRequest {
                queue: Arc::clone(&self.queue),
                count: batch,
                wait: 0,
                locked: true,
                lock_ttl: 30_000.0,
                detach: false,
                group: self.group.clone(),
            };
            let Progressing::Done(deliveries) = self.engine.pull(&mut turn, request) else {
                return;
            };
            assert_eq!(deliveries.len(), batch);
            for delivery in deliveries {
                let token = delivery.token.map_or(TokenGiven::None, TokenGiven::Token);
                black_box(
                    self.engine
                        .ack(&mut turn, &delivery.job.id, token, None, false)
                        .is_ok(),
                );
            }
        }
    }
}

/// Groups with a window each, each used once more often than the one before, and a job waiting in each.
fn unevenly_used_groups() -> Bench {
    let mut bench = Bench::new(0);
    let duration = i64::MAX / 2;
    bench.group = Some(Box::new(PullGroup {
        limit: Some(RateLimit {
            max: u64::MAX,
            duration,
        }),
        ..PullGroup::default()
    }));
    let add = |bench: &mut Bench, group: usize| {
        let group_id = Some(group.to_string().into());
        bench.add_one(job_with(JobOptions {
            group_id,
            ..JobOptions::default()
        }));
    };
    for used in 0..GROUPS {
        for group in used..GROUPS {
            add(&mut bench, group);
        }
        bench.pull_and_ack(GROUPS - used, 1);
    }
    for group in 0..GROUPS {
        for _ in 0..2 * BATCH / GROUPS {
            add(&mut bench, group);
        }
    }
    bench
}

fn engine(c: &mut Criterion) {
    let mut group = c.benchmark_group("engine");
    group.throughput(Throughput::Elements(BATCH as u64));
    let mut row = |name: &str, waiting: usize, run: fn(&mut Bench)| {
        group.bench_function(name, |b| {
            b.iter_batched_ref(|| Bench::new(waiting), run, BatchSize::LargeInput)
        });
    };
    row("add one by one", 0, |bench| bench.add(BATCH));
    row("add in batches of 100", 0, |bench| {
        bench.add_many(BATCH, 100)
    });
    row("pull and ack one by one", BATCH, |bench| {
        bench.pull_and_ack(BATCH, 1)
    });
    row("pull 20 and ack each", BATCH, |bench| {
        bench.pull_and_ack(BATCH, 20)
    });
    row(
        "add, then pull and ack, beside 100,000 waiting jobs",
        100_000,
        |bench| {
            bench.add(BATCH);
            bench.pull_and_ack(BATCH, 20);
        },
    );
    row("debounce: add in place of the one before", 0, |bench| {
        for _ in 0..BATCH {
            bench.add_one(job_with(JobOptions {
                unique_key: Some("key".into()),
                dedup: Dedup {
                    replace: true,
                    ..Dedup::default()
                },
                ..JobOptions::default()
            }));
        }
    });
    group.bench_function("pull and ack from groups with 300 different loads", |b| {
        b.iter_batched_ref(
            unevenly_used_groups,
            |bench| bench.pull_and_ack(BATCH, 1),
            BatchSize::LargeInput,
        )
    });
    // As long as no more jobs have completed than are kept, an acknowledgement deletes nothing; here each deletes one.
    for (name, batch) in [
        ("add, then pull and ack one by one, for days", 1),
        ("add, then pull and ack 20, for days", 20),
    ] {
        let mut bench = Bench::new(0);
        for _ in 0..=Config::default().completed_max / BATCH {
            bench.add(BATCH);
            bench.pull_and_ack(BATCH, batch);
        }
        group.bench_function(name, |b| {
            b.iter(|| {
                bench.add(BATCH);
                bench.pull_and_ack(BATCH, batch);
            })
        });
    }
    group.finish();
}

criterion_group!(benches, engine);
criterion_main!(benches);
