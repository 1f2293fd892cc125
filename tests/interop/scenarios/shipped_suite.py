"""The end-to-end suite that the authors of PyPI `bunqueue-client` ship in its source package, against this broker."""

import os
import re
import sys

from harness import BINARY, HERE, check, equal

TESTS = 112
# That client speaks version 2 of the protocol, which had the name of a job inside its data, and made a flow from its
# children up, under a parent to come. Version 3, which this broker and the npm server speak, has the name
# beside the data and no children of nobody: these fail at both.
OF_VERSION_2 = {
    # They look for the name in the data.
    "e2e_query.tags_and_group_roundtrip",
    "e2e_flow.flow_chain_sequential",
    "e2e_flow.flow_fan_in",
    "e2e_simple.simple_routes_dispatch",
    "e2e_simple.simple_triggers_with_condition",
    "e2e_simple_extras.simple_ttl_expires_jobs",
    "e2e_hardening.hardening_generated_payloads_preserve_invariants",
    # They add children of the parent "pending", which is not there.
    "e2e_flow.flow_tree_children_before_parent",
    "e2e_flow.get_flow_reconstructs_tree",
    "e2e_audit_fixes.test_h4_get_flow_survives_removed_child",
    # It wants the broker to answer Hello with version 2.
    "e2e_spec_align.spec_protocol_version_matches_server",
}


def shipped_suite(stage):
    (runner,) = HERE.glob(".suite/*/tests/run_e2e.py")
    suite = stage.program(
        "suite",
        # In one stream what a test complains of follows its line.
        ["sh", "-c", 'exec "$0" "$1" 2>&1', sys.executable, runner],
        PATH=f"{HERE / 'shim'}:{os.environ['PATH']}",
        INTEROP_BROKER=BINARY,
        HOST="127.0.0.1",
        # It ends brokers while its workers hold jobs.
        SHUTDOWN_TIMEOUT_MS="100",
    )
    tests = []
    for line in suite.wait_end(300):
        if found := re.match(r"(PASS|FAIL) ([\w.]+)", line):
            outcome, name = found.groups()
            tests.append((name, outcome, []))
        if tests:
            tests[-1][2].append(line)

    equal((len(tests), len({name for name, *_ in tests})), (TESTS, TESTS), "tests that ran, and different ones")
    failed = {name: "".join(told) for name, outcome, told in tests if outcome == "FAIL"}
    wrong = [told for name, told in failed.items() if name not in OF_VERSION_2]
    check(not wrong, "".join(["tests that must pass:\n", *wrong]))
    return f"{TESTS - len(failed)} of {TESTS} tests passed"


SCENARIOS = [("shipped suite of the Python client", shipped_suite)]
