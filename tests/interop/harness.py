"""What every scenario uses: driver processes, a raw socket of the worker protocol, and checks.

A `Stage` owns all that one scenario starts and ends it by its pid. Every wait has a deadline.
"""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgpack

HERE = Path(__file__).resolve().parent
BINARY = os.environ["BUNQUEUE_BIN"]
# Command lines of the drivers; `run` exports where the programs are.
CLIENTS = {
    "python": [sys.executable, HERE / "clients/client.py"],
    "npm": [os.environ["INTEROP_BUN"], HERE / "clients/client.mjs"],
    "rust": [os.environ["INTEROP_RUST"]],
}
AGENTS = {
    "Python": [sys.executable, HERE / "clients/agent.py"],
    "TypeScript": ["node", HERE / "clients/agent.mjs"],
}
# Without settings of the server that the shell happens to have.
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("BUNQUEUE_")}
# Generous: a busy machine must not fail a run.
DEADLINE = 60


class Failure(Exception):
    """What a scenario expected and did not see."""


def check(condition, message):
    if not condition:
        raise Failure(message)


def same(actual, expected):
    """Equality that tells 1 from 1.0 and from true."""
    if type(actual) is not type(expected):
        return False
    if isinstance(actual, dict):
        return actual.keys() == expected.keys() and all(same(actual[key], expected[key]) for key in actual)
    if isinstance(actual, list):
        return len(actual) == len(expected) and all(map(same, actual, expected))
    return actual == expected


def equal(actual, expected, what):
    check(same(actual, expected), f"{what}: expected {expected!r}, got {actual!r}")


def poll(read, wanted, what, seconds=DEADLINE):
    """Reads until `wanted(value)`; for states that no reply and no event announces."""
    end = time.monotonic() + seconds
    while True:
        value = read()
        if wanted(value):
            return value
        check(time.monotonic() < end, f"{what}: still {value!r} after {seconds} s")
        time.sleep(0.02)


class Process:
    """A program whose stdout and stderr are collected line by line."""

    # Whether it is the head of a process group of its own, with all that it starts.
    GROUP = False

    def __init__(self, name, command, **environment):
        self.name = name
        self.news = threading.Condition()
        self.lines = {"stdout": [], "stderr": []}
        self.child = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**ENVIRONMENT, **environment},
            process_group=0 if self.GROUP else None,
        )
        for stream in ("stdout", "stderr"):
            threading.Thread(target=self._collect, args=(stream,), daemon=True).start()

    def _collect(self, stream):
        for line in getattr(self.child, stream):
            with self.news:
                self.lines[stream].append(line)
                self.news.notify_all()
        with self.news:
            self.lines[stream].append(None)
            self.news.notify_all()

    def wait_line(self, stream, accept, what, seconds=DEADLINE, seen=0):
        """The first value that `accept` makes of a line after the `seen` ones; None from it means: not this one."""
        end = time.monotonic() + seconds
        with self.news:
            while True:
                for line in self.lines[stream][seen:]:
                    check(line is not None, f"{self.name} ended before {what}")
                    if (value := accept(line)) is not None:
                        return value
                seen = len(self.lines[stream])
                left = end - time.monotonic()
                check(left > 0, f"{self.name}: no {what} within {seconds} s")
                self.news.wait(left)

    def start_line(self, pattern):
        return self.wait_line("stderr", lambda line: re.search(pattern, line), "start line")

    def wait_end(self, seconds=DEADLINE):
        """What it printed on stdout until it ended; an exit code is not looked at."""
        try:
            self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} still runs after {seconds} s") from None
        with self.news:
            check(self.news.wait_for(lambda: None in self.lines["stdout"], DEADLINE), f"{self.name}: stdout stays open")
            return self.lines["stdout"][:-1]

    def kill(self):
        self.child.send_signal(signal.SIGKILL)
        self.child.wait(DEADLINE)

    def ask_to_end(self):
        """Closes stdin, which every driver and the server on stdio take as the end."""
        self.child.stdin.close()

    def end(self):
        if self.child.poll() is None:
            self.ask_to_end()
            try:
                self.child.wait(10)
            except subprocess.TimeoutExpired:
                self.kill()

    def tail(self):
        return [f"    {self.name}: {line.rstrip()}" for line in self.lines["stderr"][-15:] if line]


class Server(Process):
    """`bunqueue-mcp serve`, with its TCP port and its MCP address."""

    def __init__(self, **environment):
        # Scenarios end it while jobs are held.
        environment["SHUTDOWN_TIMEOUT_MS"] = "100"
        super().__init__("server", [BINARY, "serve"], HOST="127.0.0.1", TCP_PORT="0", HTTP_PORT="0", **environment)
        found = self.start_line(r"server started \(tcp: 127\.0\.0\.1:(\d+), url: (\S+?),")
        self.port, self.url = int(found[1]), found[2]

    def ask_to_end(self):
        self.child.send_signal(signal.SIGTERM)


class Program(Process):
    """A program that knows nothing of this harness and runs until it is told to end, together with what it started."""

    GROUP = True

    def ask_to_end(self):
        os.killpg(self.child.pid, signal.SIGTERM)


class Driver(Process):
    """A program that speaks the line protocol of README.md."""

    def __init__(self, *args, **environment):
        super().__init__(*args, **environment)
        self.requests = 0

    def request(self, op, seconds=DEADLINE, **fields):
        """The result of an op that must succeed."""
        reply = self._reply(op, seconds, fields)
        check("error" not in reply, f"{self.name}, {op}: {reply.get('error')}")
        return reply["result"]

    def refusal(self, op, **fields):
        """The error of an op that must fail."""
        reply = self._reply(op, DEADLINE, fields)
        check("error" in reply, f"{self.name}, {op}: not refused, {reply.get('result')}")
        return reply["error"]

    def _reply(self, op, seconds, fields):
        self.requests += 1
        number = self.requests
        seen = len(self.lines["stdout"])
        try:
            self.child.stdin.write(json.dumps({"id": number, "op": op, **fields}) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            raise Failure(f"{self.name} is gone before {op}") from None

        def accept(line):
            message = json.loads(line)
            return message if message.get("id") == number else None

        return self.wait_line("stdout", accept, f"reply to {op}", seconds, seen)

    def events(self, *kinds):
        """The events of these kinds that have come, in their order."""
        with self.news:
            lines = [json.loads(line) for line in self.lines["stdout"] if line]
        return [line for line in lines if line.get("event") in kinds]

    def wait_events(self, kind, count, seconds=DEADLINE, wanted=lambda event: True):
        """The first `count` events of a kind."""
        found = []

        def accept(line):
            message = json.loads(line)
            if message.get("event") == kind and wanted(message):
                found.append(message)
            return found if len(found) >= count else None

        try:
            return self.wait_line("stdout", accept, f"{count} {kind} events", seconds)
        except Failure as failure:
            raise Failure(f"{failure} ({len(found)} came)") from None


class Agent(Driver):
    """An MCP client. `port` is the worker door of the same process, when it runs the server on stdio."""

    def call(self, tool, **arguments):
        """A tool call that must succeed; its structured result."""
        result = self.request("call", tool=f"bunqueue_{tool}", arguments=arguments)
        check(not result["isError"], f"{tool}{arguments}: {result['text']}")
        check(result["structured"] == json.loads(result["text"]), f"{tool}: text and structured result differ")
        return result["structured"]

    def refused(self, tool, **arguments):
        """A tool call that must be an error; its text, which is JSON."""
        result = self.request("call", tool=f"bunqueue_{tool}", arguments=arguments)
        check(result["isError"], f"{tool}{arguments} was not refused: {result['text']}")
        check(result["structured"] is None, f"{tool}: an error with structured content")
        return json.loads(result["text"])


class Raw(bytes):
    """A field that is MessagePack already."""


class Wire:
    """A socket of the worker protocol that sees the bytes."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), DEADLINE)
        self.requests = 0

    def call(self, cmd, **fields):
        """Sends a command; the reply and the bytes it came in."""
        self.requests += 1
        members = {"cmd": cmd, "reqId": str(self.requests), **fields}
        parts = [part if isinstance(part, Raw) else msgpack.packb(part) for pair in members.items() for part in pair]
        frame = bytes([0x80 | len(members)]) + b"".join(parts)
        self.socket.sendall(struct.pack(">I", len(frame)) + frame)
        reply = self._exactly(struct.unpack(">I", self._exactly(4))[0])
        message = msgpack.unpackb(reply, strict_map_key=False, unicode_errors="surrogateescape")
        check(message.get("ok"), f"{cmd}: {message.get('error')}")
        return message, reply

    def pull(self, queue):
        """Takes a job: its id, and its data as the bytes that came."""
        message, reply = self.call("PULL", queue=queue, timeout=5000)
        check(message["job"], f"nothing to pull from {queue}")
        reader = msgpack.Unpacker(strict_map_key=False, unicode_errors="surrogateescape")
        reader.feed(reply)
        for _ in range(reader.read_map_header()):
            if reader.unpack() == "job":
                break
            reader.skip()
        for _ in range(reader.read_map_header()):
            if reader.unpack() == "data":
                start = reader.tell()
                reader.skip()
                return message["job"]["id"], reply[start : reader.tell()]
            reader.skip()
        raise Failure(f"a job without data: {message}")

    def _exactly(self, length):
        received = b""
        while len(received) < length:
            chunk = self.socket.recv(length - len(received))
            check(chunk, "the broker closed the connection")
            received += chunk
        return received

    def close(self):
        self.socket.close()


class Tap:
    """A relay in front of the worker door that keeps what clients send."""

    def __init__(self, port):
        self.streams = []
        self.target = port
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def sent(self):
        """All that clients sent, one connection after the other."""
        return b"".join(map(bytes, self.streams))

    def frames(self):
        """How many frames clients have sent."""
        return sum(map(self._whole_frames, list(self.streams)))

    @staticmethod
    def _whole_frames(stream):
        count = end = 0
        while end + 4 <= len(stream) and (end := end + 4 + int.from_bytes(stream[end : end + 4])) <= len(stream):
            count += 1
        return count

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", self.target), DEADLINE)
            broker.settimeout(None)
            self.streams.append(bytearray())
            threading.Thread(target=self._relay, args=(client, broker, self.streams[-1]), daemon=True).start()
            threading.Thread(target=self._relay, args=(broker, client, bytearray()), daemon=True).start()

    def _relay(self, source, sink, record):
        try:
            while chunk := source.recv(65536):
                record += chunk
                sink.sendall(chunk)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


class Stage:
    """Starts what a scenario needs and ends all of it."""

    def __init__(self):
        self.processes = []
        self.sockets = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for opened in self.sockets:
            opened.close()
        for process in reversed(self.processes):
            process.end()

    def _keep(self, process):
        self.processes.append(process)
        return process

    def agent(self, sdk):
        """An agent that starts the server on stdio, with the worker door in the same process."""
        command = [*AGENTS[sdk], "stdio", BINARY]
        agent = self._keep(Agent(f"{sdk} agent", command, BUNQUEUE_MCP_TCP_LISTEN="127.0.0.1:0"))
        agent.port = int(agent.start_line(r"MCP server started .*tcp: 127\.0\.0\.1:(\d+)")[1])
        return agent

    def http_agent(self, sdk, url, mode="auto"):
        return self._keep(Agent(f"{sdk} agent, {mode}", [*AGENTS[sdk], "http", url, mode]))

    def serve(self, **environment):
        return self._keep(Server(**environment))

    def program(self, name, command, **environment):
        return self._keep(Program(name, command, PYTHONUNBUFFERED="1", **environment))

    def client(self, kind, port, *authority):
        return self._keep(Driver(f"{kind} client", [*CLIENTS[kind], port, *authority]))

    def wire(self, port):
        self.sockets.append(Wire(port))
        return self.sockets[-1]

    def tap(self, port):
        self.sockets.append(Tap(port))
        return self.sockets[-1]

    def tails(self):
        return [line for process in self.processes for line in process.tail()]
