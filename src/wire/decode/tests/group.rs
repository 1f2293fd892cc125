//! Groups: what is read and what is refused, and in which order.

use super::*;
use crate::command::given::Text;
use crate::command::{GetGroupRateLimitTtl, GroupId, SetGroupRateLimit, ThrottleGroup};
use crate::engine::{Affinity, PullGroup, RateLimit};
use crate::wire::shape::Group;

/// Commands about one group, with what else they need.
fn about_a_group() -> Vec<(&'static str, Json)> {
    let rate = json!({"max": 1, "duration": 1});
    vec![
        ("GetGroupJobsCount", json!({})),
        ("GetGroupActiveCount", json!({})),
        ("SetGroupRateLimit", rate),
        ("GetGroupRateLimit", json!({})),
        ("RemoveGroupRateLimit", json!({})),
        ("GetGroupRateLimitTtl", json!({})),
        ("SetGroupConcurrency", json!({"concurrency": 1})),
        ("GetGroupConcurrency", json!({})),
        ("RemoveGroupConcurrency", json!({})),
        ("PauseGroup", json!({})),
        ("ResumeGroup", json!({})),
        ("IsGroupPaused", json!({})),
        ("RateLimitGroup", json!({"duration": 1})),
    ]
}

fn frame(cmd: &str, fields: &[&Json]) -> Json {
    let mut frame = json!({"cmd": cmd});
    for fields in fields {
        let entries = fields.as_object().unwrap().clone();
        frame.as_object_mut().unwrap().extend(entries);
    }
    frame
}

#[test]
fn the_queue_is_looked_at_before_the_group_and_the_group_before_numbers() {
    for (cmd, rest) in about_a_group() {
        let faults = [
            (json!({}), "Queue name is required"),
            (
                json!({"queue": "a b"}),
                "Queue name contains invalid characters",
            ),
            (json!({"queue": "q"}), "groupId is required"),
            (
                json!({"queue": "q", "groupId": null}),
                "groupId must be a string",
            ),
            (
                json!({"queue": "q", "groupId": 5}),
                "groupId must be a string",
            ),
            (
                json!({"queue": "q", "groupId": ""}),
                "groupId must be a non-empty string",
            ),
            (
                json!({"queue": "q", "groupId": "g".repeat(257)}),
                "groupId must be at most 256 characters",
            ),
            (
                json!({"queue": "q", "groupId": "a\0b"}),
                "groupId must not contain NUL characters",
            ),
        ];
        for (fields, text) in faults {
            assert_eq!(refused(&frame(cmd, &[&fields])), text, "{cmd} {fields}");
        }
        let whole = frame(cmd, &[&json!({"queue": "q", "groupId": "g"}), &rest]);
        let (command, shape) = command(&whole);
        let shown = format!("{command:?}");
        assert!(
            shown.contains("QueueName(\"q\")") && shown.contains("GroupId(\"g\")"),
            "{shown}"
        );
        assert_eq!(
            shape == Shape::Done,
            !rest.as_object().unwrap().is_empty(),
            "{cmd}"
        );
    }
}

#[test]
fn numbers_of_groups_are_positive_integers() {
    let cases = [
        ("SetGroupRateLimit", json!({}), "max"),
        (
            "SetGroupRateLimit",
            json!({"max": "1", "duration": 1}),
            "max",
        ),
        (
            "SetGroupRateLimit",
            json!({"max": 1, "duration": 0}),
            "duration",
        ),
        (
            "SetGroupConcurrency",
            json!({"concurrency": 1.5}),
            "concurrency",
        ),
        ("RateLimitGroup", json!({"duration": -1}), "duration"),
    ];
    let group = json!({"queue": "q", "groupId": "g"});
    for (cmd, fields, name) in cases {
        let text = format!("{name} must be a positive safe integer");
        assert_eq!(
            refused(&frame(cmd, &[&group, &fields])),
            text,
            "{cmd} {fields}"
        );
    }
    let jobs = frame("GetGroupRateLimitTtl", &[&group, &json!({"maxJobs": "1"})]);
    assert_eq!(refused(&jobs), "maxJobs must be a number");
}

#[test]
fn commands_about_groups_carry_their_numbers() {
    let (queue, group) = (
        QueueName::lenient("q"),
        GroupId::required(Text::Value("g")).unwrap(),
    );
    let given = json!({"queue": "q", "groupId": "g"});
    let limit = RateLimit {
        max: 2,
        duration: 300,
    };
    let rate = frame(
        "SetGroupRateLimit",
        &[&given, &json!({"max": 2, "duration": 300})],
    );
    let set = SetGroupRateLimit {
        queue: queue.clone(),
        group: group.clone(),
        limit,
    };
    assert_eq!(command(&rate), (set.into(), Shape::Done));
    let throttle = frame("RateLimitGroup", &[&given, &json!({"duration": 250})]);
    let set = ThrottleGroup {
        queue: queue.clone(),
        group: group.clone(),
        duration: 250,
    };
    assert_eq!(command(&throttle), (set.into(), Shape::Done));
    let ttl = frame("GetGroupRateLimitTtl", &[&given, &json!({"maxJobs": 3})]);
    let read = GetGroupRateLimitTtl {
        queue,
        group,
        jobs: Some(3),
    };
    assert_eq!(
        command(&ttl),
        (read.into(), Shape::Group(Group::RateLimitTtl))
    );
}

#[test]
fn all_groups_of_a_queue_are_counted_together() {
    let all = json!({"cmd": "GetGroupsJobsCount", "queue": "q", "maxCount": "ignored"});
    assert_eq!(command(&all).1, Shape::Group(Group::Count));
    let bad = json!({"cmd": "GetGroupsJobsCount", "queue": "a b"});
    assert_eq!(refused(&bad), "Queue name contains invalid characters");
}

#[test]
fn a_pull_says_what_it_wants_of_groups() {
    let wanted = |group: Json| {
        let frame = json!({"cmd": "PULL", "queue": "q", "group": group});
        pull(&frame).group.map(|group| *group)
    };
    assert_eq!(wanted(json!(null)), None);
    assert_eq!(wanted(json!({})), None);
    assert_eq!(wanted(json!({"concurrency": null, "limit": null})), None);
    let group = PullGroup {
        concurrency: Some(2),
        limit: Some(RateLimit {
            max: 3,
            duration: 500,
        }),
        affinity: Affinity::Group("g".into()),
    };
    let all = json!({"concurrency": 2, "limit": {"max": 3, "duration": 500}, "affinity": "g"});
    assert_eq!(wanted(all), Some(group));
    let ungrouped = PullGroup {
        affinity: Affinity::Ungrouped,
        ..PullGroup::default()
    };
    assert_eq!(wanted(json!({"affinity": null})), Some(ungrouped));
    let undefined = with_raw(&json!({}), "affinity", UNDEFINED);
    let body = with_raw(&json!({"cmd": "PULL", "queue": "q"}), "group", &undefined);
    match decode_body(&body) {
        Action::Command(Command::Pull(pull), _) => assert_eq!(pull.group, None),
        action => panic!("{action:?}"),
    }
}

#[test]
fn a_push_names_its_group_and_the_most_jobs_of_it() {
    let job = add(&json!({"cmd": "PUSH", "queue": "q", "groupId": "g", "groupMaxSize": "3"})).job;
    assert_eq!(job.options.unwrap().group_id.as_deref(), Some("g"));
    assert_eq!(job.group_max, Some(3));
}
