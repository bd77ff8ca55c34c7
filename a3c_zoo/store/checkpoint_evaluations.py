"""evaluations.json of a run: what its checkpoints played after training."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import filelock

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import fields_of, other_format, read_json, shown
from a3c_zoo.records import Evaluation
from a3c_zoo.store.directory import disk_errors, write_json
from a3c_zoo.store.run_files import EVALUATIONS_JSON, EVALUATIONS_LOCK

EVALUATIONS_FORMAT: Final = 1
#: How long one comparison waits while another writes the evaluations of the same run, in seconds.
LOCK_LIMIT_S: Final = 60.0


class NewerFormatError(RunDirectoryError):
    """A newer version has written the file. It is left as it is."""


@dataclass(frozen=True, slots=True)
class CheckpointEvaluation:
    """Episodes that a checkpoint played after training.

    Attributes:
        steps, training_s: agent steps and training seconds of the checkpoint.
    """

    steps: int
    training_s: float
    evaluation: Evaluation

    @property
    def key(self) -> tuple[int, bool]:
        """Agent steps, and whether actions were greedy. No two evaluations of a run have the same key."""
        return self.steps, self.evaluation.deterministic


def evaluations_of(run: Path) -> tuple[CheckpointEvaluation, ...]:
    """Reads a run's evaluations.json: rising in steps, sampled actions before greedy ones.

    A file that is missing, no JSON, or of an older format counts as empty.

    Raises:
        RunDirectoryError: a row is damaged, a checkpoint is there twice, or a later one has no later seconds.
        NewerFormatError: a newer version wrote it.
    """
    try:
        content = read_json(run / EVALUATIONS_JSON)
        number = content["format"]
        rows = content["evaluations"] if number == EVALUATIONS_FORMAT else []
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    if isinstance(number, int) and number > EVALUATIONS_FORMAT:
        text = f"{shown(run / EVALUATIONS_JSON)} has format {other_format(number, EVALUATIONS_FORMAT)}"
        raise NewerFormatError(text)
    try:
        evaluations = sorted(map(_checkpoint_evaluation, rows), key=lambda each: each.key)
    except (KeyError, TypeError, ValueError) as error:
        raise RunDirectoryError(f"{EVALUATIONS_JSON} is damaged") from error
    if len({each.key for each in evaluations}) < len(evaluations):
        raise RunDirectoryError(f"{EVALUATIONS_JSON} is damaged: it has checkpoints twice")
    by_mode = ([each for each in evaluations if each.key[1] == is_greedy] for is_greedy in (False, True))
    if any(one.training_s >= two.training_s for mode in by_mode for one, two in itertools.pairwise(mode)):
        raise RunDirectoryError(f"{EVALUATIONS_JSON} is damaged: its training_s do not rise")
    return tuple(evaluations)


def _checkpoint_evaluation(row: Any) -> CheckpointEvaluation:
    fields = fields_of(CheckpointEvaluation, row)
    steps = fields.pop("steps")
    training_s = fields.pop("training_s")
    return CheckpointEvaluation(steps, training_s, Evaluation(**fields_of(Evaluation, fields)))


def keep_evaluations(
    run: Path, episodes: int, evaluations: Sequence[CheckpointEvaluation], seed: int
) -> None:
    """Adds evaluations to a run's evaluations.json, under a lock: another comparison may add some at the same time.

    Evaluations of the same checkpoints are replaced, and so are those with another number of episodes.

    Raises:
        RunDirectoryError: the file cannot be written, or another process holds the lock for too long.
        NewerFormatError: a newer version wrote the file.
    """
    with disk_errors(run, "write"), filelock.FileLock(run / EVALUATIONS_LOCK, timeout=LOCK_LIMIT_S):
        every = {each.key: each for each in (*kept_evaluations(run, episodes), *evaluations)}
        rows = [
            {"steps": each.steps, "training_s": each.training_s, **asdict(each.evaluation)}
            for _, each in sorted(every.items())
        ]
        content = {"format": EVALUATIONS_FORMAT, "episodes": episodes, "seed": seed, "evaluations": rows}
        write_json(run / EVALUATIONS_JSON, content)


def kept_evaluations(run: Path, episodes: int) -> tuple[CheckpointEvaluation, ...]:
    """A run's evaluations with this number of episodes; none if its evaluations.json is damaged.

    Raises:
        NewerFormatError: a newer version wrote it.
    """
    try:
        return tuple(each for each in evaluations_of(run) if each.evaluation.episodes == episodes)
    except NewerFormatError:
        raise
    except RunDirectoryError:
        return ()
