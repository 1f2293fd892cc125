"""Simple Mode of the npm client (`Bunqueue`): routes, middleware, triggers, retries, schedules."""

from harness import check, equal, poll
from scenarios.npm_client import Queue


def start(stage, name, **options):
    queue = Queue(stage, name)
    queue.client.request("simple", queue=name, options={"concurrency": 5, **options})

    def app(method, *args):
        return queue.client.request("app", method=method, args=args)

    return queue, app


def routes(stage):
    queue, app = start(stage, "routes")
    ids = [app("add", "double", {"n": n})["id"] for n in (1, 5, 6)]
    # Only a double over 10 sets off a report.
    done = queue.client.wait_events("done", 4)
    results = {event["job"]: event["result"] for event in done if event["name"] == "double"}
    equal(results, {id: {"double": 2 * n} for id, n in zip(ids, (1, 5, 6))}, "results of the route")
    equal([event["result"] for event in done if event["name"] == "report"], [{"reported": 12}], "triggered jobs")
    poll(lambda: app("getJobCountsAsync")["completed"], lambda completed: completed == 4, "completed jobs")
    equal(len(queue.client.events("started")), 4, "jobs that passed the middleware")
    app("close")


def retries(stage):
    queue, app = start(stage, "retries", retry={"maxAttempts": 3, "delay": 10, "strategy": "fixed"})
    recovers = app("add", "flaky", {"failures": 2}, {"attempts": 1})["id"]
    fails = app("add", "flaky", {"failures": 9}, {"attempts": 1})["id"]
    (event,) = queue.client.wait_events("done", 1)
    equal((event["job"], event["result"]), (recovers, {"calls": 3}), "the job that recovers within its delivery")
    (entry,) = poll(lambda: app("getDlqAsync"), len, "dead letters")
    equal((entry["job"]["id"], entry["error"]), (fails, "planned failure 3"), "the dead letter")
    equal(app("purgeDlqAsync"), 1, "purged")
    app("close")


def schedule(stage):
    queue, app = start(stage, "schedule")
    # The id is also the name of its jobs, which the route is chosen by.
    app("every", "tick", 100)
    app("cron", "never", "0 0 29 2 *")
    equal(sorted(it["id"] for it in app("listCrons")), ["never", "tick"], "schedules")
    poll(lambda: app("getJobCountsAsync")["completed"], lambda completed: completed >= 2, "ticks")
    equal((app("removeCron", "tick"), app("removeCron", "never")), (True, True), "removed")
    equal(app("listCrons"), [], "schedules left")
    app("pauseAsync")
    paused = app("add", "double", {"n": 1})["id"]
    equal(queue.counts()["paused"], 1, "jobs of the paused queue that are ready")
    app("resumeAsync")
    queue.client.wait_events("done", 1, wanted=lambda event: event["job"] == paused)
    check(not queue.client.events("error"), f"errors: {queue.client.events('error')}")
    app("close")


SCENARIOS = [
    ("npm client: Simple Mode, routes, middleware, triggers", routes),
    ("npm client: Simple Mode, retries and dead letters", retries),
    ("npm client: Simple Mode, schedules and pause", schedule),
]
