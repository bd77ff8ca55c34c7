"""The folders of a case: one's own runs, a run of a stranger, and files that no command may change."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from a3c_zoo.plugins.registry import get_registry
from tests.fuzz.watch import EVIL, LIMIT_S, Ended, run_case, snapshot

#: Steps of the run that every case gets a copy of. It has three checkpoints, and those of its evaluator.
STEPS = 600
#: How long a run waits for a disk that refuses its last files, in seconds: shorter than a case may take.
PATIENCE_S = 0.3


@dataclass(frozen=True, slots=True)
class Sandbox:
    """Folders for cases, one after the other.

    Attributes:
        root: holds all. here: the current folder of each case, new each time. outside: files that no case may change.
        template: a finished run, of which `mine` and `theirs` are copies.
    """

    root: Path

    @property
    def here(self) -> Path:
        return self.root / "here"

    @property
    def outside(self) -> Path:
        return self.root / "outside"

    @property
    def template(self) -> Path:
        return self.root / "template" / "mine"

    @property
    def mine(self) -> Path:
        """A run in the directory of all runs."""
        return self.here / "runs" / "mine"

    @property
    def theirs(self) -> Path:
        """A run that a stranger has sent."""
        return self.here / "sent" / "theirs"

    def fresh(self, *runs: Path) -> None:
        """Empties the folder of the cases, and copies the run to each of `runs`."""
        os.chdir(self.root)
        shutil.rmtree(self.here, ignore_errors=True)
        self.here.mkdir()
        for run in runs:
            shutil.copytree(self.template, run)
        os.chdir(self.here)

    def run(
        self,
        *arguments: object,
        writable: tuple[Path, ...] = (),
        victims: tuple[Path, ...] = (),
        limit_s: float = LIMIT_S,
        may_read: bool = True,
        disk: AbstractContextManager[object] | None = None,
    ) -> Ended:
        """Runs a command; see `run_case`. `writable` and the folder for temporary files may change.

        Args:
            may_read: whether it may read the files outside: the user may name a link that leads there.
        """
        kept = (self.outside, self.template, *victims)
        unread = None if may_read else self.outside
        places = (*writable, self.root / "tmp")
        return run_case(arguments, places, lambda: snapshot(*kept), limit_s, unread, disk)


@contextmanager
def sandbox(root: Path) -> Iterator[Sandbox]:
    """Makes a sandbox, with modules that no case may import; afterwards all is as before."""
    box = Sandbox(root)
    for folder in (box.outside, root / "tmp", root / "path"):
        folder.mkdir(parents=True)
    (box.outside / "victim").write_text("precious")
    (root / "path" / f"{EVIL}module.py").write_text("raise SystemExit(77)\n")
    folder_before = Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("A3C_ZOO_")]:
            patch.delenv(name)
        patch.setenv("TMPDIR", str(root / "tmp"))
        patch.setattr("tempfile.tempdir", None)
        patch.setattr(sys, "dont_write_bytecode", True)
        patch.setattr(sys, "stdin", open(os.devnull))  # noqa: SIM115 - closed by the end of the process
        patch.syspath_prepend(root / "path")
        get_registry.cache_clear()
        try:
            _make_template(box)
            yield box
        finally:
            os.chdir(folder_before)
            get_registry.cache_clear()


def _make_template(box: Sandbox) -> None:
    """Trains the run, and calls each command once: imports and caches take their time, and may write."""
    box.here.mkdir()
    os.chdir(box.here)
    runs, limit_s = box.template.parent, 300.0
    settings = ["run.evaluation_every_steps=300", "run.checkpoint_every_steps=300", "hidden_sizes=[4]"]
    settings += [f"run.disk_patience_s={PATIENCE_S}"]
    line = ["train", "cartpole", "--serial", "--steps", STEPS, "--name", "mine", "--runs-dir", runs, "--quiet"]
    lines: list[list[object]] = [
        [*line, *(word for setting in settings for word in ("-o", setting))],
        ["evaluate", box.template, "--episodes", 1],
        ["play", box.template, "--video", "x.gif"],
        ["plot", box.template, "--out", "x.png"],
        ["plot", box.template, "--out", "x.svg"],
        ["compare", "--from", box.template, "--out", "report"],
        ["list", "runs"],
    ]
    for each in lines:
        ended = run_case(each, [Path("/")], lambda: None, limit_s)
        assert ended.status == 0, (each, ended.err)
