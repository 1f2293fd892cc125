//! Reports of workers: outcomes, progress, signs of life.

use super::*;
use crate::command::{Ack, bounds};
use crate::engine::{FailReport, LockToken, TokenGiven};
use crate::wire::shape::ChangeOf;

#[test]
fn tokens_prove_what_their_text_says() {
    let token = |value: Json| match command(&json!({"cmd": "ACK", "id": "j", "token": value})).0 {
        Command::Ack(ack) => ack.token,
        command => panic!("{command:?}"),
    };
    assert_eq!(token(json!(null)), TokenGiven::None);
    assert_eq!(token(json!("")), TokenGiven::None);
    assert_eq!(token(json!("wrong")), TokenGiven::Malformed);
    assert_eq!(token(json!(5)), TokenGiven::Malformed);
    let known = LockToken::from_text(TOKEN).unwrap();
    assert_eq!(token(json!(TOKEN)), TokenGiven::Token(known));
}

#[test]
fn acks_of_a_batch_are_positional() {
    let frame = json!({"cmd": "ACKB", "ids": ["a", "b"], "tokens": [TOKEN, ""],
        "results": [null, {"r": 1}], "removeOnCompletes": [1, true]});
    let (command, shape) = command(&frame);
    let Command::AckMany(batch) = command else {
        panic!("{command:?}");
    };
    let [a, b] = ["a", "b"].map(JobId::from_text);
    assert_eq!(shape, Shape::ReportMany(vec![a.clone(), b.clone()]));
    let expected = [
        Ack {
            id: a,
            token: TokenGiven::from_text(TOKEN),
            result: Some(Payload::new(&[0xc0])),
            remove_on_complete: false,
        },
        Ack {
            id: b,
            token: TokenGiven::None,
            result: Some(Payload::new(&bytes(&json!({"r": 1})))),
            remove_on_complete: true,
        },
    ];
    assert_eq!(batch.items, expected);

    let cases = [
        (
            json!({"tokens": ["x"]}),
            "ACKB tokens length must match ids length",
        ),
        (
            json!({"results": [1]}),
            "ACKB results length must match ids length",
        ),
        (
            json!({"removeOnCompletes": []}),
            "ACKB removeOnCompletes length must match ids length",
        ),
        (json!({"ids": null}), "ids must be an array"),
        (json!({"ids": [1, 2]}), "ids must be a string"),
    ];
    for (fields, text) in cases {
        let mut frame = json!({"cmd": "ACKB", "ids": ["a", "b"]});
        frame
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        assert_eq!(refused(&frame), text, "{fields}");
    }
}

#[test]
fn a_failure_is_taken_however_it_is_told() {
    let report = |fields: Json| {
        let mut frame = json!({"cmd": "FAIL", "id": "j"});
        frame
            .as_object_mut()
            .unwrap()
            .extend(fields.as_object().unwrap().clone());
        match command(&frame).0 {
            Command::Fail(fail) => fail.report,
            command => panic!("{command:?}"),
        }
    };
    let plain = report(json!({"error": null, "stack": null}));
    assert_eq!(plain, FailReport::default());
    let full = report(json!({
        "error": "boom", "stack": ["  a ", "", 5, "b"], "unrecoverable": true, "removeOnFail": true,
    }));
    assert_eq!(full.error.as_deref(), Some("boom"));
    assert_eq!(full.stack, Some(vec!["a".into(), "b".into()]));
    assert!(full.unrecoverable && full.remove_on_fail);
    let odd = report(json!({"error": {"code": 5}, "stack": "text"}));
    assert_eq!(odd.error.as_deref(), Some("{\"code\":5}"));
    assert_eq!(odd.stack, None);
    let lines: Vec<String> = (0..150).map(|line| format!("l{line}")).collect();
    assert_eq!(report(json!({"stack": lines})).stack.unwrap().len(), 100);
}

#[test]
fn progress_is_never_refused_for_its_value() {
    let progress = |value: Json, message: Json| {
        let frame = json!({"cmd": "Progress", "id": "j", "progress": value, "message": message});
        match command(&frame) {
            (Command::Progress(progress), Shape::Change(ChangeOf::Progress)) => (
                progress.progress,
                progress.message.map(|message| message.to_string()),
            ),
            other => panic!("{other:?}"),
        }
    };
    let shown = |text: &str| Some(text.to_owned());
    let cases = [
        (json!(42), json!("half"), 42.0, shown("half")),
        (json!(12.5), json!(null), 12.5, None),
        (json!("50"), json!(null), 50.0, None),
        (json!(""), json!(null), 0.0, None),
        (json!("almost"), json!(null), 0.0, shown("almost")),
        (json!("almost"), json!(""), 0.0, shown("")),
        (json!(true), json!(null), 1.0, None),
        (json!(null), json!(null), 0.0, None),
        (json!({"pct": 10}), json!(null), 0.0, shown("{\"pct\":10}")),
        (json!([1, 2]), json!("m"), 0.0, shown("m")),
        (json!(1), json!({"a": 1}), 1.0, shown("{\"a\":1}")),
    ];
    for (value, message, expected, text) in cases {
        assert_eq!(
            progress(value.clone(), message),
            (expected, text),
            "{value}"
        );
    }
    let frame = json!({"cmd": "Progress", "id": "j"});
    for nan_or_absent in [&[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0][..], UNDEFINED] {
        match decode_body(&with_raw(&frame, "progress", nan_or_absent)) {
            Action::Command(Command::Progress(progress), _) => assert_eq!(progress.progress, 0.0),
            action => panic!("{action:?}"),
        }
    }
}

#[test]
fn renewals_take_durations() {
    let cases = [
        (
            json!({"cmd": "ExtendLock", "id": "j", "duration": "5"}),
            "duration must be a number",
        ),
        (
            json!({"cmd": "JobHeartbeat", "id": "j", "duration": "5"}),
            "duration must be a number",
        ),
        (
            json!({"cmd": "ExtendLocks", "ids": ["a", "b"], "tokens": [], "durations": [1, "x"]}),
            "durations[1]: duration must be a number",
        ),
        (json!({"cmd": "ExtendLocks"}), "ids must be an array"),
        (json!({"cmd": "JobHeartbeatB"}), "ids must be an array"),
    ];
    for (frame, text) in cases {
        assert_eq!(refused(&frame), text);
    }
    let duration = |frame: Json| match command(&frame).0 {
        Command::Heartbeat(beat) => beat.items[0].duration,
        Command::ExtendLock(extend) => extend.items[0].duration,
        command => panic!("{command:?}"),
    };
    assert_eq!(
        duration(json!({"cmd": "JobHeartbeat", "id": "j", "duration": 0})),
        None
    );
    assert_eq!(
        duration(json!({"cmd": "JobHeartbeat", "id": "j", "duration": 9})),
        Some(9.0)
    );
    assert_eq!(
        duration(json!({"cmd": "ExtendLock", "id": "j", "duration": 0})),
        Some(0.0)
    );
    assert_eq!(duration(json!({"cmd": "ExtendLock", "id": "j"})), None);
    let frame = json!({"cmd": "JobHeartbeatB", "ids": ["a", "b"], "tokens": [TOKEN]});
    match command(&frame).0 {
        Command::Heartbeat(beat) => {
            let tokens: Vec<_> = beat.items.iter().map(|item| item.token).collect();
            assert_eq!(tokens, [TokenGiven::from_text(TOKEN), TokenGiven::None]);
        }
        command => panic!("{command:?}"),
    }
}

#[test]
fn prose_that_is_no_text_is_written_no_further_than_it_is_kept() {
    let long = vec![false; 1_000_000];
    let frame = json!({"cmd": "FAIL", "id": "j", "error": long, "stack": ["s".repeat(100_000)]});
    let Command::Fail(fail) = command(&frame).0 else {
        panic!("no failure");
    };
    let error = fail.report.error.unwrap();
    assert!(error.starts_with("[false,false,") && error.ends_with('…'));
    assert!(error.len() <= bounds::TEXT_MAX);
    let line = &fail.report.stack.unwrap()[0];
    assert!(line.len() <= bounds::TEXT_MAX && line.ends_with("s…"));
    let frame = json!({"cmd": "Progress", "id": "j", "progress": long});
    let Command::Progress(progress) = command(&frame).0 else {
        panic!("no progress");
    };
    assert!(progress.message.unwrap().len() <= bounds::TEXT_MAX);
}

#[test]
fn progress_is_the_same_number_in_every_encoding() {
    let progress = |bytes: &[u8]| {
        let frame = json!({"cmd": "Progress", "id": "j"});
        match decode_body(&with_raw(&frame, "progress", bytes)) {
            Action::Command(Command::Progress(progress), _) => progress.progress,
            action => panic!("{action:?}"),
        }
    };
    let power = 2_f64.powi(60);
    let float = [&[0xcb][..], &power.to_be_bytes()].concat();
    let int = [&[0xd3][..], &(1_i64 << 60).to_be_bytes()].concat();
    let unsigned = [&[0xcf][..], &u64::MAX.to_be_bytes()].concat();
    assert_eq!(progress(&float), power);
    assert_eq!(progress(&int), power);
    assert_eq!(progress(&unsigned), 2_f64.powi(64));
}
