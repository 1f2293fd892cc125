//! What a client has asked for, in order, and what it has heard: which states the broker may be in after its end.
//!
//! Commands of one connection take effect in their order, so there is one place in the list up to which all of them are
//! stored, and it is not before the last answer. Whatever the broker holds after a restart must be what the client
//! expects at one such place; half of a command, or a later one without an earlier one, fits none.

use std::collections::BTreeMap;

use serde_json::Value;

/// Something of which a client knows how it should be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Thing {
    /// By its mark, which stands in its data.
    Job(String),
    /// The log of a job.
    Log(String),
    /// The entry of a job in the dead-letter queue.
    Dead(String),
    /// The results of its children that a job sees.
    Values(String),
    /// Who owns a deduplication key: queue and key.
    Key(String, String),
    /// What is set for a queue.
    Queue(String),
    /// What is set for a group: queue and group.
    Group(String, String),
    Cron(String),
    /// By its address.
    Webhook(String),
}

/// What is known of things. `null` stands for one that is not there; a member that begins with `_` is a note of the client;
/// a state may be several words, of which one holds.
pub type Facts = BTreeMap<Thing, Value>;

/// A value that may be anything.
pub const ANY: &str = "*";

/// A command with what it does.
struct Deed {
    command: Value,
    effects: Facts,
}

#[derive(Default)]
pub struct Ledger {
    /// Before the first command of the list.
    settled: Facts,
    deeds: Vec<Deed>,
    /// How many commands are known to be stored.
    stored: usize,
    /// After the last command of the list.
    latest: Facts,
}

/// What a command is going to change.
pub struct Draft<'a> {
    ledger: &'a Ledger,
    pub changed: Facts,
}

impl Draft<'_> {
    pub fn get(&self, thing: &Thing) -> &Value {
        let changed = self.changed.get(thing);
        changed.unwrap_or_else(|| self.ledger.latest(thing))
    }

    /// Puts these members in the place of those that are there, or another value in the place of all.
    pub fn patch(&mut self, thing: Thing, patch: Value) {
        let mut facts = self.get(&thing).clone();
        match (facts.as_object_mut(), patch) {
            (Some(facts), Value::Object(members)) => facts.extend(members),
            (_, patch) => facts = patch,
        }
        self.changed.insert(thing, facts);
    }

    /// It is not there any more, if it ever was.
    pub fn remove(&mut self, thing: Thing) {
        if !self.get(&thing).is_null() {
            self.changed.insert(thing, Value::Null);
        }
    }
}

impl Ledger {
    pub fn draft(&self) -> Draft<'_> {
        Draft {
            ledger: self,
            changed: Facts::new(),
        }
    }

    pub fn latest(&self, thing: &Thing) -> &Value {
        self.latest.get(thing).unwrap_or(&Value::Null)
    }

    pub fn all(&self) -> impl Iterator<Item = (&Thing, &Value)> {
        self.latest.iter().filter(|(_, facts)| !facts.is_null())
    }

    /// Everything that has ever been there since the list was begun.
    pub fn things(&self) -> impl Iterator<Item = &Thing> {
        let by_deeds = self.deeds.iter().flat_map(|deed| deed.effects.keys());
        self.settled.keys().chain(by_deeds)
    }

    /// A command that is being sent; its place in the list.
    pub fn record(&mut self, command: Value, effects: Facts) -> usize {
        self.latest.extend(effects.clone());
        self.deeds.push(Deed { command, effects });
        self.deeds.len()
    }

    /// A command of which only the answer says what it does. Until then it may have done this.
    pub fn record_open(&mut self, command: Value, perhaps: Facts) -> usize {
        let effects = perhaps;
        self.deeds.push(Deed { command, effects });
        self.deeds.len()
    }

    /// What the last command, an open one, has done.
    pub fn close(&mut self, effects: Facts) {
        self.latest.extend(effects.clone());
        self.deeds.last_mut().expect("an open one").effects = effects;
    }

    /// The command at that place is stored, and those before it.
    pub fn is_stored(&mut self, place: usize) {
        self.stored = self.stored.max(place);
    }

    pub const fn stored(&self) -> usize {
        self.stored
    }

    /// Finds the place in the list up to which everything has happened, and begins a new list there.
    ///
    /// # Panics
    /// When what is there fits no place.
    pub fn settle(&mut self, seen: &Facts) {
        let mut expected = std::mem::take(&mut self.settled);
        for deed in &self.deeds[..self.stored] {
            expected.extend(deed.effects.clone());
        }
        let mut wrong = differences(&expected, seen);
        let mut best = wrong.clone();
        let mut later = self.deeds[self.stored..].iter();
        while !wrong.is_empty() {
            let Some(deed) = later.next() else {
                self.explain(&best);
            };
            for (thing, facts) in &deed.effects {
                match difference(facts, seen.get(thing)) {
                    None => wrong.remove(thing),
                    Some(text) => wrong.insert(thing.clone(), text),
                };
                expected.insert(thing.clone(), facts.clone());
            }
            if wrong.len() < best.len() {
                best.clone_from(&wrong);
            }
        }
        expected.retain(|_, facts| !facts.is_null());
        for (thing, facts) in &mut expected {
            decide(facts, seen.get(thing).unwrap_or(&Value::Null));
        }
        *self = Self {
            latest: expected.clone(),
            settled: expected,
            ..Self::default()
        };
    }

    fn explain(&self, wrong: &BTreeMap<Thing, String>) -> ! {
        let mut told: Vec<String> = Vec::new();
        for (thing, text) in wrong.iter().take(10) {
            told.push(format!("{thing:?}: {text}"));
            for (number, deed) in self.deeds.iter().enumerate() {
                if deed.effects.contains_key(thing) {
                    told.push(format!("    {} {}", number + 1, deed.command));
                }
            }
        }
        panic!(
            "{} commands were stored at least, and {} asked for; whichever was the last, not everything is as it \
             should be. At the nearest place {} things differ:\n{}",
            self.stored,
            self.deeds.len(),
            wrong.len(),
            told.join("\n")
        );
    }
}

/// Of several words for a state the true one stays, unless time will make another of it.
fn decide(facts: &mut Value, seen: &Value) {
    let open = facts["state"].as_str().filter(|state| state.contains('|'));
    let Some(open) = open else { return };
    let ready = open.split('|').find(|state| is_ready(state));
    facts["state"] = match (seen["state"].as_str(), ready) {
        (Some("delayed"), Some(ready)) => format!("delayed|{ready}").into(),
        _ => seen["state"].clone(),
    };
}

pub fn is_ready(state: &str) -> bool {
    ["waiting", "prioritized"].contains(&state)
}

fn differences(expected: &Facts, seen: &Facts) -> BTreeMap<Thing, String> {
    let things = expected.keys().chain(seen.keys());
    let wrong = things.filter_map(|thing| {
        let facts = expected.get(thing).unwrap_or(&Value::Null);
        Some((thing.clone(), difference(facts, seen.get(thing))?))
    });
    wrong.collect()
}

/// What does not agree with what is known.
fn difference(facts: &Value, seen: Option<&Value>) -> Option<String> {
    let seen = seen.unwrap_or(&Value::Null);
    (!agrees("", facts, seen)).then(|| format!("{facts} was expected, {seen} is there"))
}

fn agrees(name: &str, known: &Value, seen: &Value) -> bool {
    match (known, seen) {
        (Value::String(any), _) if any == ANY => true,
        (Value::String(known), Value::String(seen)) if name == "state" => {
            known.split('|').any(|state| state == seen)
        }
        (Value::Object(known), Value::Object(_)) => known
            .iter()
            .filter(|(name, _)| !name.starts_with('_') || name.starts_with("__"))
            .all(|(name, known)| agrees(name, known, &seen[name])),
        (Value::Number(known), Value::Number(seen)) => known.as_f64() == seen.as_f64(),
        _ => known == seen,
    }
}
