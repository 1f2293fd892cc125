"""Values that JSON cannot hold pass unchanged from client to client, and in the tagged form through the agent."""

import base64

import msgpack

from harness import Raw, check, equal

EVERY_BYTE = bytes(range(256))
EXACT = {
    "past": 2**53 + 1,
    "most": 2**64 - 1,
    "least": -(2**63),
    "bytes": EVERY_BYTE,
    "minus": -0.0,
    "nested": {"list": [1, "zwei", None, [True, {"deep": b"\x00\xff"}]], "$int": "5", "plain": 1},
    "whole": 1.0,
}
TAGGED = {
    "past": {"$int": "9007199254740993"},
    "most": {"$int": "18446744073709551615"},
    "least": {"$int": "-9223372036854775808"},
    "bytes": {"$bytes": base64.b64encode(EVERY_BYTE).decode()},
    "minus": {"$float": "-0"},
    "nested": {"list": [1, "zwei", None, [True, {"deep": {"$bytes": "AP8="}}]], "$int": "5", "plain": 1},
    "whole": 1.0,
}
# JavaScript reads a JSON 1.0 as 1.
WITHOUT_WHOLE = [key for key in EXACT if key != "whole"]
# What each client can send: Python and Rust turn integers beyond 32 bits into floats first, the encoder
# of JavaScript makes 0 of -0.0.
SENDABLE = {
    "python": ["bytes", "minus", "nested", "whole"],
    "rust": ["bytes", "minus", "nested", "whole"],
    "npm": ["past", "most", "least", "bytes", "nested"],
}
# Wide encodings of small values, a whole float32, an extension and an `undefined` of JavaScript.
ODD = b"".join(
    [
        b"\x85",
        b"\xa1n\xcf\x00\x00\x00\x00\x00\x00\x00\x01",
        b"\xd9\x01z\xca\x3f\x80\x00\x00",
        b"\xa1t\xda\x00\x01e",
        b"\xa1x\xd7\x01\x01\x02\x03\x04\x05\x06\x07\x08",
        b"\xa1u\xd4\x00\x00",
    ]
)
# What only the agent's form names: MessagePack and its tagged form.
RARE = {
    b"\xcb\x7f\xf0\x00\x00\x00\x00\x00\x00": {"$float": "Infinity"},
    b"\xcb\xff\xf0\x00\x00\x00\x00\x00\x00": {"$float": "-Infinity"},
    b"\xd7\x05\x01\x02\x03\x04\x05\x06\x07\x08": {"$ext": {"type": 5, "data": "AQIDBAUGBwg="}},
    b"\xd6\xff\x00\x00\x00\x01": {"$ext": {"type": -1, "data": "AAAAAQ=="}},
    b"\x82\x01\xa1a\xa1b\xc0": {"$map": [[1, "a"], ["b", None]]},
    b"\x82\xa1a\x01\xa1a\x02": {"$map": [["a", 1], ["a", 2]]},
    b"\xa2\xff\xfe": {"$str": "//4="},
    b"\x81\xa4$int\xa15": {"$object": {"$int": "5"}},
}


def values(keys):
    return Raw(msgpack.packb({key: EXACT[key] for key in keys})), {key: TAGGED[key] for key in keys}


def rare_values():
    members = [msgpack.packb(f"k{n}") + payload for n, payload in enumerate(RARE)]
    return Raw(bytes([0x80 | len(members)]) + b"".join(members)), {f"k{n}": form for n, form in enumerate(RARE.values())}


def expect_payload(wire, queue, payload, what):
    job, arrived = wire.pull(queue)
    check(arrived == payload, f"{what}: sent {payload.hex()}, arrived {arrived.hex()}")
    return job


def clients_to_socket(stage, agent, wire):
    for kind, keys in SENDABLE.items():
        tap = stage.tap(agent.port)
        queue, tagged = f"from-{kind}", values(keys)[1]
        client = stage.client(kind, tap.port)
        id = client.request("add", queue=queue, name="exact", data=tagged, options={})
        equal(agent.call("get_job", jobId=id)["data"], tagged, f"agent's view of the {kind} client's data")
        arrived = wire.pull(queue)[1]
        # The broker takes out the name that older clients put into the data; the other members are as sent.
        members = arrived[3:] if arrived[0] == 0xDE else arrived[1:]
        check(members in tap.sent, f"other bytes than the {kind} client sent: {arrived.hex()}")


def socket_to_clients(stage, agent, wire):
    for kind in SENDABLE:
        payload, tagged = values(WITHOUT_WHOLE if kind == "npm" else EXACT)
        wire.call("PUSH", queue=f"to-{kind}", name="exact", data=payload)
        client = stage.client(kind, agent.port)
        client.request("work", queue=f"to-{kind}")
        (started,) = client.wait_events("started", 1)
        equal(started["data"], tagged, f"the {kind} worker's view")
        client.wait_events("done", 1)
        client.request("stop")


def through_the_agent(agent, wire, payload, tagged):
    first = wire.call("PUSH", queue="in", name="exact", data=payload)[0]["id"]
    view = agent.call("get_job", jobId=first)["data"]
    equal(view, tagged, "agent's view of data")
    agent.call("add_job", queue="out", name="exact", data=view)
    second = expect_payload(wire, "out", payload, "sent back by the agent")

    # The same for results: a client's arrives at the agent, the agent's at a client.
    wire.call("ACK", id=second, result=payload)
    equal(agent.call("get_job_result", jobId=second)["result"], tagged, "agent's view of a result")
    agent.call("pull_job", queue="in")
    agent.call("ack_job", jobId=first, result=tagged)
    reply = wire.call("GetResult", id=first)[1]
    check(msgpack.packb("result") + payload in reply, f"the agent's result: other bytes arrived: {reply.hex()}")


def exact_values(stage, sdk):
    agent = stage.agent(sdk)
    wire = stage.wire(agent.port)
    wire.call("PUSH", queue="odd", name="exact", data=Raw(ODD))
    expect_payload(wire, "odd", ODD, "unusual encodings")
    through_the_agent(agent, wire, *values(EXACT if sdk == "Python" else WITHOUT_WHOLE))
    through_the_agent(agent, wire, *rare_values())
    if sdk == "Python":
        clients_to_socket(stage, agent, wire)
        socket_to_clients(stage, agent, wire)


SCENARIOS = [
    ("exact values: Python agent and all clients", lambda stage: exact_values(stage, "Python")),
    ("exact values: TypeScript agent", lambda stage: exact_values(stage, "TypeScript")),
]
