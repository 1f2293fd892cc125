//! What becomes of each value, and the exact text of each fault.

use std::sync::LazyLock;

use super::*;

fn check(change: impl FnOnce(&mut JobDraft<'static>)) -> Result<NewJob, String> {
    let mut draft = JobDraft::default();
    change(&mut draft);
    draft.check().map_err(|error| error.to_string())
}

#[test]
fn defaults_need_no_options_box() {
    let job = check(|_| ()).unwrap();
    assert_eq!(job.options, None);
    assert_eq!((job.priority, job.delay, job.max_attempts), (0.0, 0, 3));
    assert_eq!(&*job.name, "default");
}

#[test]
fn jm_11_numbers_are_taken_as_meant() {
    assert_eq!(
        check(|d| d.max_attempts = Number::Value(0.0))
            .unwrap()
            .max_attempts,
        1
    );
    assert_eq!(
        check(|d| d.max_attempts = Number::Value(2.5))
            .unwrap()
            .max_attempts,
        3
    );
    assert_eq!(
        check(|d| d.max_attempts = Number::Value(f64::INFINITY))
            .unwrap()
            .max_attempts,
        2_147_483_647
    );
    assert_eq!(
        check(|d| d.delay = Number::from_text(" 1000 "))
            .unwrap()
            .delay,
        1_000
    );
    assert_eq!(
        check(|d| d.timeout = Number::Value(0.0)).unwrap().options,
        None
    );
    let exponential = BackoffDraft::Object {
        fixed: false,
        delay: Number::Absent,
        max_delay: Number::Absent,
    };
    let options = check(|d| d.backoff = exponential).unwrap().options.unwrap();
    assert_eq!(
        options.backoff,
        Backoff {
            kind: BackoffKind::Exponential,
            delay: 1_000.0,
            max_delay: None
        }
    );
}

/// The narrower bounds of older releases are gone.
#[test]
fn jm_10_values_that_older_releases_refused_are_taken() {
    let number = Number::Value;
    assert_eq!(
        check(|d| d.priority = number(1_000_001.0))
            .unwrap()
            .priority,
        1_000_001.0
    );
    assert_eq!(check(|d| d.priority = number(1.5)).unwrap().priority, 1.5);
    assert_eq!(check(|d| d.delay = number(-1.0)).unwrap().delay, -1);
    assert_eq!(
        check(|d| d.delay = Number::from_text("5")).unwrap().delay,
        5
    );
    let fixed = BackoffDraft::Object {
        fixed: true,
        delay: Number::Absent,
        max_delay: Number::Absent,
    };
    let options = check(|d| d.backoff = fixed).unwrap().options.unwrap();
    assert_eq!(
        (options.backoff.kind, options.backoff.delay),
        (BackoffKind::Fixed, 1_000.0)
    );
    assert_eq!(
        check(|d| d.delay = number(f64::NAN)),
        Err("delay must be a finite number".to_owned())
    );
}

#[test]
fn lm_2_data_is_measured_as_json_text() {
    // A text in quotes; its MessagePack form has another length.
    let data = |units: usize| {
        let mut bytes = Vec::new();
        payload::Writer::new(&mut bytes).text(&"x".repeat(units - 2));
        bytes
    };
    assert_eq!(check_data(&data(10_485_760)), Ok(()));
    let fault = check_data(&data(10_485_761)).unwrap_err();
    assert_eq!(fault.to_string(), "Job data too large (max 10MB)");
}

/// An entry without a value has no JSON text, yet its key is delivered.
#[test]
fn data_of_little_json_must_fit_a_frame_as_well() {
    let mut data = Vec::new();
    let mut writer = payload::Writer::new(&mut data);
    writer.map(1);
    writer.text(&"k".repeat(bounds::JOB_DATA_BYTES_MAX));
    writer.raw(&[0xd4, 0, 0]);
    let fault = check_data(&data).unwrap_err();
    assert_eq!(fault.to_string(), "Job data too large (max 10MB)");
}

#[test]
fn texts_of_the_greatest_length_are_taken() {
    let long = "é".repeat(bounds::JOB_ID_MAX);
    let tags = vec!["t".repeat(104); 10_000];
    let draft = JobDraft {
        custom_id: Some(&long),
        unique_key: Some(&long),
        debounce_id: Some(&long),
        parent_id: Some(&long),
        tags: tags.iter().map(String::as_str).collect(),
        ..JobDraft::default()
    };
    assert!(draft.check().is_ok());
}

#[test]
fn faults_name_the_field_and_the_rule() {
    type Change = fn(&mut JobDraft<'static>);
    static LONG: LazyLock<String> = LazyLock::new(|| "é".repeat(1_025));
    let cases: [(&str, Change); 16] = [
        ("tags must have at most 10000 entries", |d| {
            d.tags = vec!["t"; 10_001];
        }),
        ("tags must take at most 2560000 bytes", |d| {
            d.tags = vec![LONG.as_str(); 1_250];
        }),
        ("custom ID must be at most 1024 characters", |d| {
            d.custom_id = Some(LONG.as_str());
        }),
        ("uniqueKey must be at most 1024 characters", |d| {
            d.unique_key = Some(LONG.as_str());
        }),
        ("debounceId must be at most 1024 characters", |d| {
            d.debounce_id = Some(LONG.as_str());
        }),
        ("parentId must be at most 1024 characters", |d| {
            d.parent_id = Some(LONG.as_str());
        }),
        ("repeat.jobId must be at most 1024 characters", |d| {
            d.repeat = Some(RepeatDraft {
                every: Number::Value(1.0),
                job_id: Some(LONG.as_str()),
                ..RepeatDraft::default()
            });
        }),
        ("priority must be a finite number", |d| {
            d.priority = Number::Value(f64::NAN)
        }),
        ("priority must be a number", |d| {
            d.priority = Number::from_text("high")
        }),
        ("delay must be a finite number", |d| {
            d.delay = Number::Value(f64::INFINITY)
        }),
        ("timeout must be at least 0", |d| {
            d.timeout = Number::Value(-1.0)
        }),
        ("maxAttempts must be a number", |d| {
            d.max_attempts = Number::Value(f64::NAN)
        }),
        ("backoff must be at least 0", |d| {
            d.backoff = BackoffDraft::Number(Number::Value(-1.0))
        }),
        ("ttl must be at least 0", |d| d.ttl = Number::Value(-0.5)),
        ("timestamp must be at most 4320000000000000", |d| {
            d.timestamp = Number::Value(1e300)
        }),
        ("backoff.maxDelay must be at most 86400000", |d| {
            d.backoff = BackoffDraft::Object {
                fixed: true,
                delay: Number::Value(1.0),
                max_delay: Number::Value(86_400_001.0),
            };
        }),
    ];
    for (text, change) in cases {
        assert_eq!(check(change), Err(text.to_owned()));
    }
}

#[test]
fn texts_that_are_no_plain_numbers_are_refused() {
    for text in [
        "", " ", "NaN", "Infinity", "inf", "0x10", "1_000", "1 2", "five",
    ] {
        assert_eq!(Number::from_text(text), Number::NotNumber, "{text:?}");
    }
    assert_eq!(Number::from_text("-2.5"), Number::Value(-2.5));
}
