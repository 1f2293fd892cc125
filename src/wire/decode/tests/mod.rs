//! Frames in, commands out: what each command of the protocol means, and how bad ones are refused.

mod cron;
mod dlq;
mod flow;
mod flow_order;
mod group;
mod hostile;
mod limit;
mod monitor;
mod push;
mod report;
mod rest;
mod webhook;

use serde_json::{Value as Json, json};

use super::*;
use crate::command::payload::Writer;
use crate::command::{Add, AddMany, Pull};
use crate::engine::{JobId, Payload};

const TOKEN: &str = "0190a0b0-1234-7abc-8def-0123456789ab";

fn bytes(value: &Json) -> Vec<u8> {
    rmp_serde::to_vec_named(value).unwrap()
}

fn decode_body(body: &[u8]) -> Action {
    let envelope = Envelope::read(body).unwrap();
    Decoder::default().decode(&envelope)
}

fn decode(frame: &Json) -> Action {
    decode_body(&bytes(frame))
}

/// The text with which a frame is refused.
fn refused(frame: &Json) -> String {
    match decode(frame) {
        Action::Refused(error) => error.to_string(),
        action => panic!("{frame} is taken as {action:?}"),
    }
}

fn command(frame: &Json) -> (Command, Shape) {
    match decode(frame) {
        Action::Command(command, shape) => (command, shape),
        action => panic!("{frame} is taken as {action:?}"),
    }
}

fn add(frame: &Json) -> Add {
    match command(frame).0 {
        Command::Add(add) => add,
        command => panic!("{frame} is taken as {command:?}"),
    }
}

fn pull(frame: &Json) -> Pull {
    match command(frame).0 {
        Command::Pull(pull) => pull,
        command => panic!("{frame} is taken as {command:?}"),
    }
}

/// A map with the fields of `frame` and one more whose value is given as bytes.
fn with_raw(frame: &Json, key: &str, raw: &[u8]) -> Vec<u8> {
    let entries = frame.as_object().unwrap();
    let mut body = Vec::new();
    let mut writer = Writer::new(&mut body);
    writer.map(entries.len() + 1);
    for (name, value) in entries {
        writer.text(name);
        writer.raw(&bytes(value));
    }
    writer.text(key);
    writer.raw(raw);
    body
}

const UNDEFINED: &[u8] = &[0xd4, 0, 0];
