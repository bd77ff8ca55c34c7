"""Reads runs of other programs: stable-baselines3, RL Zoo and CleanRL. Nothing is unpickled, and no link is followed.

A folder is such a run if it has monitors, an evaluations.npz of EvalCallback, or TensorBoard's event files.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from a3c_zoo.comparison.curves import (
    ATARI_FRAME_SKIP,
    GREATEST,
    GREATEST_RETURN,
    Curve,
    is_atari,
    monitor_files,
    read_monitors,
    read_npz,
)
from a3c_zoo.comparison.evaluations import CheckpointEvaluation
from a3c_zoo.errors import RunDirectoryError, printable
from a3c_zoo.files import read_bytes
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Evaluation
from a3c_zoo.runs.evaluation_files import EVALUATIONS_NPZ

#: The environment of a run of another program that does not name it.
UNKNOWN_ENV: Final = "unknown"
GYM_ID: Final = re.compile(r"[^:]+-v\d+")
#: The files that make a folder such a run.
MARKS: Final = ("monitor.csv", "*.monitor.csv", EVALUATIONS_NPZ, "events.out.tfevents.*")
#: The most bytes of the event files of a run: more than a million points.
MAX_EVENTS: Final = 128 << 20
#: Tags of a return and of a length: of each episode, as CleanRL 1.0 writes them; means of up to 100 episodes, as
#: stable-baselines3 does.
EPISODES: Final = ("charts/episodic_return", "charts/episodic_length")
MEANS: Final = ("rollout/ep_rew_mean", "rollout/ep_len_mean")
#: The tag of CleanRL's table of hyperparameters, and the most rows and characters of a value that are read of it.
SETTINGS_TAG: Final = "hyperparameters/text_summary"
MOST_SETTINGS, MOST_CHARACTERS = 200, 200
#: CleanRL's names of folders: environment, script, seed, time.
_CLEANRL: Final = re.compile(r"(?P<env>.+)__(?P<method>.+)__(?P<seed>\d{1,18})__\d+")


@dataclass(frozen=True, slots=True, eq=False)
class ForeignRun:
    """A run of another program.

    Attributes:
        env: the zoo's name of its environment, or `UNKNOWN_ENV`. number: of its folder, or its seed; None without one.
        curve: training episodes. is_smoothed: each point of the curve is a mean of up to 100 episodes.
        settings: name → value as text, of CleanRL.
    """

    method: str
    env: str
    number: int | None
    curve: Curve
    evaluations: tuple[CheckpointEvaluation, ...]
    is_smoothed: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)


def is_foreign_run(path: Path) -> bool:
    """Whether a folder holds a run of another program."""
    return bool(monitor_files(path)) or os.path.lexists(path / EVALUATIONS_NPZ) or bool(_event_files(path))


def read_foreign_run(path: Path, strict: bool, frame_skip: int | None) -> ForeignRun:
    """Reads a folder. strict, frame_skip: see `read_run`.

    Raises:
        RunDirectoryError: it cannot be used, see `read_monitors`, `read_npz` and `_read_events`.
    """
    name = path.resolve().name
    cleanrl, has_evaluations = _CLEANRL.fullmatch(name), os.path.lexists(path / EVALUATIONS_NPZ)
    named = cleanrl["env"] if cleanrl else name.rpartition("_")[0]  # RL Zoo's folders have the name
    if cleanrl and path.resolve().parent.name == "ALE":  # the slash of `ALE/Pong-v5` has made a folder
        named = f"ALE/{named}"
    above = path.resolve().parent.name  # of RL Zoo's folders of event files
    named, above = (re.sub("^ALE-", "ALE/", each) for each in (named, above))  # RL Zoo replaces the slash
    env_id = next((each for each in (named, above) if GYM_ID.fullmatch(each)), None)
    is_smoothed, settings = False, dict[str, str]()
    if monitor_files(path) or not (_event_files(path) or (has_evaluations and not strict)):
        of_monitor, curve = read_monitors(path, frame_skip)
        env_id = of_monitor or (named if GYM_ID.fullmatch(named) else None)
    elif _event_files(path):
        curve, is_smoothed, settings = _read_events(path, frame_skip or (ATARI_FRAME_SKIP if is_atari(env_id) else 1))
    else:
        curve = Curve.ordered(*np.empty((4, 0)))
    method, number = _folder_names(path, env_id or UNKNOWN_ENV)
    if cleanrl:
        method, number = cleanrl["method"], int(cleanrl["seed"])
    evaluations = _evaluations(path, env_id, curve) if has_evaluations else ()
    env = env_name(env_id) if env_id else UNKNOWN_ENV
    return ForeignRun(method, env, number, curve, evaluations, is_smoothed, settings)


def _evaluations(path: Path, env_id: str | None, curve: Curve) -> tuple[CheckpointEvaluation, ...]:
    """What EvalCallback played. RL Zoo plays Atari games and MiniGrid with sampled actions, all others greedily.

    Its seconds are those of the training episodes around it, else NaN.
    """
    is_greedy = not (is_atari(env_id) or (env_id or "").startswith("MiniGrid"))
    steps, returns, lengths = read_npz(path / EVALUATIONS_NPZ)
    seconds = np.interp(steps, curve.steps, curve.seconds) if len(curve) else np.full(len(steps), np.nan)
    figures = [
        Evaluation(len(each), each.mean(), each.std(), each.min(), each.max(), length.mean(), is_greedy, seconds=0.0)
        for each, length in zip(returns, lengths, strict=True)
    ]
    return tuple(map(CheckpointEvaluation, map(int, steps), map(float, seconds), figures))


def _folder_names(path: Path, env_id: str) -> tuple[str, int | None]:
    """Method and number of a run: `a2c_3` is `a2c` and 3; so is RL Zoo's `a2c/CartPole-v1_3`."""
    path = path.resolve()
    name, _, number = path.name.rpartition("_")
    if not (name and number.isdecimal()):
        return path.name, None
    is_of_rl_zoo = name == env_id.replace("/", "-") or name == env_id.partition("/")[2]
    return path.parent.name if is_of_rl_zoo else name, int(number)


def env_name(env_id: str) -> str:
    """The zoo's name of a Gymnasium id."""
    for entry in get_registry().envs.values():
        if entry.gym_id is not None and entry.gym_id.rpartition(":")[2] == env_id:
            return entry.name
    game = re.fullmatch(r"(\w+)NoFrameskip-v4", env_id)
    return f"atari:{re.sub(r'(?<!^)(?=[A-Z])', '_', game[1]).lower()}" if game else f"gym:{env_id}"


# TensorBoard's event files


def _event_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("events.out.tfevents.*"))


def _read_events(folder: Path, frame_skip: int) -> tuple[Curve, bool, dict[str, str]]:
    """Reads the training returns in a folder's event files. Seconds count from the first event.

    Returns:
        The curve, whether its points are means of several episodes, and the settings.

    Raises:
        RunDirectoryError: the files are damaged, too large or no regular files, or have no training returns.
    """
    points: dict[str, list[tuple[float, float, float]]] = {tag: [] for tag in (*EPISODES, *MEANS)}
    settings: dict[str, str] = {}
    start_s, left = None, MAX_EVENTS
    for file in _event_files(folder):
        try:
            content = read_bytes(file, left)
            left -= len(content)
            for event in _events(content):
                start_s = event.wall_time if start_s is None else start_s
                for value in event.summary.value:
                    if value.tag in points and value.HasField("simple_value"):
                        points[value.tag].append((event.step, event.wall_time - start_s, value.simple_value))
                    elif value.tag == SETTINGS_TAG and value.HasField("tensor"):
                        settings |= _table(b"".join(value.tensor.string_val[:1]).decode(errors="replace"))
        except (OSError, ValueError) as error:
            raise RunDirectoryError(f"{file.name} cannot be read: {error}") from error
    tags = EPISODES if points[EPISODES[0]] else MEANS
    if not points[tags[0]]:
        raise RunDirectoryError(f"its event files have neither {EPISODES[0]} nor {MEANS[0]}")
    steps, seconds, returns = np.array(points[tags[0]], np.float64).T
    lengths = np.zeros(len(returns))  # one is missing if the program was killed between the two
    given = [value for _, _, value in points[tags[1]]][: len(returns)]
    lengths[: len(given)] = given
    for array, most in ((steps, GREATEST), (seconds, GREATEST), (returns, GREATEST_RETURN), (lengths, GREATEST)):
        if not (np.abs(array) <= most).all():
            raise RunDirectoryError("its event files have a number that is not finite, or too great")
    return Curve.ordered(steps, seconds, returns, np.ceil(lengths / frame_skip)), tags == MEANS, settings


def _table(text: str) -> dict[str, str]:
    """Name → value of a table as CleanRL writes it: two lines of a head, then `|name|value|`. Without the seed."""
    rows = (line.strip("|").partition("|") for line in text.splitlines()[2 : 2 + MOST_SETTINGS] if line.startswith("|"))
    return {printable(name): printable(value)[:MOST_CHARACTERS] for name, _, value in rows if name not in ("", "seed")}


def _events(content: bytes) -> Iterator[Any]:
    """The events of a file: those with returns, lengths or settings, and the first: when the program started.

    TensorBoard's own reader takes the length of a record on trust, and asks for so much memory. A file whose program
    was killed ends in the middle of a record.

    Raises:
        ValueError: a record is damaged.
    """
    from tensorboard.compat.proto.event_pb2 import Event

    tags, at = [tag.encode() for tag in (*EPISODES, *MEANS, SETTINGS_TAG)], 0
    while at + 12 <= len(content):
        (length,) = struct.unpack_from("<Q", content, at)  # then 4 bytes of checksum, the record, 4 bytes of checksum
        if at + 16 + length > len(content):
            return
        record = content[at + 12 : at + 12 + length]
        if at == 0 or any(tag in record for tag in tags):
            try:
                yield Event.FromString(record)
            except Exception as error:  # protobuf has an error of its own
                raise ValueError("a record is damaged") from error
        at += 16 + length
