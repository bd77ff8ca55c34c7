"""The last lines of `a3c-zoo train`: how the run ended, its figures, and the command to type next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from a3c_zoo.display.pieces import duration, speed
from a3c_zoo.errors import printable_lines
from a3c_zoo.plugins.next_command import next_command
from a3c_zoo.records import RETURN_WINDOW, Outcome
from a3c_zoo.store.checkpoints import BEST
from a3c_zoo.store.directory import RunDirectory, run_argument
from a3c_zoo.store.films import films_by_step
from a3c_zoo.store.run_files import EVALUATOR_LOG
from a3c_zoo.words import agents_text, counted, return_text

if TYPE_CHECKING:
    from a3c_zoo.config import RunConfig


def summary(outcome: Outcome, run: RunConfig | None = None, has_target: bool = True) -> str:
    """Returns the result of a run, its figures, and the command to type next.

    Args:
        run: has its limits. has_target: whether there is a return at which it would have been solved.
    """
    detail = outcome.detail
    if outcome.reason == "steps" and run is not None and outcome.steps > (run.steps or 0):
        detail = f"at least {detail}"  # a rollout that has begun goes on to its end
    ended = "Ended, not solved" if has_target and not outcome.solved else "Ended"
    verdict = {
        "solved": "Solved",
        "stop-return": "Reached the return asked for",
        "interrupted": f"Stopped by {outcome.detail}",
        "plugin": f"Stopped by a plugin: {outcome.detail}",
    }.get(outcome.reason, f"{ended}: {detail}")
    if outcome.reason in ("solved", "stop-return"):
        verdict += f" after {duration(outcome.training_s)} of training, {duration(outcome.total_s)} in all"
    elif outcome.solved:
        verdict += f". Solved at step {outcome.solved_step:,}"
    counts = f"{counted(outcome.steps, 'steps')}, {counted(outcome.episodes, 'episodes')}"
    mean = outcome.mean_return_100
    number = min(RETURN_WINDOW, outcome.episodes)
    if number > 1:
        of_last = f"mean of the last {number} training episodes"
    else:
        of_last = "of the only training episode"
    lines = [f"{verdict}.", f"  training    {counts}, {speed(outcome.steps, outcome.training_s)}"]
    lines.append(
        f"  return      {'no episode has ended' if mean is None else f'{return_text(mean)}, {of_last}'}"
    )
    if outcome.agent_returns_100:
        lines.append(f"  agents      {agents_text(outcome.agent_returns_100)}")
    if (evaluation := outcome.evaluation) is not None:
        spread = f"{return_text(evaluation.mean_return)} ± {return_text(evaluation.std_return)}"
        if outcome.last_evaluation:
            at = ""
        else:
            at = f", at step {outcome.evaluation_step:,}"
        episodes = counted(evaluation.episodes, "episodes")
        lines.append(f"  evaluation  {spread} over {episodes} on fresh seeds, sampled actions{at}")
    if outcome.recommended == BEST and outcome.best_return is not None and outcome.best_step is not None:
        if outcome.best_by == "training":
            kind = "training episodes"
        else:
            kind = "episodes on fresh seeds"
        best = f"{return_text(outcome.best_return)}, mean of {outcome.best_episodes} {kind}"
        lines.append(f"  best        {best}, at step {outcome.best_step:,}")
        lines.append(f"  watch it    {next_command(f'play {run_argument(outcome.run)} --checkpoint best')}")
    if outcome.evaluator_fault is not None:
        lines.append(f"  evaluator   failed: {outcome.evaluator_fault} (see {outcome.run / EVALUATOR_LOG})")
    if run is not None and run.film_every:
        lines.append(f"  films       {_films(RunDirectory(outcome.run))}")
    if outcome.steps > 0:  # otherwise there is no checkpoint to go on from
        lines.append(f"  next        {_next_command(outcome, run)}")
    return printable_lines("\n".join(lines))


def _films(run: RunDirectory) -> str:
    """How many films a run that makes some has, and where."""
    if number := len(films_by_step(run)):
        return f"{number:,} in {run.path / run.films.name}"
    return "none: no evaluation has ended whose film was kept"


def _next_command(outcome: Outcome, limits: RunConfig | None) -> str:
    """Returns the next command. A limit counts from the run's start, so each spent one is replaced by twice its use."""
    run = run_argument(outcome.run)
    if outcome.solved or outcome.reason == "stop-return":
        return next_command(f"play {run}")
    if limits:
        budgets = (limits.steps, limits.episodes, limits.time_limit_s)
    else:
        budgets = (None, None, None)
    used = (
        ("steps", outcome.steps, ""),
        ("episodes", outcome.episodes, ""),
        ("time-limit", outcome.training_s, "s"),
    )
    spent = [
        f" --{name} {_twice(amount)}{unit}"
        for (name, amount, unit), budget in zip(used, budgets, strict=True)
        if name == outcome.reason or (budget is not None and amount >= budget)
    ]
    return next_command(f"train --resume {run}{''.join(spent)}")


def _twice(amount: float) -> str:
    """Returns twice the amount, with two significant digits."""
    return f"{float(f'{2 * amount:.1e}'):.15g}"
