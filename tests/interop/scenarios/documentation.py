"""The programs of the worker guide, run as they stand there but for the port."""

import re
import sys

from harness import CLIENTS, HERE, check

GUIDE = (HERE.parent.parent / "docs/start/first-worker.md").read_text()
RUNNERS = {"python": [sys.executable, "-c"], "js": [CLIENTS["npm"][0], "-e"]}


def block(language, part, port):
    """The fenced block of that language that holds `part`, for a broker on `port`."""
    found = [text for text in re.findall(rf"```{language}\n(.*?)```", GUIDE, re.DOTALL) if part in text]
    check(len(found) == 1, f"{len(found)} {language} blocks with {part!r}")
    check("6789" in found[0], f"no port in the {language} block with {part!r}")
    return found[0].replace("6789", str(port))


def documented_worker(stage, language):
    port = stage.serve().port
    worker = stage.program(f"{language} worker", [*RUNNERS[language], block(language, "Worker(", port)])
    producer = stage.program("producer", [*RUNNERS["python"], block("python", "queue.add", port)])
    for program, expected in [(producer, "{'sent': 'ann@example.com'}"), (worker, "sending to ann@example.com")]:
        program.wait_line("stdout", lambda line: line if line.strip() == expected else None, expected)


SCENARIOS = [
    (f"documentation: the {language} worker of the guide", lambda stage, language=language: documented_worker(stage, language))
    for language in RUNNERS
]
