"""Runs work for an engine: in this thread if it has one slot, else in as many threads as it has slots."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from a3c_zoo.engines.interface import Engine

_R = TypeVar("_R")
#: Hands a call over to the main thread; see `side_by_side`.
Post = Callable[[Callable[[], object]], None]
#: How often the main thread looks for calls and for ended work, in seconds.
LOOK_EVERY_S: Final = 0.2


def side_by_side(
    engine: Engine, work: Sequence[Callable[[Post], _R]], on_end: Callable[[_R], None] = lambda result: None
) -> list[_R]:
    """Does all work, at most `engine.slots` at once.

    Args:
        work: is called with a function that runs a call in the main thread, where watchers are told the progress. The
            function raises InterruptedError when all work has to end.
        on_end: is called in the main thread with each result as it comes.

    Returns:
        The results, in the order of `work`.

    Raises:
        Exception: the first one that work raises. The engine has stopped all other work before, as on Ctrl-C.
    """
    if engine.slots == 1:
        results = []
        for task in work:
            results.append(task(_call))
            on_end(results[-1])
        return results
    calls: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
    is_over = threading.Event()

    def post(call: Callable[[], object]) -> None:
        if is_over.is_set():
            raise InterruptedError("other work has failed, or the user has stopped all")
        calls.put(call)

    with ThreadPoolExecutor(engine.slots, thread_name_prefix="a3c-zoo job") as threads:
        try:
            futures = [threads.submit(task, post) for task in work]
            _attend(futures, calls, on_end)
        except BaseException:
            is_over.set()
            threads.shutdown(wait=False, cancel_futures=True)
            engine.stop()  # work that runs ends now, and the threads with it
            raise
    return [future.result() for future in futures]


def _call(call: Callable[[], object]) -> None:
    call()


def _attend(
    futures: Sequence[Future[_R]],
    calls: queue.SimpleQueue[Callable[[], object]],
    on_end: Callable[[_R], None],
) -> None:
    """Runs the calls that work posts, until all work has ended. Raises the first error of the work."""
    waiting = list(futures)
    while waiting:
        with contextlib.suppress(queue.Empty):
            calls.get(timeout=LOOK_EVERY_S)()
        for future in [future for future in waiting if future.done()]:
            waiting.remove(future)
            on_end(future.result())
    while not calls.empty():
        calls.get()()
