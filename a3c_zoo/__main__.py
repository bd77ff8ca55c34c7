"""The `a3c-zoo` command."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import CodeType, FrameType

from a3c_zoo import processes
from a3c_zoo.cli.main import cli
from a3c_zoo.standard_streams import drop_lost_output, open_closed_streams, refuse_lost_output
from a3c_zoo.system import signal_thread

#: How long Python may wait for threads once a command is over, and how long their end may take then, in seconds.
THREADS_GRACE_S, END_GRACE_S = 10.0, 3.0


def main() -> None:
    """Runs the command line and exits with its exit status."""
    sys.unraisablehook = _repeat_ctrl_c
    processes.is_ours = True
    open_closed_streams()
    drop_lost_output("stderr")  # an error that cannot be shown keeps its exit status
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # Latin-1 has no λ and no →
    refuse_lost_output()
    try:
        cli.main(prog_name="a3c-zoo")
    finally:
        # The command is over. Another Ctrl-C while Python exits would only replace the exit status by a signal.
        # This is not in the group, because a program that calls the group continues.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if cli.is_builtin and _foreign_threads():
            code = getattr(sys.exc_info()[1], "code", 1)
            status = code if isinstance(code, int) else int(code is not None)
            threading.Thread(target=_end_though_threads_run, args=[status], daemon=True).start()


def _foreign_threads() -> list[str]:
    """Names of threads for which Python waits before it exits. Those that an environment has left may run for ever."""
    others = (thread for thread in threading.enumerate() if thread is not threading.main_thread())
    return list(dict.fromkeys(thread.name for thread in others if not thread.daemon))


def _end_though_threads_run(status: int) -> None:
    """Exits with the status of the command, unless Python does so by itself soon. Runs in a daemon thread.

    Functions of `atexit` are left out: the main thread would call them, too, if one of them ended the threads.
    """
    from multiprocessing import util

    time.sleep(THREADS_GRACE_S)
    if names := _foreign_threads():
        end = threading.Timer(END_GRACE_S, os._exit, [status])
        end.daemon = True
        end.start()
        line = f"Warning: threads that were left are ended: {', '.join(names)}. Cure: end them in close()"
        with suppress(OSError):
            os.write(2, f"{line}\n".encode(errors="replace"))
        util._run_finalizers()  # type: ignore[attr-defined]  # temporary folders of multiprocessing
        os._exit(status)


def _repeat_ctrl_c(unraisable: sys.UnraisableHookArgs) -> None:
    """Ctrl-C comes again if Python dropped it, as it does in a callback of an import or of the garbage collection.

    It raises by itself: the handler of a run has counted it already, and would not raise so soon again.
    """
    main_thread = threading.main_thread().ident
    if threading.get_ident() != main_thread or not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    before = signal.getsignal(signal.SIGINT)
    num_handled = 0
    is_raised = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal num_handled, is_raised
        num_handled += 1
        if _is_called_by(frame, _repeat_ctrl_c.__code__):
            return  # on a busy machine this function is not over yet, and Python would drop it again
        is_raised = True
        signal.signal(signal.SIGINT, before)
        raise KeyboardInterrupt

    def send() -> None:
        num_sent = 0
        while not is_raised:
            time.sleep(0.01)  # then the callback is over, as a rule
            if num_sent <= num_handled:
                num_sent += 1
                signal_thread(main_thread, signal.SIGINT)

    signal.signal(signal.SIGINT, interrupt)
    threading.Thread(target=send, daemon=True).start()


def _is_called_by(frame: FrameType | None, code: CodeType) -> bool:
    """Whether a frame is that of a function, which has this code, or of what the function calls."""
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    main()
