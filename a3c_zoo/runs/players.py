"""Who plays an evaluator's episodes: a process of its own beside training, or the serial runner's process in turn."""

from __future__ import annotations

import os
import pickle
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import util
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from a3c_zoo.plugins.entries import load_object
from a3c_zoo.errors import ZooError, one_line
from a3c_zoo.learning.parameters import share
from a3c_zoo.processes.child import how_it_ended, settle_in
from a3c_zoo.processes.start import importable_main, process_context, warm_up
from a3c_zoo.runs.checkpoints import read_checkpoint
from a3c_zoo.runs.evaluate import PlayedEpisode, StopEvaluationError, play_all

if TYPE_CHECKING:
    from a3c_zoo.config import Config
    from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
    from a3c_zoo.runs.clock import Clock

Mode = Literal["greedy", "sampled"]
MODES: tuple[Mode, ...] = ("greedy", "sampled")
#: The evaluator plays other seeds than the evaluations that decide whether a run is solved (from 0) and those that a
#: user asks for (1,000,000).
FIRST_NUMBER = 2_000_000
STOP_GRACE_S = 0.5  # it sees the stop cell after each environment step
KILL_GRACE_S = 1.0


class PlayerFault(Exception):
    """Playing has failed.

    Attributes:
        trace: the traceback where it failed, empty where there is none.
    """

    def __init__(self, line: str, trace: str = "") -> None:
        super().__init__(line)
        self.trace = trace


@dataclass(frozen=True, slots=True)
class Task:
    """What is played.

    Attributes:
        load: the agent's `AgentEntry.load`. file: the checkpoint that is acted with, written anew for each evaluation.
    """

    entry: EnvEntry
    network: NetworkEntry | None
    config: Config
    load: str
    file: Path


class Played(NamedTuple):
    """The episodes of one evaluation, and the CPU seconds that they took with everything around them."""

    episodes: dict[Mode, list[PlayedEpisode]]
    cpu_s: float


class Player(Protocol):
    """Plays one evaluation after the other. Raises PlayerFault when it cannot."""

    def begin(self, number: int) -> None:
        """Begins the evaluation of this number, with the policy that lies in the task's file."""
        ...

    def result(self) -> Played | None:
        """What was played; None while it goes on."""
        ...

    def stop(self) -> None:
        """Ends it, in the middle of an episode or not; never raises, and takes two seconds at most."""
        ...


def play(task: Task, number: int, on_step: Callable[[int], None]) -> dict[Mode, list[PlayedEpisode]]:
    """Plays the task's episodes, greedy and sampled on the same seeds. An episode ends where its environment ends it."""
    config = task.config
    with torch.random.fork_rng(devices=[]):  # networks draw initial weights, which are then replaced
        agent_state = read_checkpoint(task.file)["agent"]
        policy = load_object(task.load)(task.entry, task.network, config, agent_state)
    return {
        mode: play_all(
            policy,
            task.entry,
            config.env,
            episodes=config.run.evaluator_episodes,
            num_envs=config.run.evaluation_envs,
            seed=config.run.seed,
            number=FIRST_NUMBER + number,
            deterministic=mode == "greedy",
            on_step=on_step,
        )
        for mode in MODES
    }


def _line(error: BaseException) -> str:
    return str(error) if isinstance(error, ZooError) else one_line(error)


class PlayerInTurn:
    """Plays in this process while training waits; its time counts as evaluation, and it takes no share of a core.

    Args:
        on_step: as `evaluate` has it; may raise StopEvaluationError, upon which there is no result.
    """

    def __init__(self, task: Task, clock: Clock, on_step: Callable[[int], None]) -> None:
        self._task, self._clock, self._on_step = task, clock, on_step
        self._played: Played | None = None

    def begin(self, number: int) -> None:
        """Plays it all. Raises PlayerFault for whatever the environment or the network raises."""
        self._played = None
        try:
            with self._clock.during("evaluation"):
                self._played = Played(play(self._task, number, self._on_step), 0.0)
        except StopEvaluationError:
            return
        except Exception as error:
            raise PlayerFault(_line(error), traceback.format_exc()) from error

    def result(self) -> Played | None:
        """What `begin` played; None where it was stopped."""
        return self._played

    def stop(self) -> None:
        """Nothing lives on."""


class PlayerProcess:
    """Plays in a process that starts with the first evaluation and ends with the run."""

    def __init__(self, task: Task) -> None:
        self._task, self._run = task, task.config.run
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._cells = torch.zeros(2, dtype=torch.int64)  # whether to stop; environment steps so far
        self._last_tick, self._last_tick_s = 0, 0.0
        self._at_exit: util.Finalize | None = None

    def begin(self, number: int) -> None:
        """Starts the process if there is none yet. Raises PlayerFault where it cannot start, or has ended."""
        try:
            pipe = self._pipe or self._start()
            pipe.send(number)
        except (EOFError, OSError) as error:
            raise self._ended() if self._process else PlayerFault(f"it cannot be started: {one_line(error)}") from error
        self._last_tick_s = time.monotonic()

    def _start(self) -> Connection:
        warm_up(self._run.start_method)  # done long before where workers came from there
        context = process_context(self._run.start_method)
        share(self._cells)
        pipe, theirs = context.Pipe()
        process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=player_main, args=(theirs, self._cells, self._task), name="a3c-zoo evaluator", daemon=True
        )
        # As for workers: should the interpreter end before the run does, it would wait for this process.
        self._at_exit = util.Finalize(None, self.stop, exitpriority=0)
        with importable_main():
            process.start()
        theirs.close()  # else the pipe would not end with the process
        self._process, self._pipe = process, pipe
        return pipe

    def result(self) -> Played | None:
        """Never waits. Raises PlayerFault where the process told of a fault, has ended, or makes no step for too long."""
        assert self._pipe is not None
        try:
            if not self._pipe.poll():
                self._check_tick()
                return None
            kind, content = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            raise self._ended() from None
        if kind == "error":
            raise PlayerFault(*content)
        played: Played = content
        return played

    def _ended(self) -> PlayerFault:
        assert self._process is not None
        self._process.join(KILL_GRACE_S)
        return PlayerFault(f"it {how_it_ended(self._process.exitcode)}")

    def _check_tick(self) -> None:
        tick, now = int(self._cells[1]), time.monotonic()
        if tick != self._last_tick:
            self._last_tick, self._last_tick_s = tick, now
        elif now - self._last_tick_s > self._run.worker_timeout_s:
            raise PlayerFault(
                f"it has made no step for {self._run.worker_timeout_s:g} s: does its environment hang? "
                "(limit: run.worker_timeout_s)"
            )

    def stop(self) -> None:
        """Asks it to end, and kills it where it doesn't."""
        self._cells[0] = 1
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.join(STOP_GRACE_S)
            self._process.kill()
            self._process.join(KILL_GRACE_S)
        if self._at_exit is not None:
            self._at_exit.cancel()


def player_main(pipe: Connection, cells: Tensor, task: Task) -> None:
    """The evaluator's process from its first line to its last."""
    settle_in()
    flags = cells.numpy()
    used_s = 0.0

    def on_step(played: int) -> None:
        flags[1] += 1
        if flags[0]:
            raise StopEvaluationError

    with suppress(EOFError, ConnectionError, StopEvaluationError):  # told to end, or nobody listens any more
        while True:
            number = pipe.recv()
            try:
                episodes = play(task, number, on_step)
            except StopEvaluationError:
                raise
            except BaseException as error:
                pipe.send_bytes(pickle.dumps(("error", (_line(error), traceback.format_exc()))))
                raise SystemExit(1) from None
            now_s = sum(os.times()[:4])  # user and system, of this process and of those that it waited for
            pipe.send_bytes(pickle.dumps(("played", Played(episodes, now_s - used_s))))
            used_s = now_s
