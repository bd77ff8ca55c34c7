"""A supervised child process that plays evaluation tasks, one after the other.

The evaluator beside training has one, a comparison has several. The parent alone judges the process: the child counts
its environment steps in shared memory, and the parent ends it when the count stands still for `run.worker_timeout_s`.
This works for an environment that holds Python's global lock, too.
"""

from __future__ import annotations

import os
import pickle
import time
import traceback
from collections.abc import MutableSequence
from contextlib import suppress
from multiprocessing import util
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from a3c_zoo.config import RunConfig
from a3c_zoo.errors import ZooError, one_line
from a3c_zoo.processes.child import how_it_ended, settle_in
from a3c_zoo.processes.start import process_context, start_process, warm_up
from a3c_zoo.runs.evaluation import EvaluationTask, PlayedTask, play_task
from a3c_zoo.runs.signals import StopEvaluationError

STOP_GRACE_S = 0.5  # the child looks at the stop cell after each environment step
KILL_GRACE_S = 1.0
#: The cells in shared memory: whether the child must stop, and how many environment steps it has made.
STOP, TICKS = 0, 1


class EvaluationFault(Exception):
    """An evaluation has failed. The message is one line.

    Attributes:
        trace: the traceback of the failure, empty if there is none.
    """

    def __init__(self, line: str, trace: str = "") -> None:
        super().__init__(line)
        self.trace = trace

    @classmethod
    def of(cls, error: BaseException) -> EvaluationFault:
        """The fault for an error that is being handled."""
        return cls(str(error) if isinstance(error, ZooError) else one_line(error), traceback.format_exc())


class EvaluationProcess:
    """The parent's side of one process. The process starts with the first task.

    After a fault, `begin` may be called again: if the process has ended, a new one starts.

    Args:
        name: the process's name in listings.
        is_silent: whether the process's output, on stdout and stderr, is thrown away.
    """

    def __init__(self, name: str, is_silent: bool = False) -> None:
        self._name, self._is_silent = name, is_silent
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._cells: MutableSequence[int] = [0, 0]
        self._timeout_s = 0.0
        self._last_tick, self._last_tick_s = 0, 0.0
        self._at_exit: util.Finalize | None = None

    @property
    def connection(self) -> Connection:
        """Ready when `result` has news, for `multiprocessing.connection.wait`. A hung process never makes it ready."""
        assert self._pipe is not None
        return self._pipe

    def begin(self, task: EvaluationTask) -> None:
        """Starts to play a task; the one before must have ended.

        Raises:
            EvaluationFault: the process cannot be started, or has ended.
        """
        try:
            if self._process is None:
                self._start(task.config.run)
            self.connection.send_bytes(pickle.dumps(task))
        except (EOFError, OSError) as error:
            if self._process is not None:
                raise self._ended() from error
            raise EvaluationFault(f"it cannot be started: {one_line(error)}") from error
        self._timeout_s, self._last_tick_s = task.config.run.worker_timeout_s, time.monotonic()

    def _start(self, run: RunConfig) -> None:
        warm_up(run.start_method)  # does nothing where the workers' fork server runs already
        context = process_context(run.start_method)
        cells = context.RawArray("q", 2)
        pipe, theirs = context.Pipe()
        process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=evaluation_main, args=(theirs, cells, self._is_silent), name=self._name, daemon=True
        )
        # As for workers: an interpreter that ends before the run does would wait for this process.
        self._at_exit = util.Finalize(None, self.stop, exitpriority=0)
        start_process(process)
        theirs.close()  # the child's copy must be the last, so that the pipe ends with the child
        self._process, self._pipe, self._cells, self._last_tick = process, pipe, cells, 0

    def result(self) -> PlayedTask | None:
        """What was played; None while it is being played. Never waits.

        Raises:
            EvaluationFault: the task has failed, or the process has ended or has made no step for too long.
        """
        try:
            if not self.connection.poll():
                self._check_ticks()
                return None
            result = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            raise self._ended() from None
        if isinstance(result, PlayedTask):
            return result
        raise EvaluationFault(*result)

    def _ended(self) -> EvaluationFault:
        assert self._process is not None
        self._process.join(KILL_GRACE_S)
        fault = EvaluationFault(f"it {how_it_ended(self._process.exitcode)}")
        self.stop()
        return fault

    def _check_ticks(self) -> None:
        tick, now = self._cells[TICKS], time.monotonic()
        if tick != self._last_tick:
            self._last_tick, self._last_tick_s = tick, now
        elif now - self._last_tick_s > self._timeout_s:
            self.stop()
            raise EvaluationFault(
                f"it has made no step for {self._timeout_s:g} s: does its environment hang? "
                "(limit: run.worker_timeout_s)"
            )

    def stop(self) -> None:
        """Ends the process, in the middle of an episode or not; never raises, takes two seconds at most."""
        self._cells[STOP] = 1
        pipe, process, self._pipe, self._process = self._pipe, self._process, None, None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.join(STOP_GRACE_S)
            process.kill()
            process.join(KILL_GRACE_S)
        if self._at_exit is not None:
            self._at_exit.cancel()


def evaluation_main(pipe: Connection, cells: MutableSequence[int], is_silent: bool) -> None:
    """The child process from its first line to its last."""
    settle_in()
    if is_silent:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)

    def on_step(played: int) -> None:
        cells[TICKS] += 1
        if cells[STOP]:
            raise StopEvaluationError

    with suppress(EOFError, ConnectionError, StopEvaluationError):  # told to end, or the parent listens no more
        while True:
            message = pipe.recv_bytes()
            try:
                result: PlayedTask | tuple[str, str] = play_task(pickle.loads(message), on_step)
            except StopEvaluationError:
                raise
            except BaseException as error:
                fault = EvaluationFault.of(error)
                result = (str(fault), fault.trace)
            pipe.send_bytes(pickle.dumps(result))
