"""timing.json of a run that a comparison trained: what its seconds depend on beside its configuration."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from a3c_zoo.errors import printable
from a3c_zoo.files import MAX_TABLE, MAX_TEXT, fields_of, open_file, read_json
from a3c_zoo.store.directory import write_json
from a3c_zoo.store.run_files import EVENTS_JSONL, TIMING_JSON

#: Environment variables that change the speed of a run, for example by torch's number of threads.
SPEED_VARIABLES: Final = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OMP_WAIT_POLICY")

#: A shorter time of the fixed loop is damaged: times are kept in microseconds.
LEAST_S: Final = 1e-6


@dataclass(frozen=True, slots=True)
class Timing:
    """The contents of timing.json.

    Attributes:
        calibration_s: seconds that a fixed loop took before the run.
        variables: those of `SPEED_VARIABLES` that were set, with their values.
        torch_threads: the number of torch's threads with which the agent computed; None if it has no such setting.
        vec_env: what stepped a library's own environments, "dummy" or "subproc"; None for others.
    """

    calibration_s: float
    variables: Mapping[str, str]
    torch_threads: int | None = None
    vec_env: str | None = None


def speed_variables() -> dict[str, str]:
    """Those of `SPEED_VARIABLES` that are set here, and so in the runs that this process starts."""
    return {name: os.environ[name] for name in SPEED_VARIABLES if name in os.environ}


def timing_of(run: Path) -> Timing | None:
    """Reads a run's timing.json; None if there is none, or a damaged one."""
    try:
        content = fields_of(Timing, read_json(run / TIMING_JSON))
        variables = {name: printable(str(value)) for name, value in content["variables"].items()}
        if not variables.keys() <= set(SPEED_VARIABLES):  # a report prints them before a command, for a shell
            return None
        vec_env = content.get("vec_env")
        if vec_env is not None:
            vec_env = printable(str(vec_env))
        timing = Timing(float(content["calibration_s"]), variables, content.get("torch_threads"), vec_env)
        if timing.calibration_s >= LEAST_S:
            return timing
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write_timing(run: Path, calibration_s: float, wall_s: float, settings: Mapping[str, Any]) -> None:
    """Writes a finished run's timing.json. settings: "section.key" → value."""
    content = {
        "format": 1,
        "calibration_s": round(calibration_s, 6),
        "wall_s": round(wall_s, 3),
        "variables": speed_variables(),
        "torch_threads": torch_threads_of(run, settings),
        "vec_env": vec_env_of(run, settings),
    }
    write_json(run / TIMING_JSON, content)


def torch_threads_of(run: Path, settings: Mapping[str, Any]) -> int | None:
    """The number of torch's threads with which an agent computed; what it measured is in events.jsonl.

    None if the agent has no such setting, or if the file is damaged.
    """
    if "agent.torch_threads" not in settings:
        return None
    number: Any = settings["agent.torch_threads"]
    if number is None:
        try:
            number = _measured(run, "torch_threads", "threads", default=1)  # one thread need not be measured
        except ValueError:
            return None
    if isinstance(number, int):
        return number
    return None


def vec_env_of(run: Path, settings: Mapping[str, Any]) -> str | None:
    """The vector environment in which a library stepped its own environments: "dummy" or "subproc".

    None if the agent has no such setting, on the zoo's environments, or if the file is damaged.
    """
    if "agent.vec_env" not in settings or settings.get("env.stack") != "own":
        return None
    name: Any = settings["agent.vec_env"]
    if name == "auto":
        try:
            name = _measured(
                run, "vec_env", "vec_env", default="dummy"
            )  # a single environment need not be measured
        except ValueError:
            return None
    if isinstance(name, str):
        return printable(name)
    return None


def vec_env_choice_of(run: Path, settings: Mapping[str, Any]) -> str:
    """How the last session of a run with `agent.vec_env: auto` came to its vector environment.

    Returns:
        "measured"; "not tried": SubprocVecEnv was not; "failed": it doesn't work there. "" for other runs, and if
        the file is damaged.
    """
    if settings.get("agent.vec_env") != "auto" or settings.get("env.stack") != "own":
        return ""
    try:
        event = _last_event(run, "vec_env")
    except ValueError:
        return ""
    if event.get("seconds"):
        return "measured"
    if "fault" in event or "does not work" in str(event.get("text")):
        return "failed"
    return "not tried"


def _measured(run: Path, kind: str, key: str, default: Any) -> Any:
    """What the last session measured, by the event of this kind; the default if there is none.

    Raises:
        ValueError: events.jsonl is damaged.
    """
    event = _last_event(run, kind)
    if not event:
        return default
    if key not in event:
        raise ValueError("events.jsonl is damaged")
    return event[key]


def _last_event(run: Path, kind: str) -> dict[str, Any]:
    """The last event of this kind; empty if there is none.

    Raises:
        ValueError: events.jsonl is damaged.
    """
    file = run / EVENTS_JSONL
    found: dict[str, Any] = {}
    if os.path.lexists(file):
        try:
            with open_file(file, limit=MAX_TABLE) as lines:
                while line := lines.readline(MAX_TEXT):
                    event = json.loads(line)
                    if event["kind"] == kind:
                        found = event
        except (OSError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"{file.name} is damaged") from error
    return found
