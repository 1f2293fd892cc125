"""The published Python client (`bunqueue-client`) as a driver.

One JSON request per line on stdin, one reply per line on stdout, events in between (see README.md).
Job data, results and options travel in the tagged JSON form; `tag` and `untag` are its two directions.
"""

import base64
import json
import sys
import threading

import msgpack
from bunqueue import Queue, Worker

OUT = threading.Lock()
CONNECTION = {"host": "127.0.0.1", "port": int(sys.argv[1])}
if len(sys.argv) > 2:
    CONNECTION["tls"] = {"ca_file": sys.argv[2]}


def say(**message):
    with OUT:
        print(json.dumps(message), flush=True)


def tag(value):
    if isinstance(value, dict):
        return {key: tag(item) for key, item in value.items()}
    if isinstance(value, list):
        return [tag(item) for item in value]
    if isinstance(value, msgpack.ExtType):
        return {"$ext": {"type": value.code, "data": base64.b64encode(value.data).decode()}}
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, int) and abs(value) > 2**53 - 1:
        return {"$int": str(value)}
    if isinstance(value, float) and repr(value) == "-0.0":
        return {"$float": "-0"}
    return value


def untag(value):
    if isinstance(value, list):
        return [untag(item) for item in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (key, item), = value.items()
        if key == "$bytes":
            return base64.b64decode(item)
        if key == "$int":
            return int(item)
        if key == "$float":
            return float(item)
    return {key: untag(item) for key, item in value.items()}


def hold(job):
    """Takes a job and never ends."""
    say(event="started", job=job.id, attempts=job.attempts, data=tag(job.data))
    threading.Event().wait()


def process(job):
    data = job.data
    say(event="started", job=job.id, name=job.raw["name"], attempts=job.attempts, data=tag(data))
    if job.attempts < data.get("failures", 0):
        raise RuntimeError(f"planned failure {job.attempts + 1}")
    result = {"n": data.get("n"), "double": data.get("n", 0) * 2, "by": "python"}
    say(event="done", job=job.id, result=result)
    return result


class Driver:
    def __init__(self):
        self.worker = None

    def queue(self, name):
        return Queue(name, **CONNECTION)

    def add(self, queue, name, data, options):
        with self.queue(queue) as target:
            return target.add(name, untag(data), **options).id

    def add_bulk(self, queue, jobs):
        entries = [{"name": job["name"], "data": untag(job["data"]), **job["options"]} for job in jobs]
        with self.queue(queue) as target:
            return target.add_bulk(entries)

    def job(self, queue, job):
        with self.queue(queue) as target:
            found = target.get_job(job)
            return {
                "state": target.get_state(job),
                "attempts": found.attempts,
                "data": tag(found.data),
                "result": tag(target.get_result(job)),
                "failedReason": tag(found.raw.get("failedReason")),
            }

    def counts(self, queue):
        with self.queue(queue) as target:
            return target.get_job_counts()

    def work(self, queue, concurrency=4, lock_ttl=30000, heartbeat=10000, holding=False):
        self.worker = Worker(
            queue,
            hold if holding else process,
            **CONNECTION,
            concurrency=concurrency,
            poll_timeout_ms=500,
            lock_ttl_ms=lock_ttl,
            heartbeat_interval_s=heartbeat / 1000,
        )
        self.worker.on("error", lambda error: say(event="error", error=str(error)))
        self.worker.wait_until_ready()

    def stop(self):
        if not self.worker.close(10):
            raise TimeoutError("the worker did not stop")


driver = Driver()
for line in sys.stdin:
    request = json.loads(line)
    reply = {"id": request.pop("id")}
    try:
        reply["result"] = getattr(driver, request.pop("op"))(**request)
    except Exception as error:
        reply["error"] = f"{type(error).__name__}: {error}"
    say(**reply)
