"""Reads runs of other programs: stable-baselines3, RL Zoo and CleanRL. Nothing is unpickled, and no link is followed.

A folder is such a run if it has monitors, an evaluations.npz of EvalCallback, or TensorBoard's event files.
"""

from __future__ import annotations

import os
import re
import struct
from array import array
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from a3c_zoo.errors import RunDirectoryError, printable
from a3c_zoo.files import read_bytes
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Evaluation
from a3c_zoo.store.checkpoint_evaluations import CheckpointEvaluation
from a3c_zoo.store.run_files import EVALUATIONS_NPZ
from a3c_zoo.store.tables import (
    ATARI_FRAME_SKIP,
    GREATEST,
    GREATEST_RETURN,
    Curve,
    is_atari,
    monitor_files,
    read_monitors,
    read_npz,
)

#: The environment of a run of another program that does not name it.
UNKNOWN_ENV: Final = "unknown"
GYM_ID: Final = re.compile(r"[^:]+-v\d+")
#: An event without a tag, such as the start of a session, has at most so many bytes.
SMALL_EVENT: Final = 32
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
    cleanrl = _CLEANRL.fullmatch(name)
    has_evaluations = os.path.lexists(path / EVALUATIONS_NPZ)
    named = cleanrl["env"] if cleanrl else name.rpartition("_")[0]  # RL Zoo's folders have the name
    if cleanrl and path.resolve().parent.name == "ALE":  # the slash of `ALE/Pong-v5` has made a folder
        named = f"ALE/{named}"
    above = path.resolve().parent.name  # of RL Zoo's folders of event files
    named, above = (re.sub("^ALE-", "ALE/", each) for each in (named, above))  # RL Zoo replaces the slash
    env_id = next((each for each in (named, above) if GYM_ID.fullmatch(each)), None)
    is_smoothed = False
    settings = dict[str, str]()
    if monitor_files(path) or not (_event_files(path) or (has_evaluations and not strict)):
        of_monitor, curve = read_monitors(path, frame_skip)
        env_id = of_monitor or (named if GYM_ID.fullmatch(named) else None)
    elif _event_files(path):
        curve, is_smoothed, settings = _read_events(
            path, frame_skip or (ATARI_FRAME_SKIP if is_atari(env_id) else 1)
        )
    else:
        curve = Curve.ordered(*np.empty((4, 0)))
    method, number = _folder_names(path, env_id or UNKNOWN_ENV)
    if cleanrl:
        method = cleanrl["method"]
        number = int(cleanrl["seed"])
    if has_evaluations:
        evaluations = _evaluations(path, env_id, curve)
    else:
        evaluations = ()
    env = name_of_id(env_id) if env_id else UNKNOWN_ENV
    return ForeignRun(method, env, number, curve, evaluations, is_smoothed, settings)


def _evaluations(path: Path, env_id: str | None, curve: Curve) -> tuple[CheckpointEvaluation, ...]:
    """What EvalCallback played. RL Zoo plays Atari games and MiniGrid with sampled actions, all others greedily.

    Its seconds are those of the training episodes around it, else NaN.
    """
    is_greedy = not (is_atari(env_id) or (env_id or "").startswith("MiniGrid"))
    steps, returns, lengths = read_npz(path / EVALUATIONS_NPZ)
    if len(curve):
        seconds = np.interp(steps, curve.steps, curve.seconds)
    else:
        seconds = np.full(len(steps), np.nan)
    of_returns = (returns.mean(axis=1), returns.std(axis=1), returns.min(axis=1), returns.max(axis=1))
    columns = [each.tolist() for each in (*of_returns, lengths.mean(axis=1))]
    episodes = returns.shape[1]
    figures = [
        Evaluation(episodes, mean, deviation, least, most, length, is_greedy, seconds=0.0)
        for mean, deviation, least, most, length in zip(*columns, strict=True)
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


def name_of_id(env_id: str) -> str:
    """The zoo's name of a Gymnasium id."""
    for entry in get_registry().envs.values():
        if entry.gym_id is not None and entry.gym_id.rpartition(":")[2] == env_id:
            return entry.name
    game = re.fullmatch(r"(\w+)NoFrameskip-v4", env_id)
    if game:
        return f"atari:{re.sub(r'(?<!^)(?=[A-Z])', '_', game[1]).lower()}"
    return f"gym:{env_id}"


# TensorBoard's event files


def _event_files(folder: Path) -> list[Path]:
    """In the order in which they were begun: their names have the time and then, within a second, a count."""
    return sorted(folder.glob("events.out.tfevents.*"), key=_by_numbers)


def _by_numbers(file: Path) -> list[str | int]:
    """Sorts names with their numbers as numbers: `….9` before `….10`."""
    parts = re.split(r"(\d+)", file.name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


class _Points:
    """The points of one tag: arrays `[K]` of steps, never falling, seconds of training, never falling, and values.

    A program that went on from an earlier step has written steps twice. What it wrote later counts, as in TensorBoard.
    """

    def __init__(self) -> None:
        self.steps = array("d")
        self.seconds = array("d")
        self.values = array("d")
        self._part_start_s = self._newest_s = self._earlier_s = 0.0

    def begin_part(self, wall_s: float) -> None:
        """The program begins at this time of day, or goes on: what lies between two parts is no training."""
        self._part_start_s = self._newest_s = wall_s
        self._earlier_s = self.seconds[-1] if self.seconds else 0.0

    def go_on_from(self, step: int) -> None:
        """Drops the points at this step and after it."""
        kept = bisect_left(self.steps, step)
        if kept < len(self.steps):
            for numbers in (self.steps, self.seconds, self.values):
                del numbers[kept:]
            self.begin_part(self._newest_s)

    def add(self, step: int, wall_s: float, value: float) -> None:
        """Adds a point; one before the newest begins again there."""
        if self.steps and step < self.steps[-1]:
            self.go_on_from(step)
        self._newest_s = max(self._newest_s, wall_s)  # a clock may be set back
        self.steps.append(step)
        self.seconds.append(self._earlier_s + self._newest_s - self._part_start_s)
        self.values.append(value)


def _read_events(folder: Path, frame_skip: int) -> tuple[Curve, bool, dict[str, str]]:
    """Reads the training returns in a folder's event files. Seconds count from the first event.

    Returns:
        The curve, whether its points are means of several episodes, and the settings.

    Raises:
        RunDirectoryError: the files are damaged, too large or no regular files, or have no training returns.
    """
    points = {tag: _Points() for tag in (*EPISODES, *MEANS)}
    settings: dict[str, str] = {}
    left = MAX_EVENTS
    for file in _event_files(folder):
        try:
            content = read_bytes(file, left)
            left -= len(content)
            _add_events(content, points, settings)
        except (OSError, ValueError) as error:
            raise RunDirectoryError(f"{file.name} cannot be read: {error}") from error
    tags = EPISODES if points[EPISODES[0]].steps else MEANS
    episodes = points[tags[0]]
    if not episodes.steps:
        raise RunDirectoryError(f"its event files have neither {EPISODES[0]} nor {MEANS[0]}")
    steps = np.array(episodes.steps)
    seconds = np.array(episodes.seconds)
    returns = np.array(episodes.values)
    lengths = _lengths(episodes, points[tags[1]])
    for numbers, most in (
        (steps, GREATEST),
        (seconds, GREATEST),
        (returns, GREATEST_RETURN),
        (lengths, GREATEST),
    ):
        if not (np.abs(numbers) <= most).all():
            raise RunDirectoryError("its event files have a number that is not finite, or too great")
    return Curve.ordered(steps, seconds, returns, np.ceil(lengths / frame_skip)), tags == MEANS, settings


def _add_events(content: bytes, points: Mapping[str, _Points], settings: dict[str, str]) -> None:
    """Adds what the events of a file hold. Raises ValueError if a record is damaged, or a return is no scalar."""
    is_first = True
    for event in _events(content):
        if is_first:
            for tag_points in points.values():
                tag_points.begin_part(event.wall_time)
        is_first = False
        if event.session_log.status == event.session_log.START:
            for tag_points in points.values():
                tag_points.go_on_from(event.step)
        for value in event.summary.value:
            if value.tag in points:
                points[value.tag].add(event.step, event.wall_time, _scalar(value))
            elif value.tag == SETTINGS_TAG and value.HasField("tensor"):
                settings |= _table(b"".join(value.tensor.string_val[:1]).decode(errors="replace"))


#: Type of a tensor → how `struct` reads its bytes, and the field that has its numbers where it has no bytes.
_TENSORS: Final = {
    "DT_FLOAT": ("<f", "float_val"),
    "DT_DOUBLE": ("<d", "double_val"),
    "DT_INT32": ("<i", "int_val"),
    "DT_INT64": ("<q", "int64_val"),
}


def _scalar(value: Any) -> float:
    """The number of a summary's value: plain, or a tensor of one number, as TensorFlow 2 and JAX's writers make it.

    The shape that the tensor claims is not believed.

    Raises:
        ValueError: it is no scalar.
    """
    from tensorboard.compat.proto.types_pb2 import DataType

    if value.HasField("simple_value"):
        return float(value.simple_value)
    tensor = value.tensor
    if tensor.dtype in DataType.values():
        name = DataType.Name(tensor.dtype)
    else:
        name = str(tensor.dtype)
    if name in _TENSORS:
        form, field_name = _TENSORS[name]
        if len(tensor.tensor_content) == struct.calcsize(form):
            return float(*struct.unpack(form, tensor.tensor_content))
        numbers = getattr(tensor, field_name)
        if len(numbers) == 1:
            return float(numbers[0])
    if value.HasField("tensor"):
        kind = f"a tensor of {name}"
    else:
        kind = value.WhichOneof("value")
    raise ValueError(
        f"{value.tag} is {kind or 'empty'}; plain scalars and tensors of one float or integer are read"
    )


def _lengths(returns: _Points, lengths: _Points) -> NDArray[np.float64]:
    """The length for each return, `[K]`: the first at the same step for the first, and so on.

    One is missing if the program was killed between the two; then it is 0.
    """
    of_episodes = np.zeros(len(returns.steps))
    place = 0
    for index, step in enumerate(returns.steps):
        while place < len(lengths.steps) and lengths.steps[place] < step:
            place += 1
        if place < len(lengths.steps) and lengths.steps[place] == step:
            of_episodes[index] = lengths.values[place]
            place += 1
    return of_episodes


def _table(text: str) -> dict[str, str]:
    """Name → value of a table as CleanRL writes it: two lines of a head, then `|name|value|`. Without the seed."""
    rows = (
        line.strip("|").partition("|")
        for line in text.splitlines()[2 : 2 + MOST_SETTINGS]
        if line.startswith("|")
    )
    return {
        printable(name): printable(value)[:MOST_CHARACTERS]
        for name, _, value in rows
        if name not in ("", "seed")
    }


def _events(content: bytes) -> Iterator[Any]:
    """The events of a file: those with returns, lengths or settings; small ones, of which some tell that the program
    went on from an earlier step; and the first: when the program started.

    TensorBoard's own reader takes the length of a record on trust, and asks for so much memory. A file whose program
    was killed ends in the middle of a record, and after a crash of the machine it may end with zeros.

    Raises:
        ValueError: a record is damaged.
    """
    from tensorboard.compat.proto.event_pb2 import Event

    tags = [tag.encode() for tag in (*EPISODES, *MEANS, SETTINGS_TAG)]
    at = 0
    while at + 12 <= len(content):
        # Behind the length come 4 bytes of checksum, the record, and 4 bytes of checksum.
        (length,) = struct.unpack_from("<Q", content, at)
        if at + 16 + length > len(content) or not any(content[at : at + 12]):  # zeros have another checksum
            return
        record = content[at + 12 : at + 12 + length]
        if at == 0 or length <= SMALL_EVENT or any(tag in record for tag in tags):
            try:
                yield Event.FromString(record)
            except Exception as error:  # protobuf has an error of its own
                raise ValueError("a record is damaged") from error
        at += 16 + length
