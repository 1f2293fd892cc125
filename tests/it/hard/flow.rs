//! Group F: flows.

use bunqueue_mcp::command::given::Number;
use bunqueue_mcp::command::{Clean, Discard, Drain};
use bunqueue_mcp::engine::{Bucket, CleanState, Config, NewJob, State, TokenGiven};

use crate::engine::flow::*;
use crate::world::{World, id, named, payload, queue};

/// F1: a parent never stays behind, however fast its children are.
#[test]
fn hard_f1_every_parent_of_instant_children_runs_once() {
    let mut world = World::new();
    for round in 0..1_000 {
        let parent = format!("p{round}");
        let ids: Vec<String> = (0..100)
            .map(|number| format!("c{round}-{number}"))
            .collect();
        // Workers wait before the flow comes.
        let waits: Vec<_> = (0..4)
            .map(|_| world.wait(crate::world::awaiting("cq", 1_000)))
            .collect();
        let children = ids.iter().map(|text| node(text, "cq", vec![])).collect();
        tree(&mut world, &node(&parent, "pq", children));
        for wait in waits {
            for delivery in world.handed(wait).expect("a child is ready") {
                world.ack(&delivery);
            }
        }
        for delivery in world.pull_batch("cq", 1_000) {
            world.ack(&delivery);
        }
        assert_eq!(finish(&mut world, "pq", None), id(&parent));
        world.events();
    }
    assert_eq!(world.counts("pq").waiting_children, 0);
}

/// F3: each way a child can end, under each policy; nothing waits for ever in silence, and the parent runs at most once.
#[test]
fn hard_f3_each_way_a_child_can_end_under_each_policy() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum End {
        Fails,
        Discarded,
        Expires,
        Cancelled,
        Drained,
        Cleaned,
        FailsAndIsRemoved,
        FailsAndLeavesTheQueue,
    }
    let ends = [
        End::Fails,
        End::Discarded,
        End::Expires,
        End::Cancelled,
        End::Drained,
        End::Cleaned,
        End::FailsAndIsRemoved,
        End::FailsAndLeavesTheQueue,
    ];
    for end in ends {
        for policy in [
            Policy::None,
            Policy::Fail,
            Policy::Remove,
            Policy::Ignore,
            Policy::Continue,
        ] {
            let mut world = World::with(Config {
                dlq_age: 1_000,
                ..Config::default()
            });
            let mut child = with_policy(node("c", "cq", vec![]), policy);
            if end == End::Expires {
                child.job.ttl = Number::Value(10.0);
            }
            child.job.remove_on_fail = end == End::FailsAndIsRemoved;
            tree(&mut world, &node("p", "pq", vec![child]));
            match end {
                End::Fails | End::FailsAndIsRemoved => {
                    fail_next(&mut world, "cq", "boom");
                }
                End::FailsAndLeavesTheQueue => {
                    fail_next(&mut world, "cq", "boom");
                    world.sleep(1_001);
                }
                End::Discarded => {
                    world.ask(Discard {
                        id: id("c"),
                        token: TokenGiven::None,
                    });
                }
                End::Expires => world.sleep(11),
                End::Cancelled => {
                    world.cancel(&id("c"));
                }
                End::Drained => {
                    world.ask(Drain { queue: queue("cq") });
                }
                End::Cleaned => {
                    let state = CleanState::Bucket(Bucket::State(State::Waiting));
                    world.ask(Clean {
                        queue: queue("cq"),
                        grace: 0.0,
                        state,
                        limit: 9,
                    });
                }
            }
            let retriable = matches!(end, End::Fails | End::Discarded | End::Expires);
            if (end, policy) == (End::FailsAndLeavesTheQueue, Policy::Fail) {
                // The parent failed with its child, and left the dead letters with it.
                assert_eq!(state(&mut world, "p"), None);
                continue;
            }
            let expected = match policy {
                Policy::None if retriable => State::WaitingChildren,
                Policy::Fail => State::Failed,
                _ => State::Waiting,
            };
            assert_eq!(state(&mut world, "p"), Some(expected), "{end:?} {policy:?}");
            if expected == State::Failed
                && !world
                    .failure(&id("p"))
                    .error
                    .is_some_and(|error| error.starts_with("Child job c failed: "))
            {
                panic!("{end:?} {policy:?}: {:?}", world.failure(&id("p")));
            }
            if retriable && end != End::Expires {
                world.move_to_wait(&id("c"), None);
                finish(&mut world, "cq", None);
                let again = if policy == Policy::None {
                    State::Waiting
                } else {
                    expected
                };
                assert_eq!(
                    state(&mut world, "p"),
                    Some(again),
                    "{end:?} {policy:?} retried"
                );
            }
            if expected != State::Failed && expected != State::WaitingChildren
                || policy == Policy::None && end != End::Expires
            {
                assert_eq!(
                    finish(&mut world, "pq", None),
                    id("p"),
                    "{end:?} {policy:?}"
                );
                assert!(world.pull("pq").is_none());
            }
        }
    }
}

/// F4: what a parent saw of a child is not touched by a later job with the child's id.
#[test]
fn hard_f4_reused_id_of_a_child_changes_nothing_for_the_parent() {
    let mut world = World::new();
    family(&mut world, Policy::Fail);
    finish(&mut world, "cq", Some(payload(1)));
    world.push(
        "cq",
        NewJob {
            max_attempts: 1,
            priority: 1.0,
            ..named("a")
        },
    );
    fail_next(&mut world, "cq", "boom");
    assert_eq!(state(&mut world, "p"), Some(State::WaitingChildren));
    finish(&mut world, "cq", Some(payload(2)));
    assert_eq!(
        values(&mut world, "p"),
        [
            ("cq:a".to_owned(), payload(1)),
            ("cq:b".to_owned(), payload(2))
        ]
    );
    assert_eq!(finish(&mut world, "pq", None), id("p"));
    assert!(world.pull("pq").is_none());
}
