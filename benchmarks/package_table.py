"""Trains environments of twenty packages, and writes the table of docs/how-to/use-an-environment-of-others.md.

    python benchmarks/package_table.py train [PACKAGE …] [--steps N]
    python benchmarks/package_table.py write

The rows are in benchmarks/packages/packages.yml. `train` installs the pinned packages of a row into a folder of their
own, build/packages/NAME, and never into this Python's environment. Then it checks the environment, plays episodes of
random actions, trains with the set that the environment gets without a name, and plays episodes of the trained agent,
with sampled actions. The figures of the row go into docs/figures/packages.csv at once. `write` makes the parts of the
page from the list and these figures alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from a3c_zoo.words import return_text

ROOT = Path(__file__).resolve().parent.parent
#: The list, and beside it the files that rows need.
FOLDER = ROOT / "benchmarks" / "packages"
LIST = FOLDER / "packages.yml"
FIGURES = ROOT / "docs" / "figures" / "packages.csv"
PAGE = ROOT / "docs" / "how-to" / "use-an-environment-of-others.md"
INSTALLED = ROOT / "build" / "packages"
RUNS = ROOT / "runs" / "packages"

EPISODES, CHECKED_STEPS = 100, 100
#: A trained agent has learned if its mean return is so many standard errors (of the difference) above that of random
#: actions.
STANDARD_ERRORS = 5
#: Around a part of the page.
BEGIN, END = "<!-- packages {}: written by benchmarks/package_table.py -->\n", "<!-- end of packages {} -->\n"


@dataclass(frozen=True)
class Row:
    """A package of the list; packages.yml says what each field is."""

    package: str
    install: tuple[str, ...]
    env: str
    steps: int
    overrides: tuple[str, ...] = ()
    file: str = ""
    needs: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, hash=False)
    note: str = ""
    blocked: str = ""
    episodes: int = EPISODES

    @property
    def folder(self) -> Path:
        """Where its packages are installed."""
        return INSTALLED / self.package

    @property
    def version(self) -> str:
        """Of the package itself."""
        return self.install[0].partition("==")[2]

    @property
    def is_plugin(self) -> bool:
        """Whether its file is a plugin."""
        return self.file.endswith("_plugin.py")


@dataclass(frozen=True)
class Figures:
    """What was found: a line of docs/figures/packages.csv.

    Attributes:
        installed: the packages of the row. set: hyperparameter set. steps, training_s: of the run.
        check: how many problems and warnings `a3c-zoo check` found. random_…, trained_…: mean return and its standard
            error. started: when the run began. cpu, cores: of its machine.
    """

    package: str
    installed: str
    env: str
    set: str
    steps: int
    training_s: float
    check: str
    episodes: int
    random_mean: float
    random_error: float
    trained_mean: float
    trained_error: float
    started: str
    cpu: str
    cores: int

    @property
    def is_learned(self) -> bool:
        """Whether the trained agent is better than random actions by more than noise."""
        error = math.hypot(self.random_error, self.trained_error)
        return self.trained_mean - self.random_mean > STANDARD_ERRORS * error


class RowError(Exception):
    """A command of a row failed."""


# ----------------------------------------------------------------------------------------------------------------------
# List and figures


def read_list() -> list[Row]:
    """The rows of the list."""
    content = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    return [_row(each) for each in content["rows"]]


def _row(content: Mapping[str, Any]) -> Row:
    lists = {key: tuple(value) for key, value in content.items() if isinstance(value, list)}
    return Row(**{**content, **lists})


def read_figures() -> dict[str, Figures]:
    """Package → its figures."""
    if not FIGURES.exists():
        return {}
    with FIGURES.open(encoding="utf-8", newline="") as lines:
        return {line["package"]: _figures(line) for line in csv.DictReader(lines)}


def _figures(line: Mapping[str, str]) -> Figures:
    types = {"int": int, "float": float, "str": str}
    return Figures(**{each.name: types[str(each.type)](line[each.name]) for each in fields(Figures)})


def write_figures(figures: Mapping[str, Figures], rows: Sequence[Row]) -> None:
    """Writes the figures in the order of the list."""
    FIGURES.parent.mkdir(parents=True, exist_ok=True)
    with FIGURES.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [each.name for each in fields(Figures)], lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(figures[row.package]) for row in rows if row.package in figures)


# ----------------------------------------------------------------------------------------------------------------------
# A row


def install(row: Row) -> None:
    """Installs the packages of a row into its folder, unless they are there."""
    mark = row.folder / "installed.txt"
    if mark.exists() and mark.read_text(encoding="utf-8").split() == list(row.install):
        return
    shutil.rmtree(row.folder, ignore_errors=True)
    options = ["--quiet", "--no-deps", "--disable-pip-version-check", "--target", str(row.folder)]
    _output([sys.executable, "-m", "pip", "install", *options, *row.install], dict(os.environ))
    mark.write_text("\n".join(row.install), encoding="utf-8")


def environ(row: Row) -> dict[str, str]:
    """The environment variables of commands of a row: they find its packages and its file."""
    folders = [str(FOLDER), str(row.folder)]
    if row.needs:
        folders.append(str(ROOT / row.needs / "src"))
    variables = dict(os.environ)
    known = filter(None, [variables.get("PYTHONPATH")])
    variables["PYTHONPATH"] = os.pathsep.join([*known, *folders])
    if row.is_plugin:
        variables["A3C_ZOO_PLUGIN_FILES"] = str(FOLDER / row.file)
    if row.needs:
        module = Path(row.needs).name.replace("-", "_")
        variables["A3C_ZOO_PLUGIN_FILES"] = str(ROOT / row.needs / "src" / module / "plugin.py")
    return variables | {name: _filled(value, row) for name, value in row.environ.items()}


def _filled(text: str, row: Row) -> str:
    return text.replace("{folder}", str(row.folder))


def _output(command: Sequence[str], variables: Mapping[str, str], fine: Sequence[int] = (0,)) -> str:
    """What a command printed. Raises RowError for another exit status than those that are fine.

    It runs in a folder that git ignores, because some packages leave files where they run.
    """
    INSTALLED.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        command,
        cwd=INSTALLED,
        env=dict(variables),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in fine:
        raise RowError(f"{' '.join(command)}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def overrides(row: Row, *, of_environment: bool = False) -> list[str]:
    """What stands behind each `-o` of a row, or only what is of its environment."""
    chosen = [each for each in row.overrides if each.startswith("env.") or not of_environment]
    return [_filled(each, row) for each in chosen]


def check(row: Row) -> str:
    """What `a3c-zoo check` finds, in words."""
    words = [word for each in overrides(row, of_environment=True) for word in ("-o", each)]
    arguments = ["check", row.env, *words, "--steps", str(CHECKED_STEPS), "--json"]
    output = _output([sys.executable, "-m", "a3c_zoo", *arguments], environ(row), fine=(0, 1))
    start = re.search(r"^\[$", output, re.MULTILINE)
    if start is None:
        raise RowError(f"check printed no JSON: {output[-2000:]}")
    findings = json.JSONDecoder().raw_decode(output[start.start() :])[0]  # the package may print, too
    for each in findings:
        if each["status"] != "ok":
            say(f"{row.package}: {each['status']}: {each['check']}: {each['text']}")
    counts = {status: sum(each["status"] == status for each in findings) for status in ("problem", "warning")}
    texts = [f"{number} {status}{'s' if number > 1 else ''}" for status, number in counts.items() if number]
    return ", ".join(texts) or "ok"


def measure(row: Row, steps: int, runs_dir: Path) -> Figures:
    """Installs and checks a row, and plays it in a process of its own, which finds its packages."""
    install(row)
    checked = check(row)
    say(f"{row.package}: check: {checked}")
    result = runs_dir / f"{row.package}.json"
    runs_dir.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, __file__, "play", row.package, str(steps), str(result), "--episodes", str(row.episodes)]
    _output(command, environ(row))
    return Figures(**json.loads(result.read_text(encoding="utf-8")), check=checked)


def play(row: Row, steps: int, runs_dir: Path) -> dict[str, Any]:
    """Plays random actions, trains and evaluates, in this process; returns the figures without those of the check."""
    import a3c_zoo
    from a3c_zoo.config.sets import default_set
    from a3c_zoo.plugins.registry import get_registry

    entry = get_registry().env(row.env)
    chosen = default_set(get_registry(), entry, "a3c")
    figures: dict[str, Any] = {}
    for agent, name in (("random", "random"), ("a3c", "trained")):
        run = runs_dir / f"{row.package}-{agent}"
        shutil.rmtree(run, ignore_errors=True)
        is_random = agent == "random"
        outcome = a3c_zoo.train(
            row.env,
            agent=agent,
            steps=1 if is_random else steps,
            overrides=[*overrides(row, of_environment=is_random), "run.stop_when_solved=false"],
            name=run.name,
            runs_dir=runs_dir,
        )
        found = a3c_zoo.evaluate(run, episodes=row.episodes, runs_dir=runs_dir)
        figures[f"{name}_mean"] = round(found.mean_return, 4)
        figures[f"{name}_error"] = round(found.std_return / math.sqrt(row.episodes), 4)
    meta = json.loads((run / "meta.json").read_text(encoding="utf-8"))
    return figures | {
        "package": row.package,
        "installed": " ".join(row.install),
        "env": row.env,
        "set": chosen.source.removesuffix(".yml") if chosen else "",
        "steps": outcome.steps,
        "training_s": round(outcome.training_s, 1),
        "episodes": row.episodes,
        "started": meta["started"],
        "cpu": meta["host"]["cpu"],
        "cores": meta["host"]["cores"],
    }


def why_left_out(row: Row) -> str:
    """Why a row is not measured; empty if it is."""
    if row.needs and not (ROOT / row.needs).exists():
        return f"there is no {row.needs}"
    return row.blocked


def train(rows: Sequence[Row], steps: int | None) -> int:
    """Measures rows and keeps the figures of each; returns the exit status."""
    failed = 0
    for row in rows:
        if reason := why_left_out(row):
            say(f"{row.package}: left out: {reason}")
            continue
        try:
            found = measure(row, steps or row.steps, RUNS)
        except RowError as error:
            say(f"{row.package}: failed: {error}")
            failed += 1
            continue
        write_figures(read_figures() | {row.package: found}, read_list())
        learned = "learned" if found.is_learned else "not learned"
        mean = return_text(found.trained_mean)
        say(f"{row.package}: {found.steps:,} steps in {found.training_s:,.0f} s: {mean}, {learned}")
    return 1 if failed else 0


def say(text: str) -> None:
    """A line with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


# ----------------------------------------------------------------------------------------------------------------------
# Page


def package_table(rows: Sequence[Row], figures: Mapping[str, Figures]) -> Iterator[str]:
    """The table: a line for each package."""
    yield "| package | environment | needs | set | steps | random | trained |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for row in rows:
        found = figures.get(row.package)
        cells = [f"{row.package} {row.version}", f"`{row.env}`", _needs(row)]
        if row.blocked:
            cells += ["–", "–", "–", row.blocked]
        elif found is None:
            cells += ["–", "–", "–", "not run yet"]
        else:
            trained_text = _with_error(found.trained_mean, found.trained_error)
            trained_text = f"**{trained_text}**" if found.is_learned else trained_text
            random_text = _with_error(found.random_mean, found.random_error)
            cells += [f"`{found.set}`", f"{found.steps:,}", random_text, trained_text]
        yield f"| {' | '.join(cells)} |"


def _needs(row: Row) -> str:
    parts = [f"`-o '{each}'`" for each in row.overrides]
    parts += [f"`{name}={value}`" for name, value in row.environ.items()]
    if row.file:
        parts.append(f"[{row.file}](#{row.file.replace('.', '')})")
    if row.needs and (ROOT / row.needs).exists():
        parts.append(f"the plugin [{Path(row.needs).name}](../../{row.needs})")
    elif row.needs:
        parts.append(f"the plugin {Path(row.needs).name}")
    if row.note:
        parts.append(row.note)
    return "; ".join(parts).replace("|", "\\|").replace("{folder}", "…") or "–"


def counts(rows: Sequence[Row], figures: Mapping[str, Figures]) -> Iterator[str]:
    """The sentences below the table."""
    known = [figures[row.package] for row in rows if row.package in figures]
    learned = sum(each.is_learned for each in known)
    yield f"{len(known)} of {len(rows)} train. {learned} of them learned in so few steps (bold): their mean return is"
    yield f"more than {STANDARD_ERRORS} standard errors above that of random actions. Mean return ± standard error,"
    yield "sampled actions, one run each, 2 workers."


def _with_error(mean: float, error: float) -> str:
    return f"{return_text(mean)} ± {return_text(error)}"


def files(rows: Sequence[Row]) -> Iterator[str]:
    """The files that rows need, as the page shows them."""
    for row in rows:
        if row.file:
            yield f"### {row.file}"
            yield ""
            yield f"For {row.package}:"
            yield ""
            yield "```python"
            yield (FOLDER / row.file).read_text(encoding="utf-8").rstrip()
            yield "```"
            yield ""


def written() -> str:
    """The page with its tables made anew."""
    text = PAGE.read_text(encoding="utf-8")
    rows, figures = read_list(), read_figures()
    made = {
        "table": "\n".join([*package_table(rows, figures), "", *counts(rows, figures)]),
        "files": "\n".join(files(rows)).rstrip(),
    }
    for name, content in made.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = text.partition(begin)
        _, found, behind = rest.partition(end)
        if not found:
            sys.exit(f"{PAGE} has no part {name!r}")
        text = f"{before}{begin}\n{content}\n\n{end}{behind}"
    return text


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    training = commands.add_parser("train")
    training.add_argument("packages", nargs="*", metavar="PACKAGE")
    training.add_argument("--steps", type=int, metavar="N")
    commands.add_parser("write")
    playing = commands.add_parser("play", help="what `train` starts for a row")
    playing.add_argument("package")
    playing.add_argument("steps", type=int)
    playing.add_argument("--episodes", type=int)
    playing.add_argument("result", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "write":
        PAGE.write_text(written(), encoding="utf-8")
        return 0
    rows = read_list()
    if arguments.command == "play":
        row = next(row for row in rows if row.package == arguments.package)
        figures = play(
            replace(row, episodes=arguments.episodes or row.episodes), arguments.steps, arguments.result.parent
        )
        arguments.result.write_text(json.dumps(figures), encoding="utf-8")
        return 0
    names = {row.package for row in rows}
    if unknown := set(arguments.packages) - names:
        parser.error(f"no row {', '.join(sorted(unknown))}; there are {', '.join(sorted(names))}")
    return train([row for row in rows if row.package in (arguments.packages or names)], arguments.steps)


if __name__ == "__main__":
    sys.exit(main())
