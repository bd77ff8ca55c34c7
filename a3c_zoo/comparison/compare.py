"""The Python side of `a3c-zoo compare`: plan, train, evaluate, read, and report."""

from __future__ import annotations

import inspect
import operator
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from a3c_zoo.comparison import seed_blocks
from a3c_zoo.comparison.comparison_view import ComparisonView
from a3c_zoo.comparison.estimates import estimate, evaluations_estimate
from a3c_zoo.comparison.looks import keep_look_of_rule, keep_looks, looked_at, planned_looks
from a3c_zoo.comparison.methods import owners_of, parsed_method, refuse_methods_without_runs, runs_of_methods
from a3c_zoo.comparison.plan import Plan, make_plan
from a3c_zoo.comparison.rehearsal import rehearse, with_guesses
from a3c_zoo.comparison.trainings import ComparisonWatcher, Trained, train_plan
from a3c_zoo.display.displays import display_of_python
from a3c_zoo.engines import Engine
from a3c_zoo.engines.choice import DEFAULT_ENGINE, open_engine
from a3c_zoo.engines.shared_folder import reserved
from a3c_zoo.errors import ZooError
from a3c_zoo.figures import decisions
from a3c_zoo.figures.decisions import DEFAULT_MAX_SEEDS, Decisions
from a3c_zoo.figures.figure_table import QUESTIONS
from a3c_zoo.figures.measures import MeasuredRun, labels_of, measure
from a3c_zoo.figures.results import Making, results_of
from a3c_zoo.figures.sequential import SequentialRule, SequentialTest
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.plugins.typed_names import env_name, refuse_unnamed
from a3c_zoo.processes.child import check_main
from a3c_zoo.processes.start import refuse_unguarded
from a3c_zoo.report.places import REPORT_FILES, REPORT_PAGE, choose_out, claimed, opening
from a3c_zoo.report.results_json import by_env, to_json
from a3c_zoo.report.verdict import second_look
from a3c_zoo.runs.evaluate_checkpoints import DEFAULT_EPISODES
from a3c_zoo.runs.signals import stop_on_signals
from a3c_zoo.store.directory import DEFAULT_RUNS_DIR, refuse_trust
from a3c_zoo.store.run import Run, RunSummary
from a3c_zoo.store.run_groups import folder_of, on_envs, one_name, told_apart, unread_on
from a3c_zoo.store.run_records import RunRecord, lost_runs, read_runs
from a3c_zoo.words import counted

if TYPE_CHECKING:
    from a3c_zoo.report.pages import ReportSection

DEFAULT_SEEDS: Final = 5
#: After a report, the next one waits for this many times the seconds that it took: many short runs need few reports.
REPORT_PAUSE: Final = 4


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """A finished comparison.

    Attributes:
        results: every figure with its unit; the contents of `results.json`.
        left_out: run → why its figures are not in the results.
        out: the folder of the report, with `REPORT_FILES`.
        verdict: the conclusions, one sentence each.
        failed: the names of the runs that failed: in training, in their evaluation, or when they were read.
        answers: those sentences of the verdict that answer a question → whether a difference is shown.
    """

    results: dict[str, Any]
    left_out: dict[str, str]
    out: Path
    verdict: tuple[str, ...]
    failed: tuple[str, ...] = ()
    answers: Mapping[str, bool] = field(default_factory=dict)

    def __repr__(self) -> str:
        envs: dict[str, Any] = self.results["environments"]
        methods = [f"{' and '.join(env['methods'])} on {name}" for name, env in envs.items()]
        runs = f"{len(self.results['runs'])} runs, {len(self.left_out)} left out"
        return f"<Comparison of {'; '.join(methods)}: {runs}; {self.out}>\n{' '.join(self.verdict)}"

    @property
    def answer(self) -> tuple[str, ...]:
        """The sentences that answer a question; the first one of the verdict where none does."""
        return tuple(self.answers) or self.verdict[:1]

    def summary(self) -> str:
        """The verdict, the files of the report, and what opens it. The answer is at the end, where a reader looks."""
        rest = [text for text in self.verdict if text not in self.answer]
        files = [f"  {self.out / name}" for name in REPORT_FILES if name != REPORT_PAGE]
        return "\n".join([*rest, *files, *self.answer, f"  {opening(self.out / REPORT_PAGE)}"])


def compare(
    envs: str | Sequence[str] = (),
    *,
    agents: str | Sequence[str] = (),
    baselines: str | Sequence[str] = (),
    methods: str | Sequence[str] = (),
    seeds: int | Sequence[int] = DEFAULT_SEEDS,
    steps: int | None = None,
    time_limit_s: float | None = None,
    episodes: int = DEFAULT_EPISODES,
    until_decided: bool = False,
    max_seeds: int | None = None,
    question: str = "",
    sources: str | Path | Sequence[str | Path] = (),
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    out: str | Path | None = None,
    reuse: bool = True,
    trust: bool = False,
    engine: str = DEFAULT_ENGINE,
    engine_options: str | Sequence[str] = (),
    watcher: ComparisonWatcher | None = None,
    progress: bool | None = None,
) -> Comparison:
    """Trains agents and baselines over several seeds, evaluates them alike, and writes a report.

    First each method trains for a few seconds, which shows whether it works and how long the comparison will take.
    Every run is a process of its own; the engine `local` trains one at a time. A finished run with the same settings is
    used again. After each evaluated run the report is written anew. In a script, call it below
    `if __name__ == "__main__":`; the processes that evaluate import the script.

    Args:
        envs, agents: a name or several; by default each environment's own agent, or all of `sources`.
        baselines: several, too: `NAME`, or `NAME@zoo` for a library's algorithm on the zoo's environments.
        methods: in place of agents and baselines, several settings of one agent, too: `"NAME=AGENT:SET -o KEY=VALUE"`,
            of which the name, the set and the values may be left out. With `sources`: the runs that have them.
        seeds: how many, or a list of them. steps, time_limit_s: each run's budget; by default the environment's own.
        episodes: how many each of a run's ten checkpoints plays with sampled actions, and with greedy ones.
        until_decided: trains blocks of `seeds` until a test has decided each pair, up to `max_seeds` (20).
        question: the main question, "return", "steps" or "time": it alone has all of the 5 % by which a report may be
            wrong, and the others are claimed only after it. By default all questions share them.
        sources: run directories, or folders of them, to read: options of training are refused. trust: see `find_run`.
        out: the folder of the report, which must not hold a finished one; by default a new one in `comparisons`.
        engine, engine_options: what runs the jobs, and its settings: `KEY=VALUE` texts.
        watcher: is told the progress: `a3c_zoo.comparison.trainings.ComparisonWatcher`. progress: as in `train`.

    Raises:
        ZooError: for an error of the caller. KeyboardInterrupt: on Ctrl-C; the same call continues with missing runs.
    """
    refuse_unguarded()
    envs = _several(envs)
    for env in envs:
        refuse_unnamed(env)
    agents = _several_names("agents", agents)
    baselines = _several_names("baselines", baselines)
    methods = _several_names("methods", methods)
    if not sources:
        envs = [env_name(get_registry(), name) for name in envs]
    folder = choose_out(out, envs)
    check_question(question, until_decided)
    if sources:
        _refuse_training(
            baselines=baselines,
            seeds=seeds,
            steps=steps,
            time_limit_s=time_limit_s,
            episodes=episodes,
            until_decided=until_decided,
            max_seeds=max_seeds,
            reuse=reuse,
            engine=engine,
            engine_options=_several(engine_options),
        )
        return read(
            [Path(source) for source in _several(sources)],
            envs,
            folder,
            agents,
            methods=methods,
            runs_dir=Path(runs_dir),
            trust=trust,
            question=question,
        )
    refuse_trust(trust, "--from")
    with open_engine(get_registry(), engine, _several(engine_options)) as opened:
        plan, rule = make_plan_and_rule(
            until_decided,
            envs=envs,
            agents=agents,
            baselines=baselines,
            methods=methods,
            seeds=seeds,
            steps=steps,
            time_limit=time_limit_s,
            max_seeds=max_seeds,
            runs_dir=Path(runs_dir),
            reuse=reuse,
            host=opened.host(),
        )
        return _watched(plan, rule, episodes, folder, watcher, opened, question, progress)


def _refuse_training(**given: Any) -> None:
    """Raises ZooError if an argument of `compare` that only training needs is not its default."""
    defaults = inspect.signature(compare).parameters
    if changed := [name for name, value in given.items() if value != defaults[name].default]:
        raise ZooError(f"`sources` are only read; leave out {', '.join(changed)}")


def check_question(question: str, until_decided: bool = False) -> None:
    """Raises ZooError if there is no such question, or if a rule takes its place."""
    if question and question not in QUESTIONS:
        raise ZooError(f"--question {question}: choose {', '.join(QUESTIONS)}")
    if question and until_decided:
        raise ZooError("--question: --until-decided asks about final returns alone; leave one of the two out")


def _several(given: str | Path | Sequence[Any]) -> tuple[Any, ...]:
    """The values of an argument that may be one or several: a text is one value, and no sequence of letters."""
    if isinstance(given, str | Path) or not isinstance(given, Iterable):
        return (given,)
    return tuple(given)


def _several_names(argument: str, given: str | Sequence[str]) -> tuple[str, ...]:
    """As `_several`, for an argument of names. Raises ZooError if one is no text."""
    names = _several(given)
    for name in names:
        if not isinstance(name, str):
            raise ZooError(f"{argument}={given!r:.80}: give a name, or a list of names")
    return names


def _watched(
    plan: Plan,
    rule: SequentialRule | None,
    episodes: int,
    out: Path,
    watcher: ComparisonWatcher | None,
    engine: Engine,
    question: str,
    progress: bool | None,
) -> Comparison:
    """Carries out a plan; a notebook shows the progress if nobody else watches."""
    if episodes < 1:
        raise ZooError(f"--episodes {episodes}: give 1 or more")
    if plan.missing:
        check_main()  # training can take hours, and no child of an unguarded script could evaluate it
    with closing(display_of_python(progress, watcher, "watcher")) as display:
        watcher = watcher or ComparisonView(display, engine.slots)
        plan = rehearse_plan(plan, rule, episodes, engine.slots, watcher.message)
        return carry_out(plan, rule, episodes, out, watcher, engine, question=question)


def rehearse_plan(
    plan: Plan, rule: SequentialRule | None, episodes: int, slots: int, tell: Callable[[str], None]
) -> Plan:
    """Tries each method that must be trained, and tells how long the comparison will take. See `rehearse`.

    It also tells about which methods the report will claim nothing, because an earlier one has looked at their runs.

    rule, episodes: see `carry_out`. slots: how many runs train at once. Returns the plan with what was measured.
    """
    if not plan.missing:
        return plan
    for pair, report in planned_looks(plan, rule).items():
        tell(second_look(*pair, report, "will be claimed"))
    with stop_on_signals() as stop:
        stop.allow_interrupts()
        rehearsals = rehearse(plan.missing, plan.runs_dir, tell, episodes)
    plan = with_guesses(plan, rehearsals)
    tell(estimate(plan, rehearsals, slots, is_most=rule is not None))
    if on_top := evaluations_estimate(plan, rehearsals, episodes, is_most=rule is not None):
        tell(on_top)
    return plan


def _listed(seeds: int | Sequence[int]) -> Sequence[int]:
    """The seeds that a number or a list of them stands for; NumPy's whole numbers are taken, too."""
    if isinstance(seeds, range):
        return seeds
    with suppress(TypeError):
        if not isinstance(seeds, Iterable):
            return range(1, operator.index(seeds) + 1)
        return [operator.index(seed) for seed in seeds]  # a letter of a text is no number
    raise ZooError(f"seeds={seeds!r}: give how many, or a list of whole numbers")


def make_plan_and_rule(
    until_decided: bool, *, seeds: int | Sequence[int], max_seeds: int | None, **options: Any
) -> tuple[Plan, SequentialRule | None]:
    """The plan of a comparison, and with `until_decided` its rule. Others: see `make_plan`, which has the errors, too.

    Raises:
        ZooError: the seeds do not fit the rule, or `max_seeds` is given without it.
    """
    seeds = _listed(seeds)
    _refuse_two_names(options["envs"])
    if not until_decided:
        if max_seeds is not None:
            raise ZooError(
                "--max-seeds is of comparisons that go on until they are decided: add --until-decided"
            )
        return make_plan(seeds=seeds, **options), None
    if not isinstance(seeds, range) or seeds != range(1, len(seeds) + 1):  # others would not be trained
        raise ZooError(
            "--seeds: with --until-decided it is the number of seeds in a block, from seed 1 on, not a list"
        )
    plan = make_plan(seeds=range(1, (DEFAULT_MAX_SEEDS if max_seeds is None else max_seeds) + 1), **options)
    return plan, seed_blocks.rule_of(plan, len(seeds))


def _refuse_two_names(envs: Sequence[str]) -> None:
    """Raises ZooError if two names are of one environment, whose runs would count twice."""
    seen: dict[str, str] = {}
    for env in dict.fromkeys(envs):
        other = seen.setdefault(one_name(env), env)
        if other != env:
            raise ZooError(f"{other} and {env} are one environment: name it once")


@dataclass(slots=True)
class _Played:
    """Trained and evaluated runs: their records, name → why others are left out, and the names of failed ones.

    lost: see `Results`.
    """

    records: list[RunRecord] = field(default_factory=list)
    left_out: dict[Path, str] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    lost: Counter[tuple[str, str]] = field(default_factory=Counter)


def carry_out(
    plan: Plan,
    rule: SequentialRule | None,
    episodes: int,
    out: Path,
    watcher: ComparisonWatcher,
    engine: Engine,
    more: Sequence[ReportSection] = (),
    question: str = "",
) -> Comparison:
    """Trains the missing runs of a plan, evaluates all, and writes the report. Raises what `compare` does.

    Args:
        rule: decides after each block of seeds whether the next one is needed; None for the whole plan.
        more: is put behind the report's own sections. question: see `compare`.
    """
    watcher.planned(plan)
    played = _Played(left_out=dict(plan.left_out))
    decided = None
    digest = plan.digest
    places: dict[tuple[str, str, int | None], int] = {
        (run.env, run.method, run.seed): place for place, run in enumerate(plan.runs)
    }

    def measured() -> tuple[list[MeasuredRun], dict[str, str]]:
        played.records.sort(
            key=lambda record: places.get((record.env, record.method, record.seed), len(places))
        )
        return _measure(played.records, played.left_out)

    def making(missing: Mapping[tuple[str, str], int]) -> Making:
        return Making(
            plan.schedules, engine.slots, plan.tuning, tuple(engine.notes()), by_env(missing), digest
        )

    with claimed(out, digest) as folder:
        next_report_s = 0.0

        def report_so_far(missing: Mapping[tuple[str, str], int]) -> None:
            nonlocal next_report_s
            began_s = time.monotonic()
            if missing and played.records and began_s >= next_report_s:
                try:
                    _report(*measured(), folder, making(missing), lost=played.lost, question=question)
                except ZooError as error:  # the next one, or the last, may be written
                    watcher.message(f"no report so far: {error}")
                    return
                watcher.reported(folder, sum(missing.values()))
                ended_s = time.monotonic()
                next_report_s = ended_s + REPORT_PAUSE * (ended_s - began_s)

        with stop_on_signals() as stop:
            stop.allow_interrupts()
            if rule is None:
                _play(plan, episodes, watcher, played, engine, report_so_far)
            else:
                decided = _play_until_decided(
                    plan, rule, episodes, watcher, played, engine, report_so_far, folder
                )
        options: dict[str, Any] = {
            "decided": decided,
            "more": more,
            "lost": played.lost,
            "question": question,
        }
        comparison = _report(*measured(), folder, making({}), failed=tuple(played.failed), **options)
    watcher.reported(folder, 0)
    return comparison


def final_returns_of(
    plan: Plan, episodes: int, watcher: ComparisonWatcher, engine: Engine
) -> dict[str, list[float]]:
    """Trains and evaluates a plan without a report. Returns method → the final returns of its runs that have one."""
    watcher.planned(plan)
    played = _Played()
    returns = dict[str, list[float]]()
    with stop_on_signals() as stop:
        stop.allow_interrupts()
        _play(plan, episodes, watcher, played, engine)
    for run in (each.measures for each in _measure(played.records, {})[0]):
        if run.final_return is not None:
            returns.setdefault(run.method, []).append(run.final_return)
    return returns


#: Is told how many runs are still to come, (environment, method) → number.
_ReportSoFar = Callable[[Mapping[tuple[str, str], int]], None]


def _play(
    plan: Plan,
    episodes: int,
    watcher: ComparisonWatcher,
    played: _Played,
    engine: Engine,
    report_so_far: _ReportSoFar = lambda missing: None,
) -> None:
    """Trains and evaluates the runs of a plan, and adds them to `played`.

    Runs that are there are evaluated first. If one run trains at a time, each one is evaluated before the next one
    begins; else all are at the end, seed by seed, because machines that train must not be disturbed.
    """
    to_come = Counter((run.env, run.method) for run in plan.runs)

    def take_in(trained: Sequence[Trained]) -> None:
        _evaluate(trained, plan, episodes, watcher, played, engine)
        to_come.subtract((each.run.env, each.run.method) for each in trained)
        report_so_far(+to_come)

    if finished := [Trained(run, run.done) for run in plan.runs if run.done is not None]:
        take_in(finished)

    def on_end(trained: Trained) -> None:
        if engine.slots == 1 and trained.run.done is None:
            take_in([trained])

    ended = train_plan(plan, watcher, engine, on_end)
    if engine.slots > 1:
        missing = [each for each in ended if each.run.done is None]
        for seed in dict.fromkeys(each.run.seed for each in missing):
            take_in([each for each in missing if each.run.seed == seed])


def _evaluate(
    trained: Sequence[Trained],
    plan: Plan,
    episodes: int,
    watcher: ComparisonWatcher,
    played: _Played,
    engine: Engine,
) -> None:
    """Evaluates runs, and adds them to `played`."""
    failed = {each.path: each.fault for each in trained if each.fault is not None}
    usable = [each.path for each in trained if each.fault is None]
    # Reserved: a comparison with another number of episodes replaces the evaluations, which must be read before.
    with reserved(plan.runs_dir, "evaluations", "evaluates these runs", watcher.message) as give_sign:
        faults = engine.evaluate(usable, episodes, watcher.evaluating, give_sign)
        unharmed = [path for path in usable if path not in faults]
        records, left_out = read_runs(unharmed, trust=True)  # their configurations are the planned ones
    methods = {each.path: each.run.method for each in trained}
    played.records += [replace(record, method=methods[record.path]) for record in records]
    unusable = left_out | faults  # the watcher knows of the trainings that failed
    for each in trained:
        if each.path in unusable:
            watcher.message(_about_unusable(each, unusable[each.path]))
    without_figures = failed | unusable
    played.left_out |= without_figures
    played.failed += [path.name for path in without_figures]
    lost = (each.run for each in trained if each.path in without_figures and not Run(each.path).says_nothing)
    played.lost += Counter((run.env, run.method) for run in lost)


def _about_unusable(trained: Trained, reason: str) -> str:
    """What a watcher is told of a run that was trained and has no figures, with the cure."""
    run = trained.run
    remove = shlex.join(["a3c-zoo", "rm", str(trained.path)])
    return (
        f"{run.method} on {run.env}, seed {run.seed}: {reason}. The same command (with another --out, if it has one) "
        f"tries again; to train this run again, first: {remove}"
    )


def _play_until_decided(
    plan: Plan,
    rule: SequentialRule,
    episodes: int,
    watcher: ComparisonWatcher,
    played: _Played,
    engine: Engine,
    report_so_far: _ReportSoFar,
    folder: Path,
) -> Decisions:
    """Plays block after block, until the rule has decided all pairs or allows no further look.

    folder: of the report, which the runs name as the one that has looked at them.
    """
    test = SequentialTest(rule)
    stopped = ""
    while not test.is_over:
        _play(seed_blocks.block_of(plan, test), episodes, watcher, played, engine, report_so_far)
        runs, _ = _measure(played.records, {})
        values = decisions.final_returns(test, runs)
        if values is None:
            stopped = "a run has no final return, so there was no further look"
            break
        look = test.look(values)
        keep_look_of_rule(look, rule, runs, folder)
        watcher.message(decisions.look_in_words(look, test))
    return Decisions(rule, tuple(test.looks), tuple(test.open), stopped)


def read(
    folders: Iterable[Path],
    envs: Sequence[str],
    out: Path,
    agents: Sequence[str] = (),
    methods: Sequence[str] = (),
    wanted: Callable[[RunSummary], bool] = lambda run: True,
    runs_dir: Path = DEFAULT_RUNS_DIR,
    trust: bool = False,
    question: str = "",
    chosen_by: str = "",
) -> Comparison:
    """Makes a report of runs as they are.

    Args:
        envs, agents: only theirs; all if empty. methods: only runs with their settings, as users write them.
        wanted, runs_dir, trust: see `read_runs`. chosen_by: see `Results`.

    Raises:
        ZooError: there is no run; runs are of different environments and none was named; a seed is there twice; or a
            method has no run.
    """
    if methods and agents:
        raise ZooError("--method names agents with their settings: leave out --agent")

    passed_over = set()

    def is_wanted(run: RunSummary) -> bool:
        if (not agents or run.agent in agents) and wanted(run):
            return True
        passed_over.add(run.path)
        return False

    records, unread = read_runs(folders, runs_dir=runs_dir, trust=trust, wanted=is_wanted)
    if passed_over and not records and not unread:
        found = "1 run is" if len(passed_over) == 1 else f"{len(passed_over):,} runs are"
        raise ZooError(
            f"--from: {found} there, and none is what --agent, --seed, --status, --solved or --since asks for: "
            "leave one of them out"
        )
    env_names = list(dict.fromkeys(one_name(run.env) for run in records))
    if len(env_names) > 1 and not envs:
        choices = " --env ".join(env_names)
        raise ZooError(f"--from: the runs are of {len(env_names)} environments; choose among --env {choices}")
    chosen = on_envs(records, envs, "--from")
    registry = get_registry()
    parsed = [parsed_method(registry, text) for text in methods]
    trusted_envs = {run.env for run in chosen if run.is_trusted}
    if methods:
        owners = owners_of(registry, chosen, parsed, trusted_envs)
        refuse_methods_without_runs(registry, parsed, owners, chosen, trusted_envs)
        chosen = runs_of_methods(chosen, owners)
    there = {run.env for run in chosen}
    named = told_apart(chosen)
    unread = unread_on(unread, there) if envs else unread
    measured, left_out = _measure(named, unread)
    _refuse_twins(measured)
    names = {(run.method, folder_of(run.path)): name.method for run, name in zip(chosen, named, strict=True)}
    without = [replace(run, env=one_name(run.env)) for run in lost_runs(unread)]
    without = [run for run in without if run.env in there]
    if methods:
        without = runs_of_methods(without, owners_of(registry, without, parsed, trusted_envs))
    without = [
        replace(run, method=names.get((run.method, folder_of(run.path)), run.method)) for run in without
    ]
    # `compare` trains failed runs again: those of a seed are one run, which is not lost if one of them ended in order.
    lost = {(run.env, run.method, run.seed) for run in without} - {
        (run.env, run.method, run.seed) for run in named
    }
    counts = Counter((env, method) for env, method, _ in lost)
    with claimed(out) as folder:
        return _report(measured, left_out, folder, lost=counts, question=question, chosen_by=chosen_by)


def _measure(
    records: Sequence[RunRecord], left_out: Mapping[Path, str]
) -> tuple[list[MeasuredRun], dict[str, str]]:
    """Measures runs. Returns them, and name → reason for those that cannot be used."""
    labels = labels_of([*(each.path for each in records), *left_out])
    measured = [measure(record, labels[record.path]) for record in records]
    return measured, {labels[path]: reason for path, reason in left_out.items()}


def _refuse_twins(measured: Sequence[MeasuredRun]) -> None:
    seen: dict[tuple[str, str, int | None], str] = {}
    twins = []
    for run in (measured_run.measures for measured_run in measured):
        twin = seen.setdefault((run.env, run.method, run.seed), run.run)
        if run.seed is not None and twin != run.run:
            twins.append(f"seed {run.seed} of {run.method} on {run.env} is there twice, {twin} and {run.run}")
    if twins:
        if len(twins) > 1:
            others = f", and {len(twins) - 1:,} more runs are twins"
        else:
            others = ""
        raise ZooError(
            f"--from: {twins[0]}{others}: tell settings of one agent apart with --method, or leave one of "
            "each out, with --since or by naming runs one by one"
        )


def _report(
    measured: Sequence[MeasuredRun],
    left_out: dict[str, str],
    out: Path,
    making: Making | None = None,
    failed: tuple[str, ...] = (),
    decided: Decisions | None = None,
    more: Sequence[ReportSection] = (),
    lost: Mapping[tuple[str, str], int] = MappingProxyType({}),
    question: str = "",
    chosen_by: str = "",
) -> Comparison:
    """Writes the report into a folder that was claimed. Raises ZooError if there is no run."""
    from a3c_zoo.report.report import page_of, write_report  # matplotlib and jinja2 only when they are needed
    from a3c_zoo.report.report_films import films_of
    from a3c_zoo.report.verdict import answers, notes

    if not measured:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out.items())
        raise ZooError(f"there is no run to compare{f' ({reasons})' if reasons else ''}")
    results = looked_at(results_of(measured, left_out, making, decided, lost, question, chosen_by))
    is_finished = making is not None and not making.missing
    films = films_of(results.runs) if is_finished else None  # nothing is played of runs as found
    page = page_of(results, films)
    if making and making.missing:
        page = replace(page, verdict=[unfinished(making.missing, len(measured)), *notes(results)])
    page = replace(page, sections=[*page.sections, *more])
    write_report(results, page, out)
    if making is None or is_finished:
        keep_looks(results, out)
    return Comparison(to_json(results), left_out, out, tuple(page.verdict), failed, answers(results))


def unfinished(missing: Mapping[str, Mapping[str, int]], there: int) -> str:
    """The sentence above a report whose comparison has not ended. there: how many runs it has."""
    number = sum(sum(methods.values()) for methods in missing.values())
    of_methods = [
        f"{method} on {env}: {count}" for env, methods in missing.items() for method, count in methods.items()
    ]
    has = f"It has {counted(there, 'runs')}, and {counted(number, 'runs')} {'is' if number == 1 else 'are'} missing"
    return f"This report is not finished, and claims nothing yet. {has}: {', '.join(of_methods)}."
