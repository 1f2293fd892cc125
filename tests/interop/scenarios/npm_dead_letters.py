"""The dead-letter queue by the npm client."""

from harness import check, equal
from scenarios.npm_client import Queue


def dead_letters(stage):
    queue = Queue(stage, "dead")
    queue.listen("failed")
    data = {"n": 1, "fails": "once"}
    ids = [queue.add(data, jobId=f"dead-{n}", attempts=1) for n in range(4)]
    queue.work(concurrency=1)
    queue.wait("failed", 4)
    entries = queue("getDlqAsync")
    equal([entry["job"]["id"] for entry in entries], ids, "entries, oldest first")
    equal({entry["error"] for entry in entries}, {"planned failure"}, "errors")
    equal([len(entry["attempts"]) for entry in entries], [1] * 4, "attempts in the history of each")
    stats = queue("getDlqStatsAsync")
    equal((stats["total"], stats["byReason"][entries[0]["reason"]]), (4, 4), "all of one reason")

    equal(queue("retryDlqAsync", ids[1]), 1, "retried")
    equal(queue.done(1), [ids[1]], "the job that was retried")
    equal(queue("removeDlqJobAsync", ids[0]), True, "removed")
    equal([entry["job"]["id"] for entry in queue("getDlqAsync")], ids[2:], "entries left")
    equal(queue("purgeDlqAsync"), 2, "purged")
    equal((queue("getDlqAsync"), queue("getDlqStatsAsync")["total"]), ([], 0), "the empty queue")
    equal([queue("getJobState", id) for id in ids], ["unknown", "completed", "unknown", "unknown"], "states")
    queue.client.request("stop")


def bounds(stage):
    queue = Queue(stage, "bounds")
    queue.listen("failed")
    queue("setDlqConfigAsync", {"maxEntries": 2, "maxAge": 60000})
    config = queue("getDlqConfigAsync")
    equal((config["maxEntries"], config["maxAge"], config["autoRetry"]), (2, 60000, False), "config")
    ids = [queue.add({"n": n, "fails": "once"}, jobId=f"bounded-{n}", attempts=1) for n in range(3)]
    queue.work(concurrency=1)
    queue.wait("failed", 3)
    entries = queue("getDlqAsync")
    equal([entry["job"]["id"] for entry in entries], ids[1:], "entries when there is room for two")
    check(all(entry["expiresAt"] == entry["enteredAt"] + 60000 for entry in entries), f"expiry: {entries}")
    equal(queue("retryDlqAsync"), 2, "retried")
    equal(sorted(queue.done(2)), ids[1:], "jobs that were retried")
    queue.client.request("stop")
    equal(queue.counts(), {"completed": 2}, "counts")


SCENARIOS = [
    ("npm client: dead letters listed, retried, purged", dead_letters),
    ("npm client: bounds of the dead-letter queue", bounds),
]
