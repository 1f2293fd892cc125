//! Section 8: success, late reports, and who waits for an outcome.

use bunqueue_mcp::command::{Ack, AckMany, MoveToWait, WaitJob};
use bunqueue_mcp::engine::{
    Change, Delivery, JobId, NewJob, Payload, Report, Served, State, TokenGiven, WaitFor, Waited,
};

use crate::world::{World, given, id, job, named, payload};

fn success(delivery: &Delivery) -> Ack {
    Ack {
        id: delivery.job.id.clone(),
        token: given(delivery.token),
        result: None,
        remove_on_complete: false,
    }
}

fn waiting(id: &JobId, until: WaitFor) -> WaitJob {
    WaitJob {
        id: id.clone(),
        until,
        timeout: 1_000,
    }
}

#[test]
fn ak_1_success_is_kept_with_its_result() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull("q").expect("ready");
    world.sleep(10);
    world.ask(Ack {
        result: Some(payload(1)),
        ..success(&delivery)
    });
    let detail = world.detail(&id);
    assert_eq!(
        (detail.job.state, detail.result),
        (State::Completed, Some(payload(1)))
    );
    assert_eq!(detail.job.completed_at, Some(world.now));
    assert_eq!(detail.job.started_at, Some(world.now - 10));
}

#[test]
fn ak_2_no_result_is_stored_when_none_is_given() {
    let mut world = World::new();
    for result in [None, Some(payload(0xc0))] {
        let id = world.push("q", job());
        let delivery = world.pull("q").expect("ready");
        world.ask(Ack {
            result: result.clone(),
            ..success(&delivery)
        });
        assert_eq!(world.result(&id), result);
    }
}

#[test]
fn ak_3_remove_on_complete_leaves_nothing() {
    let mut world = World::new();
    for (option, flag) in [(true, false), (false, true)] {
        let id = world.push(
            "q",
            NewJob {
                remove_on_complete: option,
                ..job()
            },
        );
        let delivery = world.pull("q").expect("ready");
        world.events();
        world.ask(Ack {
            remove_on_complete: flag,
            ..success(&delivery)
        });
        assert_eq!((world.state(&id), world.counts("q").total()), (None, 0));
        assert_eq!(world.event_words(), [format!("completed {id}")]);
    }
}

#[test]
fn ak_4_lock_takes_its_token_only() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull_lock("q", 30_000.0).expect("ready");
    let text =
        |world: &mut World, token| world.try_ack(&id, token).map_err(|error| error.to_string());
    assert_eq!(
        text(&mut world, TokenGiven::None),
        Err(format!("Lock token required for job {id}"))
    );
    let invalid = Err(format!("Invalid or expired lock token for job {id}"));
    assert_eq!(text(&mut world, TokenGiven::Malformed), invalid);
    assert_eq!(
        text(
            &mut world,
            TokenGiven::from_text("0190a0b0-1234-7abc-8def-0123456789ab")
        ),
        invalid
    );
    assert_eq!(text(&mut world, given(delivery.token)), Ok(Report::Applied));
}

#[test]
fn ak_5_delivery_without_a_lock_takes_any_token() {
    let mut world = World::new();
    let id = world.push("q", job());
    world.pull("q").expect("ready");
    assert_eq!(
        world.try_ack(&id, TokenGiven::from_text("anything")),
        Ok(Report::Applied)
    );
}

#[test]
fn ak_6_batch_stores_each_result() {
    let mut world = World::new();
    let ids = world.push_many("q", vec![job(); 8]);
    let deliveries = world.pull_batch("q", 8);
    let with_result = |(number, delivery)| Ack {
        result: Some(payload(number)),
        ..success(delivery)
    };
    let items = (0..).step_by(2).zip(&deliveries).map(with_result).collect();
    assert_eq!(world.ask(AckMany { items }), vec![Ok(Report::Applied); 8]);
    for (number, id) in (0..).step_by(2).zip(&ids) {
        assert_eq!(world.result(id), Some(payload(number)));
    }
}

#[test]
fn ak_7_and_b_29_batch_tells_of_each_report() {
    let mut world = World::new();
    world.push_many("q", vec![named("a"), named("b")]);
    let deliveries = world.pull_batch("q", 2);
    let unknown = Ack {
        id: id("unknown"),
        token: TokenGiven::None,
        result: None,
        remove_on_complete: false,
    };
    let items = vec![success(&deliveries[0]), unknown, success(&deliveries[1])];
    let outcomes = world.ask(AckMany { items });
    let texts: Vec<_> = outcomes
        .iter()
        .map(|outcome| outcome.as_ref().map_err(ToString::to_string))
        .collect();
    let refused = "Job not found or not in processing state: unknown".to_owned();
    assert_eq!(
        texts,
        [Ok(&Report::Applied), Err(refused), Ok(&Report::Applied)]
    );
    assert_eq!(world.counts("q").completed, 2);
}

#[test]
fn batch_with_one_wrong_token_changes_nothing() {
    let mut world = World::new();
    let ids = world.push_many("q", vec![job(), job()]);
    let deliveries = world.pull_batch("q", 2);
    let before = world.dump(&["q"], &ids);
    for token in [TokenGiven::None, given(deliveries[0].token)] {
        let items = vec![
            success(&deliveries[0]),
            Ack {
                token,
                ..success(&deliveries[1])
            },
        ];
        world.refusal(AckMany { items });
        assert_eq!(world.dump(&["q"], &ids), before);
    }
}

#[test]
fn ak_8_large_result_is_stored_whole() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull("q").expect("ready");
    let result = Payload::new(&vec![b'x'; 1_000_000]);
    world.ask(Ack {
        result: Some(result.clone()),
        ..success(&delivery)
    });
    assert_eq!(world.result(&id), Some(result));
}

#[test]
fn ak_9_wait_for_completion_ends_with_it_or_with_its_time() {
    let mut world = World::new();
    let id = world.push("q", job());
    let early = world.wait(waiting(&id, WaitFor::Completed));
    world.sleep(1_000);
    assert_eq!(world.served(), [(early, Served::Job(Waited::TimedOut))]);
    let wait = world.wait(waiting(&id, WaitFor::Completed));
    let delivery = world.pull("q").expect("ready");
    world.ask(Ack {
        result: Some(payload(5)),
        ..success(&delivery)
    });
    let completed = Waited::Completed {
        result: Some(payload(5)),
    };
    assert_eq!(world.served(), [(wait, Served::Job(completed.clone()))]);
    assert_eq!(
        world.ask(waiting(&id, WaitFor::Completed)),
        completed,
        "later waits are answered at once"
    );
}

#[test]
fn ak_9_failure_ends_a_wait_for_any_outcome_only() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            max_attempts: 2,
            ..job()
        },
    );
    let completion = world.wait(waiting(&id, WaitFor::Completed));
    let outcome = world.wait(WaitJob {
        timeout: 60_000,
        ..waiting(&id, WaitFor::Outcome)
    });
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    assert_eq!(world.served(), [], "another attempt follows");
    world.sleep(5_000);
    assert_eq!(
        world.served(),
        [(completion, Served::Job(Waited::TimedOut))]
    );
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    assert_eq!(world.served(), [(outcome, Served::Job(Waited::Failed))]);
    assert_eq!(world.ask(waiting(&id, WaitFor::Outcome)), Waited::Failed);
    let unknown = waiting(&crate::world::id("unknown"), WaitFor::Outcome);
    assert_eq!(world.ask(unknown), Waited::NotFound);
}

#[test]
fn ak_10_wait_on_a_job_that_is_removed_when_done_tells_of_completion_without_the_result() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            remove_on_complete: true,
            ..job()
        },
    );
    let wait = world.wait(waiting(&id, WaitFor::Completed));
    let delivery = world.pull("q").expect("ready");
    world.ask(Ack {
        result: Some(payload(1)),
        ..success(&delivery)
    });
    assert_eq!(
        world.served(),
        [(wait, Served::Job(Waited::Completed { result: None }))]
    );
    assert_eq!(world.state(&id), None);
}

#[test]
fn fa_6_wait_for_an_outcome_learns_of_the_failure_even_if_the_job_is_removed() {
    let mut world = World::new();
    let id = world.push(
        "q",
        NewJob {
            remove_on_fail: true,
            max_attempts: 1,
            ..job()
        },
    );
    let wait = world.wait(waiting(&id, WaitFor::Outcome));
    let delivery = world.pull("q").expect("ready");
    world.fail(&delivery, "boom");
    assert_eq!(world.served(), [(wait, Served::Job(Waited::Failed))]);
    assert_eq!(world.state(&id), None);
}

#[test]
fn b_21_late_success_needs_the_token_of_the_last_delivery() {
    let mut world = World::new();
    let id = world.push("q", job());
    let delivery = world.pull_lock("q", 1_000.0).expect("ready");
    world.fail(&delivery, "boom");
    let token = given(delivery.token);
    let refused = format!("Job not found or not in processing state: {id}");
    for wrong in [TokenGiven::None, TokenGiven::Malformed] {
        assert_eq!(
            world.try_ack(&id, wrong).expect_err("no proof").to_string(),
            refused
        );
    }
    assert_eq!(
        world.try_fail(&id, token, "again"),
        Ok(Report::AlreadyFinalized)
    );
    assert_eq!(
        world.detail(&id).job.attempts,
        1,
        "nothing is charged twice"
    );
    assert_eq!(world.try_ack(&id, token), Ok(Report::Applied));
    let view = world.detail(&id).job;
    assert_eq!(
        (view.state, view.completed_at),
        (State::Completed, Some(world.now))
    );
    world.sleep(60_000);
    assert_eq!(world.pull("q"), None, "it is not delivered again");
}

#[test]
fn token_of_an_earlier_delivery_is_refused_even_where_none_is_needed() {
    let mut world = World::new();
    let id = world.push("q", job());
    let ends: [fn(&mut World, &Delivery); 4] = [
        |world, _| world.sleep(1_000),
        |world, old| assert_eq!(world.move_to_wait(&old.job.id, old.token), Change::Applied),
        |world, _| world.close(1),
        |world, old| world.act(|engine, turn| engine.give_back(turn, std::slice::from_ref(old))),
    ];
    for end in ends {
        let old = world
            .as_connection(1)
            .pull_lock("q", 1_000.0)
            .expect("ready");
        end(&mut world, &old);
        world
            .as_connection(2)
            .pull("q")
            .expect("ready again, without a lock");
        let refused = format!("Invalid or expired lock token for job {id}");
        assert_eq!(
            world
                .try_ack(&id, given(old.token))
                .expect_err("stale")
                .to_string(),
            refused
        );
        assert_eq!(
            world
                .try_fail(&id, given(old.token), "x")
                .expect_err("stale")
                .to_string(),
            refused
        );
        assert_eq!(
            world.refusal(MoveToWait {
                id: id.clone(),
                token: given(old.token)
            }),
            refused
        );
        assert_eq!(world.move_to_wait(&id, None), Change::Applied);
    }
}
