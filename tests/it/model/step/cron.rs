//! Steps of named schedules, and how random jobs repeat.

use std::sync::Arc;

use bunqueue_mcp::command::{
    Ack, Command, DeleteCron, Fail, GetCron, ListCrons, UpdateData, UpsertCron,
};
use bunqueue_mcp::engine::{
    CronDefinition, CronPage, FailReport, JobId, NewCron, NewJob, Payload, Repeat, RepeatTiming,
    Schedule, TokenGiven,
};

use super::super::reference::{PATTERNS, Place};
use super::{Dice, Draft, QUEUES, Scene};

/// A command about crons.
#[derive(Clone, Debug)]
pub enum CronStep {
    Upsert(Box<NewCron>),
    Delete(u64),
    Get(u64),
    List(CronPage),
    /// A success or a failure of a job that is gone, with its own token.
    Late(u64, bool),
    /// New data for a job that repeats and has completed.
    Data(u64),
}

fn name(number: u64) -> Arc<str> {
    format!("c{}", number % 3).into()
}

fn nth<T>(all: impl Iterator<Item = T>, number: u64) -> Option<T> {
    let mut all: Vec<T> = all.collect();
    (!all.is_empty()).then(|| all.swap_remove(number as usize % all.len()))
}

fn pattern(dice: &mut Dice) -> Arc<Schedule> {
    let text = dice.pick(&PATTERNS);
    Arc::new(Schedule::read(text, None).expect("a pattern"))
}

impl CronStep {
    pub fn random(dice: &mut Dice) -> Self {
        match dice.below(13) {
            10 => Self::Late(dice.next(), dice.chance(60)),
            11 | 12 => Self::Data(dice.next()),
            0..6 => Self::Upsert(Box::new(cron(dice))),
            6 | 7 => Self::Delete(dice.next()),
            8 => Self::Get(dice.next()),
            _ => Self::List(CronPage {
                start: dice.below(3) as usize,
                end: dice.maybe(50, &[0, 1, 5]),
                ascending: dice.chance(50),
            }),
        }
    }

    pub fn resolve(&self, scene: &Scene<'_>) -> Command {
        match self {
            Self::Upsert(cron) => UpsertCron {
                cron: (**cron).clone(),
            }
            .into(),
            Self::Delete(number) => DeleteCron {
                name: name(*number),
            }
            .into(),
            Self::Get(number) => GetCron {
                name: name(*number),
            }
            .into(),
            Self::List(page) => ListCrons { page: Some(*page) }.into(),
            Self::Late(number, success) => {
                let tokens = scene.tokens.iter();
                let gone = tokens.filter(|(id, _)| scene.model.job(id).is_none());
                let (id, token) = nth(gone, *number).map_or_else(
                    || (JobId::from_text("nobody"), TokenGiven::None),
                    |(id, token)| (id.clone(), TokenGiven::Token(*token)),
                );
                if *success {
                    let (result, remove_on_complete) = (None, false);
                    Ack {
                        id,
                        token,
                        result,
                        remove_on_complete,
                    }
                    .into()
                } else {
                    let report = FailReport::default();
                    Fail { id, token, report }.into()
                }
            }
            Self::Data(number) => {
                let over = scene.model.jobs.iter().filter(|job| {
                    matches!(job.place, Place::Completed) && job.view.options.repeat.is_some()
                });
                let job = nth(over, *number);
                let id = job.map_or(JobId::from_text("nobody"), |job| job.view.id.clone());
                let data = number.is_multiple_of(3).then(|| Payload::new(&[7]));
                UpdateData { id, data }.into()
            }
        }
    }
}

fn cron(dice: &mut Dice) -> NewCron {
    let mut template = Draft::random(dice).job;
    if let Some(options) = template.options.as_mut() {
        let options = Arc::make_mut(options);
        options.repeat = None;
        // Most leave the key to the name.
        options.unique_key.take_if(|_| dice.chance(60));
    }
    // What bounds a group is said with each add.
    template.group_max = None;
    let prevent_overlap = dice.chance(75);
    let definition = CronDefinition {
        name: name(dice.next()),
        queue: dice.pick(&QUEUES).into(),
        schedule: dice.chance(40).then(|| pattern(dice)),
        repeat_every: Some(dice.pick(&[700, 700, 5_000, 30_000, 1_000_000])),
        timezone: None,
        max_limit: dice.maybe(40, &[1, 2, 5]),
        prevent_overlap,
        skip_missed_on_restart: dice.chance(50),
        skip_if_no_worker: dice.chance(25),
        template,
    };
    NewCron {
        definition,
        immediately: dice.chance(30),
        replace_queued: prevent_overlap && dice.chance(30),
    }
}

pub fn repeats(job: &NewJob) -> bool {
    let options = job.options.as_ref();
    options.is_some_and(|options| options.repeat.is_some())
}

/// Whole milliseconds, so that sums are exact.
pub fn random_repeat(dice: &mut Dice) -> Repeat {
    let timing = if dice.chance(25) {
        RepeatTiming::Pattern(pattern(dice))
    } else {
        RepeatTiming::Every(dice.pick(&[1.0, 60.0, 900.0, 20_000.0]))
    };
    let offset = match timing {
        RepeatTiming::Pattern(_) => None,
        RepeatTiming::Every(_) => dice.maybe(20, &[5.0, -400.0]),
    };
    Repeat {
        timing,
        limit: dice.maybe(40, &[0.0, 1.0, 4.0]),
        count: 0.0,
        start_date: dice.maybe(20, &[0.0, 1_500_000.0, 900_000_000.0]),
        end_date: dice.maybe(20, &[1_000_100.0, 40_000_000.0]),
        immediately: None,
        prev_millis: dice.maybe(15, &[999_000.0, 2_000_000.0]),
        offset,
        job_id: None,
        tz: None,
    }
}
