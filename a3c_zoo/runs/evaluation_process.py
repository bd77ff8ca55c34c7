"""A supervised child process that plays evaluation tasks, one after the other.

The evaluator beside training has one, and so have the films of a report. Comparisons and solved checks have several.
Only the parent judges the process: the child counts its environment steps in shared memory, and the parent ends it
when the count stands still for `run.worker_timeout_s`. This works for an environment that holds Python's global lock,
too.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import MutableSequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import util
from multiprocessing.connection import Connection

from a3c_zoo.errors import ZooError, first_line, one_line, trace_of
from a3c_zoo.processes.child import ChildProcess, end_children
from a3c_zoo.processes.start import pickled, process_context
from a3c_zoo.runs.evaluation import EvaluationTask, PlayedTask, play_task
from a3c_zoo.runs.signals import StopEvaluationError

#: How long the process has to end by itself, in seconds. It checks the stop cell after every environment step.
STOP_GRACE_S = 0.5
#: The cells in shared memory: whether the child must stop, and how many environment steps it has made.
STOP, TICKS = 0, 1


class EvaluationError(Exception):
    """An evaluation has failed. The message is one line.

    Attributes:
        trace: the traceback of the failure, empty if there is none. is_users: whether the user can correct it.
    """

    def __init__(self, line: str, trace: str = "", is_users: bool = False) -> None:
        super().__init__(line)
        self.trace = trace
        self.is_users = is_users

    @classmethod
    def of(cls, error: BaseException) -> EvaluationError:
        """The fault for an error that is being handled."""
        is_users = isinstance(error, ZooError)
        return cls(str(error) if is_users else one_line(error), trace_of(error), is_users)


class EvaluationProcess:
    """The parent's side of one process. The process starts with the first task.

    After a fault, `begin` may be called again: if the process has ended, a new one starts.

    Args:
        name: the process's name in listings.
        is_silent: whether the process's output, on stdout and stderr, is thrown away.
    """

    def __init__(self, name: str, is_silent: bool = False) -> None:
        self._name = name
        self._is_silent = is_silent
        self._child: ChildProcess | None = None
        self._cells: MutableSequence[int] = [0, 0]
        self._timeout_s = 0.0
        self._at_exit: util.Finalize | None = None

    @property
    def connection(self) -> Connection:
        """Ready when `result` has news, for `multiprocessing.connection.wait`. A hung process never makes it ready."""
        assert self._child is not None
        return self._child.pipe

    def begin(self, task: EvaluationTask) -> None:
        """Starts to play a task; the one before must have ended.

        Raises:
            EvaluationError: the process cannot be started, or has ended, or the task cannot be pickled.
        """
        run = task.config.run
        try:
            if self._child is None:
                self._child = self._start(run.start_method)
            self._child.pipe.send_bytes(pickled(task))
        except (EOFError, OSError) as error:
            if self._child is not None:
                raise self._fault(self._child.how_it_ended()) from error
            raise EvaluationError(f"it cannot be started: {first_line(error)}") from error
        except Exception as error:
            raise EvaluationError.of(error) from error
        self._timeout_s = run.worker_timeout_s
        self._child.begin_watch()

    def _start(self, start_method: str) -> ChildProcess:
        self._cells = process_context(start_method).RawArray("q", 2)
        child = ChildProcess(
            start_method, self._name, evaluation_main, self._cells, self._is_silent, is_duplex=True
        )
        # As for workers: an interpreter that ends before the run does would wait for this process.
        self._at_exit = util.Finalize(None, self.stop, exitpriority=0)
        return child

    def result(self) -> PlayedTask | None:
        """What was played; None while it is being played. Never waits.

        Raises:
            EvaluationError: the task has failed, or the process has ended or has made no step for too long.
        """
        assert self._child is not None
        try:
            if self._child.pipe.poll():
                result = pickle.loads(self._child.pipe.recv_bytes())
            elif self._child.is_hung(self._cells[TICKS], self._timeout_s):
                line = f"has made no step for {self._timeout_s:g} s: does its environment hang?"
                raise self._fault(f"{line} (limit: run.worker_timeout_s)")
            else:
                return None
        except (EOFError, OSError):
            raise self._fault(self._child.how_it_ended()) from None
        if isinstance(result, PlayedTask):
            return result
        raise EvaluationError(*result)

    def _fault(self, what: str) -> EvaluationError:
        """Ends the process, and says why."""
        self.stop()
        return EvaluationError(f"it {what}")

    def ask_to_stop(self) -> None:
        """Tells the process to end after its next step; `stop` waits for it."""
        self._cells[STOP] = 1

    def stop(self) -> None:
        """Ends the process, in the middle of an episode or not; never raises, takes three seconds at most."""
        self.ask_to_stop()
        if self._child is not None:
            end_children([self._child], STOP_GRACE_S)
            self._child = None
        if self._at_exit is not None:
            self._at_exit.cancel()


def evaluation_main(pipe: Connection, cells: MutableSequence[int], is_silent: bool) -> None:
    """What runs in the child process."""
    if is_silent:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)

    def on_step(played: int) -> None:
        cells[TICKS] += 1
        if cells[STOP]:
            raise StopEvaluationError

    used_s = 0.0
    # It is told to end, or the parent listens no more.
    with suppress(EOFError, ConnectionError, StopEvaluationError):
        while True:
            message = pipe.recv_bytes()
            try:
                played = play_task(pickle.loads(message), on_step, owns_process=True)
                before_s = used_s
                used_s = sum(os.times()[:4])  # user and system, of this process and its children
                result: PlayedTask | tuple[str, str, bool] = replace(played, cpu_s=used_s - before_s)
            except StopEvaluationError:
                raise
            except BaseException as error:
                fault = EvaluationError.of(error)
                result = (str(fault), fault.trace, fault.is_users)
            pipe.send_bytes(pickle.dumps(result))
