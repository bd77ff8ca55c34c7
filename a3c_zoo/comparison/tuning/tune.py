"""The Python side of `a3c-zoo tune`: opens a study, lets its trials race, and plays the finale."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from a3c_zoo.comparison.estimates import rough_duration
from a3c_zoo.comparison.known_runs import KnownRuns
from a3c_zoo.comparison.plan import Budget, Method, plan_run
from a3c_zoo.comparison.rehearsal import rehearse
from a3c_zoo.comparison.tuning.finale import CHOICE_RUNS, FINALISTS, default_of, plan_of, play_finale
from a3c_zoo.comparison.tuning.racing import REDUCTION, TUNING_SEEDS, Race, TuningWatcher, method_of, rungs_of
from a3c_zoo.comparison.tuning.storages import storage_errors
from a3c_zoo.comparison.tuning.studies import OPTIONS, RESULT, SEARCHED, StudySettings, TuningStudy
from a3c_zoo.config.search import search_space
from a3c_zoo.engines import Engine
from a3c_zoo.errors import ConfigError, ZooError
from a3c_zoo.files import refuse_place
from a3c_zoo.plugins.registry import find_typed_module, get_registry
from a3c_zoo.runs.signals import stop_on_signals

#: Agent steps of a whole run on an environment without a budget of its own.
USUAL_STEPS: Final = 400_000


def make_settings(
    env: str, agent: str | None, hyperparams: str | None, overrides: Sequence[str], steps: int | None, **others: Any
) -> StudySettings:
    """The settings of a study. others: `pruner`, and those of `StudySettings`."""
    find_typed_module(env)
    registry = get_registry()
    entry = registry.env(env)
    agent_entry = registry.agent(agent or entry.default_agent)
    keys = search_space(registry, entry, agent_entry, hyperparams, overrides)
    steps = steps or entry.budget_steps or USUAL_STEPS
    begin = Method(agent_entry.name, agent_entry, hyperparams=hyperparams, overrides=tuple(overrides))
    known = KnownRuns(registry, Path(), reuse=False)
    config = plan_run(registry, entry, begin, TUNING_SEEDS[0], Budget(steps), known).config
    least = config.run.workers * config.env.num_envs * config.agent.rollout_steps
    rungs = rungs_of(steps, least, is_racing=others.pop("pruner") == "halving")
    space = {each.key: {each.kind: list(each.values)} for each in keys}
    given = env, agent_entry.name, hyperparams, list(overrides), steps, rungs
    return StudySettings(*given, **others, config=config.to_dict(), space=space)


def tune(
    study: TuningStudy,
    engine: Engine,
    watcher: TuningWatcher,
    trials: int,
    timeout_s: float | None,
    final_seeds: int,
    out: Path | None,
) -> dict[str, Any] | None:
    """Lets trials race, chooses the best one on fresh seeds, compares it with the start, and writes its set.

    Args:
        trials: how many trials the study has in the end. timeout_s: after this time no trial begins or goes on.
        final_seeds: number of seeds in the last comparison. out: the file of the set.

    Returns:
        How the study ended, perhaps before; None if other processes still train trials of it.
    """
    with storage_errors(f"--storage {study.where}"):
        ended: dict[str, Any] | None = study.attribute(RESULT)
        if ended and has_searched(ended, trials, timeout_s):
            return ended
        if out is not None:
            if os.path.exists(out):
                raise ZooError(f"--out {out} exists already, and is not overwritten; choose another")
            refuse_place(out)
        study.attribute(OPTIONS, {"trials": trials, "timeout": timeout_s, "final_seeds": final_seeds})
        searched = study.attribute(SEARCHED) or {"trials": 0}
        if isinstance(searched, int):  # of an older version
            searched = {"trials": searched}
        if not has_searched(searched, trials, timeout_s):
            with stop_on_signals() as stop:
                stop.allow_interrupts()
                _rehearse(study, trials, final_seeds, engine, watcher)
            began_s = time.monotonic()
            deadline_s = began_s + (timeout_s or math.inf)
            registry, made = get_registry(), study.settings
            entries = registry.env(made.env), registry.agent(made.agent)
            keys = search_space(registry, *entries, made.hyperparams, made.overrides)
            with stop_on_signals() as stop:
                stop.allow_interrupts()
                race = Race(study, keys, trials, deadline_s, engine, watcher)
                race.run()
            if not _has_ended(study, race, timeout_s, time.monotonic() - began_s):
                return None
            count = sum(each.state != "FAIL" for each in study.contenders())
            searched = {"trials": count, "wanted": trials, "timeout": timeout_s if race.is_cut else None}
            study.attribute(SEARCHED, searched)
        ended = play_finale(study, final_seeds, out, timeout_s, watcher, engine)
        return study.attribute(RESULT, ended | searched | {"final_seeds": final_seeds})  # type: ignore[no-any-return]


def _rehearse(study: TuningStudy, trials: int, final_seeds: int, engine: Engine, watcher: TuningWatcher) -> None:
    """Tries the set of the start and the default one, and tells how long all will take. Raises what `rehearse` does."""
    settings = study.settings
    methods = [method_of(settings, settings.agent)]
    with suppress(ConfigError):  # the finale says why it is not compared
        methods.append(default_of(settings, f"{settings.agent} with the default set"))
    start, *others = plan_of(study, methods, TUNING_SEEDS[:1], engine).runs
    runs = [start, *(run for run in others if run.config.to_dict() != start.config.to_dict())]
    found = rehearse(runs, study.runs_dir, watcher.message)
    if (rehearsal := found.get((start.env, start.method))) and rehearsal.steps_per_s is not None:
        jobs = all_jobs(settings.rungs, trials, settings.seeds, final_seeds, 1 + len(runs))
        whole_s = sum(number * (rehearsal.guess_s(steps, None) or 0.0) for steps, number in jobs.items())
        watcher.message(f"all trials, the choice and the comparison: about {rough_duration(whole_s / engine.slots)}")


def all_jobs(rungs: Sequence[int], trials: int, seeds: int, final_seeds: int, methods: int) -> dict[int, int]:
    """Agent steps → how many trainings of a whole tuning have about this number of steps.

    A trial that goes on to a rung trains the steps that it lacks. methods: of the last comparison.
    """
    jobs = Counter[int]()
    before = 0
    for number, rung in enumerate(rungs):
        jobs[rung - before] += -(-trials // REDUCTION**number) * seeds
        before = rung
    jobs[rungs[-1]] += min(FINALISTS, trials) * CHOICE_RUNS + methods * final_seeds
    return dict(jobs)


def has_searched(kept: Mapping[str, Any], trials: int, timeout_s: float | None) -> bool:
    """Whether a search has had this number of trials, or this time for them.

    Args:
        kept: what the study keeps about its end: "trials", how many there are; and if the time was over, "timeout", the
            time, and "wanted", how many trials were to be made.
    """
    if trials <= kept["trials"]:
        return True
    had_s = kept.get("timeout")
    return had_s is not None and timeout_s is not None and timeout_s <= had_s and trials <= kept["wanted"]


def _has_ended(study: TuningStudy, race: Race, timeout_s: float | None, took_s: float) -> bool:
    """Ends the trials of this folder of runs that are not on the last rung. Returns whether all trials have ended.

    Raises ZooError if the time was too short for one trial. took_s: how long the race took.
    """
    contenders = study.contenders()
    racing = [each for each in contenders if each.state == "RUNNING"]
    here = {each.number: study.take(each.number) for each in racing if each.is_here}
    if None in here.values():
        return False  # another process trains one of them, and will come here later
    if timeout_s is not None and not race.is_in_time:
        took = f", which took {took_s:,.1f} s" * any(each.scores for each in contenders)
        text = f"--timeout {timeout_s:.10g}s: too short for one trial{took}"
        raise ZooError(f"{text}; what was trained is kept, and the same command with more time goes on")
    for number in here:
        study.end(number)
    return len(here) == len(racing)
