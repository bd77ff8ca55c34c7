"""Which parameters of a run its user gets: one rule for `play`, `evaluate`, `export`, `push` and all others.

A run that a check of its last parameters has ended recommends them. Any other run recommends its best policy if that
is better than its last 100 training episodes by more than noise; else the newest checkpoint.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import hypot, sqrt
from statistics import fmean, pstdev
from typing import Final

from a3c_zoo.errors import RunDirectoryError, printable
from a3c_zoo.records import Outcome
from a3c_zoo.store.checkpoints import (
    BEST,
    FINAL,
    PolicyState,
    RunState,
    checkpoint_steps,
    read_state,
    step_file,
)
from a3c_zoo.store.run import Run
from a3c_zoo.store.run_files import PARAMETERS
from a3c_zoo.words import return_text

#: Stands for the checkpoint that a run recommends.
RECOMMENDED: Final = "recommended"
#: A difference of at most so many standard errors is noise. The best is the greatest of many means, so two are too few:
#: where nothing changes in 4,000 episodes, the greatest mean of 100 is better than the last by more than two standard
#: errors in half of all runs, by more than three in 10 %, and by more than four in 1 %.
NOISE_ERRORS: Final = 4.0
#: A best policy that has played fewer episodes is not recommended.
FEWEST_OF_BEST: Final = 5


@dataclass(frozen=True, slots=True)
class Choice:
    """A checkpoint, and why it is taken.

    Attributes:
        which: "final", "best" or a number of steps.
        text: what it is and why it is taken, in a line; "" where the user has named it, or there is no other one.
    """

    which: str
    text: str = ""

    def tell(self) -> None:
        """Prints the line to stderr. Call it when the policy is loaded: an error stands alone."""
        if self.text:
            print(printable(self.text), file=sys.stderr)


def choose(run: Run, checkpoint: str | int) -> Choice:
    """The checkpoint that a user names, or that the run recommends if the user leaves the choice to it."""
    if checkpoint != RECOMMENDED:
        return Choice(str(checkpoint))
    choice = recommended(run)
    return replace(choice, text=f"{run.home.name}: {choice.text}" if choice.text else "")


def held(run: Run, choice: Choice) -> Choice:
    """The same choice. While a run trains, its newest checkpoint is named by its steps: others follow."""
    if choice.which != FINAL or not run.is_alive:
        return choice
    known = checkpoint_steps(run)
    if not known:
        return choice
    return replace(choice, which=str(known[-1]))


def choose_in_python(run: Run, checkpoint: str | int) -> Choice:
    """As `choose`, for functions: only the best policy gets a line, because everybody expects the newest one."""
    choice = choose(run, checkpoint)
    if choice.which == BEST:
        return choice
    return Choice(choice.which)


def recommended(run: Run) -> Choice:
    """What a run recommends: "final" or "best", by what its files tell; their tensors are not read.

    If a file does not tell it, "final". Its reader then names the fault.
    """
    if os.path.lexists(run.home / PARAMETERS):
        return Choice(FINAL)
    known = checkpoint_steps(run)
    if not known:
        return Choice(BEST if run.best_file.exists() else FINAL)
    newest = f"newest checkpoint, step {known[-1]:,}"
    outcome = None
    with suppress(RunDirectoryError):  # a damaged one says nothing
        outcome = run.outcome
    if outcome is not None and was_checked(outcome) and outcome.steps == known[-1]:
        return Choice(FINAL, f"{newest}: {outcome.detail}")
    if not run.best_file.exists():
        return Choice(FINAL, newest)
    try:
        best = read_state(run.best_file, PolicyState)
        last = read_state(step_file(run, known[-1]), RunState)
    except RunDirectoryError:
        return Choice(FINAL, newest)
    if is_better(best, last.window.returns):
        ended = f"the last {len(last.window.returns)} have {return_text(fmean(last.window.returns))}"
        return Choice(BEST, f"best policy, step {best.steps:,}: {return_of(best)}; {ended}")
    if best.steps == known[-1]:
        return Choice(FINAL, newest)
    return Choice(FINAL, f"{newest}; the best, step {best.steps:,}, is not better by more than noise")


def was_checked(outcome: Outcome) -> bool:
    """Whether the run has ended because episodes on fresh seeds showed that its last parameters are good enough."""
    return outcome.reason in ("solved", "stop-return")


def return_of(best: PolicyState) -> str:
    """The mean return for which a policy was kept, in words."""
    assert best.best_return is not None
    if best.sampled_return is None:
        kind = "training episodes"
    else:
        kind = "episodes on fresh seeds"
    if best.return_episodes is None:
        number = ""
    else:
        number = f"{best.return_episodes} "
    return f"mean return {return_text(best.best_return)} of {number}{kind}"


def is_better(best: PolicyState, last_returns: Sequence[float]) -> bool:
    """Whether the best policy's mean return is greater than that of the last training episodes by more than noise.

    Noise is `NOISE_ERRORS` standard errors of the difference of two means. The deviation of the best's episodes is the
    greatest one that is known: of these episodes, of those before its parameters were copied, and of the last ones. A
    few episodes with the same return would have none. Fewer than `FEWEST_OF_BEST` episodes show nothing.
    """
    if best.best_return is None or not last_returns or (best.return_episodes or 0) < FEWEST_OF_BEST:
        return False
    assert best.return_episodes is not None
    before = last_returns
    if best.run is not None:
        before = best.run.window.returns
    deviations = [pstdev(returns) for returns in (before, last_returns) if returns]
    best_error = max(*deviations, best.return_deviation or 0.0) / sqrt(best.return_episodes)
    last_error = pstdev(last_returns) / sqrt(len(last_returns))
    error = hypot(best_error, last_error)
    return best.best_return - fmean(last_returns) > NOISE_ERRORS * error
