"""A comparison of runs as they are: `compare --from`. Nothing is trained, and nothing evaluated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from a3c_zoo.comparison.conclusion import Comparison, conclude, measured_runs
from a3c_zoo.comparison.methods import owners_of, parsed_method, refuse_methods_without_runs, runs_of_methods
from a3c_zoo.errors import ZooError
from a3c_zoo.figures.measures import MeasuredRun
from a3c_zoo.figures.results import results_of
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.report.places import claimed
from a3c_zoo.store.directory import DEFAULT_RUNS_DIR
from a3c_zoo.store.run import RunSummary
from a3c_zoo.store.run_groups import folder_of, on_envs, one_name, told_apart, unread_on
from a3c_zoo.store.run_records import RunRecord, lost_runs, read_runs


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

    records, unread = _read_chosen(folders, agents, wanted, runs_dir, trust)
    _refuse_several_envs(records, envs)
    chosen = on_envs(records, envs, "--from")
    trusted_envs = {run.env for run in chosen if run.is_trusted}
    registry = get_registry()
    parsed = [parsed_method(registry, text) for text in methods]
    if parsed:
        owners = owners_of(registry, chosen, parsed, trusted_envs)
        refuse_methods_without_runs(registry, parsed, owners, chosen, trusted_envs)
        chosen = runs_of_methods(chosen, owners)
    there = {run.env for run in chosen}
    if envs:
        unread = unread_on(unread, there)
    lost = [replace(run, env=one_name(run.env)) for run in lost_runs(unread)]
    lost = [run for run in lost if run.env in there]
    if parsed:
        lost = runs_of_methods(lost, owners_of(registry, lost, parsed, trusted_envs))
    named = told_apart(chosen)
    measured, left_out = measured_runs(named, unread)
    _refuse_twins(measured)
    counts = _counts(lost, chosen, named)
    results = results_of(measured, left_out, lost=counts, question=question, chosen_by=chosen_by)
    with claimed(out) as folder:
        return conclude(results, folder)


def _read_chosen(
    folders: Iterable[Path],
    agents: Sequence[str],
    wanted: Callable[[RunSummary], bool],
    runs_dir: Path,
    trust: bool,
) -> tuple[list[RunRecord], dict[Path, str]]:
    """The runs of these agents that are wanted; and path → reason for those that cannot be read.

    Raises:
        ZooError: there are runs, and none is wanted.
    """
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
    return records, unread


def _refuse_several_envs(records: Sequence[RunRecord], envs: Sequence[str]) -> None:
    """Raises ZooError if runs are on several environments, and none was named."""
    names = list(dict.fromkeys(one_name(run.env) for run in records))
    if len(names) > 1 and not envs:
        choices = " --env ".join(names)
        raise ZooError(f"--from: the runs are of {len(names)} environments; choose among --env {choices}")


def _counts(
    lost: Sequence[RunRecord], chosen: Sequence[RunRecord], named: Sequence[RunRecord]
) -> Counter[tuple[str, str]]:
    """(environment, method) → how many runs are lost. named: the chosen runs, as the report calls them.

    `compare` trains failed runs again: those of a seed are one run, which is not lost if one of them ended in order.
    """
    names = {(run.method, folder_of(run.path)): name.method for run, name in zip(chosen, named, strict=True)}
    ended = {(run.env, run.method, run.seed) for run in named}
    without_figures = {
        (run.env, names.get((run.method, folder_of(run.path)), run.method), run.seed) for run in lost
    }
    return Counter((env, method) for env, method, _ in without_figures - ended)


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
