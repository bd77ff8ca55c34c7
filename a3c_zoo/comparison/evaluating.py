"""Plays the checkpoints of finished runs, the same for all: after training, on the zoo's environments, raw scores.

Each checkpoint plays the same episodes with sampled and with greedy actions, on seeds that no training and no other
evaluation has. The figures are kept in the run's directory. Processes of their own play them, one for each core: each
reads names of runs from its stdin, one a line, and answers with one line of JSON for each evaluation.
"""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from a3c_zoo.comparison.plan import CHECKPOINTS
from a3c_zoo.comparison.running import END_WITH_PARENT
from a3c_zoo.comparison.timing import write_json
from a3c_zoo.errors import RunDirectoryError, ZooError
from a3c_zoo.hardware import available_cores
from a3c_zoo.runs.directory import RunDirectory
from a3c_zoo.seeds import COMPARED_EVALUATIONS

EVALUATIONS_FILE = "evaluations.json"
EVALUATIONS_FORMAT = 1
DEFAULT_EPISODES = 20
#: At most so many environments side by side: their frames are held in memory.
MAX_ENVS = 32
END_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Work:
    """The evaluations that a run lacks. steps: of its checkpoints."""

    run: Path
    steps: tuple[int, ...]


def chosen_steps(known: Sequence[int]) -> list[int]:
    """Of a run's checkpoints (rising), those nearest to ten equal parts of the last."""
    last = known[-1]
    targets = [last * part / CHECKPOINTS for part in range(1, CHECKPOINTS + 1)]
    return sorted({min(known, key=lambda step: abs(step - target)) for target in targets})


def evaluations_of(run: Path) -> dict[str, Any] | None:
    """What a run's evaluations.json holds; None where there is none, or a damaged one or one of another format."""
    try:
        content = json.loads((run / EVALUATIONS_FILE).read_text(encoding="utf-8"))
        return dict(content) if content["format"] == EVALUATIONS_FORMAT and content["evaluations"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def work_on(run: Path, episodes: int) -> Work:
    """Which checkpoints of a run have not yet been played with so many episodes.

    Raises:
        RunDirectoryError: it has no checkpoint.
    """
    steps = [int(path.stem.removeprefix("step-")) for path in (run / "checkpoints").glob("step-*.pt")]
    if not steps:
        raise RunDirectoryError("it has no checkpoint")
    done = {each["steps"] for each in _kept(run, episodes)}
    return Work(run, tuple(step for step in chosen_steps(sorted(steps)) if step not in done))


def _kept(run: Path, episodes: int) -> list[dict[str, Any]]:
    """The evaluations of so many episodes that a run has; none where what it has is damaged, or there twice."""
    content = evaluations_of(run)
    try:
        kept = content["evaluations"] if content and content["episodes"] == episodes else []
        return list(kept) if len({(each["steps"], each["deterministic"]) for each in kept}) == len(kept) else []
    except (KeyError, TypeError):
        return []


def evaluate_runs(
    runs: Sequence[Path], episodes: int, on_played: Callable[[int, int], None], processes: int | None = None
) -> dict[Path, str]:
    """Plays whatever has not been played; returns run → why it could not be, for those.

    Raises:
        KeyboardInterrupt: what has been played until then is kept.
    """
    waiting, total, faults = _waiting(runs, episodes)
    if not total:
        return faults
    answers: queue.SimpleQueue[tuple[Path, str | None] | None] = queue.SimpleQueue()
    players = [_Player(waiting, answers, episodes) for _ in range(min(processes or available_cores(), waiting.qsize()))]
    try:
        left, played = len(players), 0
        on_played(0, total)
        while left:
            match answers.get():
                case None:
                    left -= 1
                case (run, str(fault)):
                    faults[run] = fault
                case _:
                    played += 1
                    on_played(played, total)
    finally:
        for player in players:
            player.stop()
    return faults


def _waiting(runs: Sequence[Path], episodes: int) -> tuple[queue.SimpleQueue[Work], int, dict[Path, str]]:
    """What is to be played, how many checkpoints that is, and run → why it cannot be."""
    waiting: queue.SimpleQueue[Work] = queue.SimpleQueue()
    total, faults = 0, {}
    for run in runs:
        try:
            work = work_on(run, episodes)
        except ZooError as error:
            faults[run] = str(error)
            continue
        total += len(work.steps)
        if work.steps:
            waiting.put(work)
    return waiting, total, faults


class _Player:
    """One evaluating process, and the thread that speaks with it."""

    def __init__(self, waiting: queue.SimpleQueue[Work], answers: queue.SimpleQueue[Any], episodes: int) -> None:
        self._waiting, self._answers, self._episodes = waiting, answers, episodes
        self._process, self._is_stopped = _start_evaluator(), False
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        try:
            while True:
                self._play(self._waiting.get_nowait())
        except queue.Empty:
            pass
        finally:
            self._answers.put(None)

    def _play(self, work: Work) -> None:
        for fault in self._ask(work):
            self._answers.put((work.run, fault))

    def _ask(self, work: Work) -> Iterator[str | None]:
        """Has a run's checkpoints played; None for each that was, and the fault that ended it otherwise."""
        if self._process.poll() is not None and not self._is_stopped:  # with the run before this one
            self._process = _start_evaluator()
        question = {"run": str(work.run.resolve()), "steps": work.steps, "episodes": self._episodes}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            for _ in work.steps:
                answer = json.loads(self._process.stdout.readline() or "null")
                if answer is None:
                    raise BrokenPipeError
                yield answer["fault"]
                if answer["fault"] is not None:
                    return
        except (OSError, ValueError):
            yield "its evaluation ended by itself"

    def stop(self) -> None:
        """Ends the process, which keeps nothing that isn't written."""
        self._is_stopped = True
        self._process.kill()
        self._process.wait(END_GRACE_S)
        self._thread.join(END_GRACE_S)


def _start_evaluator() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "a3c_zoo.comparison.evaluator"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C reaches us alone
        preexec_fn=END_WITH_PARENT,
    )


def play_checkpoints(
    directory: RunDirectory,
    steps: Sequence[int],
    episodes: int,
    on_step: Callable[[int], None],
    on_played: Callable[[], None],
) -> None:
    """Plays these checkpoints of a run and keeps the figures in its directory, after each.

    Args:
        on_step: called after every step of the environments.
    """
    from a3c_zoo.plugins.registry import get_registry
    from a3c_zoo.runs.api import policy_of
    from a3c_zoo.runs.checkpoints import load_checkpoint
    from a3c_zoo.runs.evaluation import evaluate_policy

    registry = get_registry()
    config = directory.config(registry)
    entry = registry.env(config.env_name)
    for step in steps:
        saved = load_checkpoint(directory, str(step))
        policy = policy_of(registry, config, saved)
        played = [
            evaluate_policy(
                policy,
                entry,
                config.env,
                episodes=episodes,
                num_envs=min(episodes, MAX_ENVS),
                seed=config.run.seed,
                number=COMPARED_EVALUATIONS,
                deterministic=deterministic,
                on_step=on_step,
            )
            for deterministic in (False, True)
        ]
        about = {"steps": step, "training_s": saved["session"]["seconds"]["training"]}
        # Read again each time: another comparison may play the same run.
        others = [each for each in _kept(directory.path, episodes) if each["steps"] != step]
        rows = [*others, *({**about, **asdict(each)} for each in played)]
        rows.sort(key=lambda each: (each["steps"], each["deterministic"]))
        about_all = {"format": EVALUATIONS_FORMAT, "episodes": episodes, "seed": config.run.seed}
        write_json(directory.path / EVALUATIONS_FILE, {**about_all, "evaluations": rows})
        on_played()
