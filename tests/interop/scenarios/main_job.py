"""The main job: an agent adds jobs over stdio, workers in three languages do them, the agent reads the results.

One process is both doors. Each worker has a third of the jobs; every job is done exactly once.
"""

from harness import check, equal

SHARES = {"python": 333, "rust": 333, "npm": 334}
SINGLE = 33
EMPTY = {"waiting": 0, "prioritized": 0, "delayed": 0, "active": 0, "failed": 0, "paused": 0, "waiting-children": 0}


def add_jobs(agent, queue, count):
    """Some jobs one by one, the rest in lists of at most 100; ids by number."""
    ids = {}
    for n in range(SINGLE):
        added = agent.call("add_job", queue=queue, name="double", data={"n": n})
        equal(added["outcome"], "new", "outcome of add_job")
        ids[n] = added["jobId"]
    for start in range(SINGLE, count, 100):
        numbers = range(start, min(start + 100, count))
        jobs = [{"name": "double", "data": {"n": n}} for n in numbers]
        added = agent.call("add_jobs_bulk", queue=queue, jobs=jobs)
        equal(added["created"], len(jobs), "created of add_jobs_bulk")
        ids.update(zip(numbers, added["jobIds"], strict=True))
    equal(len(set(ids.values())), count, f"different ids in {queue}")
    return ids


def main_job(stage, sdk):
    agent = stage.agent(sdk)
    workers = {kind: stage.client(kind, agent.port) for kind in SHARES}
    for kind, worker in workers.items():
        worker.request("work", queue=f"main-{kind}", concurrency=8)
    ids = {kind: add_jobs(agent, f"main-{kind}", count) for kind, count in SHARES.items()}
    for kind, worker in workers.items():
        worker.wait_events("done", SHARES[kind])
        worker.request("stop")

    for kind, count in SHARES.items():
        queue = f"main-{kind}"
        counts = agent.call("get_job_counts", queue=queue)
        equal(counts, {"queue": queue, "completed": count, **EMPTY}, "counts")
        for n, job in ids[kind].items():
            equal(agent.call("get_job_state", jobId=job)["state"], "completed", f"state of {queue} {n}")
            result = agent.call("get_job_result", jobId=job)
            equal(result, {"jobId": job, "result": {"n": n, "double": 2 * n, "by": kind}}, f"result of {queue} {n}")
        ledger = [event["job"] for event in workers[kind].events("done")]
        equal(sorted(ledger), sorted(ids[kind].values()), f"jobs that the {kind} worker did")
        equal({event["name"] for event in workers[kind].events("started")}, {"double"}, f"names at the {kind} worker")
        check(not workers[kind].events("error"), f"{kind} worker: {workers[kind].events('error')}")


SCENARIOS = [
    ("main job: Python agent, 1000 jobs", lambda stage: main_job(stage, "Python")),
    ("main job: TypeScript agent, 1000 jobs", lambda stage: main_job(stage, "TypeScript")),
]
