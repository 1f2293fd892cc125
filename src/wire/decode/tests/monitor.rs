//! Figures: which are asked for, and what is refused.

use super::*;
use crate::command::{
    CompactMemory, GetOverview, GetQueueDetail, GetQueueMetrics, GetStats, GetStorageStatus,
    ListQueueSummaries, TrimEvents,
};
use crate::engine::MetricKind;
use crate::wire::shape::Monitor;

fn frame(cmd: &str, fields: &Json) -> Json {
    let mut frame = json!({"cmd": cmd});
    let entries = fields.as_object().unwrap().clone();
    frame.as_object_mut().unwrap().extend(entries);
    frame
}

#[test]
fn figures_over_everything_take_no_fields() {
    let cases: [(&str, Command, Shape); 7] = [
        ("Stats", GetStats.into(), Shape::Monitor(Monitor::Stats)),
        ("Metrics", GetStats.into(), Shape::Monitor(Monitor::Metrics)),
        (
            "Prometheus",
            GetOverview {
                registered: false,
                queues: usize::MAX,
            }
            .into(),
            Shape::Monitor(Monitor::Exposition),
        ),
        (
            "StorageStatus",
            GetStorageStatus.into(),
            Shape::Monitor(Monitor::Storage),
        ),
        ("CompactMemory", CompactMemory.into(), Shape::Done),
        (
            "DashboardOverview",
            GetOverview {
                registered: true,
                queues: 0,
            }
            .into(),
            Shape::Monitor(Monitor::Overview),
        ),
        (
            "DashboardQueues",
            ListQueueSummaries.into(),
            Shape::Monitor(Monitor::Queues),
        ),
    ];
    for (cmd, asked, shape) in cases {
        let fields = json!({"queue": null, "type": null, "unknown": 5});
        assert_eq!(command(&frame(cmd, &fields)), (asked, shape), "{cmd}");
    }
}

#[test]
fn metrics_of_a_queue_are_cut_by_minutes() {
    let metrics = |fields: Json| match command(&frame("Metrics", &fields)) {
        (Command::GetQueueMetrics(asked), Shape::Monitor(Monitor::QueueMetrics)) => asked,
        other => panic!("{other:?}"),
    };
    let all = GetQueueMetrics {
        queue: QueueName::lenient("q"),
        kind: MetricKind::Completed,
        start: 0,
        end: usize::MAX,
    };
    assert_eq!(metrics(json!({"queue": "q", "type": "completed"})), all);
    assert_eq!(
        metrics(json!({"queue": "q", "type": "completed", "start": null, "end": -1})),
        all
    );
    let cut = json!({"queue": "q", "type": "failed", "start": 2, "end": 4});
    let kind = MetricKind::Failed;
    assert_eq!(
        metrics(cut),
        GetQueueMetrics {
            kind,
            start: 2,
            end: 4,
            ..all
        }
    );

    let kinds = "Metrics type must be 'completed' or 'failed'";
    let cases = [
        (
            json!({"type": "x", "start": -1}),
            "Metrics queue is required",
        ),
        (
            json!({"queue": "", "type": "completed"}),
            "Metrics queue is required",
        ),
        (
            json!({"queue": "a b", "type": "x"}),
            "Queue name contains invalid characters",
        ),
        (
            json!({"queue": 5, "type": "x"}),
            "Queue name contains invalid characters",
        ),
        (json!({"queue": "q", "start": -1}), kinds),
        (json!({"queue": "q", "type": 5}), kinds),
        (
            json!({"queue": "q", "type": "failed", "start": "1", "end": -2}),
            "start must be a non-negative safe integer",
        ),
        (
            json!({"queue": "q", "type": "failed", "end": -2}),
            "end must be a non-negative safe integer",
        ),
    ];
    for (fields, text) in cases {
        assert_eq!(refused(&frame("Metrics", &fields)), text, "{fields}");
    }
}

#[test]
fn a_journal_is_cut_to_a_length() {
    let (asked, shape) = command(&frame("TrimEvents", &json!({"queue": "q", "maxLength": 3})));
    let queue = QueueName::lenient("q");
    assert_eq!(asked, TrimEvents { queue, keep: 3 }.into());
    assert_eq!(shape, Shape::Monitor(Monitor::Trimmed));
    let length = "maxLength must be a non-negative safe integer";
    let cases = [
        (json!({"maxLength": -1}), "Queue name is required"),
        (
            json!({"queue": "", "maxLength": -1}),
            "Queue name is required",
        ),
        (
            json!({"queue": 5}),
            "Queue name contains invalid characters",
        ),
        (json!({"queue": "q"}), length),
        (json!({"queue": "q", "maxLength": null}), length),
        (json!({"queue": "q", "maxLength": 1.5}), length),
        (json!({"queue": "q", "maxLength": "1"}), length),
    ];
    for (fields, text) in cases {
        assert_eq!(refused(&frame("TrimEvents", &fields)), text, "{fields}");
    }
}

#[test]
fn the_page_of_a_queue_shows_jobs_when_asked() {
    let previews = |fields: Json| match command(&frame("DashboardQueue", &fields)) {
        (Command::GetQueueDetail(asked), Shape::Monitor(Monitor::Queue)) => asked,
        other => panic!("{other:?}"),
    };
    let page = |queue: &str, previews| GetQueueDetail {
        queue: QueueName::lenient(queue),
        previews,
    };
    assert_eq!(
        previews(json!({"queue": "any queue"})),
        page("any queue", None)
    );
    assert_eq!(previews(json!({"jobsLimit": 5})), page("", None));
    for (limit, shown) in [
        (json!(null), 10),
        (json!(3), 3),
        (json!(51), 50),
        (json!(-1), 0),
        (json!("7"), 10),
    ] {
        let fields = json!({"queue": "q", "includeJobs": true, "jobsLimit": limit});
        assert_eq!(previews(fields), page("q", Some(shown)), "{limit}");
    }
    let text = "queue must be a string";
    assert_eq!(
        refused(&frame("DashboardQueue", &json!({"queue": 5}))),
        text
    );
}
