"""Both MCP SDKs over Streamable HTTP against `serve`, the Python one with the newest revision and the handshake."""

from harness import DEADLINE, check, equal

TOOLS = 79


def http(stage, sdk, mode, protocols):
    server = stage.serve()
    agent = stage.http_agent(sdk, server.url, mode)
    info = agent.request("info")
    equal(info["name"], "bunqueue-mcp", "name of the server")
    check(info["protocol"] in protocols, f"negotiated {info['protocol']}")
    tools = agent.request("tools")
    equal((len(tools), len(set(tools))), (TOOLS, TOOLS), "number of tools")

    job = agent.call("add_job", queue="http", name="task", data={"n": 1})["jobId"]
    equal(agent.call("get_job", jobId=job)["data"], {"n": 1}, "data")
    worker = stage.wire(server.port)
    equal(worker.pull("http")[0], job, "the job at the worker door")
    equal(agent.call("get_job_state", jobId=job)["state"], "active", "state")
    worker.call("ACK", id=job, result="done")
    equal(agent.call("get_job_result", jobId=job)["result"], "done", "result")

    equal(agent.refused("get_job", jobId="nobody")["error"], "Job not found", "error of an unknown job")
    misspelt = agent.refused("get_job", jobid=job)
    equal(misspelt["code"], "invalid_arguments", "code of a misspelt argument")
    check("jobId" in misspelt["error"], f"no hint in {misspelt['error']}")
    equal(agent.call("count_jobs", queue="http"), {"queue": "http", "count": 1}, "call after the errors")

    # With the sessions still open.
    server.ask_to_end()
    equal(server.child.wait(DEADLINE), 0, "exit code after SIGTERM")


SCENARIOS = [
    ("HTTP: Python SDK, newest revision", lambda stage: http(stage, "Python", "auto", ["2026-07-28"])),
    ("HTTP: Python SDK, handshake", lambda stage: http(stage, "Python", "legacy", ["2025-11-25"])),
    ("HTTP: TypeScript SDK", lambda stage: http(stage, "TypeScript", "auto", ["2025-11-25"])),
]
