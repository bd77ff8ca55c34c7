"""What all trackers get of a run: a point of each curve, and the figures of its end. It imports no tracker."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from a3c_zoo.records import Outcome, Progress

#: What trackers make their ids of.
_ID = re.compile(r"[\w.+=@-]{1,230}")
#: The most bytes of a file with an id.
_MOST_BYTES = 1000
#: How such a file is opened: no link is followed, and nobody waits for the writer of a FIFO. Windows lacks these flags.
_WITHOUT_LINKS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def point(progress: Progress) -> dict[str, float]:
    """One point of each curve, with the names that TensorBoard shows."""
    values = {
        "steps": progress.steps,
        "episodes": progress.episodes,
        "updates": progress.updates,
        "training_s": progress.training_s,
        "speed/steps_per_s": progress.steps_per_s,
        "episode/return_mean_100": progress.mean_return_100,
        "episode/length_mean_100": progress.mean_length_100,
        **agent_returns(progress.agent_returns_100),
        **{f"train/{name}": value for name, value in progress.metrics.items()},
    }
    if progress.evaluator:
        values["eval/return_mean_greedy"] = progress.evaluator.greedy_return
        values["eval/return_mean_sampled"] = progress.evaluator.sampled_return
    return {name: value for name, value in values.items() if value is not None}


def final_figures(outcome: Outcome) -> dict[str, Any]:
    """How a run ended: numbers, truth values and texts by name."""
    names = ("reason", "detail", "solved", "steps", "episodes", "updates", "training_s", "mean_return_100")
    figures = {name: getattr(outcome, name) for name in names} | agent_returns(outcome.agent_returns_100)
    if outcome.last_evaluation:
        figures["evaluation/mean_return"] = outcome.last_evaluation.mean_return
    return figures


def agent_returns(means: Mapping[str, float]) -> dict[str, float]:
    """The mean return of each agent, if several play a game, under the names that TensorBoard shows."""
    return {f"episode/return_mean_100/{agent}": mean for agent, mean in means.items()}


def known_id(file: Path) -> str | None:
    """The id of the run of a tracker, in a file of the run directory; None without one.

    A stranger may have made the run: a link is not followed, and a FIFO is not waited for.
    """
    if file.is_symlink():
        return None
    try:
        with open(os.open(file, _WITHOUT_LINKS), "rb") as opened:
            if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                return None
            text = opened.read(_MOST_BYTES).decode().strip()
    except (OSError, UnicodeDecodeError):
        return None
    if _ID.fullmatch(text):
        return text
    return None


def keep_id(file: Path, tracker_id: str) -> None:
    """Writes the id of the run of a tracker. A link that lies there is replaced; where it leads, nothing changes."""
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(8)}.tmp")
    with temporary.open("x", encoding="utf-8") as opened:
        opened.write(f"{tracker_id}\n")
    temporary.replace(file)
