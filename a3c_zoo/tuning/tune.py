"""The Python side of `a3c-zoo tune`: opens a study, lets its trials race, and plays the finale."""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from a3c_zoo.comparison.estimates import if_episodes_last, rough_duration
from a3c_zoo.comparison.methods import Method, parsed_method
from a3c_zoo.comparison.plan import Budget, plan_method, side_by_side_s
from a3c_zoo.comparison.rehearsal import Rehearsal, rehearse
from a3c_zoo.config.search import search_space
from a3c_zoo.engines import Engine
from a3c_zoo.errors import ConfigError, ZooError
from a3c_zoo.files import absolute, refuse_place
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.plugins.typed_names import env_name
from a3c_zoo.runs.evaluate_checkpoints import CHECKPOINTS
from a3c_zoo.runs.signals import stop_on_signals
from a3c_zoo.tuning.contenders import REDUCTION, Contender
from a3c_zoo.tuning.finale import (
    CHOICE_RUNS,
    FINALISTS,
    FinaleSeeds,
    default_of,
    draw_seeds,
    plan_of,
    play_finale,
)
from a3c_zoo.tuning.racing import TUNING_SEEDS, Race, TuningWatcher, method_of, rungs_of
from a3c_zoo.tuning.studies import OPTIONS, RESULT, SEARCHED, StudySettings, TuningStudy
from a3c_zoo.words import listed

#: Agent steps of a whole run on an environment without a budget of its own.
USUAL_STEPS: Final = 400_000


def make_settings(
    env: str,
    agent: str | None,
    hyperparams: str | None,
    overrides: Sequence[str],
    steps: int | None,
    method: str = "",
    *,
    pruner: str,
    **others: Any,
) -> StudySettings:
    """The settings of a study.

    Args:
        method: where the search begins, in place of agent, hyperparams and overrides: `"AGENT:SET -o KEY=VALUE"`, as
            in a comparison. A name in it is that of the study, see `study_name`.
        pruner: one of `choices.PRUNERS`. others: those of `StudySettings`.

    Raises:
        ZooError: something of the method is given twice, or it cannot be read.
        ConfigError: it has no such set, or its agent has no such key.
    """
    registry = get_registry()
    env = env_name(registry, env)
    entry = registry.env(env)
    if method:
        if agent or hyperparams or overrides:
            raise ZooError("--method names agent, set and values: leave out --agent, --hyperparams and -o")
        parsed = parsed_method(registry, method)
        agent = parsed.agent.name
        hyperparams = parsed.hyperparams
        overrides = parsed.all_overrides
    agent_entry = registry.agent(agent or entry.default_agent)
    keys = search_space(registry, entry, agent_entry, hyperparams, overrides)
    steps = steps or entry.budget_steps or USUAL_STEPS
    begin = Method(agent_entry.name, agent_entry, hyperparams=hyperparams, overrides=tuple(overrides))
    config = plan_method(registry, entry, begin, Budget(steps)).config(registry, TUNING_SEEDS[0])
    rungs = rungs_of(steps, config.rollout_steps, is_racing=pruner == "halving")
    if others["sampler"] == "gp" and len(rungs) > 1:
        raise ZooError("--sampler gp learns only from trials that were trained to the end; add --pruner none")
    return StudySettings(
        env=env,
        agent=agent_entry.name,
        hyperparams=hyperparams,
        overrides=list(overrides),
        steps=steps,
        rungs=rungs,
        **others,
        config=config.to_dict(),
        space={each.key: {each.kind: list(each.values)} for each in keys},
    )


def study_name(settings: StudySettings, method: str = "") -> str:
    """The name of a study for which the user gave none: `ENV-AGENT`, or `ENV-NAME` with the name of a method."""
    label = settings.agent
    if method:
        label = parsed_method(get_registry(), method).given_name or label
    return f"{settings.env}-{label}".replace(":", "_").replace("/", "_")


def refuse_if_ended(
    study: TuningStudy,
    trials: int,
    timeout_s: float | None,
    final_seeds: int | None,
    out: Path | None,
    named: Callable[[str, object], str],
) -> None:
    """Refuses what comes too late, because the study has its search, comparison and set already.

    Args:
        trials, timeout_s: see `tune`. final_seeds, out: None if the user gave none.
        named: the words for an argument and its value, or for the argument alone if the value is None.

    Raises:
        ZooError: one of them differs from that with which the study has ended.
    """
    ended = study.attribute(RESULT)
    if not ended:
        return
    if not has_searched(ended, trials, timeout_s):
        return
    had_s = ended["timeout"]
    late = []
    wanted = max(ended["trials"], ended["wanted"])
    if had_s is not None and timeout_s is not None and timeout_s > had_s:
        late.append(named("timeout_s", f"{timeout_s:.10g}"))  # all trials have ended
        had_s = None
        wanted = ended["trials"]
    if final_seeds is not None and final_seeds != ended["final_seeds"]:
        late.append(named("final_seeds", final_seeds))
    if out is not None and absolute(out) != absolute(Path(ended["file"])):
        late.append(named("out", out))
    if not late:
        return
    longer = ""
    if had_s is not None and trials > ended["trials"]:
        longer = f", a longer {named('timeout_s', None)}"
    raise ZooError(
        f"study '{study.name}' has ended, and its set is in {ended['file']}. Too late: {listed(late)}. "
        f"Copy that file, or give {named('trials', wanted + 1)} or more{longer}, or another {named('study', None)}"
    )


def rehearse_study(
    study: TuningStudy,
    engine: Engine,
    tell: Callable[[str], None],
    trials: int,
    timeout_s: float | None,
    final_seeds: int,
    out: Path | None,
) -> bool:
    """Tries the set of the start and the default one, and tells how long the rest will take. See `rehearse`.

    Arguments: see `tune`. Returns whether trials must be trained; if not, nothing is tried.
    """
    ended = study.attribute(RESULT)
    if ended and has_searched(ended, trials, timeout_s):
        return False
    _refuse_out(out)
    if has_searched(_searched(study), trials, timeout_s):
        return False
    contenders = study.contenders()
    settings = study.settings
    methods = [method_of(settings, settings.agent)]
    with suppress(ConfigError):  # the finale says why it is not compared
        methods.append(default_of(settings, f"{settings.agent} with the default set"))
    start, *others = plan_of(study, methods, TUNING_SEEDS[:1], engine).runs
    runs = [start, *(run for run in others if run.config.to_dict() != start.config.to_dict())]
    with stop_on_signals() as stop:
        stop.allow_interrupts()
        rehearsals = rehearse(runs, study.runs_dir, tell, settings.episodes)
    rehearsal = rehearsals.get((start.env, start.method))
    if rehearsal is not None and rehearsal.steps_per_s is not None:
        jobs = jobs_left(settings.rungs, contenders, trials, settings.seeds)
        search_s = _runs_s(jobs, rehearsal, engine.slots, settings.episodes, checkpoints=1)
        finale = {settings.steps: min(FINALISTS, trials) * CHOICE_RUNS + (1 + len(runs)) * final_seeds}
        finale_s = _runs_s(finale, rehearsal, engine.slots, settings.episodes, CHECKPOINTS)
        whole = rough_duration(min(search_s, timeout_s or math.inf) + finale_s)
        left = "all trials"
        if any(each.scores for each in contenders):
            left = "what is left of the trials"
        condition = if_episodes_last([rehearsal])
        tell(f"{left}, the choice and the comparison, with evaluations: about {whole}, {condition}")
    return True


def _runs_s(
    runs: Mapping[int, int], rehearsal: Rehearsal, slots: int, episodes: int, checkpoints: int
) -> float:
    """How long runs take with the evaluations of their checkpoints, in seconds.

    They train side by side. This machine evaluates them one after the other. The speed of the rehearsal is known.

    runs: agent steps → how many runs have so many, see `jobs_left`.
    """
    times_s = list[float]()
    for steps, number in runs.items():
        times_s += [rehearsal.guess_s(steps, None) or 0.0] * number
    return side_by_side_s(times_s, slots) + len(times_s) * rehearsal.evaluation_s(episodes, checkpoints)


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
        trials: how many trials the study has in the end.
        timeout_s: after this time no trial begins or goes on.
        final_seeds: number of seeds in the last comparison.
        out: the file of the set.

    Returns:
        How the study ended, perhaps before; None if other processes still train trials of it.
    """
    ended: dict[str, Any] | None = study.attribute(RESULT)
    if ended and has_searched(ended, trials, timeout_s):
        return ended
    _refuse_out(out)
    study.refuse_made_anew()
    study.keep(OPTIONS, {"trials": trials, "timeout": timeout_s, "final_seeds": final_seeds})
    searched = _searched(study)
    if not has_searched(searched, trials, timeout_s):
        began_s = time.monotonic()
        deadline_s = began_s + (timeout_s or math.inf)
        registry = get_registry()
        made = study.settings
        entries = registry.env(made.env), registry.agent(made.agent)
        keys = search_space(registry, *entries, made.hyperparams, made.overrides)
        with stop_on_signals() as stop:
            stop.allow_interrupts()
            race = Race(study, keys, trials, deadline_s, engine, watcher)
            race.run()
        if not _has_ended(study, race, timeout_s, time.monotonic() - began_s):
            return None
        searched = _keep_search(study, trials, timeout_s, race.is_cut)
    seeds = FinaleSeeds.of(searched["first_seed"], final_seeds)
    ended = play_finale(study, seeds, out, timeout_s, watcher, engine)
    ended |= searched | {"final_seeds": final_seeds}
    study.keep(RESULT, ended)
    return ended


def _keep_search(study: TuningStudy, trials: int, timeout_s: float | None, is_cut: bool) -> dict[str, Any]:
    """Keeps how the search has ended, and the seeds of its finale, unless another process has done so."""
    with study.turn():
        searched = _searched(study)
        if not has_searched(searched, trials, timeout_s):
            count = sum(each.state != "FAIL" for each in study.contenders())
            searched = {"trials": count, "wanted": trials, "timeout": timeout_s if is_cut else None}
            searched["first_seed"] = draw_seeds()
            study.keep(SEARCHED, searched)
    return searched


def _refuse_out(out: Path | None) -> None:
    """Raises ZooError if the file of the set is there already, or cannot be written."""
    if out is not None:
        if os.path.exists(out):
            raise ZooError(f"--out {out} exists already, and is not overwritten; choose another")
        refuse_place(out)


def _searched(study: TuningStudy) -> dict[str, Any]:
    """How the search of a study ended, see `has_searched`; no trials before."""
    searched: dict[str, Any] = study.attribute(SEARCHED) or {"trials": 0}
    return searched


def jobs_left(
    rungs: Sequence[int], contenders: Sequence[Contender], trials: int, seeds: int
) -> dict[int, int]:
    """Agent steps → how many trainings have so many steps, in what a race has still to train.

    A trial that goes on to a rung trains the steps that it lacks.

    Args:
        trials: of the whole race.
        seeds: of each trial.
    """
    jobs = Counter[int]()
    before = 0
    for number, rung in enumerate(rungs):
        wanted = math.ceil(trials / REDUCTION**number)
        done = sum(rung in each.scores and each.state != "FAIL" for each in contenders)
        jobs[rung - before] += max(0, wanted - done) * seeds
        before = rung
    return dict(jobs)


def has_searched(kept: Mapping[str, Any], trials: int, timeout_s: float | None) -> bool:
    """Whether a search has had this number of trials, or this time for them.

    Args:
        kept: what the study keeps about its end. "trials" is how many there are. If the time was over, "timeout" is
            the time, and "wanted" is how many trials were to be made.
    """
    if trials <= kept["trials"]:
        return True
    had_s = kept.get("timeout")
    return had_s is not None and timeout_s is not None and timeout_s <= had_s and trials <= kept["wanted"]


def _has_ended(study: TuningStudy, race: Race, timeout_s: float | None, took_s: float) -> bool:
    """Ends the trials of this folder of runs that the time has cut short. Returns whether all trials have ended.

    Raises ZooError if the time was too short for one trial. took_s: how long the race took.
    """
    with study.turn(), ExitStack() as locks:  # two processes may come out of the race at the same moment
        contenders = study.contenders()
        open_here = [each.number for each in contenders if each.may_go_on_here]
        for number in open_here:
            lock = study.take(number)
            if lock is None:
                return False  # another process trains it, and will come here later
            locks.callback(lock.release)
        if timeout_s is not None and not race.is_in_time:
            took = ""
            if any(each.scores for each in contenders):
                took = f", which took {took_s:,.1f} s"
            text = f"--timeout {timeout_s:.10g}s: too short for one trial{took}"
            raise ZooError(f"{text}; what was trained is kept, and the same command with more time goes on")
        # They are read again: another process may have ended one before its lock was taken.
        for each in study.contenders():
            if each.number in open_here and each.may_go_on_here:
                study.end(each.number)
        return not study.open_elsewhere()
