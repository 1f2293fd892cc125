"""More workers on one queue must not cost the broker more work per job: commands that it has to read are counted."""

from collections import Counter

from harness import check, equal, poll

JOBS = 10_000
QUEUE = "drain"
# Commands per job with several workers, in terms of those with one. Workers with nothing to do ask again and again, so the
# count ends with the last job; the beginning and the end, when some are idle, are what the room is for.
MOST = 1.5


def drain(stage, workers):
    """Commands per job of that many npm workers, each a process of its own; every job is done exactly once."""
    server = stage.serve()
    wire = stage.wire(server.port)
    tap = stage.tap(server.port)
    wire.call("Pause", queue=QUEUE)
    ids = []
    for start in range(0, JOBS, 1000):
        jobs = [{"name": "task", "data": {"n": n}} for n in range(start, start + 1000)]
        ids += wire.call("PUSHB", queue=QUEUE, jobs=jobs)[0]["ids"]
    crew = [stage.client("npm", tap.port) for _ in range(workers)]
    for worker in crew:
        worker.request("work", queue=QUEUE, concurrency=10)

    before = tap.frames()
    wire.call("Resume", queue=QUEUE)
    poll(
        lambda: wire.call("GetJobCounts", queue=QUEUE)[0]["counts"]["completed"],
        lambda completed: completed == JOBS,
        "completed jobs",
    )
    commands = tap.frames() - before

    for worker in crew:
        worker.request("stop")
    shares = [[event["job"] for event in worker.events("done")] for worker in crew]
    ledger = Counter(job for share in shares for job in share)
    equal((len(ledger), ledger.total()), (JOBS, JOBS), "different jobs that were done, and all")
    equal(set(ledger), set(ids), "jobs that were done")
    check(all(shares), f"jobs of each worker: {list(map(len, shares))}")
    check(not any(worker.events("error") for worker in crew), "errors of the workers")
    for process in (*crew, server):
        process.end()
    return commands / JOBS


def drains(stage):
    commands = {workers: drain(stage, workers) for workers in (1, 4, 8)}
    figures = ", ".join(f"{each:.3f} with {workers}" for workers, each in commands.items())
    check(max(commands.values()) <= MOST * commands[1], f"commands per job: {figures}")
    return f"commands per job: {figures}"


SCENARIOS = [("1, 4 and 8 npm workers drain 10000 jobs", drains)]
