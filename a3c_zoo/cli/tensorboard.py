"""`a3c-zoo tensorboard`."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import click

from a3c_zoo.cli.common import example, kept_runs_option
from a3c_zoo.errors import ZooError
from a3c_zoo.store.directory import run_paths

#: Only programs of this machine reach it.
LOOPBACK = "127.0.0.1"


@click.command(epilog=example("a3c-zoo tensorboard --port 6007"))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=6006,
    show_default=True,
    metavar="N",
    help="Port; 0 for a free one.",
)
@kept_runs_option
def command(port: int, runs_dir: Path) -> None:
    """Show the curves of all runs in TensorBoard, on this machine alone. Ctrl-C ends it."""
    if not run_paths(runs_dir):
        raise ZooError(
            f"no run in {runs_dir}: train one, a3c-zoo train cartpole, or name the folder: --runs-dir DIR"
        )
    _refuse_taken(port)
    sys.stdout.flush()
    # -P: TensorBoard imports nothing from the current folder.
    program = [sys.executable, "-P", "-m", "tensorboard.main"]
    os.execv(sys.executable, [*program, f"--logdir={runs_dir}", "--host", LOOPBACK, "--port", str(port)])


def _refuse_taken(port: int) -> None:
    """Raises ZooError if this program may not listen at a port: another one does, or the port is one of the system."""
    try:
        socket.create_server((LOOPBACK, port)).close()
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        raise ZooError(f"--port {port}: {why}. Type: a3c-zoo tensorboard --port 0") from error
