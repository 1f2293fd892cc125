"""Runs the scenarios, one line each; arguments are parts of names to run only those. `run` prepares and calls this."""

import sys
import time
import traceback

from harness import Failure, Stage
from scenarios import (
    documentation,
    drain,
    exact_values,
    http,
    killed_worker,
    main_job,
    npm_client,
    npm_dead_letters,
    npm_flows,
    npm_limits,
    npm_schedules,
    npm_simple,
    reverse,
    rust_client,
    shipped_suite,
    tls,
)

SCENARIOS = [
    scenario
    for module in (
        main_job,
        reverse,
        exact_values,
        killed_worker,
        npm_client,
        npm_flows,
        npm_schedules,
        npm_limits,
        npm_dead_letters,
        npm_simple,
        rust_client,
        tls,
        drain,
        http,
        documentation,
        shipped_suite,
    )
    for scenario in module.SCENARIOS
]


def play(scenario):
    """What went wrong, with the last lines of every program in it, or None; and what the scenario measured, or None."""
    tails = []
    try:
        with Stage() as stage:
            try:
                return None, scenario(stage)
            except BaseException:
                tails = stage.tails()
                raise
    except Failure as failure:
        return "\n".join([f"    {failure}", *tails]), None
    except Exception:
        return "\n".join([traceback.format_exc(), *tails]), None


def main(parts):
    chosen = [(name, scenario) for name, scenario in SCENARIOS if not parts or any(part in name for part in parts)]
    failed = 0
    for name, scenario in chosen:
        start = time.monotonic()
        wrong, measured = play(scenario)
        failed += wrong is not None
        figures = f": {measured}" if measured else ""
        print(f"{'FAILED' if wrong else 'ok'}  {name} ({time.monotonic() - start:.1f} s){figures}", flush=True)
        if wrong:
            print(wrong, flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed", flush=True)
    return 1 if failed or not chosen else 0


sys.exit(main(sys.argv[1:]))
