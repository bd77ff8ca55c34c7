"""What a run tells before it trains: what it begins with, doubts about its learning rate, budgets of its set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from a3c_zoo.store.rewind import RunEvent
from a3c_zoo.words import counted

if TYPE_CHECKING:
    from a3c_zoo.config import Config
    from a3c_zoo.runs.setup import RunSetup
    from a3c_zoo.store.checkpoints import Checkpoint, RunState

#: With more than this many times the workers of a set, or of a run until now, a learning rate is doubted
#: (docs/scaling.md: staleness 8).
MANY_WORKERS: Final = 4


def events_of_new(setup: RunSetup) -> list[RunEvent]:
    """What a new run tells: with whose parameters it begins, and doubts about its learning rate."""
    events = []
    if setup.initial is not None:
        told = setup.initial.told
        text = f"begins with the parameters of {told['name']}, {told['steps']:,} steps on {told['env']}"
        events.append(RunEvent("init_from", text))
    if not setup.serial:  # in turn, little is stale
        events += many_workers(setup.config)
    return events + _early_schedule(setup.config)


def events_of_resume(before: Config, setup: RunSetup, saved: Checkpoint[RunState]) -> list[RunEvent]:
    """What a run tells that goes on with other workers. before: its configuration as it was."""
    events = _other_number(before, setup.config, saved)
    if not setup.serial:
        events += many_workers(setup.config, before)
    return events


def budget_told(config: Config) -> str | None:
    """A line about the budgets of a new run that no option gives: what they are, and who gives them. None without."""
    sources = config.sources
    limits = {
        "steps": ("--steps", f"{config.run.steps or 0:,} steps"),
        "episodes": ("--episodes", counted(config.run.episodes or 0, "episodes")),
        "time_limit_s": ("--time-limit", f"{config.run.time_limit_s or 0:,.10g} s of training"),
    }
    told = []
    for key, (option, amount) in limits.items():
        source = sources.get(f"run.{key}", "")
        if getattr(config.run, key) is not None and source not in (option, "-o"):
            told.append(
                f"about {amount} at most, the budget of {source.rpartition(':')[0]} ({option} changes it)"
            )
    return "; ".join(told) or None


def many_workers(config: Config, before: Config | None = None) -> list[RunEvent]:
    """An event if the learning rate is for far fewer workers, of which docs/scaling.md has an example.

    Args:
        before: the configuration, as it was, of a run that goes on; None for a new run, whose rate is that of its set.
    """
    if before is None:
        few = config.sets_workers
        source = config.sources.get("optimizer.learning_rate", "")
        cure = "lower optimizer.learning_rate"
    else:
        few = before.teams
        source = "the run"
        cure = "go on with fewer --workers"
    many = config.teams  # further workers learn in teams
    optimizer = config.optimizer
    if few is None or optimizer is None or many <= MANY_WORKERS * few:
        return []
    rate = f"{source} has a learning rate for {counted(few, 'workers')}, {optimizer.learning_rate:g}"
    text = f"{rate}. It may be too high for {many:,}: if the return does not rise, {cure}"
    return [RunEvent("many_workers", text)]


def _early_schedule(config: Config) -> list[RunEvent]:
    """An event if the learning rate falls to 0 before the run ends: what comes after that teaches nothing."""
    optimizer = config.optimizer
    run = config.run
    if optimizer is None or optimizer.schedule == "constant" or optimizer.final_learning_rate > 0:
        return []
    length = optimizer.schedule_steps
    if length is None or (run.steps is not None and run.steps <= length):
        return []
    # Nobody knows the end of such a run in steps.
    if run.steps is None and (run.time_limit_s, run.episodes) != (None, None):
        return []
    text = f"optimizer.schedule_steps is {length:,}: after so many steps the learning rate is 0, and nothing is learned"
    return [RunEvent("early_schedule", f"{text}. Leave it out, and give a budget: --steps N")]


def _other_number(before: Config, config: Config, saved: Checkpoint[RunState]) -> list[RunEvent]:
    """An event if a run goes on with another number of workers: what it keeps. before: its configuration as it was."""
    workers = config.run.workers
    if workers == before.run.workers:
        return []
    if saved.agent.get("optimizer") and not saved.is_acting:
        kept = "parameters, moments, statistics and counts stay"
    else:
        kept = "parameters, statistics and counts stay; moments begin anew"
    number = counted(workers, "workers")
    text = f"{number} in place of {before.run.workers:,}: {kept}, environments begin new episodes"
    return [RunEvent("workers_changed", text)]
