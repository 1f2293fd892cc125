//! A client: what it asks for on its connection, without waiting for each answer, until the broker is gone.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

use serde_json::{Value, json};

use super::super::client::{Conn, Pending};
use super::ledger::{Draft, Facts, Ledger, Thing};
use super::{Dice, crons, family, jobs, settings, shared};

/// Commands without an answer that a client has at most.
const IN_FLIGHT_MAX: u64 = 16;

pub struct Lane {
    pub name: String,
    pub dice: Dice,
    pub ledger: Ledger,
    /// The ids of jobs by their marks, and those of webhooks by their addresses.
    pub ids: HashMap<String, String>,
    /// The tokens of deliveries by the marks of their jobs.
    pub tokens: HashMap<String, Value>,
    pub fast: Vec<crons::Fast>,
    pub shared: shared::Part,
    fresh: usize,
    line: Option<Line>,
}

/// A connection and what is on its way.
struct Line {
    conn: Conn,
    in_flight: VecDeque<Asked>,
    in_flight_max: usize,
    heard: Sender<()>,
}

/// A command without an answer: its place in the ledger, and what is named by the ids in its answer.
struct Asked {
    place: usize,
    pending: Pending,
    names: Vec<String>,
}

impl Lane {
    pub fn new(name: &str, dice: Dice) -> Self {
        Self {
            name: name.to_owned(),
            dice,
            ledger: Ledger::default(),
            ids: HashMap::new(),
            tokens: HashMap::new(),
            fast: Vec::new(),
            shared: shared::Part::default(),
            fresh: 0,
            line: None,
        }
    }

    /// A name that was not used before.
    pub fn fresh(&mut self) -> String {
        self.fresh += 1;
        format!("{}-{:05}", self.name, self.fresh)
    }

    /// One of the queues of this client alone.
    pub fn queue(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }

    /// Asks for one thing after the other until the connection ends, and tells of each answer.
    pub fn work(mut self, broker: SocketAddr, heard: Sender<()>) -> Self {
        self.line = Some(Line {
            conn: Conn::open(broker),
            in_flight: VecDeque::new(),
            in_flight_max: 1 + self.dice.below(IN_FLIGHT_MAX) as usize,
            heard,
        });
        while self.turn().is_some() {}
        // What has arrived counts, though nobody has read it before the end.
        while self.hear().is_some() {}
        self.line = None;
        self
    }

    fn turn(&mut self) -> Option<()> {
        let line = self.line.as_ref()?;
        if line.in_flight.len() >= line.in_flight_max {
            self.hear()?;
        }
        match self.dice.below(20) {
            0..=10 => jobs::any(self),
            11..=14 => family::any(self),
            15..=16 => settings::any(self),
            17 => crons::any(self),
            _ => shared::any(self),
        }
    }

    /// Reads the answer to the oldest command; nothing when there is none.
    fn hear(&mut self) -> Option<()> {
        let line = self.line.as_mut()?;
        let asked = line.in_flight.pop_front()?;
        let reply = line.conn.try_finish(&asked.pending)?;
        assert_eq!(reply["ok"], true, "{reply}");
        // The end of a round may have come already.
        let _ = line.heard.send(());
        self.ledger.is_stored(asked.place);
        let ids = match (&reply["ids"], &reply["id"], &reply["data"]["webhookId"]) {
            (Value::Array(ids), ..) => ids.iter().collect(),
            (_, id @ Value::String(_), _) | (.., id @ Value::String(_)) => vec![id],
            _ => Vec::new(),
        };
        for (name, id) in asked.names.into_iter().zip(ids) {
            self.ids.insert(name, id.as_str().unwrap().to_owned());
        }
        Some(())
    }

    /// Sends a command which has these effects; the ids in its answer are those of `names`.
    pub fn ask(&mut self, command: Value, effects: Facts, names: Vec<String>) -> Option<usize> {
        let line = self.line.as_mut()?;
        let pending = line.conn.try_begin(&command);
        let place = self.ledger.record(command, effects);
        line.in_flight.push_back(Asked {
            place,
            pending: pending?,
            names,
        });
        Some(place)
    }

    /// Sends a command whose effects `write` puts down.
    pub fn change(&mut self, command: Value, write: impl FnOnce(&mut Draft<'_>)) -> Option<usize> {
        let mut draft = self.ledger.draft();
        write(&mut draft);
        let effects = draft.changed;
        self.ask(command, effects, Vec::new())
    }

    /// Sends a pull, which may have these effects, and reads its answer, which need not be stored yet.
    pub fn pull(&mut self, queue: &str, count: u64, perhaps: Facts) -> Option<(usize, Value)> {
        let command = json!({
            "cmd": "PULLB", "queue": queue, "count": count, "owner": self.name, "lockTtl": 600_000,
        });
        let place = self.ledger.record_open(command.clone(), perhaps);
        let line = self.line.as_mut()?;
        let pending = line.conn.try_begin(&command)?;
        let reply = line.conn.try_finish(&pending)?;
        assert_eq!(reply["ok"], true, "{reply}");
        Some((place, reply))
    }

    /// A job of one of the own queues which is in one of these states, whose id is known.
    pub fn pick(&mut self, queue: &str, states: &[&str]) -> Option<String> {
        let found = self.jobs(queue, states);
        let known: Vec<&String> = found
            .iter()
            .filter(|mark| self.ids.contains_key(*mark))
            .collect();
        let choice = self.dice.below(known.len().max(1) as u64) as usize;
        known.get(choice).map(|mark| (*mark).clone())
    }

    /// The marks of all jobs of a queue that can only be in one of these states.
    pub fn jobs(&self, queue: &str, states: &[&str]) -> Vec<String> {
        let jobs = self.ledger.all().filter_map(|(thing, facts)| match thing {
            Thing::Job(mark) if facts["queue"] == queue => Some((mark, facts)),
            _ => None,
        });
        let surely = |facts: &Value| {
            let state = facts["state"].as_str().unwrap_or_default();
            state.split('|').all(|state| states.contains(&state))
        };
        jobs.filter(|(_, facts)| surely(facts))
            .map(|(mark, _)| mark.clone())
            .collect()
    }

    pub fn id(&self, mark: &str) -> &str {
        &self.ids[mark]
    }

    pub fn facts(&self, mark: &str) -> &Value {
        self.ledger.latest(&Thing::Job(mark.to_owned()))
    }
}
