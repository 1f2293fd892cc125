"""The clients over TLS, with a certificate of an authority that is made for the moment."""

import tempfile
from pathlib import Path

import trustme

from harness import CLIENTS, Failure, check, equal

JOBS = 20
ATTEMPTS = 4


def encrypted(stage, kind):
    with tempfile.TemporaryDirectory() as folder:
        authority, certificate, key = (Path(folder) / name for name in ("authority.pem", "certificate.pem", "key.pem"))
        issuer = trustme.CA()
        issuer.cert_pem.write_to_path(authority)
        issued = issuer.issue_cert("127.0.0.1")
        issued.cert_chain_pems[0].write_to_path(certificate)
        issued.private_key_pem.write_to_path(key)

        tap = stage.tap(stage.serve(TLS_CERT_FILE=str(certificate), TLS_KEY_FILE=str(key)).port)
        # Each in a process of its own, so that a fault of one connection is not that of another.
        adding, working, counting = (stage.client(kind, tap.port, authority) for _ in range(3))
        jobs = [{"name": "secret", "data": {"n": n}, "options": {}} for n in range(JOBS)]
        ids = adding.request("add_bulk", queue="tls", jobs=jobs)
        working.request("work", queue="tls")
        done = [event["job"] for event in working.wait_events("done", JOBS)]
        working.request("stop")
        equal(sorted(done), sorted(ids), "jobs done")
        equal(counting.request("counts", queue="tls")["completed"], JOBS, "completed jobs")
        check(tap.streams, "no connection passed the relay")
        # Each connection opens with the record of a handshake.
        check(all(stream.startswith(b"\x16\x03") for stream in tap.streams), "a connection without TLS")
        check(b"secret" not in tap.sent, "a name of a job in clear text")


def with_patience(stage):
    """The Python client reads a connection in one thread and writes it in others. With TLS, Python before 3.13 does not
    bear that: now and then a connection hangs, breaks or takes the process along, whatever server it speaks to."""
    for attempt in range(ATTEMPTS):
        try:
            return encrypted(stage, "python")
        except Failure:
            if attempt + 1 == ATTEMPTS:
                raise


SCENARIOS = [
    (f"TLS: {kind} client", with_patience if kind == "python" else lambda stage, kind=kind: encrypted(stage, kind))
    for kind in CLIENTS
]
