"""A folder for this process's sockets, which a later process removes if this one has no time to.

multiprocessing makes such a folder itself, `pymp-…`. Nobody removes that of a process that was killed.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import time
from contextlib import suppress
from multiprocessing import util
from pathlib import Path
from typing import IO

from a3c_zoo.files import is_locked
from a3c_zoo.system import is_own, is_regular, lock

#: Not longer than multiprocessing's own: the path of a socket has at most 107 bytes.
PREFIX = "a3cz-"
#: The file that the owner of a folder holds locked. The operating system frees it when the owner ends.
OWNER_FILE = "owner.lock"
#: A younger folder is left alone, in seconds: its owner may be about to lock it.
YOUNGEST_S = 60.0

#: Keeps the lock of this process's folder, which must stay open.
_owned: list[IO[bytes]] = []


def make() -> None:
    """Gives this process a folder of its own for multiprocessing's sockets, unless it has one.

    Raises:
        OSError: it cannot be made.
    """
    settings = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    if settings.get("tempdir"):
        return
    folder = tempfile.mkdtemp(prefix=PREFIX)
    path = os.path.join(folder, OWNER_FILE)
    with suppress(OSError):  # without a lock, as on some network disks, nobody removes it for this process
        owner = open(path, "xb")  # noqa: SIM115 - it stays open as long as this process lives
        is_held = False
        with suppress(OSError):
            is_held = lock(owner.fileno(), exclusive=True)
        if is_held:
            _owned.append(owner)
        else:
            owner.close()
            os.unlink(path)
    settings["tempdir"] = folder
    # After all that may still need it, as multiprocessing's own.
    util.Finalize(None, shutil.rmtree, args=(folder,), kwargs={"ignore_errors": True}, exitpriority=-100)
    remove_those_of_the_dead()


def remove_those_of_the_dead() -> None:
    """Removes the folders of this user's processes that were killed."""
    with suppress(OSError):
        for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{OWNER_FILE}"):
            with suppress(OSError):
                if _has_lost_its_owner(path):
                    shutil.rmtree(path.parent, ignore_errors=True)


def _has_lost_its_owner(owner_file: Path) -> bool:
    status = owner_file.lstat()
    is_old = time.time() - status.st_mtime > YOUNGEST_S
    return is_regular(status) and is_own(status) and is_old and not is_locked(owner_file, 0.0)
