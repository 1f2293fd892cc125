//! Faults of planned flows with their exact texts, first one first.

use serde_json::{Value as Json, json};

use super::*;
use crate::command::draft::JobDraft;
use crate::command::given::Number;
use crate::command::{CommandError, bounds};
use crate::engine::{JobLinks, Parent, Payload};

fn bytes(value: &Json) -> Vec<u8> {
    rmp_serde::to_vec_named(value).unwrap()
}

/// A planned job: id, data and ties.
struct Job {
    id: &'static str,
    data: Vec<u8>,
    depends_on: Vec<&'static str>,
    children: Vec<&'static str>,
    parent: Option<&'static str>,
}

fn job(id: &'static str, data: &Json) -> Job {
    Job {
        id,
        data: bytes(data),
        depends_on: Vec::new(),
        children: Vec::new(),
        parent: None,
    }
}

fn parent(data: &Json) -> Job {
    Job {
        depends_on: vec!["c"],
        children: vec!["c"],
        ..job("p", data)
    }
}

fn child(data: &Json) -> Job {
    Job {
        parent: Some("p"),
        ..job("c", data)
    }
}

fn draft(job: &Job) -> FlowJobDraft<'_> {
    FlowJobDraft {
        id: job.id,
        queue: "q",
        job: JobDraft {
            data: Some(&job.data),
            ..JobDraft::default()
        },
        depends_on: job.depends_on.clone(),
        children: job.children.clone(),
        parent: job.parent,
        ..FlowJobDraft::default()
    }
}

fn check(jobs: &[Job]) -> Result<AddFlow, String> {
    let drafts: Vec<_> = jobs.iter().map(draft).collect();
    check_flow(&drafts).map_err(|fault| fault.to_string())
}

#[test]
fn a_sound_flow_names_its_jobs_by_place() {
    let jobs = [
        parent(&json!({"__childrenIds": ["c"], "x": 1})),
        child(&json!({"__parentId": "p", "__parentQueue": "q"})),
    ];
    let flow = check(&jobs).unwrap();
    let ties: Vec<_> = flow
        .jobs
        .iter()
        .map(|job| (job.depends_on.clone(), job.children.clone(), job.parent))
        .collect();
    assert_eq!(ties, [(vec![1], vec![1], None), (vec![], vec![], Some(0))]);
    assert!(!flow.annotate);
    assert_eq!(check(&[]).unwrap().jobs, []);
}

#[test]
fn faults_of_one_job() {
    type Spoil = fn(&mut FlowJobDraft<'static>);
    const LIST: &[u8] = &[0x90];
    let long: &'static str = "t".repeat(1_025).leak();
    let cases: Vec<(Spoil, &str)> = vec![
        (
            |d| d.id = "",
            "flow job id is invalid or is not well-formed Unicode",
        ),
        (|d| d.id = "a:b", "flow job id cannot contain a colon"),
        (|d| d.queue = "bad queue", "invalid flow queue: bad queue"),
        (
            |d| d.job.custom_id = Some("z"),
            "custom id does not match planned id: a",
        ),
        (
            |d| d.job.name = Some(""),
            "Job name must be a non-empty string of at most 256 characters",
        ),
        (|d| d.job.data = None, "flow job data must be an object"),
        (
            |d| d.job.data = Some(LIST),
            "flow job data must be an object",
        ),
        (
            |d| d.unsupported = Some("repeat"),
            "repeat is not supported inside an atomic flow",
        ),
        (
            |d| d.job.unique_key = Some("u"),
            "deduplication is not supported inside an atomic flow",
        ),
        (
            |d| d.job.debounce_id = Some("d"),
            "debounce is not supported inside an atomic flow",
        ),
        (
            |d| d.job.timeout = Number::Value(-1.0),
            "timeout must be at least 0",
        ),
        (
            |d| d.job.fail_parent_on_failure = true,
            "a flow failure policy requires a parent",
        ),
    ];
    for (spoil, text) in cases {
        let mut draft = FlowJobDraft {
            id: "a",
            queue: "q",
            job: JobDraft {
                data: Some(&[0x80]),
                ..JobDraft::default()
            },
            ..FlowJobDraft::default()
        };
        assert!(check_flow(std::slice::from_ref(&draft)).is_ok());
        spoil(&mut draft);
        let fault = check_flow(&[draft]).unwrap_err();
        assert_eq!(fault.to_string(), text);
        assert!((1..=160).contains(&fault.hint().len()), "{text}");
    }
    let mut draft = FlowJobDraft {
        id: long,
        queue: "q",
        ..FlowJobDraft::default()
    };
    let fault = check_flow(std::slice::from_ref(&draft)).unwrap_err();
    assert_eq!(fault, CommandError::Flow(FlowFault::IdInvalid));
    draft.id = &long[1..];
    draft.job.data = Some(&[0x80]);
    assert!(check_flow(&[draft]).is_ok());
}

#[test]
fn faults_between_jobs() {
    let empty = json!({});
    let pointing = json!({"__parentId": "p", "__parentQueue": "q"});
    let owning = json!({"__childrenIds": ["c"]});
    let waiting = |id, others: &[&'static str]| Job {
        depends_on: others.to_vec(),
        ..job(id, &json!({}))
    };
    let cases = [
        (
            vec![job("a", &empty), job("a", &empty)],
            "duplicate flow job id: a",
        ),
        (
            vec![waiting("a", &["b", "b"]), job("b", &empty)],
            "duplicate dependency in flow job: a",
        ),
        (
            vec![
                Job {
                    children: vec!["c", "c"],
                    ..parent(&owning)
                },
                child(&pointing),
            ],
            "duplicate child in flow job: p",
        ),
        (vec![waiting("a", &["zz"])], "flow dependency not found: zz"),
        (
            vec![waiting("a", &["a"])],
            "flow job cannot depend on itself: a",
        ),
        (
            vec![
                Job {
                    depends_on: vec![],
                    ..parent(&owning)
                },
                child(&pointing),
            ],
            "flow child is missing from dependencies: c",
        ),
        (
            vec![parent(&owning), job("c", &empty)],
            "flow child c does not point back to parent p",
        ),
        (vec![child(&pointing)], "flow parent not found: p"),
        (
            vec![job("p", &empty), child(&pointing)],
            "flow parent p does not own child c",
        ),
        (
            vec![
                parent(&owning),
                child(&json!({"__parentId": "p", "__parentQueue": "WRONG"})),
            ],
            "flow child c metadata does not match parent p",
        ),
        (
            vec![parent(&empty), child(&pointing)],
            "flow parent p children does not match the canonical flow topology",
        ),
        (
            vec![waiting("a", &["b"]), waiting("b", &["a"])],
            "flow contains a dependency cycle",
        ),
    ];
    for (jobs, text) in cases {
        assert_eq!(check(&jobs).unwrap_err(), text);
    }
}

#[test]
fn data_of_a_whole_flow_has_a_bound() {
    let text = "x".repeat(10_000_000);
    let jobs = ["a", "b", "c", "d", "e", "f", "g"].map(|id| job(id, &json!({"text": text})));
    assert!(check(&jobs[..6]).is_ok());
    assert_eq!(
        check(&jobs).unwrap_err(),
        "flow data is too large (max 64MB per atomic batch)"
    );
}

#[test]
fn data_is_measured_after_its_form_and_before_options() {
    let data = |units: usize| bytes(&json!({"x": "x".repeat(units - 8)}));
    let (fits, above) = (data(bounds::JOB_DATA_MAX), data(bounds::JOB_DATA_MAX + 1));
    let of = |id, data| FlowJobDraft {
        id,
        queue: "q",
        job: JobDraft {
            data: Some(data),
            ..JobDraft::default()
        },
        unsupported: Some("repeat"),
        ..FlowJobDraft::default()
    };
    let fault = |drafts: &[FlowJobDraft<'_>]| check_flow(drafts).unwrap_err().to_string();
    let unsupported = "repeat is not supported inside an atomic flow";
    assert_eq!(fault(&[of("a", &fits)]), unsupported);
    let too_large = "Job data too large (max 10MB)";
    assert_eq!(fault(&[of("a", &above)]), too_large);
    let mut drafts = ["a", "b", "c", "d", "e", "f", "g"].map(|id| of(id, &fits));
    for draft in &mut drafts[..6] {
        draft.unsupported = None;
    }
    let sum = "flow data is too large (max 64MB per atomic batch)";
    assert_eq!(fault(&drafts), sum);
    drafts[6].job.data = Some(&above);
    assert_eq!(fault(&drafts), too_large);
}

#[test]
fn ties_are_written_into_data_once_and_taken_out_again() {
    let links = JobLinks {
        parent: Some(Parent {
            id: JobId::from_text("p"),
            queue: "pq".into(),
        }),
        depends_on: Vec::new(),
        children: vec![JobId::from_text("c")],
    };
    let payload = |value: &Json| Payload::new(&bytes(value));
    let read = |payload: Payload| rmp_serde::from_slice::<Json>(payload.bytes()).unwrap();
    let before = payload(&json!({"__parentId": "pending", "x": 1, "__parentId2": 2}));
    let after = annotate(&links, Some(&before)).unwrap();
    let text = serde_json::to_string(&read(after.clone())).unwrap();
    let expected =
        r#"{"__parentId":"p","x":1,"__parentId2":2,"__parentQueue":"pq","__childrenIds":["c"]}"#;
    assert_eq!(text, expected);
    assert_eq!(annotate(&links, Some(&after)), Some(after.clone()));
    let cut = annotate(&JobLinks::default(), Some(&after)).unwrap();
    assert_eq!(read(cut), json!({"x": 1, "__parentId2": 2}));
    assert_eq!(annotate(&links, Some(&payload(&json!([1])))), None);
}

#[test]
fn every_fault_has_a_short_hint() {
    for fault in FlowFault::samples() {
        assert!((1..=160).contains(&fault.hint().len()), "{fault}");
    }
}
