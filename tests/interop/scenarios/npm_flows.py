"""FlowProducer of the npm client: trees, chains and their results."""

from harness import check, equal
from scenarios.npm_client import Queue


def node(queue, id, *children, **data):
    return {"name": id, "queueName": queue.name, "data": {"n": 1, **data}, "opts": {"jobId": id}, "children": children}


def tree(stage):
    queue = Queue(stage, "tree")
    leaves = [node(queue, "left", n=2), node(queue, "right", n=3)]
    added = queue.flow("add", node(queue, "root", node(queue, "middle", *leaves, collects=True), collects=True))
    ids = [added["job"]["id"], [child["job"]["id"] for child in added["children"]]]
    equal(ids, ["root", ["middle"]], "root and children of the tree")
    equal(queue.counts(), {"waiting": 2, "waiting-children": 2}, "counts before any work")

    queue.work()
    results = {event["job"]: event["result"] for event in queue.client.wait_events("done", 4)}
    equal(list(results)[2:], ["middle", "root"], "order of the parents")
    plain = {n: {"n": n, "double": 2 * n, "by": "npm"} for n in (1, 2, 3)}
    middle = {**plain[1], "children": {"tree:left": plain[2], "tree:right": plain[3]}}
    equal(results["middle"], middle, "result of the middle")
    equal(results["root"], {**plain[1], "children": {"tree:middle": middle}}, "result of the root")
    queue.client.request("stop")
    equal(queue.counts(), {"completed": 4}, "counts")
    found = queue.flow("getFlow", {"id": "root", "queueName": queue.name})
    leaves = [child["job"]["id"] for child in found["children"][0]["children"]]
    equal((found["job"]["id"], sorted(leaves)), ("root", ["left", "right"]), "flow read again")


def chain(stage):
    queue = Queue(stage, "chain")
    steps = [{"name": f"step {n}", "queueName": queue.name, "data": {"n": n}} for n in range(4)]
    ids = queue.flow("addChain", steps)["jobIds"]
    equal(queue.counts(), {"waiting": 1, "waiting-children": 3}, "counts before any work")
    queue.work()
    equal(queue.done(4), ids, "order")
    then = queue.flow("addBulkThen", steps, {**steps[0], "name": "final"})
    order = queue.done(9)[4:]
    equal((sorted(order[:4]), order[4]), (sorted(then["parallelIds"]), then["finalId"]), "the parallel ones, and the last")
    queue.client.request("stop")


def failing_child(stage):
    queue = Queue(stage, "failing")
    child = {**node(queue, "child", failures=1), "opts": {"jobId": "child", "attempts": 1, "failParentOnFailure": True}}
    queue.flow("add", node(queue, "parent", child))
    queue.listen("failed")
    queue.work()
    failed = {event["jobId"]: event["failedReason"] for event in queue.wait("failed", 2)}
    equal(failed["child"], "planned failure 1", "reason of the child")
    check("child" in failed["parent"] and "planned failure 1" in failed["parent"], f"reason of the parent: {failed}")
    queue.client.request("stop")
    equal(queue.counts(), {"failed": 2}, "counts")
    equal([event["job"] for event in queue.client.events("started")], ["child"], "jobs that ran")


SCENARIOS = [
    ("npm client: tree with values of children", tree),
    ("npm client: chain, and many before one", chain),
    ("npm client: a child that fails its parent", failing_child),
]
