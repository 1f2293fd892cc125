"""The reverse: three clients add jobs, the agent pulls, completes and fails them, the clients read the outcome."""

from harness import check, equal

OWNER = "interop-agent"


def acknowledge(agent, job):
    result = {"seen": job["data"]["n"], "by": "agent"}
    done = agent.call("ack_job", jobId=job["id"], token=job["token"], result=result)
    equal(done, {"success": True, "jobId": job["id"]}, "ack_job")
    return result


def work_as_agent(agent, queue):
    """Takes the ten jobs of a queue in both ways; what became of each, by id."""
    outcome = {}
    for _ in range(4):
        job = agent.call("pull_job", queue=queue, owner=OWNER, timeoutMs=5000)["job"]
        equal(job["state"], "active", "state of a pulled job")
        outcome[job["id"]] = ("completed", acknowledge(agent, job), None, 0)
    batch = agent.call("pull_job_batch", queue=queue, count=6, owner=OWNER, lockTtl=60000)
    equal(batch["count"], 6, "jobs in the batch")
    first, second, retried, dead, spent, last = batch["jobs"]

    pair = [first, second]
    done = agent.call("ack_job_batch", jobIds=[job["id"] for job in pair], tokens=[job["token"] for job in pair])
    equal(done, {"success": True, "count": 2}, "ack_job_batch")
    for job in pair:
        outcome[job["id"]] = ("completed", None, None, 0)

    fail = {"jobId": retried["id"], "token": retried["token"], "error": "not yet"}
    equal(agent.call("fail_job", **fail)["success"], True, "fail_job")
    again = agent.call("pull_job", queue=queue, owner=OWNER, timeoutMs=10000)["job"]
    equal((again["id"], again["attempts"]), (retried["id"], 1), "the retried job")
    outcome[again["id"]] = ("completed", acknowledge(agent, again), "not yet", 1)

    agent.call("fail_job", jobId=dead["id"], token=dead["token"], error="never", unrecoverable=True)
    outcome[dead["id"]] = ("failed", None, "never", 1)
    for attempt in (1, 2, 3):
        agent.call("fail_job", jobId=spent["id"], token=spent["token"], error=f"attempt {attempt}")
        if attempt < 3:
            spent = agent.call("pull_job", queue=queue, owner=OWNER, timeoutMs=10000)["job"]
    outcome[spent["id"]] = ("failed", None, "attempt 3", 3)

    wrong = agent.refused("ack_job", jobId=last["id"], token="made-up", result={})
    equal(wrong["error"], f"Invalid or expired lock token for job {last['id']}", "ack with a wrong token")
    outcome[last["id"]] = ("completed", acknowledge(agent, last), None, 0)
    return outcome


def reverse(stage, sdk):
    agent = stage.agent(sdk)
    for kind in ("python", "rust", "npm"):
        queue = f"reverse-{kind}"
        client = stage.client(kind, agent.port)
        options = {"attempts": 3, "backoff": 0}
        ids = [client.request("add", queue=queue, name="task", data={"n": n}, options=options) for n in range(5)]
        jobs = [{"name": "task", "data": {"n": n}, "options": options} for n in range(5, 10)]
        ids += client.request("add_bulk", queue=queue, jobs=jobs)

        page = agent.call("get_jobs", queue=queue, state="waiting", start=0, end=20)["jobs"]
        seen = [(job["id"], job["name"], job["data"]) for job in page]
        equal(seen, [(id, "task", {"n": n}) for n, id in enumerate(ids)], f"jobs of the {kind} client")
        outcome = work_as_agent(agent, queue)
        equal(sorted(outcome), sorted(ids), "jobs that the agent took")

        for id, (state, result, reason, attempts) in outcome.items():
            job = client.request("job", queue=queue, job=id)
            found = (job["state"], job["result"], job["failedReason"], job["attempts"])
            equal(found, (state, result, reason, attempts), f"{kind} client's view of {id}")
        counts = client.request("counts", queue=queue)
        check(counts["completed"] == 8 and counts["failed"] == 2, f"counts: {counts}")
        check(sum(counts.values()) == 10, f"counts: {counts}")


SCENARIOS = [
    ("reverse: Python agent", lambda stage: reverse(stage, "Python")),
    ("reverse: TypeScript agent", lambda stage: reverse(stage, "TypeScript")),
]
