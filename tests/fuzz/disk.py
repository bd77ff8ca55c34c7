"""A disk that fails: the n-th write, rename or fsync of a command, once or from then on."""

from __future__ import annotations

import builtins
import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

#: What can fail → the functions of `os` that do it.
OPERATIONS = {"write": ("write",), "rename": ("rename", "replace"), "fsync": ("fsync",)}
ERRORS = {"EIO": errno.EIO, "ENOSPC": errno.ENOSPC}


@dataclass
class BrokenDisk:
    """Refuses operations on files below a folder. Python's own writers are watched, not those of other languages.

    Args:
        what: a name in OPERATIONS. number: which of them fails, counted from 1. error: a name in ERRORS.
        lasts: whether all later ones fail, too.

    Attributes:
        refused: how many were refused.
    """

    folder: Path
    what: str
    number: int
    error: str
    lasts: bool
    refused: int = field(default=0, init=False)
    _count: int = field(default=0, init=False)

    def look(self, what: str, path: object) -> None:
        """One operation on a file. Raises OSError if it fails."""
        if what != self.what or not self._is_below(path):
            return
        self._count += 1
        if self._count == self.number or (self.lasts and self._count > self.number):
            self.refused += 1
            code = ERRORS[self.error]
            raise OSError(code, os.strerror(code), str(path))

    def _is_below(self, path: object) -> bool:
        if isinstance(path, int):
            try:
                path = os.readlink(f"/proc/self/fd/{path}")
            except OSError:
                return False
        if not isinstance(path, str | os.PathLike):
            return False
        return os.path.realpath(path).startswith(f"{os.path.realpath(self.folder)}{os.sep}")

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Meanwhile the disk is as broken as it says."""
        with pytest.MonkeyPatch.context() as patch:
            for what, names in OPERATIONS.items():
                for name in names:
                    patch.setattr(os, name, self._watched(what, getattr(os, name)))
            opened = io.open
            patch.setattr(builtins, "open", self._opening(opened))
            patch.setattr(io, "open", self._opening(opened))
            yield

    def _watched(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(path: Any, *args: Any, **options: Any) -> Any:
            self.look(what, path)
            return function(path, *args, **options)

        return watched

    def _opening(self, opened: Callable[..., Any]) -> Callable[..., Any]:
        """`open`, whose files tell of each write."""
        disk = self

        class File(io.FileIO):
            def write(self, data: Any) -> int:
                disk.look("write", self.name)
                return super().write(data)

        def opening(
            file: Any,
            mode: str = "r",
            buffering: int = -1,
            encoding: str | None = None,
            errors: str | None = None,
            newline: str | None = None,
            closefd: bool = True,
            opener: Any = None,
        ) -> Any:
            if not set(mode) & set("wax+") or not disk._is_below(file):
                return opened(file, mode, buffering, encoding, errors, newline, closefd, opener)
            raw = File(file, mode.replace("b", "").replace("t", ""), closefd, opener)
            if buffering == 0:
                return raw
            buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)

        return opening
