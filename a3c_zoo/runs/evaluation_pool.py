"""Processes that play evaluation tasks side by side: the checkpoints of runs, and the parts of a solved check."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import wait
from types import TracebackType
from typing import Final, Self, TypeVar

from a3c_zoo.runs.evaluation import EvaluationTask, PlayedTask
from a3c_zoo.runs.evaluation_process import EvaluationError, EvaluationProcess

K = TypeVar("K")
#: How often the parent looks for what it is to do, and for processes that hang, in seconds.
LOOK_EVERY_S: Final = 0.1


class EvaluationPool:
    """Plays tasks in processes, once. It is a context manager: its end ends the processes, whatever they play.

    Args:
        name: of the processes, in listings. size: how many there are. is_silent: see `EvaluationProcess`.
    """

    def __init__(self, name: str, size: int, is_silent: bool = False) -> None:
        self._processes = [EvaluationProcess(name, is_silent) for _ in range(size)]
        self._has_played = False

    def play(
        self,
        tasks: Mapping[K, EvaluationTask],
        on_look: Callable[[], None],
        is_wanted: Callable[[K], bool] = lambda key: True,
    ) -> Iterator[tuple[K, PlayedTask | EvaluationError]]:
        """Yields the key of each task with what was played, or with why it failed, as the tasks end.

        Args:
            tasks: are begun in their order.
            on_look: is called several times a second; what it raises ends the playing.
            is_wanted: says of a key, when a process is free for its task, whether to play it.
        """
        assert not self._has_played  # what an earlier call has left playing would end as a task of this one
        self._has_played = True
        waiting = deque(tasks)
        busy: dict[EvaluationProcess, K] = {}
        while busy or waiting:
            on_look()
            for process in self._processes:
                if process in busy:
                    ended = _ended(process)
                    if ended is None:
                        continue
                    yield busy.pop(process), ended
                while waiting and not is_wanted(waiting[0]):
                    waiting.popleft()
                if waiting:
                    key = waiting.popleft()
                    try:
                        process.begin(tasks[key])
                        busy[process] = key
                    except EvaluationError as fault:
                        yield key, fault
            wait([process.connection for process in busy], LOOK_EVERY_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.ask_to_stop()  # so that they end side by side
        for process in self._processes:
            process.stop()


def _ended(process: EvaluationProcess) -> PlayedTask | EvaluationError | None:
    """What a process has played, or why it failed; None while it plays."""
    try:
        return process.result()
    except EvaluationError as fault:
        return fault
