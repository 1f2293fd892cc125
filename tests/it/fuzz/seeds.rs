//! What the targets begin with: everything that clients say in the golden dialogues.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::step::{Pause, Step, What};
use crate::tcp::value::{Wire, base64};

/// Reads of a stream in the seeds of `frames`: byte by byte, and all at once.
const PACES: [u8; 2] = [0, 255];

/// The first inputs of each target.
#[derive(Default)]
pub struct Seeds {
    /// Of `frames`.
    pub frames: BTreeSet<Vec<u8>>,
    /// Of `payload`.
    pub payload: BTreeSet<Vec<u8>>,
    /// Of `broker`.
    pub broker: BTreeSet<Vec<u8>>,
    /// Commands, and keys of all maps.
    pub words: BTreeSet<String>,
}

impl Seeds {
    /// Those made of the dialogues and traces of a folder.
    pub fn add(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).expect("a folder of dialogues") {
            let path = entry.unwrap().path();
            if path
                .extension()
                .is_some_and(|extension| extension == "json")
            {
                let text = std::fs::read_to_string(path).unwrap();
                self.add_dialogue(&serde_json::from_str(&text).expect("a dialogue"));
            }
        }
    }

    fn add_dialogue(&mut self, dialogue: &Value) {
        let (mut broker, mut streams) = (Vec::new(), BTreeMap::<u8, Vec<u8>>::new());
        let mut labels = Vec::new();
        let mut pause = Pause::Ms(0);
        let steps = dialogue["steps"]
            .as_array()
            .or(dialogue["frames"].as_array());
        for step in steps.into_iter().flatten() {
            if let Some(ms) = step["sleep"].as_i64() {
                pause = Pause::Ms(ms);
                continue;
            }
            let label = &step["conn"];
            if !labels.contains(&label) {
                labels.push(label);
            }
            let conn = labels.iter().position(|known| *known == label).unwrap() as u8;
            let happens = self.said(step, streams.entry(conn).or_default());
            for what in happens {
                Step { conn, pause, what }.write(&mut broker);
                pause = Pause::Ms(0);
            }
        }
        for stream in streams.into_values() {
            let inputs = PACES.map(|pace| [&[pace], &stream[..]].concat());
            self.frames.extend(inputs);
        }
        self.broker.insert(broker);
    }

    /// What a client does in a step, its bytes appended to those of its connection.
    fn said(&mut self, step: &Value, stream: &mut Vec<u8>) -> Vec<What> {
        let mut happens = Vec::new();
        if let Some(value) = step.get("send").or(step.get("client")) {
            let value = Wire::from_notation(value);
            self.look_into(&value);
            let body = value.encode();
            stream.extend((body.len() as u32).to_be_bytes());
            stream.extend(&body);
            happens.push(What::Frame(body));
        }
        let chunks = step["sendChunks"].as_array().into_iter().flatten();
        for raw in step.get("sendRaw").into_iter().chain(chunks) {
            stream.extend(base64(&raw["$bin"]));
        }
        if step.get("close").is_some() {
            happens.push(What::Close);
        }
        happens
    }

    fn look_into(&mut self, value: &Wire) {
        // Names and numbers are found in the values around them.
        if !matches!(value, Wire::Str(_) | Wire::Int(_) | Wire::Bool(_))
            && value.get("cmd").is_none()
        {
            self.payload.insert(value.encode());
        }
        match value {
            Wire::Map(entries) => {
                for (key, value) in entries {
                    self.words.extend(text(key));
                    if *key == Wire::text("cmd") {
                        self.words.extend(text(value));
                    }
                    self.look_into(value);
                }
            }
            Wire::Array(items) => items.iter().for_each(|item| self.look_into(item)),
            _ => {}
        }
    }
}

fn text(value: &Wire) -> Option<String> {
    match value {
        Wire::Str(bytes) => String::from_utf8(bytes.clone()).ok(),
        _ => None,
    }
}
