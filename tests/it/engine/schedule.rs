//! Section 11.2: patterns, time zones, and the instants that they mean. The rules of daylight saving are checked against
//! a walk over local times, minute by minute, in which another crate says what matches.

use bunqueue_mcp::engine::{Millis, Schedule, ScheduleError};
use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};
use jiff::{Timestamp, ToSpan, Zoned};

pub fn at(text: &str) -> Millis {
    text.parse::<Timestamp>()
        .expect("a timestamp")
        .as_millisecond()
}

fn text(at: Millis) -> String {
    Timestamp::from_millisecond(at)
        .expect("within the calendar")
        .to_string()
}

fn read(pattern: &str, zone: Option<&str>) -> Schedule {
    Schedule::read(pattern, zone).unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

/// The next instants after a time.
fn runs(pattern: &str, zone: Option<&str>, from: &str, count: usize) -> Vec<String> {
    let schedule = read(pattern, zone);
    let mut now = at(from);
    let mut runs = Vec::new();
    for _ in 0..count {
        now = schedule.next_after(now).expect("there is a next one");
        runs.push(text(now));
    }
    runs
}

fn refusal(pattern: &str) -> String {
    match Schedule::read(pattern, None) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{pattern:?} is accepted"),
    }
}

const TEN_PAST: &str = "2026-01-01T10:07:00Z";

#[test]
fn cr_1_next_run_of_a_pattern() {
    assert_eq!(
        runs("*/15 * * * *", None, TEN_PAST, 1),
        ["2026-01-01T10:15:00Z"]
    );
    assert_eq!(
        runs("0 9 * * 1-5", None, "2026-01-02T10:00:00Z", 1),
        ["2026-01-05T09:00:00Z"]
    );
    assert_eq!(
        runs("0 0 29 2 *", None, TEN_PAST, 2),
        ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]
    );
}

#[test]
fn cr_2_seconds_lead() {
    assert_eq!(
        runs("*/10 * * * * *", None, "2026-01-01T10:07:03Z", 1),
        ["2026-01-01T10:07:10Z"]
    );
    assert_eq!(
        runs("5,20 30 10 * * *", None, "2026-01-01T10:30:05Z", 1),
        ["2026-01-01T10:30:20Z"]
    );
    assert_eq!(
        runs("0-2 0 0 1 1 *", None, "2026-01-01T00:00:02Z", 1),
        ["2027-01-01T00:00:00Z"]
    );
}

#[test]
fn cr_3_next_run_is_later_than_the_reference() {
    assert_eq!(
        runs("0 10 * * *", None, "2026-01-01T10:00:00Z", 1),
        ["2026-01-02T10:00:00Z"]
    );
    assert_eq!(
        runs("0 10 * * *", None, "2026-01-01T09:59:59.999Z", 1),
        ["2026-01-01T10:00:00Z"]
    );
    // Before the epoch, too.
    assert_eq!(
        runs("* * * * * *", None, "1969-12-31T23:59:58.500Z", 2),
        ["1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z"]
    );
}

#[test]
fn cr_4_shortcuts_expand() {
    let shortcuts = [
        ("@yearly", "0 0 1 1 *"),
        ("@annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@midnight", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
        ("  @DAILY ", "0 0 * * *"),
    ];
    for (shortcut, pattern) in shortcuts {
        assert_eq!(
            runs(shortcut, None, TEN_PAST, 3),
            runs(pattern, None, TEN_PAST, 3),
            "{shortcut}"
        );
    }
}

#[test]
fn cr_5_local_time_of_a_zone() {
    let rome = Some("Europe/Rome");
    assert_eq!(
        runs("0 9 * * *", rome, "2026-07-01T00:00:00Z", 1),
        ["2026-07-01T07:00:00Z"]
    );
    assert_eq!(
        runs("0 9 * * *", rome, "2026-01-01T00:00:00Z", 1),
        ["2026-01-01T08:00:00Z"]
    );
    // Names of zones in any case.
    assert_eq!(
        runs("0 9 * * *", Some("europe/rome"), "2026-01-01T00:00:00Z", 1),
        ["2026-01-01T08:00:00Z"]
    );
}

const NEW_YORK: Option<&str> = Some("America/New_York");

#[test]
fn cr_6_skipped_hour() {
    assert_eq!(
        runs("30 2 * * *", NEW_YORK, "2026-03-08T05:00:00Z", 2),
        ["2026-03-08T07:30:00Z", "2026-03-09T06:30:00Z"]
    );
    assert_eq!(
        runs("*/10 2 * * *", NEW_YORK, "2026-03-08T05:00:00Z", 3),
        [
            "2026-03-08T07:00:00Z",
            "2026-03-09T06:00:00Z",
            "2026-03-09T06:10:00Z"
        ]
    );
}

#[test]
fn cr_7_repeated_hour() {
    let midnight = "2026-11-01T04:00:00Z";
    assert_eq!(
        runs("30 * * * *", NEW_YORK, midnight, 4),
        [
            "2026-11-01T04:30:00Z",
            "2026-11-01T05:30:00Z",
            "2026-11-01T06:30:00Z",
            "2026-11-01T07:30:00Z"
        ]
    );
    for pattern in ["*/30 1 * * *", "0,30 1 * * *"] {
        assert_eq!(
            runs(pattern, NEW_YORK, midnight, 3),
            [
                "2026-11-01T05:00:00Z",
                "2026-11-01T05:30:00Z",
                "2026-11-02T06:00:00Z"
            ],
            "{pattern}"
        );
    }
    // Asked in the second pass, the day has had its run.
    assert_eq!(
        runs("45 1 * * *", NEW_YORK, "2026-11-01T06:10:00Z", 1),
        ["2026-11-02T06:45:00Z"]
    );
}

#[test]
fn cr_8_texts_of_refusals() {
    const COUNT: &str = "Cron expression must have 5 fields, or 6 fields with leading seconds";
    for pattern in ["* * * *", "* * * * * * *", "", "   ", "bad"] {
        assert_eq!(refusal(pattern), COUNT, "{pattern:?}");
    }
    for pattern in ["0 0 31 2 *", "0 0 30 2 *", "0 0 31 4,6,9,11 *"] {
        assert_eq!(
            refusal(pattern),
            "Cron expression has no future occurrences",
            "{pattern}"
        );
    }
    let seconds = [
        ("60", "values must be between 0 and 59"),
        ("x", "values must be between 0 and 59"),
        ("5/2", "steps require a wildcard or range"),
        ("10-5", "range start must not exceed range end"),
        ("1,,2", "list entries cannot be empty"),
        ("*/61", "step must be between 1 and 60"),
        ("*/0", "step must be between 1 and 60"),
    ];
    for (field, detail) in seconds {
        assert_eq!(
            refusal(&format!("{field} * * * * *")),
            format!("Invalid cron seconds field \"{field}\": {detail}")
        );
    }
    assert_eq!(
        refusal(&"1".repeat(1_001)),
        "Cron expression must have at most 1000 characters"
    );
    for zone in [
        "Not/AZone",
        "+02:00",
        "Etc/Unknown",
        "../etc/localtime",
        " ",
    ] {
        assert_eq!(
            Schedule::read("* * * * *", Some(zone)),
            Err(ScheduleError::UnknownZone),
            "{zone}"
        );
    }
}

#[test]
fn cr_9_what_is_a_pattern() {
    let sunday = ["2026-01-04T00:00:00Z"];
    assert_eq!(runs("0 0 * * 7", None, TEN_PAST, 1), sunday);
    assert_eq!(runs("0 0 * JAN SUN", None, TEN_PAST, 1), sunday);
    assert_eq!(runs(" 0\t0  * jan  sun ", None, TEN_PAST, 1), sunday);
    let midnight = "2026-01-01T00:00:00Z";
    assert_eq!(
        runs("5/15 * * * *", None, midnight, 3),
        [
            "2026-01-01T00:05:00Z",
            "2026-01-01T00:20:00Z",
            "2026-01-01T00:35:00Z"
        ]
    );
    assert_eq!(
        runs("1-10/3 * * * *", None, midnight, 4),
        [
            "2026-01-01T00:01:00Z",
            "2026-01-01T00:04:00Z",
            "2026-01-01T00:07:00Z",
            "2026-01-01T00:10:00Z"
        ]
    );
    let rejected = [
        "0 0 * * FRI-MON",
        "0 0 * * 5-1",
        "*/0 * * * *",
        "0 0 L * *",
        "0 0 ? * 1",
        "@reboot",
        "@every 5m",
        "0 0 1 13 *",
        "0 0 0 * *",
        "0 0 15W * *",
        "0 0 * * 5#2",
        "0 0 * * +5",
        "0 0 * * 5L",
        "+5 * * * *",
        "22-2 * * * *",
        "1,,2 * * * *",
        "1, * * * *",
        "/10 * * * *",
        "MON * * * *",
        "0 0 * MON *",
        "0 0 1JAN * *",
        "0 0 * JANUARY *",
        "60 * * * *",
        "0 24 * * *",
        "0 0 * * 8",
        "*/61 * * * *",
        "1-2-3 * * * *",
        "1/2/3 * * * *",
        "*-5 * * * *",
        "é * * * *",
        "٣ * * * *",
    ];
    for pattern in rejected {
        refusal(pattern);
    }
    // The week ends with Sunday, or begins with it.
    assert_eq!(
        runs("0 0 * * FRI-SUN", None, "2026-01-01T12:00:00Z", 4),
        [
            "2026-01-02T00:00:00Z",
            "2026-01-03T00:00:00Z",
            "2026-01-04T00:00:00Z",
            "2026-01-09T00:00:00Z"
        ]
    );
    assert_eq!(runs("0 0 * * SUN-SUN", None, TEN_PAST, 1), sunday);
}

#[test]
fn either_day_matches_when_neither_is_a_bare_star() {
    assert_eq!(
        runs("0 0 13 * FRI", None, "2026-01-01T12:00:00Z", 4),
        [
            "2026-01-02T00:00:00Z",
            "2026-01-09T00:00:00Z",
            "2026-01-13T00:00:00Z",
            "2026-01-16T00:00:00Z"
        ]
    );
    // A stepped star restricts: every second day, and Mondays.
    assert_eq!(
        runs("0 0 */2 * 1", None, "2026-01-03T12:00:00Z", 3),
        [
            "2026-01-05T00:00:00Z",
            "2026-01-07T00:00:00Z",
            "2026-01-09T00:00:00Z"
        ]
    );
}

/// What a random pattern is made of: fields that the second opinion reads alike.
fn random_pattern(dice: &mut u64, hours: &[&str]) -> String {
    let mut pick = |from: &[&str]| {
        *dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        from[(*dice >> 33) as usize % from.len()].to_owned()
    };
    [
        pick(&["0", "30", "*/20", "15,45", "7-9", "*", "59", "0-59/13"]),
        pick(hours),
        pick(&["*", "*", "*", "1", "31", "*/9", "13-17", "28,29"]),
        pick(&["*", "*", "*", "3", "4,10", "11", "MAR-MAY", "*/5"]),
        pick(&["*", "*", "*", "0", "7", "1-5", "SUN,WED", "*/2"]),
    ]
    .join(" ")
}

const HOURS: [&str; 12] = [
    "*", "*", "0", "1", "2", "3", "23", "*/2", "1-3", "0,2", "1-23/5", "0-23",
];

fn second_opinion(pattern: &str) -> Cron {
    CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Disallowed)
        .build()
        .parse(pattern)
        .unwrap_or_else(|error| panic!("{pattern}: {error}"))
}

#[test]
fn patterns_match_what_a_second_opinion_matches() {
    let mut dice = 1;
    for _ in 0..150 {
        let pattern = random_pattern(&mut dice, &HOURS);
        let other = second_opinion(&pattern);
        let Ok(schedule) = Schedule::read(&pattern, None) else {
            continue;
        };
        let mut zoned: Zoned = "2027-12-28T00:00:00[UTC]".parse().expect("a time");
        for _ in 0..40 {
            let expected = other.find_next_occurrence(&zoned, false).expect("a next");
            let found = schedule.next_after(zoned.timestamp().as_millisecond());
            assert_eq!(
                found.map(text),
                Some(expected.timestamp().to_string()),
                "{pattern} after {zoned}"
            );
            zoned = expected;
        }
    }
}

/// Every instant between two local times, by the words of the contract: a walk over local times of the day.
fn walked(pattern: &str, zone: &TimeZone, from: DateTime, to: DateTime) -> Vec<Millis> {
    let cron = second_opinion(pattern);
    let hour = pattern.split(' ').nth(1).expect("five fields");
    let every_hour = ["*", "0-23"].contains(&hour);
    let mut found = Vec::new();
    let mut in_gap = false;
    let mut local = from;
    while local < to {
        let matches = cron.is_time_matching(&local).expect("a civil time");
        let ambiguous = zone.to_ambiguous_timestamp(local);
        let mut take = |at: Result<Timestamp, jiff::Error>| {
            found.push(at.expect("within the calendar").as_millisecond());
        };
        match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { .. } => {
                in_gap = false;
                if matches {
                    take(ambiguous.compatible());
                }
            }
            AmbiguousOffset::Fold { .. } => {
                in_gap = false;
                if matches {
                    take(ambiguous.earlier());
                    if every_hour {
                        take(ambiguous.later());
                    }
                }
            }
            // "Later" of a time that does not exist is as far behind the gap as it is behind its beginning.
            AmbiguousOffset::Gap { .. } => {
                if matches && !every_hour && !in_gap {
                    take(ambiguous.later());
                    in_gap = true;
                }
            }
        }
        local = local.checked_add(1.minute()).expect("within the calendar");
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[test]
fn changes_of_many_zones_follow_the_contract() {
    // Hours, half hours and quarters; at midnight, over a whole day, twice a year with a fast in between; none at all.
    let changes = [
        ("America/New_York", "2026-03-08"),
        ("America/New_York", "2026-11-01"),
        ("Europe/Berlin", "2026-03-29"),
        ("Europe/Berlin", "2026-10-25"),
        ("Europe/Lisbon", "2026-03-29"),
        ("Australia/Lord_Howe", "2026-10-04"),
        ("Australia/Lord_Howe", "2026-04-05"),
        ("America/Santiago", "2026-09-06"),
        ("America/Santiago", "2026-04-05"),
        ("Atlantic/Azores", "2026-03-29"),
        ("Atlantic/Azores", "2026-10-25"),
        ("America/Havana", "2026-03-08"),
        ("America/Havana", "2026-11-01"),
        ("Asia/Beirut", "2026-03-29"),
        ("Africa/Casablanca", "2026-02-15"),
        ("Africa/Casablanca", "2026-03-22"),
        ("Antarctica/Troll", "2026-03-29"),
        ("Antarctica/Troll", "2026-10-25"),
        ("Pacific/Apia", "2011-12-30"),
        ("Asia/Pyongyang", "2018-05-05"),
        ("Asia/Kathmandu", "1986-01-01"),
        ("America/Caracas", "2016-05-01"),
        ("Asia/Tokyo", "2026-03-29"),
        ("UTC", "2026-03-29"),
    ];
    let mut dice = 7;
    for (name, day) in changes {
        let zone = TimeZoneDatabase::bundled().get(name).expect("a zone");
        let day: DateTime = format!("{day}T00:00:00").parse().expect("a day");
        let (from, to) = (
            day.checked_sub(1.days()).expect("a day"),
            day.checked_add(2.days()).expect("a day"),
        );
        for _ in 0..15 {
            let pattern = random_pattern(&mut dice, &HOURS);
            let Ok(schedule) = Schedule::read(&pattern, Some(name)) else {
                continue;
            };
            let expected = walked(&pattern, &zone, from, to);
            let instant = |local| {
                let at = zone.to_timestamp(local).expect("within the calendar");
                at.as_millisecond()
            };
            let (mut now, end) = (instant(from) - 1, instant(to) - 1);
            let count = schedule.count_between(now, end);
            assert_eq!(count, expected.len() as u64, "{pattern} in {name} at {day}");
            let mut found = Vec::new();
            while let Some(next) = schedule.next_after(now).filter(|next| *next <= end) {
                found.push(next);
                now = next;
            }
            let texts = |list: Vec<Millis>| list.into_iter().map(text).collect::<Vec<_>>();
            assert_eq!(
                texts(found),
                texts(expected),
                "{pattern} in {name} at {day}"
            );
        }
    }
}

#[test]
fn missed_runs_are_counted_exactly() {
    for (pattern, zone) in [
        ("*/7 * * * * *", None),
        ("3,9 */5 1-2 * * *", Some("Europe/Berlin")),
        ("0 */7 * * 1", Some("Australia/Lord_Howe")),
    ] {
        let schedule = read(pattern, zone);
        let start = at("2026-03-28T20:00:13.250Z");
        let mut now = start;
        for count in 1..400 {
            now = schedule.next_after(now).expect("a next");
            assert_eq!(schedule.count_between(start, now), count, "{pattern}");
            assert_eq!(
                schedule.count_between(start, now - 1),
                count - 1,
                "{pattern}"
            );
        }
    }
    let every_second = read("* * * * * *", NEW_YORK);
    let year = at("2027-01-01T00:00:00Z") - at("2026-01-01T00:00:00Z");
    assert_eq!(
        every_second.count_between(at("2026-01-01T00:00:00Z"), at("2027-01-01T00:00:00Z")),
        year as u64 / 1_000
    );
    assert_eq!(every_second.count_between(at(TEN_PAST), at(TEN_PAST)), 0);
}
