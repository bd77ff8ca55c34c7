"""Trains, evaluates and shows the rows of the tables beside RL Zoo's agents and of the held-out environments.

    python benchmarks/zoo_table.py train [ENV …] [--list held-out] [--agent sb3-ppo] [--set NAME] [--seeds 1 2 3]
    python benchmarks/zoo_table.py evaluate [--list held-out]
    python benchmarks/zoo_table.py write
    python benchmarks/zoo_table.py count

The rows are in benchmarks/zoo/: table.yml, held_out.yml and tuning.yml, each with its steps. `train` takes one row and
seed after the other, with `a3c-zoo train` in a process of its own. Runs that have ended are left out, and runs that
were interrupted go on, so the same command can be given again. The set `kind` is what the environment gets without a
name; another set is named as for `a3c-zoo train --hyperparams`, and rows without it are left out.

`evaluate` plays 100 episodes of the parameters that each run recommends, and writes their figures into docs/figures/.
`write` makes the tables of docs/benchmarks-rl-zoo.md from these files alone, and `count` the sentences below them. The
tables show the most probable actions, as RL Zoo's do; the files have sampled ones, too.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from a3c_zoo.errors import ZooError
from a3c_zoo.words import counted, return_text

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "benchmarks" / "zoo"
LISTS = {"table": FOLDER / "table.yml", "held-out": FOLDER / "held_out.yml", "tuning": FOLDER / "tuning.yml"}
#: The files of figures. What was tuned on is not reported.
FIGURES = {name: ROOT / "docs" / "figures" / f"zoo-{name}.csv" for name in ("table", "held-out")}
PAGE = ROOT / "docs" / "benchmarks-rl-zoo.md"
RUNS = Path("runs") / "zoo"

KIND, OURS, BASELINE = "kind", "a3c", "sb3-ppo"
#: Kind → the name of its set, where that is not what every environment of the kind gets: some have a set of their own.
SETS_OF_KINDS = {"Box actions, vector": "a3c-continuous"}
SEEDS, EPISODES = (1, 2, 3), 100
#: Trials have other seeds than reported runs: these and later ones.
TUNING_SEEDS = (50, 51, 52)
PUBLISHED = {"a2c": "A2C", "ppo": "PPO"}
#: Reasons of an end with the budget spent.
FINISHED = ("steps", "solved")
#: Where the modules and the plugin lie that rows need.
FOLDERS = (FOLDER, ROOT / "plugins" / "a3c-zoo-minigrid" / "src")
PLUGIN = FOLDERS[1] / "a3c_zoo_minigrid" / "plugin.py"


@dataclass(frozen=True)
class Published:
    """What RL Zoo says of an agent: mean and standard deviation of its returns, and the steps of its training."""

    mean: float
    std: float
    steps: int


@dataclass(frozen=True)
class Row:
    """An environment of a list.

    Attributes:
        kind: which set it gets. steps: of each run. overrides: of every agent, as after `-o`.
        published: algorithm → RL Zoo's figures, of its environment `published_id`.
    """

    env: str
    kind: str
    steps: int
    overrides: tuple[str, ...]
    published: Mapping[str, Published] = field(hash=False)
    published_id: str

    @property
    def better(self) -> float:
        """The return of the better one of RL Zoo's agents."""
        return max(each.mean for each in self.published.values())


@dataclass(frozen=True)
class Figures:
    """A run that was evaluated: a line of a file in docs/figures/.

    Attributes:
        set: hyperparameter set. steps, training_s: of the run. last_100: mean return of its last training episodes.
        checkpoint: the parameters that played. greedy: their returns with the most probable actions. sampled: with
            sampled actions. started: when the run began. cpu, cores: of its machine.
    """

    env: str
    agent: str
    set: str
    seed: int
    steps: int
    training_s: float
    last_100: float | None
    checkpoint: str
    episodes: int
    greedy_mean: float
    greedy_std: float
    sampled_mean: float
    sampled_std: float
    started: str
    cpu: str
    cores: int


Method = tuple[str, str]
"""An agent and a set."""


# ----------------------------------------------------------------------------------------------------------------------
# Lists and files


def read_list(name: str) -> list[Row]:
    """The rows of a list."""
    content = yaml.safe_load(LISTS[name].read_text(encoding="utf-8"))
    return [_row(each) for each in content["rows"]]


def _row(content: Mapping[str, Any]) -> Row:
    published = dict(content.get("published", {}))
    published_id = published.pop("id", "")
    return Row(
        content["env"],
        content["kind"],
        content["steps"],
        tuple(content.get("overrides", ())),
        {algorithm: Published(**figures) for algorithm, figures in published.items()},
        published_id,
    )


def read_figures(file: Path) -> list[Figures]:
    """The lines of a file in docs/figures/; none if there is no file."""
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as lines:
        return [_figures(line) for line in csv.DictReader(lines)]


def _figures(line: Mapping[str, str]) -> Figures:
    types: Mapping[str, Callable[[str], Any]] = {
        "int": int,
        "float": float,
        "str": str,
        "float | None": lambda text: float(text) if text else None,
    }
    return Figures(**{each.name: types[str(each.type)](line[each.name]) for each in fields(Figures)})


def write_figures(file: Path, found: Sequence[Figures], rows: Sequence[Row]) -> None:
    """Writes figures in the order of the list, then by method and seed."""
    order = {row.env: place for place, row in enumerate(rows)}
    text = io.StringIO()
    writer = csv.DictWriter(text, [each.name for each in fields(Figures)], lineterminator="\n")
    writer.writeheader()

    def place(each: Figures) -> tuple[int, str, str, int]:
        return order.get(each.env, len(order)), each.agent, each.set, each.seed

    writer.writerows(map(asdict, sorted(found, key=place)))
    file.parent.mkdir(exist_ok=True)
    file.write_text(text.getvalue(), encoding="utf-8")


# ----------------------------------------------------------------------------------------------------------------------
# Training


@dataclass(frozen=True)
class Run:
    """A run of a row, there or not."""

    row: Row
    agent: str
    set: str
    seed: int
    runs_dir: Path

    @property
    def path(self) -> Path:
        """Its directory."""
        env = re.sub(r"[^\w.-]", "_", self.row.env)
        return self.runs_dir / f"{env}-{self.agent}-{self.set}-s{self.seed}"

    @property
    def set_name(self) -> str | None:
        """What its set is called on the command line; None for the default set of the environment."""
        if self.set != KIND:
            return self.set
        return SETS_OF_KINDS.get(self.row.kind) if self.agent == OURS else None

    @property
    def arguments(self) -> list[str]:
        """The arguments of `a3c-zoo` that make it, without its directory."""
        overrides = ["run.stop_when_solved=false", *self.row.overrides]
        return [
            *("train", self.row.env, "--agent", self.agent, "--seed", str(self.seed), "--steps", str(self.row.steps)),
            *(["--hyperparams", self.set_name] if self.set_name else []),
            *(word for override in overrides for word in ("-o", override)),
        ]

    def read(self, file: str) -> dict[str, Any]:
        """What a JSON file of the run holds; empty if it is not there."""
        path = self.path / file
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    @property
    def is_finished(self) -> bool:
        """Whether its budget is spent."""
        return self.read("outcome.json").get("reason") in FINISHED

    def refuse_another(self) -> None:
        """Ends the program if the directory has a run that another command made, or with another budget."""
        made = self.read("meta.json").get("command", [])[1:]
        if made and made[: len(self.arguments)] != self.arguments:
            sys.exit(f"{self.path} was made by another command: a3c-zoo {' '.join(made)}")

    def __str__(self) -> str:
        return f"{self.row.env} {self.agent} {self.set} seed {self.seed}"


def prepare() -> None:
    """Lets this process, and those that it starts, find the environments of all rows."""
    sys.path[:0] = map(str, FOLDERS)
    known = filter(None, [os.environ.get("PYTHONPATH")])
    os.environ["PYTHONPATH"] = os.pathsep.join([*map(str, FOLDERS), *known])
    os.environ["A3C_ZOO_PLUGIN_FILES"] = str(PLUGIN)


def train_all(runs: Sequence[Run]) -> int:
    """Trains the runs that have not ended, one after the other; returns the exit status."""
    reasons = {run: why_left_out(run) for run in runs}
    failed = 0
    for run, reason in reasons.items():
        run.refuse_another()
        if reason:
            say(f"{run}: left out, {reason}")
        elif run.is_finished:
            say(f"{run}: has ended before")
        else:
            failed += not _train(run)
    return 1 if failed else 0


def why_left_out(run: Run) -> str:
    """Why a run is not trained; empty if it is. A row may lack the set, or its default may not be that of its kind."""
    from a3c_zoo.config.sets import default_set, sets_for
    from a3c_zoo.plugins.registry import get_registry

    registry = get_registry()
    entry = registry.env(run.row.env)
    if run.set != KIND:
        is_known = run.set in [each.name for each in sets_for(registry, entry)]
        return "" if is_known else f"it has no set '{run.set}'"
    chosen = default_set(registry, entry, run.agent)
    if run.agent == OURS and run.set_name is None and chosen is not None and chosen.env == entry.name:
        return f"its default is a set of its own, {chosen.source}"
    return ""


def _train(run: Run) -> bool:
    """Trains a run to its end, or goes on with it; says how it ended, and returns whether it is finished."""
    if any(run.path.glob("checkpoints/step-*.pt")):
        arguments = ["train", "--resume", str(run.path), "--json"]
    else:
        set_aside(run.path)
        arguments = [*run.arguments, "--name", run.path.name, "--runs-dir", str(run.runs_dir), "--json"]
    start_s = time.monotonic()
    outcome = json.loads(run_zoo(arguments) or "{}")
    if outcome.get("reason") in FINISHED:
        last = outcome["mean_return_100"]
        returns = "no episode has ended" if last is None else f"last 100 training episodes {return_text(last)}"
        say(f"{run}: {outcome['steps']:,} steps in {time.monotonic() - start_s:,.0f} s, {returns}")
        return True
    say(f"{run}: failed: {outcome.get('detail', 'it printed nothing')}")
    return False


def set_aside(path: Path) -> None:
    """Gives a run that was interrupted before its first checkpoint another name: nothing can go on from it."""
    if path.exists():
        number = sum(1 for _ in path.parent.glob(f"{path.name}.cut-short-*")) + 1
        path.rename(path.with_name(f"{path.name}.cut-short-{number}"))


def run_zoo(arguments: Sequence[str]) -> str:
    """Runs `a3c-zoo` and returns what it printed. Ctrl-C reaches it once, through this process, which waits for it.

    Raises:
        KeyboardInterrupt: also then; the run has saved its state.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "a3c_zoo", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        return process.communicate()[0]
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.wait()
        finally:  # a second Ctrl-C ends it at once
            process.kill()
        raise


def say(text: str) -> None:
    """A line with the time of day."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


# ----------------------------------------------------------------------------------------------------------------------
# Evaluation


def evaluate_all(runs: Sequence[Run], file: Path, rows: Sequence[Row]) -> int:
    """Evaluates the finished runs that are not in the file, and keeps each at once; returns the exit status."""
    known = {(each.env, each.agent, each.set, each.seed): each for each in read_figures(file)}
    for run in runs:
        key = (run.row.env, run.agent, run.set, run.seed)
        if not run.is_finished:
            continue
        run.refuse_another()
        if key in known and known[key].started == run.read("meta.json")["started"]:
            continue
        known[key] = figures = evaluate(run)
        write_figures(file, list(known.values()), rows)
        greedy = f"{return_text(figures.greedy_mean)} ± {return_text(figures.greedy_std)}"
        say(f"{run}: {figures.checkpoint}, greedy {greedy}, sampled {return_text(figures.sampled_mean)}")
    return 0


def evaluate(run: Run) -> Figures:
    """Plays the episodes of a run, with the most probable and with sampled actions."""
    from a3c_zoo.runs import api
    from a3c_zoo.store.recommended import recommended
    from a3c_zoo.store.run import Run

    checkpoint = recommended(Run(run.path)).which
    greedy = api.evaluate(run.path, episodes=EPISODES, deterministic=True, checkpoint=checkpoint)
    sampled = api.evaluate(run.path, episodes=EPISODES, deterministic=False, checkpoint=checkpoint)
    meta, outcome = run.read("meta.json"), run.read("outcome.json")
    last_100 = outcome["mean_return_100"]
    return Figures(
        env=run.row.env,
        agent=run.agent,
        set=run.set,
        seed=run.seed,
        steps=outcome["steps"],
        training_s=round(outcome["training_s"], 1),
        last_100=None if last_100 is None else round(last_100, 4),
        checkpoint=checkpoint,
        episodes=EPISODES,
        greedy_mean=round(greedy.mean_return, 4),
        greedy_std=round(greedy.std_return, 4),
        sampled_mean=round(sampled.mean_return, 4),
        sampled_std=round(sampled.std_return, 4),
        started=meta["started"],
        cpu=meta["host"]["cpu"],
        cores=meta["host"]["cores"],
    )


def runs_in(runs_dir: Path, rows: Sequence[Row]) -> list[Run]:
    """The runs of a list that have a directory."""
    found = []
    for row in rows:
        stem = Run(row, "", "", 0, runs_dir).path.name.removesuffix("---s0")
        for path in sorted(runs_dir.glob(f"{stem}-*")):
            method = re.fullmatch(rf"{re.escape(stem)}-(a3c|sb3-\w+)-(.+)-s(\d+)", path.name)
            if method:
                found.append(Run(row, method[1], method[2], int(method[3]), runs_dir))
    return found


# ----------------------------------------------------------------------------------------------------------------------
# Tables


def methods(found: Sequence[Figures]) -> list[Method]:
    """The methods that have figures: first our agent with the set of the kind."""
    return sorted({(each.agent, each.set) for each in found}, key=lambda each: (each != (OURS, KIND), each))


def of_method(found: Sequence[Figures], row: Row, method: Method) -> dict[int, Figures]:
    """Seed → figures."""
    return {each.seed: each for each in found if (each.env, each.agent, each.set) == (row.env, *method)}


def middle(figures: Mapping[int, Figures]) -> float | None:
    """The median of the mean returns of all seeds; None while one is missing."""
    if not set(SEEDS) <= figures.keys():
        return None
    return median(figures[seed].greedy_mean for seed in SEEDS)


def reached(row: Row, value: float | None) -> list[str]:
    """The algorithms whose published return a value reaches."""
    if value is None:
        return []
    return [PUBLISHED[name] for name, agent in row.published.items() if value >= agent.mean]


def zoo_table(rows: Sequence[Row], found: Sequence[Figures]) -> Iterator[str]:
    """The lines of the table beside RL Zoo's agents: a line for each row and method, with all of its runs."""
    ours = [*(f"seed {seed}" for seed in SEEDS), "median", "steps"]
    theirs = [f"RL Zoo's {algorithm} (steps)" for algorithm in PUBLISHED.values()]
    yield from table_head(["environment", "method", *ours, *theirs, "reaches"])
    for row in rows:
        published = [_published_cell(row.published.get(name)) for name in PUBLISHED]
        for method in [each for each in methods(found) if of_method(found, row, each)] or [(OURS, KIND)]:
            figures = of_method(found, row, method)
            value = middle(figures)
            cells = [_run_cell(figures.get(seed)) for seed in SEEDS]
            reaches = " and ".join(reached(row, value)) or "–"
            yield table_row([f"`{row.env}`", named(method), *cells, bold(value), steps_cell(row), *published, reaches])


def held_out_table(rows: Sequence[Row], found: Sequence[Figures]) -> Iterator[str]:
    """The lines of the held-out table: both methods of a row side by side, with all of their runs."""
    heads = ("environment", "steps", f"`{OURS}`, set of the kind", "median", f"`{BASELINE}`", "median", "better")
    yield from table_head(heads)
    for row in rows:
        ours, theirs = (of_method(found, row, (agent, KIND)) for agent in (OURS, BASELINE))
        cells = [", ".join(_mean_cell(each.get(seed)) for seed in SEEDS) for each in (ours, theirs)]
        values = middle(ours), middle(theirs)
        yield table_row(
            [f"`{row.env}`", steps_cell(row), cells[0], bold(values[0]), cells[1], bold(values[1]), winner(*values)]
        )


def winner(ours: float | None, theirs: float | None) -> str:
    """Which of two medians is greater."""
    if ours is None or theirs is None:
        return "–"
    if ours == theirs:
        return "equal"
    return f"`{OURS}`" if ours > theirs else f"`{BASELINE}`"


def table_head(heads: Sequence[str]) -> list[str]:
    """The first two lines of a table."""
    return [table_row(heads), f"|{' --- |' * len(heads)}"]


def table_row(cells: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cells)} |"


def named(method: Method) -> str:
    """A method in words."""
    agent, chosen = method
    return f"`{agent}`" if chosen == KIND else f"`{agent}`, set `{chosen}`"


def bold(value: float | None) -> str:
    """A median."""
    return "–" if value is None else f"**{_number(value)}**"


def steps_cell(row: Row) -> str:
    """The steps of our runs."""
    return f"{row.steps / 1e6:g} M"


def _published_cell(agent: Published | None) -> str:
    if agent is None:
        return "–"
    return f"{_number(agent.mean)} ± {_number(agent.std, agent.mean)} ({agent.steps / 1e6:g} M)"


def _run_cell(figures: Figures | None) -> str:
    if figures is None:
        return "–"
    return f"{_number(figures.greedy_mean)} ± {_number(figures.greedy_std, figures.greedy_mean)}"


def _mean_cell(figures: Figures | None) -> str:
    return "–" if figures is None else _number(figures.greedy_mean)


def _number(value: float, beside: float | None = None) -> str:
    """A number with as many decimals as that of its size, or that beside it, gets."""
    size = abs(value if beside is None else beside)
    decimals = 0 if size >= 1000 else 1 if size >= 10 else 3
    return f"{value:,.{decimals}f}"


# ----------------------------------------------------------------------------------------------------------------------
# Counts


def zoo_counts(rows: Sequence[Row], found: Sequence[Figures]) -> Iterator[str]:
    """Sentences that count the rows in which the median of three seeds reaches RL Zoo's agents."""
    own = [each for each in methods(found) if each[0] == OURS and each[1] != KIND]
    yield _counted("The set of the kind", rows, [middle(of_method(found, row, (OURS, KIND))) for row in rows])
    if own:
        yield _counted("With sets of their own where there are any", rows, [_own(found, row, own) for row in rows])


def _own(found: Sequence[Figures], row: Row, own: Sequence[Method]) -> float | None:
    """The median of the row's own set; without one, that of the kind. Of several own sets, the first one counts."""
    values = [middle(of_method(found, row, method)) for method in [*own, (OURS, KIND)]]
    return next((value for value in values if value is not None), None)


def _counted(what: str, rows: Sequence[Row], values: Sequence[float | None]) -> str:
    pairs = [(row, value) for row, value in zip(rows, values, strict=True) if value is not None]
    if not pairs:
        return f"{what}: no row has all of its runs yet."
    with_a2c = [(row, value) for row, value in pairs if "a2c" in row.published]
    a2c = sum(value >= row.published["a2c"].mean for row, value in with_a2c)
    better = [row for row, value in pairs if value >= row.better]
    classic = sum("a2c" in row.published for row in better)
    missing = len(rows) - len(pairs)
    return (
        f"{what}: at least RL Zoo's A2C in {a2c} of {len(with_a2c)} rows that have one, at least the better of its A2C "
        f"and PPO in {classic} of these, and in {len(better)} of all {len(pairs)} rows"
        + (f" ({counted(missing, 'rows')} without all runs)." if missing else ".")
    )


def held_out_counts(rows: Sequence[Row], found: Sequence[Figures]) -> Iterator[str]:
    """A sentence that counts the held-out rows in which our agent is better."""
    winners = [winner(*(middle(of_method(found, row, (agent, KIND))) for agent in (OURS, BASELINE))) for row in rows]
    ran = [each for each in winners if each != "–"]
    if not ran:
        yield "No held-out row has all of its runs yet."
        return
    missing = len(rows) - len(ran)
    text = f"The set of the kind is better than `{BASELINE}` in {ran.count(f'`{OURS}`')} of {len(ran)} held-out rows"
    yield text + (f" ({counted(missing, 'rows')} without all runs)." if missing else ".")


def part(name: str) -> str:
    """What stands between the markers of a table in docs/benchmarks-rl-zoo.md, from the file of figures."""
    rows, found = read_list(name), read_figures(FIGURES[name])
    lines, counts = (zoo_table, zoo_counts) if name == "table" else (held_out_table, held_out_counts)
    return "\n".join([*lines(rows, found), "", *counts(rows, found)]) + "\n"


def markers(name: str) -> tuple[str, str]:
    """The lines before and behind a table."""
    return f"<!-- zoo {name}: written by benchmarks/zoo_table.py -->\n", f"<!-- end of zoo {name} -->\n"


def part_on_page(name: str) -> str:
    """The same as it stands in docs/benchmarks-rl-zoo.md."""
    begin, end = markers(name)
    return PAGE.read_text(encoding="utf-8").partition(begin)[2].partition(end)[0].strip("\n") + "\n"


def write_page() -> None:
    """Writes both tables into docs/benchmarks-rl-zoo.md."""
    text = PAGE.read_text(encoding="utf-8")
    for name in FIGURES:
        begin, end = markers(name)
        before, _, rest = text.partition(begin)
        _, found, behind = rest.partition(end)
        if not found:
            sys.exit(f"{PAGE} has no line {end.strip()}")
        text = f"{before}{begin}\n{part(name)}\n{end}{behind}"
    PAGE.write_text(text, encoding="utf-8")


# ----------------------------------------------------------------------------------------------------------------------
# The command line


def parser() -> argparse.ArgumentParser:
    """The commands and their options."""
    program = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = program.add_subparsers(dest="command", required=True)
    train = commands.add_parser("train", help="train rows, one run after the other")
    train.add_argument("envs", nargs="*", metavar="ENV", help="rows of the list  [all]")
    train.add_argument("--agent", default=OURS, help="[%(default)s]")
    train.add_argument("--set", default=KIND, help="a hyperparameter set  [%(default)s]")
    train.add_argument("--seeds", type=int, nargs="+", metavar="N", help="[1 2 3; for tuning 50 51 52]")
    evaluate = commands.add_parser("evaluate", help="play 100 episodes of each run that has ended")
    for each in (train, evaluate):
        each.add_argument("--list", choices=LISTS, default="table", help="[%(default)s]")
        each.add_argument("--runs-dir", type=Path, default=RUNS, metavar="DIR", help="[%(default)s]")
    commands.add_parser("write", help="write the tables of docs/benchmarks-rl-zoo.md")
    commands.add_parser("count", help="count the rows that reach RL Zoo's agents, and the held-out rows that are won")
    return program


def main() -> int:
    """Runs a command; returns the exit status."""
    program = parser()
    given = program.parse_args()
    if given.command == "write":
        write_page()
        return 0
    if given.command == "count":
        for name, counts in (("table", zoo_counts), ("held-out", held_out_counts)):
            print(*counts(read_list(name), read_figures(FIGURES[name])), sep="\n")
        return 0
    rows = read_list(given.list)
    prepare()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if given.command == "evaluate":
            if given.list not in FIGURES:
                program.error(f"figures of --list {given.list} are not reported: a3c-zoo evaluate RUN")
            return evaluate_all(runs_in(given.runs_dir, rows), FIGURES[given.list], rows)
        return train_all(_chosen(program, given, rows))
    except ZooError as error:
        print(f"Error: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        say("interrupted; the same command goes on")
        return 130


def _chosen(program: argparse.ArgumentParser, given: argparse.Namespace, rows: Sequence[Row]) -> list[Run]:
    """The runs that the arguments of `train` name, seed by seed."""
    known = {row.env: row for row in rows}
    if unknown := set(given.envs) - known.keys():
        program.error(f"no row of the list '{given.list}': {', '.join(sorted(unknown))}; its rows: {', '.join(known)}")
    is_tuning = given.list == "tuning"
    seeds = given.seeds or (TUNING_SEEDS if is_tuning else SEEDS)
    if any((seed >= TUNING_SEEDS[0]) != is_tuning for seed in seeds):
        limits = f"from {TUNING_SEEDS[0]} on" if is_tuning else f"below {TUNING_SEEDS[0]}"
        program.error(f"the seeds of the list '{given.list}' are {limits}")
    chosen = [known[env] for env in given.envs or known]
    return [Run(row, given.agent, given.set, seed, given.runs_dir.resolve()) for seed in seeds for row in chosen]


if __name__ == "__main__":
    sys.exit(main())
