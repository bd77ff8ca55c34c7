"""What the fork server imports once for all processes of a run; importing this module does it.

Only torch, gymnasium and modules of this package: any exception but ImportError would end the fork server.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
from multiprocessing import util

from a3c_zoo.processes.start import PROGRAMS_ENVIRONMENT, SAFE_PATH, WORKER_ENVIRONMENT, without_collections
from a3c_zoo.system import GROUP_SIGNALS, at_fork, block_signals, unblock_signals

MODULES = (
    "torch",
    "gymnasium",
    "a3c_zoo.processes.pool",
    "a3c_zoo.agents.a3c",
    "a3c_zoo.agents.a3c_data",
    "a3c_zoo.agents.a3c_grad",
)
#: The module of the processes of SB3's SubprocVecEnv. They end with their program, and not by Ctrl-C: one that
#: still imports would show a traceback.
SB3_PROCESSES = "stable_baselines3.common.vec_env.subproc_vec_env"


class Program:
    """The program whose fork server this is. It may start processes of its own, which are not of a run.

    Args:
        variables: environment variables that the fork server has for the processes of runs, with the
            program's values.
    """

    def __init__(self, variables: dict[str, str | None]) -> None:
        self._variables: dict[str, str | None] | None = variables
        # `timeout` and a closed terminal signal the whole group. Without this process, `cpu_s` would lack the
        # workers. The fork server ignores Ctrl-C itself.
        self._blocked = set(GROUP_SIGNALS) - block_signals(GROUP_SIGNALS)
        at_fork(after_in_child=self._unblock)
        util.register_after_fork(self, Program.begin_process)

    def _unblock(self) -> None:
        """In a new process, at once: signals come as if the fork server had not blocked them."""
        unblock_signals(self._blocked)
        self._blocked = set()  # forks of the process begin with this, too

    def begin_process(self) -> None:
        """In a new process, after its main module: if it is the program's own, it gets Ctrl-C and the variables."""
        variables = self._variables
        self._variables = None  # forks of the process begin with this, too
        target = getattr(multiprocessing.current_process(), "_target", None)
        if variables is None or getattr(target, "__module__", "") == "a3c_zoo.processes.child":
            return
        if getattr(target, "__module__", "") != SB3_PROCESSES:
            unblock_signals([signal.SIGINT])
        for name, value in variables.items():
            if name != SAFE_PATH and os.environ.get(name) != WORKER_ENVIRONMENT[name]:
                continue  # its main module has set it
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


if told := os.environ.pop(PROGRAMS_ENVIRONMENT, None):
    PROGRAM = Program(json.loads(told))

with without_collections(hides=True):
    for name in MODULES:
        importlib.import_module(name)
