"""The breadth of the npm client (`bunqueue` under bun): Queue, Worker and QueueEvents, within what the broker has."""

from harness import check, equal


class Queue:
    """A queue of the npm client: `queue("add", ...)` calls its method and waits for the answer."""

    def __init__(self, stage, name):
        self.name = name
        self.client = stage.client("npm", stage.serve().port)

    def __call__(self, method, *args):
        return self.client.request("call", queue=self.name, method=method, args=args)

    def counts(self):
        return {state: count for state, count in self("getJobCountsAsync").items() if count}

    def add(self, data, **options):
        return self("add", "task", data, options)["id"]

    def flow(self, method, *args):
        """A method of the flow producer."""
        return self.client.request("flow", method=method, args=args)

    def work(self, **options):
        self.client.request("work", queue=self.name, **options)

    def listen(self, *types):
        self.client.request("listen", queue=self.name, types=types)

    def wait(self, type, count):
        return self.client.wait_events("queue", count, wanted=lambda event: event["type"] == type)

    def started(self, count):
        return [event["job"] for event in self.client.wait_events("started", count)]

    def done(self, count):
        return [event["job"] for event in self.client.wait_events("done", count)]


def adding(stage):
    queue = Queue(stage, "adding")
    id = queue.add({"n": 1}, jobId="order-1", priority=5, delay=60000, attempts=7)
    equal(id, "order-1", "custom id")
    equal(queue.add({"n": 2}, jobId="order-1"), "order-1", "id of the second add")
    found = queue("getJob", "order-1")
    equal((found["data"], found["priority"], found["delay"]), ({"n": 1}, 5, 60000), "job as first added")
    equal(queue("getJobState", "order-1"), "delayed", "state")

    first = queue.add({"n": 3}, deduplication={"id": "key"})
    equal(queue.add({"n": 4}, deduplication={"id": "key"}), first, "deduplicated id")
    equal(queue("getDeduplicationJobId", "key"), first, "owner of the key")
    second = queue.add({"n": 5}, deduplication={"id": "key", "replace": True})
    check(second != first, "replace kept the old job")
    equal(queue("getJobState", first), "unknown", "state of the replaced job")

    jobs = [
        {"name": "a", "data": {"n": 6}},
        {"name": "b", "data": {"n": 7}, "opts": {"jobId": "bulk-b", "priority": 1}},
        {"name": "c", "data": {"n": 8}, "opts": {"delay": 60000}},
    ]
    added = [job["id"] for job in queue("addBulk", jobs)]
    equal((len(set(added)), added[1]), (3, "bulk-b"), "ids of the bulk")
    equal([queue("getJob", job)["name"] for job in added], ["a", "b", "c"], "names of the bulk")
    equal(queue.counts(), {"waiting": 2, "prioritized": 1, "delayed": 2}, "counts")
    equal(queue("countAsync"), 5, "count")
    equal(queue("getJob", "nobody"), None, "an unknown job")


def concurrent_worker(stage):
    queue = Queue(stage, "concurrent")
    queue.listen("waiting", "active", "completed")
    jobs = [{"name": "task", "data": {"n": n}} for n in range(500)]
    ids = [job["id"] for job in queue("addBulk", jobs)]
    queue.work(concurrency=50)
    equal(sorted(queue.done(500)), sorted(ids), "jobs done")
    completed = {event["jobId"]: event["returnvalue"] for event in queue.wait("completed", 500)}
    equal(completed, {id: {"n": n, "double": 2 * n, "by": "npm"} for n, id in enumerate(ids)}, "completed events")
    for type in ("waiting", "active"):
        equal(sorted(event["jobId"] for event in queue.wait(type, 500)), sorted(ids), f"{type} events")
    queue.client.request("stop")
    equal(queue.counts(), {"completed": 500}, "counts")
    check(not queue.client.events("error"), f"errors of the worker: {queue.client.events('error')}")


def batch_worker(stage):
    queue = Queue(stage, "batch")
    ids = [job["id"] for job in queue("addBulk", [{"name": "task", "data": {"n": n}} for n in range(100)])]
    queue.work(concurrency=50, batch=10)
    equal(sorted(queue.done(100)), sorted(ids), "jobs done")
    queue.client.request("stop")
    equal(queue.counts(), {"completed": 100}, "counts")
    sizes = {queue("getJob", id)["returnvalue"]["batch"] for id in ids}
    check(max(sizes) > 1 and max(sizes) <= 10, f"sizes of the batches: {sizes}")


def outcomes(stage):
    queue = Queue(stage, "outcomes")
    queue.listen("completed", "failed", "retried", "progress")
    backoff = {"type": "fixed", "delay": 50}
    recovers = queue.add({"n": 1, "failures": 2}, attempts=3, backoff=backoff)
    fails = queue.add({"n": 2, "failures": 9}, attempts=2, backoff=0)
    reports = queue.add({"n": 3, "progress": 50, "log": "half way"})
    later = queue.add({"n": 4}, delay=300)
    queue.work()

    completed = [event["jobId"] for event in queue.wait("completed", 3)]
    equal(sorted(completed), sorted([recovers, reports, later]), "completed events")
    failed = [(event["jobId"], event["failedReason"]) for event in queue.wait("failed", 4)]
    expected = [(id, f"planned failure {attempt}") for id in (recovers, fails) for attempt in (1, 2)]
    equal(sorted(failed), sorted(expected), "failed events")
    retried = [event["jobId"] for event in queue.wait("retried", 3)]
    equal(sorted(retried), sorted([recovers, recovers, fails]), "retried events")
    (progress,) = queue.wait("progress", 1)
    equal((progress["jobId"], progress["data"]), (reports, 50), "progress event")
    queue.client.request("stop")

    found = queue("getJob", fails)
    equal((queue("getJobState", fails), found["attemptsMade"]), ("failed", 2), "the job that fails")
    equal(found["failedReason"], "planned failure 2", "reason of the failure")
    check("planned failure 2" in found["stacktrace"][0], f"stack: {found['stacktrace']}")
    found = queue("getJob", recovers)
    equal((found["attemptsMade"], found["returnvalue"]["n"]), (2, 1), "the job that recovers")
    found = queue("getJob", reports)
    equal(found["progress"], 50, "progress of the completed job")
    logs = queue("getJobLogs", reports)
    check(logs["count"] == 1 and "half way" in logs["logs"][0], f"logs: {logs}")
    found = queue("getJob", later)
    wait = found["processedOn"] - found["timestamp"]
    check(wait >= 300, f"the delayed job started after {wait} ms")
    equal(queue.counts(), {"completed": 3, "failed": 1}, "counts")


def order(stage):
    queue = Queue(stage, "order")
    queue("pauseAsync")
    equal(queue("isPausedAsync"), True, "paused")
    names = ["fifo-1", "fifo-2", "lifo-1", "lifo-2", "low", "high", "negative"]
    options = [{}, {}, {"lifo": True}, {"lifo": True}, {"priority": 1}, {"priority": 9}, {"priority": -1}]
    for name, option in zip(names, options):
        queue.add({"n": 1}, jobId=name, **option)
    equal(queue.counts(), {"paused": 7}, "counts of the paused queue")
    equal(queue("getCountsPerPriorityAsync"), {"-1": 1, "0": 4, "1": 1, "9": 1}, "counts per priority")
    queue("changeJobPriority", "fifo-2", {"priority": 10})
    queue.work(concurrency=1)
    queue("resumeAsync")
    expected = ["fifo-2", "high", "low", "lifo-2", "lifo-1", "fifo-1", "negative"]
    equal(queue.started(7), expected, "order")
    queue.client.request("stop")


def control(stage):
    queue = Queue(stage, "control")
    queue.listen("removed", "paused", "resumed")
    ids = [queue.add({"n": n}, delay=60000 if n < 4 else 0) for n in range(8)]
    queue("promoteJob", ids[0])
    queue("changeJobDelay", ids[1], 120000)
    queue("updateJobData", ids[2], {"n": "new"})
    queue("removeAsync", ids[3])
    equal([queue("getJobState", id) for id in ids[:4]], ["waiting", "delayed", "delayed", "unknown"], "states")
    equal([event["jobId"] for event in queue.wait("removed", 1)], [ids[3]], "removed event")
    equal(queue("getJob", ids[2])["data"], {"n": "new"}, "updated data")
    equal([job["id"] for job in queue("getDelayedAsync")], ids[1:3], "delayed jobs")
    equal([job["id"] for job in queue("getWaitingAsync")], [ids[0], *ids[4:]], "waiting jobs")

    for n in range(3):
        queue("addJobLog", ids[1], f"line {n}")
    equal(queue("getJobLogs", ids[1])["count"], 3, "log lines")
    queue("clearJobLogs", ids[1], 1)
    left = queue("getJobLogs", ids[1])["logs"]
    check(len(left) == 1 and "line 2" in left[0], f"log lines left: {left}")

    queue("pauseAsync")
    queue("resumeAsync")
    queue.wait("paused", 1)
    queue.wait("resumed", 1)
    queue.work(concurrency=2)
    equal(sorted(queue.done(5)), sorted([ids[0], *ids[4:]]), "jobs done")
    queue.client.request("stop")
    equal(queue("drainAsync"), 2, "drained")
    equal(sorted(queue("cleanAsync", 0, 100, "completed")), sorted([ids[0], *ids[4:]]), "cleaned")
    equal(queue.counts(), {}, "counts after drain and clean")
    queue.add({"n": 9})
    queue("obliterateAsync")
    equal((queue.counts(), queue("countAsync")), ({}, 0), "counts after obliterate")


SCENARIOS = [
    ("npm client: add, bulk, custom ids, deduplication", adding),
    ("npm client: 500 jobs, concurrency 50, events", concurrent_worker),
    ("npm client: worker with batches", batch_worker),
    ("npm client: retries, progress, logs, delay, failures", outcomes),
    ("npm client: pause, priority and lifo order", order),
    ("npm client: job and queue control", control),
]
