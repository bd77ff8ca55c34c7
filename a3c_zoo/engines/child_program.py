"""A child process that runs a module of this package as a program: a training, or the rehearsal of a comparison."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from types import TracebackType
from typing import Self

from a3c_zoo.processes.child import ending
from a3c_zoo.processes.start import handlers_wait
from a3c_zoo.system import end_with_parent


class ChildProgram:
    """Runs `python -m MODULE ARGUMENTS` after `start`. It is a context manager: the child has ended when the body has.

    The child is apart from the terminal: a Ctrl-C reaches it once, through this process. It gets a SIGTERM when this
    process ends, in whatever way.

    Args:
        grace_s: how long the child may take to end after SIGTERM, in seconds. Then it is killed.
    """

    def __init__(self, module: str, *arguments: str, grace_s: float) -> None:
        self._command = [sys.executable, "-P", "-m", module, *arguments]
        self._grace_s = grace_s
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 (__exit__ closes it)
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = threading.Lock()
        self._is_told = False

    def start(self) -> None:
        """Starts the child, once, in the body of the context manager: a Ctrl-C meanwhile ends it."""
        with handlers_wait():
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                env=_environment(),
                start_new_session=True,
                preexec_fn=end_with_parent(),
            )

    @property
    def status(self) -> int | None:
        """The exit status; None while the child runs."""
        assert self._process is not None
        return self._process.poll()

    def has_ended(self, within_s: float) -> bool:
        """Waits until the child has ended, for so many seconds at most."""
        assert self._process is not None
        try:
            self._process.wait(within_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def fault(self) -> str:
        """Why the child has failed, once it has ended: the line of its error, else its last line, else its status."""
        self._output.seek(0)
        lines = self._output.read().decode(errors="replace").strip().splitlines()
        errors = [line for line in lines if line.startswith("Error: ")]  # libraries may print more at the end
        if errors:
            return errors[-1].removeprefix("Error: ")
        status = self.status
        if lines and status is not None and status >= 0:
            return lines[-1]
        return f"its process {ending(status)}"

    def end(self) -> None:
        """Ends the child, if it has started; its workers end with it.

        Another thread may call it at the same time. The child gets one SIGTERM: a second one would keep a training
        from saving its state.
        """
        if self._process is None:
            return
        with self._ending:
            if not self._is_told:
                self._process.terminate()  # does nothing to one that has ended
            self._is_told = True
        try:
            self.has_ended(self._grace_s)
        finally:  # also on a second Ctrl-C
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self._output.close()


def _environment() -> dict[str, str]:
    """The child's environment: it finds the modules that lie beside this program's own script, as we do."""
    folders = [sys.path[0] or os.getcwd(), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(folders)}
