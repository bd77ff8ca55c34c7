"""The `a3c-zoo` command."""

from __future__ import annotations

import io
import signal
import sys

from a3c_zoo.cli.main import cli


def main() -> None:
    """Runs the command line and leaves with its exit status."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a Latin-1 pipe has no λ and no →; stderr takes everything anyway
    try:
        cli.main(prog_name="a3c-zoo")
    finally:
        # All is done and said: one more Ctrl-C, while Python winds up, would only turn the exit status into a signal.
        # Here, not in the group: a program that calls that one goes on.
        signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()
