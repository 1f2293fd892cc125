"""A worker killed with SIGKILL while it holds jobs loses none of them; a worker in another language does them.

Deliveries whose lock was never renewed come back when the connection closes and cost no attempt; renewed
ones come back when the lock runs out and cost one.
"""

import time

from harness import check, equal, poll

JOBS = 10
HELD = 4
# How long after its due time a job may reach the heir, in ms: polls of the heir and a busy machine.
LATE = 6000


def killed_worker(stage, victim_kind, heir_kind, renewed):
    queue = f"killed-{victim_kind}"
    port = stage.serve().port
    wire = stage.wire(port)
    ids = [wire.call("PUSH", queue=queue, name="task", data={"n": n})[0]["id"] for n in range(JOBS)]
    lock_ttl = 3000 if renewed else 60000
    heartbeat = 200 if renewed else 60000
    victim = stage.client(victim_kind, port)
    # With more than one connection the npm worker renews all locks right after each pull.
    only_npm = {"pool": 1} if victim_kind == "npm" and not renewed else {}
    options = {"concurrency": HELD, "lock_ttl": lock_ttl, "heartbeat": heartbeat, "holding": True, **only_npm}
    victim.request("work", queue=queue, **options)
    held = [event["job"] for event in victim.wait_events("started", HELD)]
    equal(sorted(held), sorted(ids[:HELD]), "jobs that the victim holds")

    def job(id):
        return wire.call("GetJob", id=id)[0]["job"]

    earliest = dict.fromkeys(held, 0)
    if renewed:
        for id in held:
            beating = poll(lambda: job(id), lambda it: it["lastHeartbeat"] > it["startedAt"], f"renewal of {id}")
            earliest[id] = beating["lastHeartbeat"] + lock_ttl
    victim.kill()
    killed = time.time() * 1000
    heir = stage.client(heir_kind, port)
    heir.request("work", queue=queue, concurrency=HELD)
    done = [event["job"] for event in heir.wait_events("done", JOBS)]
    heir.request("stop")

    equal(sorted(done), sorted(ids), "jobs that the heir did")
    for id in ids:
        lost = renewed and id in held
        found = job(id)
        equal((found["attempts"], found["stallCount"]), (int(lost), int(lost)), f"attempts and stalls of {id}")
        equal(found["state"], "completed", f"state of {id}")
        if id in held:
            due = killed + (lock_ttl if renewed else 0)
            check(found["startedAt"] >= earliest[id], f"{id} came back while its lock was good")
            check(found["startedAt"] <= due + LATE, f"{id} came back {found['startedAt'] - due} ms late")
    counts = wire.call("GetJobCounts", queue=queue)[0]["counts"]
    equal({state: count for state, count in counts.items() if count}, {"completed": JOBS}, "counts")


def scenario(victim, heir, renewed):
    how = "renewed locks" if renewed else "locks never renewed"
    return (f"killed {victim} worker, {how}", lambda stage: killed_worker(stage, victim, heir, renewed))


SCENARIOS = [
    scenario(victim, heir, renewed)
    for victim, heir in (("python", "npm"), ("npm", "rust"), ("rust", "python"))
    for renewed in (False, True)
]
