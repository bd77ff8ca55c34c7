"""timing.json of a run that a comparison trained: what was measured around it, and what its speed depends on."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from a3c_zoo.runs.directory import write_atomically

TIMING_FILE = "timing.json"
#: Environment variables on which the speed of a run depends; torch's number of threads for one.
SPEED_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY")


def speed_variables() -> dict[str, str]:
    """Those of `SPEED_VARIABLES` that are set here, and so in the runs that are started from here."""
    return {name: os.environ[name] for name in SPEED_VARIABLES if name in os.environ}


def write_timing(run: Path, calibration_s: float, wall_s: float) -> None:
    """Writes it: seconds of the fixed loop before a run, and of the run's process from start to end."""
    content = {"format": 1, "calibration_s": round(calibration_s, 6), "wall_s": round(wall_s, 3)}
    write_json(run / TIMING_FILE, {**content, "variables": speed_variables()})


def timing_of(run: Path) -> tuple[float | None, dict[str, str] | None]:
    """Seconds of the fixed loop before a run, and the variables that its speed depends on.

    None for a run that no comparison trained to its end.
    """
    try:
        content = json.loads((run / TIMING_FILE).read_text(encoding="utf-8"))
        return float(content["calibration_s"]), {str(k): str(v) for k, v in content.get("variables", {}).items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, None


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes one JSON object, whole or not at all."""
    text = json.dumps(content, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))
