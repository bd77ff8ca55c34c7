"""Optuna's storages: opened, with a lock of our own for journals, and their errors in one line."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import filelock
import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages._rdb.models import BaseModel
from optuna.storages.journal import JournalFileBackend
from optuna.storages.journal._file import BaseJournalFileLock
from sqlalchemy import create_engine, inspect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from a3c_zoo.errors import ZooError, printable
from a3c_zoo.files import open_file, read_json, replace_file
from a3c_zoo.store.directory import disk_errors

#: The folder of studies: each has a folder with its journal, its reports and its set.
STUDIES_DIR: Final = Path("studies")
JOURNAL: Final = "journal.jsonl"
#: In the folder of a study: the other storages that have a study of its name, so that all are listed.
ELSEWHERE: Final = "storages.json"
#: The tables that Optuna makes first, and one that it makes last. All are there before a study is.
FIRST_TABLES, LAST_TABLE = frozenset({"studies", "version_info"}), "alembic_version"
#: How Optuna begins each record of a journal.
HEAD: Final = b'{"op_code"'
#: How long a process waits for another one that writes to the same study, in seconds.
PATIENCE_S: Final = 20.0

optuna.logging.set_verbosity(optuna.logging.ERROR)  # the board tells what happens


class Lock(filelock.FileLock):
    """A lock file, which may be no link. Raises ZooError if it cannot be used, and `filelock.Timeout`."""

    def acquire(self, *arguments: Any, **options: Any) -> Any:
        """As `filelock.FileLock.acquire`."""
        try:
            return super().acquire(*arguments, **options)
        except filelock.Timeout:
            raise
        except OSError as error:
            raise ZooError(
                f"{self.lock_file} cannot be used: {error.strerror or error}; delete it"
            ) from error


class _JournalLock(BaseJournalFileLock):
    """A lock that the kernel takes from a process that ends.

    Optuna's `JournalFileOpenLock` and `JournalFileSymlinkLock` make others wait 30 s for a process that was killed.
    And Optuna appends to half a record, so that nobody can open the journal again.
    """

    def __init__(self, path: Path, follow: bool) -> None:
        self._path = path
        self._follow = follow
        self._lock = Lock(f"{path}.lock", timeout=PATIENCE_S)

    def acquire(self) -> bool:
        """Waits for the lock. Cuts off half a record, which a full disk or a power cut has left."""
        self._lock.acquire()
        try:
            with open_file(self._path, "r+b", follow=self._follow) as file:
                content = file.read()
                file.truncate(content.rfind(b"\n") + 1)
        except BaseException:  # Optuna releases only what was acquired
            self._lock.release()
            raise
        return True

    def release(self) -> None:
        self._lock.release()


def _refuse_others(path: Path, follow: bool) -> None:
    """Raises ValueError for a file that is no journal: `_JournalLock` would cut off its last line."""
    with open_file(path, follow=follow) as file:
        head = file.read(len(HEAD))
    if head != HEAD[: len(head)]:
        raise ValueError(f"{path} does not begin as a journal")


@contextmanager
def storage_errors(where: str) -> Iterator[None]:
    """Turns what Optuna and its databases raise into one line. where: names the storage."""
    try:
        yield
    except filelock.Timeout:
        text = f"{where} is locked: another process has held it for {PATIENCE_S:g} s; stop that one"
        raise ZooError(text) from None
    except OSError as error:
        place = f": {error.filename}" if error.filename is not None else ""
        raise ZooError(printable(f"{where} cannot be used: {error.strerror or error}{place}")) from error
    except (SQLAlchemyError, optuna.exceptions.OptunaError) as error:
        cause = error.__cause__ or error
        text = str(getattr(cause, "orig", None) or cause).strip().partition("\n")[0]
        raise ZooError(printable(f"{where} cannot be used: {text}")) from error


@contextmanager
def damage_errors(where: str) -> Iterator[None]:
    """Turns what reading a damaged storage raises into one line: Optuna checks little of what it reads."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, AssertionError) as error:
        raise ZooError(f"--storage {where} is no journal of Optuna, or damaged; name another") from error


def storage_of(storage: str | None, name: str) -> str:
    """Where a study lies, for messages: a journal, or a URL without its password and options."""
    if storage is None or "://" not in storage:
        return storage or str(STUDIES_DIR / name / JOURNAL)
    with suppress(ArgumentError, ValueError):
        return make_url(storage).set(query={}).render_as_string(hide_password=True)
    return f"{storage.partition('://')[0]}://…"


def elsewhere(name: str) -> dict[str, Any]:
    """The other storages with a study of this name: place → what is known of the study there."""
    path = STUDIES_DIR / name / ELSEWHERE
    try:
        with disk_errors(path, "read", "--study NAME"):
            known = read_json(path) if path.exists() else {}
        if not all(isinstance(about, dict) for about in known.values()):
            raise ValueError("it must have an object for each storage")
        return known
    except ValueError as error:
        raise ZooError(f"{path} is damaged ({error}); delete it") from error


def keep_elsewhere(name: str, storage: str, about: dict[str, Any]) -> None:
    """Notes that a storage has a study of this name."""
    path = STUDIES_DIR / name / ELSEWHERE
    place = storage_of(storage, name)
    known = elsewhere(name)
    if known.get(place) != about:
        content = json.dumps({**known, place: about}, indent=2)
        with disk_errors(path, "write", "--study NAME"):
            path.parent.mkdir(parents=True, exist_ok=True)
            replace_file(path, content.encode())


def open_storage(storage: str | None, name: str, is_new: bool) -> BaseStorage:
    """Opens a journal (a path; by default that of the study) or a database (a URL).

    is_new: whether to make what is not there. If not, a storage is only read, until somebody adds to it.
    """
    where = storage_of(storage, name)
    try:
        with storage_errors(f"--storage {where}"), damage_errors(where):
            if storage is not None and "://" in storage:
                return _open_database(storage, where, is_new)
            if not is_new and not os.path.exists(where):
                raise ZooError(f"there is no study {where}. See: a3c-zoo list studies")
            # A link that the user names is theirs.
            return _open_journal(Path(where), storage is not None, is_new)
    except ImportError as error:
        raise ZooError(f"--storage {where} needs a driver: {error}") from error


def _open_database(url: str, where: str, is_new: bool) -> BaseStorage:
    if where.startswith("redis"):
        raise ZooError(f"--storage {where}: Optuna keeps pickles in Redis, which are not read; name another")
    parts = make_url(url)
    if parts.get_backend_name() == "sqlite" and parts.database in (None, "", ":memory:"):
        raise ZooError(f"--storage {where} keeps nothing: name a file, such as sqlite:///tuning.db")
    tables = _tables_of(url)
    has_studies = tables >= FIRST_TABLES
    if not is_new and not (has_studies and LAST_TABLE in tables):
        raise ZooError(f"there is no study in {where}. See: a3c-zoo list studies")
    others = tables - BaseModel.metadata.tables.keys()
    if others and not has_studies:  # of Optuna's, another process may have made a few by now
        raise ZooError(f"--storage {where} has tables of another program, and no studies; name another")
    try:
        database = RDBStorage(url, skip_table_creation=not is_new)
    except RuntimeError as error:  # a table says of which version of Optuna they are
        raise ZooError(
            f"--storage {where} has the tables of another version of Optuna. Of an older one: optuna storage upgrade "
            "--storage URL"
        ) from error
    return optuna.storages.get_storage(database)


def _tables_of(url: str) -> set[str]:
    """The tables of a database; none if it is a file of SQLite that is not there, which a look would make."""
    url = RDBStorage._fill_storage_url_template(url)
    parts = make_url(url)
    is_file = parts.get_backend_name() == "sqlite" and "uri" not in parts.query
    if is_file and not os.path.exists(parts.database or ""):
        return set()
    engine = create_engine(url)
    try:
        return set(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def _open_journal(path: Path, follow: bool, is_new: bool) -> BaseStorage:
    with disk_errors(path, "write" if is_new else "read", "--storage FILE"):
        if is_new:
            path.parent.mkdir(parents=True, exist_ok=True)
            open_file(path, "ab", follow=follow).close()
        _refuse_others(path, follow)
        return JournalStorage(JournalFileBackend(str(path), lock_obj=_JournalLock(path, follow)))
