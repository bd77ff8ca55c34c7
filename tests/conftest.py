"""What holds for every test, wherever the suite starts: usual signals, one thread for torch, bytecode that is kept."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from a3c_zoo.testing.checkup import Job
    from a3c_zoo.testing.findings import Finding


def default_signals() -> None:
    """Stops ignoring Ctrl-C and a closed terminal, in this process and in those that it starts.

    A script that runs `make test &` ignores SIGINT, and `nohup` ignores SIGHUP. A process inherits what its parent
    ignores, but not what its parent handles: it then starts with the default. So both signals get a handler here.
    A closed terminal still does not end a suite that was started with `nohup`.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda number, frame: None)


default_signals()
# As in an activated environment: messages name this environment's `pip`.
os.environ["PATH"] = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
# The tests that run side by side keep all cores busy. A second thread of each would only wait for its turn.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Pytest's workers import every test and most of the package; hundreds of processes import the package, too. All use the
# bytecode that the first one keeps, even where PYTHONDONTWRITEBYTECODE is set. Later imports follow that variable.
keeps_no_bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, False


def pytest_collection_finish() -> None:
    """All tests have been imported."""
    sys.dont_write_bytecode = keeps_no_bytecode
    hide_from_collections()


def hide_from_collections() -> None:
    """The garbage collector never sees again what there is: each training here looks at all that it sees.

    These are half a million objects of modules and tests, and hundreds of trainings.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def what_a_module_leaves() -> Iterator[None]:
    """Modules of tests import more, such as torch's compiler."""
    yield
    hide_from_collections()


@pytest.fixture(autouse=True)
def no_module_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command names modules of the current folder again in its last line: those of its own test only."""
    from a3c_zoo.plugins import typed_names
    from a3c_zoo.plugins.module_files import MODULE_FILES, TYPED_FILES

    monkeypatch.setattr(MODULE_FILES, "typed_folders", {})
    monkeypatch.setattr(typed_names, "_told", set())
    monkeypatch.setenv(TYPED_FILES, "")


@pytest.fixture
def plain_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports of this process have empty pictures and no films, which take most of the time of a report.

    For tests of what a report says. Others are of pictures and films: `test_pictures` of tests/test_compare.py, and
    tests/test_report_films.py.
    """
    monkeypatch.setattr("a3c_zoo.report.drawing._lay_out_once", lambda figure: None)
    monkeypatch.setattr("a3c_zoo.report.drawing._written", lambda figure, format, **options: b"<svg></svg>\n")
    monkeypatch.setattr("a3c_zoo.report.report_films.films_of", lambda runs: None)


@pytest.fixture
def checked_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command `check` examines in this process, which has torch already. Its child has tests of its own.

    They are in `test_check`.
    """
    from a3c_zoo.plugins.registry import get_registry
    from a3c_zoo.testing.findings import Findings

    def check(jobs: Sequence[Job], **options: object) -> Iterator[Finding]:
        for job in jobs:
            findings = Findings(job.subject)
            job.examine(get_registry(), findings)
            yield from findings.found

    monkeypatch.setattr("a3c_zoo.testing.checkup.check", check)


@pytest.fixture
def not_installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without a3c-zoo-trained, which `make demo` may have installed."""
    from a3c_zoo.plugins.registry import get_registry

    monkeypatch.setenv("A3C_ZOO_DISABLE_PLUGINS", "trained")
    get_registry.cache_clear()
    yield
    get_registry.cache_clear()
