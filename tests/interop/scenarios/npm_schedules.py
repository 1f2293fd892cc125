"""Job schedulers and repeated jobs of the npm client."""

import time

from harness import check, equal, poll
from scenarios.npm_client import Queue


def intervals(stage):
    queue = Queue(stage, "intervals")
    template = {"name": "tick", "data": {"n": 1}}
    queue("upsertJobScheduler", "bounded", {"every": 100, "limit": 3}, template)
    queue.work()
    queue.done(3)
    poll(lambda: queue("getJobScheduler", "bounded"), lambda found: found is None, "the scheduler with a limit")
    queue("upsertJobScheduler", "removed", {"every": 100}, {**template, "data": {"n": 2}})
    queue.done(4)
    equal(queue("removeJobScheduler", "removed"), True, "removed")
    before = sum(queue.counts().values())
    # While this one ticks five times, the removed one would too.
    queue("upsertJobScheduler", "after", {"every": 100, "limit": 5}, {**template, "data": {"n": 3}})
    poll(lambda: queue("getJobScheduler", "after"), lambda found: found is None, "the scheduler after it")
    done = queue.client.wait_events("done", before + 5)
    queue.client.request("stop")
    equal(queue.counts(), {"completed": before + 5}, "counts: a removed scheduler adds no more")
    runs = [sum(event["result"]["n"] == n for event in done) for n in (1, 3)]
    equal(runs, [3, 5], "runs of the schedulers with a limit")
    jobs = [queue("getJob", event["job"]) for event in done if event["result"]["n"] == 3]
    equal({job["name"] for job in jobs}, {"tick"}, "names")
    times = [job["timestamp"] for job in jobs]
    gaps = [later - earlier for earlier, later in zip(times, times[1:])]
    # The first of the five may be late, no other early.
    check(all(gap > 0 for gap in gaps) and sum(gaps) > 300, f"time between ticks: {gaps}")


def patterns(stage):
    queue = Queue(stage, "patterns")
    template = {"name": "year", "data": {"n": 1}}
    queue("upsertJobScheduler", "year", {"pattern": "0 0 1 1 *", "timezone": "Etc/UTC"}, template)
    next_year = time.gmtime().tm_year + 1
    found = queue("getJobScheduler", "year")
    equal((found["pattern"], time.gmtime(found["next"] / 1000)[:5]), ("0 0 1 1 *", (next_year, 1, 1, 0, 0)), "next run")
    queue("upsertJobScheduler", "year", {"pattern": "30 6 2 1 *", "timezone": "Europe/Berlin"}, template)
    found = queue("getJobScheduler", "year")
    equal(time.gmtime(found["next"] / 1000)[1:5], (1, 2, 5, 30), "next run after the change")
    queue("upsertJobScheduler", "hour", {"every": 3_600_000}, template)
    equal(sorted(it["id"] for it in queue("getJobSchedulers")), ["hour", "year"], "schedulers")
    equal(queue("getJobSchedulersCount"), 2, "count of the schedulers")
    equal(queue("removeJobScheduler", "year"), True, "removed")
    equal(queue("getJobScheduler", "year"), None, "the removed scheduler")
    equal([it["id"] for it in queue("getJobSchedulers")], ["hour"], "schedulers left")


def repeated(stage):
    queue = Queue(stage, "repeated")
    queue.add({"n": 1}, repeat={"every": 50, "limit": 2})
    queue.work()
    equal(len(set(queue.done(3))), 3, "runs of a job that is repeated twice")
    queue.client.request("stop")
    equal(queue.counts(), {"completed": 3}, "counts")


SCENARIOS = [
    ("npm client: schedulers that tick, with and without a limit", intervals),
    ("npm client: schedulers by a pattern", patterns),
    ("npm client: a repeated job", repeated),
]
