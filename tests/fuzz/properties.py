"""The properties: what holds for every command line, YAML file, run directory and broken disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.fuzz.damage import Damage, damages, of_other_programs
from tests.fuzz.disk import ERRORS, OPERATIONS, BrokenDisk
from tests.fuzz.documents import documents
from tests.fuzz.sandbox import PATIENCE_S, Sandbox
from tests.fuzz.values import Words, lines, names
from tests.fuzz.watch import Ended, Finding

#: Commands that open a run; `RUN` stands for it. What each may write, beside the run's own lock: see `_written`.
_OPENERS: list[Words] = [
    ["list", "runs"],
    ["list", "runs", "--json"],
    ["evaluate", "RUN", "--episodes", "1"],
    ["evaluate", "RUN", "--episodes", "1", "--checkpoint", "best", "--deterministic"],
    ["evaluate", "RUN", "--episodes", "1", "--checkpoint", "0"],
    ["train", "--resume", "RUN", "--steps", "700", "--quiet"],
    ["train", "--resume", "RUN", "--steps", "700", "--checkpoint", "best"],
    ["train", "--resume", "RUN", "--steps", "700", "--checkpoint", "0"],
    ["plot", "RUN", "--out", "x.png"],
    ["plot", "RUN", "--out", "x.svg", "--kind", "evaluation", "--x", "seconds"],
    ["plot", "RUN", "--out", "x.csv", "--kind", "episode-length"],
    ["compare", "--from", "RUN", "--out", "report"],
    ["play", "RUN", "--video", "x.gif"],
]
#: Commands that write, with a disk that fails. A run that begins is called `new`.
_WRITERS: list[Words] = [
    [
        *["train", "cartpole", "--serial", "--steps", "400", "--name", "new", "--quiet", "-o", "hidden_sizes=[4]"],
        *["-o", "run.checkpoint_every_steps=100", "-o", "run.evaluation_every_steps=150"],
        *["-o", f"run.disk_patience_s={PATIENCE_S}"],
    ],
    ["train", "--resume", "RUN", "--steps", "800", "--quiet"],
    ["train", "--resume", "RUN", "--steps", "700", "--checkpoint", "300"],
    ["train", "--resume", "RUN", "--steps", "700", "--checkpoint", "best"],
    ["evaluate", "RUN", "--episodes", "1"],
    ["plot", "RUN", "--out", "x.png"],
    ["plot", "RUN", "--out", "x.csv"],
    ["compare", "--from", "RUN", "--out", "report"],
    ["play", "RUN", "--video", "x.gif"],
    ["new-plugin", "mine"],
]
#: What stable-baselines3 leaves of a run.
OF_OTHER_PROGRAMS = ("monitor.csv", "evaluations.npz", "tensorboard")
_OTHER_OPENERS: list[Words] = [line for line in _OPENERS if line[0] in ("plot", "compare", "list")]


@dataclass
class Properties:
    """Each method is a property; it counts its cases."""

    box: Sandbox
    cases: dict[str, int] = field(default_factory=dict)
    statuses: dict[int, int] = field(default_factory=dict)
    #: Whether there is time for another case.
    has_time: Callable[[], bool] = lambda: True

    def _count(self, name: str, ended: Ended) -> None:
        self.cases[name] = self.cases.get(name, 0) + 1
        self.statuses[ended.status] = self.statuses.get(ended.status, 0) + 1

    def command_line(self, line: Words) -> None:
        """Any command line: it writes only below the current folder, and leaves files and runs that are there."""
        here = self.box.here
        self.box.fresh(self.box.mine, self.box.theirs)
        (here / "file").write_text("precious")
        (here / "set.yml").write_text("agent:\n  gamma: 0.5\n")
        (here / "link").symlink_to(self.box.outside / "victim")
        is_resumed = "--resume" in line or line[:1] == ["resume"]
        victims = () if is_resumed else (self.box.mine / "checkpoints", self.box.theirs)
        self._count("command line", self.box.run(*line, writable=(here, Path("/dev/full")), victims=victims))

    def set_file(self, raw: bytes) -> None:
        """Any file of hyperparameters."""
        self.box.fresh()
        Path("set.yml").write_bytes(raw)
        self._count("set", self.box.run("show", "hyperparams", "cartpole", "--hyperparams", "set.yml"))

    def config_file(self, raw: bytes, has_names: bool, line: Words) -> None:
        """Any config.yml in a run; with or without a proper beginning."""
        beginning = b"env_name: cartpole\nagent_name: a3c\n" if has_names else b""
        self._open([Damage("config.yml", ("write", beginning + raw))], line, "sent/theirs", "config.yml")

    def run_directory(self, damage: list[Damage], line: Words, name: str) -> None:
        """Any damage of a run directory, one's own or a stranger's."""
        self._open(damage, line, name, "run directory")

    def run_of_another_program(self, damage: list[Damage], line: Words) -> None:
        """Any damage of a folder that stable-baselines3 could have written."""
        self._open(damage, line, "sent/theirs", "other program", OF_OTHER_PROGRAMS)

    def broken_disk(self, line: Words, what: str, number: int, error: str, lasts: bool) -> None:
        """The n-th write, rename or fsync fails, or all from it on: runs can be read and resumed afterwards."""
        self.box.fresh(self.box.mine)
        here = self.box.here
        disk = BrokenDisk(here, what, number, error, lasts)
        words = [str(self.box.mine) if word == "RUN" else word for word in line]
        self._count("broken disk", self.box.run(*words, writable=(here,), may_read=False, disk=disk.mounted()))
        for run in (here / "runs").iterdir():
            after_failure: list[list[object]] = [["list", "runs"]]
            if any(run.glob("checkpoints/step-*.pt")):
                steps = newest_step(run) + 100
                after_failure.append(["evaluate", run, "--episodes", "1"])
                after_failure.append(["train", "--resume", run, "--steps", steps, "--quiet"])
            for after in after_failure:
                ended = self.box.run(*after, writable=(here,), may_read=False)
                if ended.status != 0:
                    shown = f"$ {' '.join(words)}, {disk}\n{ended.err}"
                    raise Finding(f"{run.name} cannot be used after the disk failed: {after[0]}\n{shown}")

    def _open(self, damage: list[Damage], line: Words, name: str, what: str, kept: Sequence[str] = ("*",)) -> None:
        self.box.fresh()
        run = self.box.here / name
        self.box.fresh(run)
        for path in run.iterdir():
            if not any(path.match(each) for each in kept):
                path.unlink() if path.is_file() else shutil.rmtree(path)
        for each in damage:
            each.apply(run, self.box.outside)
        words = [str(run) if word == "RUN" else word for word in line]
        writable = [run, *(Path(words[at + 1]) for at, word in enumerate(words) if word in ("--out", "--video"))]
        self._count(what, self.box.run(*words, writable=tuple(writable), may_read=False))


def newest_step(run: Path) -> int:
    """The step of a run's newest checkpoint."""
    return max((int(path.stem.removeprefix("step-")) for path in run.glob("checkpoints/step-*.pt")), default=0)


def _folder(name: str) -> str:
    return f"runs/{name}"


_openers = st.sampled_from(_OPENERS)
_places = st.sampled_from(["runs/mine", "sent/theirs"]) | names.map(_folder)
#: Property → its share of all cases, and what it is given.
GIVEN: dict[str, tuple[float, dict[str, Any]]] = {
    "command_line": (0.3, {"line": lines()}),
    "set_file": (0.15, {"raw": documents}),
    "config_file": (0.1, {"raw": documents, "has_names": st.booleans(), "line": _openers}),
    "run_directory": (
        0.3,
        {"damage": st.lists(damages, min_size=1, max_size=2), "line": _openers, "name": _places},
    ),
    "run_of_another_program": (
        0.05,
        {
            "damage": st.lists(of_other_programs, min_size=1, max_size=2),
            "line": st.sampled_from(_OTHER_OPENERS),
        },
    ),
    "broken_disk": (
        0.1,
        {
            "line": st.sampled_from(_WRITERS),
            "what": st.sampled_from([*OPERATIONS]),
            "number": st.integers(1, 8) | st.integers(1, 60),
            "error": st.sampled_from([*ERRORS]),
            "lasts": st.booleans(),
        },
    ),
}


def as_test(properties: Properties, name: str, cases: int, seed: int | None = None) -> Callable[[], None]:
    """A property as Hypothesis runs it, with so many cases. seed: None for cases that are always the same."""

    def body(**drawn: Any) -> None:
        if properties.has_time():
            getattr(properties, name)(**drawn)

    body.__name__ = body.__qualname__ = name
    chosen = settings(
        max_examples=cases,
        derandomize=seed is None,
        database=None,
        deadline=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),  # `explain` traces every line: cases would be too slow
    )
    test: Callable[[], None] = chosen(given(**GIVEN[name][1])(body))
    return test if seed is None else hypothesis.seed(seed)(test)
