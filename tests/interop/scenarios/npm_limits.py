"""Limits of a queue and of its groups, set and met by the npm client."""

from harness import check, equal
from scenarios.npm_client import Queue


def most_at_once(events):
    """How many jobs ran at one time, by the ledger of the worker."""
    running = most = 0
    for event in events:
        running += 1 if event["event"] == "started" else -1
        most = max(most, running)
    return most


def rate(stage):
    queue = Queue(stage, "rate")
    queue("setGlobalRateLimitAsync", 5, 1000)
    equal(queue("getGlobalRateLimit"), {"max": 5, "duration": 1000}, "rate limit")
    ids = [job["id"] for job in queue("addBulk", [{"name": "task", "data": {"n": n}} for n in range(12)])]
    queue.work(concurrency=12)
    queue.done(12)
    starts = sorted(queue("getJob", id)["processedOn"] for id in ids)
    took = starts[-1] - starts[0]
    # Five at once, then one each 200 ms; the times are whole milliseconds.
    check(took >= 1399, f"12 jobs started within {took} ms at 5 per second")
    queue("removeGlobalRateLimitAsync")
    equal(queue("getGlobalRateLimit"), None, "rate limit after its removal")
    queue("addBulk", [{"name": "task", "data": {"n": n}} for n in range(100)])
    queue.done(112)
    queue.client.request("stop")


def concurrency(stage):
    queue = Queue(stage, "concurrency")
    queue("setGlobalConcurrencyAsync", 3)
    equal(queue("getGlobalConcurrency"), 3, "limit")
    queue("addBulk", [{"name": "task", "data": {"n": n, "takes": 5}} for n in range(60)])
    queue.work(concurrency=20)
    queue.done(60)
    equal(most_at_once(queue.client.events("started", "done")), 3, "jobs at one time")
    queue("removeGlobalConcurrencyAsync")
    equal(queue("getGlobalConcurrency"), None, "limit after its removal")
    queue("addBulk", [{"name": "task", "data": {"n": n, "takes": 50}} for n in range(40)])
    queue.done(100)
    most = most_at_once(queue.client.events("started", "done"))
    check(most > 3, f"{most} jobs at one time, as under the limit that was removed")
    queue.client.request("stop")


def groups(stage):
    queue = Queue(stage, "groups")
    queue("pauseAsync")
    for job in ("a1", "a2", "a3", "b1", "b2", "c1", "c2"):
        queue.add({"n": 1}, jobId=job, group={"id": job[0]})
    queue.add({"n": 1}, jobId="alone")
    equal(queue("pauseGroup", "c"), True, "paused")
    equal((queue("isGroupPaused", "c"), queue("isGroupPaused", "a")), (True, False), "groups that are paused")
    queue.work(concurrency=1)
    queue("resumeAsync")
    equal(queue.started(6), ["alone", "a1", "b1", "a2", "b2", "a3"], "order")
    equal([queue("getGroupJobsCount", group) for group in "abc"], [0, 0, 2], "jobs left in each group")
    equal(queue("resumeGroup", "c"), True, "resumed")
    equal(queue.done(8)[6:], ["c1", "c2"], "jobs of the group that was paused")
    queue.client.request("stop")


def group_limits(stage):
    queue = Queue(stage, "narrow")
    queue("setGroupConcurrency", "wide", 4)
    equal(queue("getGroupConcurrency", "wide"), 4, "limit of the one group")
    jobs = [(f"{group}-{n}", group) for n in range(20) for group in ("narrow", "wide")]
    queue("pauseAsync")
    for job, group in jobs:
        queue.add({"n": 1, "takes": 5}, jobId=job, group={"id": group})
    queue.work(concurrency=20, group={"concurrency": 1})
    queue("resumeAsync")
    equal(sorted(queue.done(40)), sorted(job for job, _ in jobs), "jobs done")
    for group, most in (("narrow", 1), ("wide", 4)):
        events = [event for event in queue.client.events("started", "done") if event["job"].startswith(group)]
        equal(most_at_once(events), most, f"jobs of the group {group} at one time")
    queue.client.request("stop")


SCENARIOS = [
    ("npm client: rate limit", rate),
    ("npm client: global concurrency", concurrency),
    ("npm client: groups, in turn and paused", groups),
    ("npm client: concurrency of groups", group_limits),
]
