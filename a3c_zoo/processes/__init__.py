"""Crews of workers: in turn in this process (`serial`), or side by side in processes of their own (`pool`)."""

from __future__ import annotations

#: Whether this process is of the command line, which ends with its command, and no program that calls
#: a3c-zoo.
is_ours = False
