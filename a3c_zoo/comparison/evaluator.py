"""`python -m a3c_zoo.comparison.evaluator`: the process that plays checkpoints for `evaluating.evaluate_runs`.

Reads one JSON object a line, `{"run": directory, "steps": [...], "episodes": N}`; writes `{"fault": null}` for each
checkpoint that was played, or one `{"fault": reason}`. It ends with its stdin, and where an environment hangs.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from pathlib import Path

from a3c_zoo.comparison.evaluating import play_checkpoints
from a3c_zoo.errors import one_line
from a3c_zoo.runs.directory import RunDirectory

#: Seconds without a single step after which an environment counts as hung.
HANG_S = 300.0


class Watchdog:
    """Ends the process when an environment has made no step for too long."""

    def __init__(self) -> None:
        self._ticked_s = time.monotonic()
        threading.Thread(target=self._watch, daemon=True).start()

    def tick(self, played: int = 0) -> None:
        """The environments have made a step."""
        self._ticked_s = time.monotonic()

    def _watch(self) -> None:
        while time.monotonic() - self._ticked_s < HANG_S:
            time.sleep(1)
        os._exit(1)


def main() -> None:
    """Plays until stdin ends."""
    # Environments may print; our answers are all that may go to stdout.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    watchdog = Watchdog()
    for line in sys.stdin:
        watchdog.tick()
        question = json.loads(line)
        try:
            play_checkpoints(
                RunDirectory(Path(question["run"])),
                question["steps"],
                question["episodes"],
                watchdog.tick,
                lambda: print(json.dumps({"fault": None}), file=answers),
            )
        except Exception as error:  # of an environment or a damaged checkpoint: the other runs go on
            print(json.dumps({"fault": f"it cannot be evaluated: {one_line(error)}"}), file=answers)


if __name__ == "__main__":
    main()
