//! An engine that takes the place of another one in the same process, as after a commit that failed: what is in work goes on.

use bunqueue_mcp::engine::{Config, Delivery, Effects, Millis, State};

use crate::image::Image;
use crate::world::{World, awaiting, id, named};

struct Reloaded {
    world: World,
    stored: Image,
}

impl Reloaded {
    fn new() -> Self {
        let mut world = World::new();
        world.act(|engine, _| engine.record());
        let stored = Image::default();
        Self { world, stored }
    }

    fn store(&mut self) {
        let Self { world, stored } = self;
        world.act(|engine, _| stored.apply(engine.take_changes()));
    }

    /// What is not stored is lost.
    fn reload(&mut self) {
        let Self { world, stored } = self;
        world.act(|engine, turn| {
            let loader = stored.loader(Config::default(), [7; 32], turn.now);
            let loaded = loader.unwrap().go_on(&mut Effects::default());
            let mut lost = std::mem::replace(engine, loaded);
            engine.inherit(&mut lost);
        });
        world.check();
    }

    fn pull(&mut self) -> Delivery {
        self.world.pull("q").expect("a job")
    }

    fn give_back(&mut self, delivery: &Delivery) {
        let deliveries = std::slice::from_ref(delivery);
        self.world
            .act(|engine, turn| engine.give_back(turn, deliveries));
    }

    fn state(&mut self, job: &str) -> State {
        self.world.state(&id(job)).expect("a job")
    }
}

#[test]
fn numbers_of_waits_and_deliveries_are_given_once() {
    let mut reloaded = Reloaded::new();
    for job in ["a", "b"] {
        reloaded.world.push("q", named(job));
    }
    reloaded.store();
    let lost = reloaded.pull();
    let wait = reloaded.world.wait(awaiting("empty", 10_000));
    reloaded.reload();
    reloaded.pull();
    assert_ne!(reloaded.world.wait(awaiting("empty", 10_000)), wait);
    // It is no delivery of this engine.
    reloaded.give_back(&lost);
    assert_eq!(reloaded.state("a"), State::Active);
}

#[test]
fn a_stored_delivery_can_be_given_back_even_if_its_end_was_lost() {
    let mut reloaded = Reloaded::new();
    for job in ["a", "b", "c"] {
        reloaded.world.push("q", named(job));
    }
    let deliveries = [(); 3].map(|()| reloaded.pull());
    reloaded.store();
    reloaded.world.ack(&deliveries[0]);
    // These ends were taken to be stored, and then that failed.
    reloaded.world.act(|engine, _| drop(engine.take_changes()));
    reloaded.world.ack(&deliveries[1]);
    reloaded.reload();
    for (job, delivery) in ["a", "b", "c"].iter().zip(&deliveries) {
        assert_eq!(reloaded.state(job), State::Active);
        reloaded.give_back(delivery);
        assert_eq!(reloaded.state(job), State::Waiting);
    }
}

#[test]
fn nobody_is_charged_for_silence_while_signs_of_life_were_refused() {
    const FAILING: Millis = 120_000;
    let mut reloaded = Reloaded::new();
    reloaded.world.push("q", named("a"));
    reloaded.pull();
    reloaded.store();
    reloaded.reload();
    reloaded
        .world
        .act(|engine, turn| engine.hear_again(turn.now + FAILING));
    reloaded.world.sleep(FAILING + 30_000);
    assert_eq!(reloaded.state("a"), State::Active);
    assert_eq!(reloaded.world.detail(&id("a")).job.attempts, 0);
    reloaded.world.sleep(10_000);
    assert_eq!(reloaded.world.detail(&id("a")).job.attempts, 1);
}
