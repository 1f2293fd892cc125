"""What the crate `bunqueue-client` has beside jobs and workers: dead letters, limits, schedulers, flows."""

from harness import check, equal, poll


class Queue:
    """A queue of the Rust client, and a look at it over the wire."""

    def __init__(self, stage, name):
        self.name = name
        port = stage.serve().port
        self.client = stage.client("rust", port)
        self.wire = stage.wire(port)

    def __call__(self, op, **fields):
        return self.client.request(op, queue=self.name, **fields)

    def add(self, data, **options):
        return self("add", name="task", data=data, options=options)

    def done(self, count):
        return [event["job"] for event in self.client.wait_events("done", count)]

    def counts(self):
        return {state: count for state, count in self("counts").items() if count}


def dead_letters(stage):
    queue = Queue(stage, "rust-dead")
    ids = [queue.add({"n": n, "fails": "once"}, job_id=f"dead-{n}", attempts=1) for n in range(3)]
    queue("work", concurrency=1)
    dead = poll(lambda: queue("dlq"), lambda jobs: len(jobs) == 3, "dead letters")
    equal([job["id"] for job in dead], ids, "dead letters, oldest first")
    equal(queue("retry_dlq", job=ids[1]), 1, "retried")
    equal(queue.done(1), [ids[1]], "the job that was retried")
    equal([job["id"] for job in queue("dlq")], [ids[0], ids[2]], "dead letters left")
    equal(queue("purge_dlq"), 2, "purged")
    equal(queue("dlq"), [], "dead letters after the purge")
    queue("stop")
    equal(queue.counts(), {"completed": 1}, "counts")


def rate(stage):
    queue = Queue(stage, "rust-rate")

    def limit():
        return queue.wire.call("GetQueueLimits", queue=queue.name)[0]["data"]["limits"]["rateLimit"]

    queue("limit", limit=5, duration=500)
    equal(limit(), {"max": 5, "duration": 500}, "rate limit")
    ids = queue("add_bulk", jobs=[{"name": "task", "data": {"n": n}, "options": {}} for n in range(10)])
    queue("work", concurrency=10)
    queue.done(10)
    starts = sorted(queue.wire.call("GetJob", id=id)[0]["job"]["startedAt"] for id in ids)
    took = starts[-1] - starts[0]
    # Five at once, then one each 100 ms; the times are whole milliseconds.
    check(took >= 499, f"10 jobs started within {took} ms at 5 in 500 ms")
    queue("unlimit")
    equal(limit(), None, "rate limit after its removal")
    queue("stop")


def schedulers(stage):
    queue = Queue(stage, "rust-schedule")
    queue("schedule", scheduler="tick", every=100, limit=2, data={"n": 3})
    queue("work")
    ticks = queue.client.wait_events("done", 2)
    equal([event["result"]["n"] for event in ticks], [3, 3], "data of the ticks")
    poll(lambda: queue("scheduler", scheduler="tick"), lambda found: found is None, "the scheduler after its last tick")
    queue("stop")
    equal(queue.counts(), {"completed": 2}, "counts")

    queue("schedule", scheduler="year", pattern="0 0 1 1 *", data={"n": 1})
    found = queue("scheduler", scheduler="year")
    equal((found["name"], found["schedule"], found["queue"]), ("year", "0 0 1 1 *", queue.name), "scheduler")
    queue("unschedule", scheduler="year")
    equal(queue("scheduler", scheduler="year"), None, "the removed scheduler")


def flows(stage):
    queue = Queue(stage, "rust-flow")
    ids = queue("chain", steps=[{"name": f"step {n}", "data": {"n": n}, "options": {}} for n in range(4)])
    equal(queue.counts(), {"waiting": 1, "waiting-children": 3}, "counts before any work")
    queue("work")
    equal(queue.done(4), ids, "order")
    queue("stop")
    # Version 2 of the protocol added children first, below a parent to come. Version 3 knows no such parent: the npm
    # server refuses this in the same words.
    child = {"name": "child", "data": {"n": 1}, "options": {}}
    error = queue.client.refusal("tree", queue=queue.name, root={**child, "name": "root", "children": [child]})
    check("Parent job not found: pending" in error, f"refusal of a tree: {error}")
    equal(queue.counts(), {"completed": 4}, "counts")


SCENARIOS = [
    ("Rust client: dead letters", dead_letters),
    ("Rust client: rate limit", rate),
    ("Rust client: schedulers", schedulers),
    ("Rust client: chain, and a tree that is refused", flows),
]
