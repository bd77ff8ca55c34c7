"""The Python side of `a3c-zoo compare`: checks what is asked, makes the plan, tries it, and has it carried out."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from numbers import Real
from pathlib import Path
from typing import Any, Final

from a3c_zoo.comparison import seed_blocks
from a3c_zoo.comparison.comparison_view import ComparisonView
from a3c_zoo.comparison.conclusion import Comparison
from a3c_zoo.comparison.course import carry_out
from a3c_zoo.comparison.estimates import estimate, evaluations_estimate
from a3c_zoo.comparison.looks import planned_looks
from a3c_zoo.comparison.plan import Plan, make_plan
from a3c_zoo.comparison.reading import read
from a3c_zoo.comparison.rehearsal import rehearse, with_guesses
from a3c_zoo.comparison.trainings import ComparisonWatcher
from a3c_zoo.display.displays import display_of_python
from a3c_zoo.engines import Engine
from a3c_zoo.engines.choice import DEFAULT_ENGINE, open_engine
from a3c_zoo.errors import ZooError, refuse_others, several, several_texts, whole_number
from a3c_zoo.figures.decisions import DEFAULT_MAX_SEEDS
from a3c_zoo.figures.figure_table import QUESTIONS
from a3c_zoo.figures.sequential import SequentialRule
from a3c_zoo.files import path_argument
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.plugins.typed_names import env_name, refuse_unnamed
from a3c_zoo.processes.child import check_main
from a3c_zoo.processes.start import refuse_unguarded
from a3c_zoo.report.places import choose_out
from a3c_zoo.report.verdict import second_look
from a3c_zoo.runs.evaluate_checkpoints import DEFAULT_EPISODES
from a3c_zoo.runs.signals import stop_on_signals
from a3c_zoo.store.directory import DEFAULT_RUNS_DIR, refuse_trust
from a3c_zoo.store.run_groups import one_name

DEFAULT_SEEDS: Final = 5


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
    envs = several(envs)
    for env in envs:
        refuse_unnamed(env)
    agents = several_texts("agents", agents, "name")
    baselines = several_texts("baselines", baselines, "name")
    methods = several_texts("methods", methods, "name")
    if not sources:
        envs = [env_name(get_registry(), name) for name in envs]
    engine_options = several_texts("engine_options", engine_options)
    runs_dir = path_argument("runs_dir", runs_dir)
    folder = choose_out(out, envs)
    check_question(question, until_decided)
    episodes = whole_number("episodes", episodes)
    if steps is not None:
        steps = whole_number("steps", steps)
    if max_seeds is not None:
        max_seeds = whole_number("max_seeds", max_seeds)
    if time_limit_s is not None and not isinstance(time_limit_s, Real):
        raise ZooError(f"time_limit_s={time_limit_s!r}: give a number of seconds")
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
            engine_options=engine_options,
        )
        return read(
            [path_argument("sources", source) for source in several(sources)],
            envs,
            folder,
            agents,
            methods=methods,
            runs_dir=runs_dir,
            trust=trust,
            question=question,
        )
    refuse_trust(trust, "--from")
    with open_engine(get_registry(), engine, engine_options) as opened:
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
            runs_dir=runs_dir,
            reuse=reuse,
            host=opened.host(),
        )
        return _watched(plan, rule, episodes, folder, watcher, opened, question, progress)


def _refuse_training(**given: Any) -> None:
    """Raises ZooError if an argument of `compare` that only training needs is not its default."""
    parameters = inspect.signature(compare).parameters
    defaults = {name: parameters[name].default for name in given}
    if changed := [name for name, value in given.items() if not _is_same(value, defaults[name])]:
        raise ZooError(f"`sources` are only read; leave out {', '.join(changed)}")


def _is_same(value: object, default: object) -> bool:
    """Whether a value equals a default. An array does not: its `==` has a truth for each number."""
    return isinstance(value, type(default)) and value == default


def check_question(question: str, until_decided: bool = False) -> None:
    """Raises ZooError if there is no such question, or if a rule takes its place."""
    if question:
        refuse_others("question", question, list(QUESTIONS))
    if question and until_decided:
        raise ZooError("--question: --until-decided asks about final returns alone; leave one of the two out")


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
