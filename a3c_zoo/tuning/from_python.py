"""`a3c_zoo.tune`: a search from Python, as `a3c-zoo tune` makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from a3c_zoo.config.sets import SET_SUFFIXES, override_texts
from a3c_zoo.cures import install_extra
from a3c_zoo.display.displays import display_of_python
from a3c_zoo.engines.choice import DEFAULT_ENGINE, open_engine
from a3c_zoo.errors import ZooError, refuse_others, several_texts, text_argument, whole_number
from a3c_zoo.files import path_argument, refuse_ending, valid_name
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.plugins.typed_names import refuse_unnamed
from a3c_zoo.processes.child import check_main
from a3c_zoo.processes.start import refuse_unguarded
from a3c_zoo.store.directory import DEFAULT_RUNS_DIR
from a3c_zoo.tuning.choices import (
    FINAL_SEEDS,
    MOST_BYTES,
    MOST_EPISODES,
    MOST_SEEDS,
    MOST_TRIALS,
    PRUNERS,
    SAMPLERS,
)
from a3c_zoo.words import listed

if TYPE_CHECKING:
    from a3c_zoo.tuning.racing import TuningWatcher

#: The largest numbers that `tune` takes, by its arguments.
MOST: Final = {
    "trials": MOST_TRIALS,
    "seeds": MOST_SEEDS,
    "final_seeds": MOST_SEEDS,
    "episodes": MOST_EPISODES,
}


def tune(
    env: str,
    *,
    agent: str | None = None,
    hyperparams: str | Path | None = None,
    overrides: Mapping[str, Any] | str | Sequence[str] = (),
    method: str = "",
    trials: int = 30,
    timeout_s: float | None = None,
    seeds: int = 2,
    final_seeds: int | None = None,
    steps: int | None = None,
    episodes: int = 20,
    sampler: str = "tpe",
    pruner: str = "halving",
    study: str | None = None,
    storage: str | Path | None = None,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    out: str | Path | None = None,
    engine: str = DEFAULT_ENGINE,
    engine_options: str | Sequence[str] = (),
    watcher: TuningWatcher | None = None,
    progress: bool | None = None,
) -> dict[str, Any] | None:
    """Searches for better hyperparameters, compares the result with the start, and writes it as a set.

    It needs the extra `tune`. The same call goes on with a study that was interrupted. In a script, call it below
    `if __name__ == "__main__":`.

    Args:
        agent, hyperparams, overrides: where the search begins; by default the default set of the environment's agent.
            They have the forms that `train` takes.
        method: the same in one text, in place of these: `"NAME=AGENT:SET -o KEY=VALUE"`, as `compare` takes it.
        trials: of the study, in all. timeout_s: after this time no trial begins or goes on.
        seeds: runs of each trial. final_seeds: runs of each method in the comparison; by default 7.
        steps: agent steps of a whole run; by default the environment's budget, or 400,000.
        episodes: of each evaluation. sampler: Optuna's, "tpe", "random" or "gp". pruner: "halving" or "none".
        study: its name; by default `ENV-AGENT`, or `ENV-NAME` with the name of a method.
        storage: where Optuna keeps it, see `a3c-zoo tune --storage`. out: the file of the set.
        engine, engine_options: what runs the trainings, and its settings: `KEY=VALUE` texts.
        watcher: is told the progress. progress: as in `train`.

    Returns:
        The contents of `a3c-zoo tune --json`; None if other processes still train trials of the study.

    Raises:
        ZooError: for an error of the caller, also if the study has ended with another file or number of final seeds.
            KeyboardInterrupt: on Ctrl-C; the same call goes on.
    """
    refuse_unguarded()
    refuse_unnamed(env)
    try:
        from a3c_zoo.tuning.studies import TuningStudy
        from a3c_zoo.tuning.tune import make_settings, refuse_if_ended, rehearse_study, study_name
        from a3c_zoo.tuning.tune import tune as run_study
        from a3c_zoo.tuning.tuning_view import TuningView
    except ImportError as error:
        raise ZooError(f"tune needs Optuna ({error}): {install_extra('tune')}") from error
    refuse_others("sampler", sampler, list(SAMPLERS))
    refuse_others("pruner", pruner, PRUNERS)
    last_seeds = FINAL_SEEDS if final_seeds is None else final_seeds
    given = {"trials": trials, "seeds": seeds, "final_seeds": last_seeds, "episodes": episodes}
    counts = _checked_counts(given)
    if steps is not None:
        steps = whole_number("steps", steps)
        if steps < 1:
            raise ZooError(f"steps={steps}: give 1 or more")
    timeout_s = _checked_time(timeout_s)
    settings = make_settings(
        env,
        agent,
        None if hyperparams is None else str(hyperparams),
        override_texts(overrides),
        steps,
        text_argument("method", method),
        seeds=counts["seeds"],
        episodes=counts["episodes"],
        sampler=sampler,
        pruner=pruner,
    )
    name = valid_name(study or study_name(settings, method), "--study", MOST_BYTES)
    check_main()
    trials = counts["trials"]
    options: dict[str, Any] = {"trials": trials, "timeout_s": timeout_s, "final_seeds": counts["final_seeds"]}
    engine_options = several_texts("engine_options", engine_options)
    runs_dir = path_argument("runs_dir", runs_dir)
    file = None if out is None else path_argument("out", out)
    if file is not None:
        refuse_ending(file, SET_SUFFIXES)
    with (
        open_engine(get_registry(), engine, engine_options) as opened,
        closing(display_of_python(progress, watcher, "watcher")) as display,
    ):
        made = TuningStudy(name, None if storage is None else str(storage), runs_dir, settings)
        refuse_if_ended(made, trials, timeout_s, final_seeds, file, _argument_text)
        view = watcher or TuningView(trials, settings.steps, display, opened.slots)
        rehearse_study(made, opened, view.message, out=file, **options)
        return run_study(made, opened, view, out=file, **options)


def _checked_counts(given: Mapping[str, int]) -> dict[str, int]:
    """Numbers by the names of their arguments. Raises ZooError for those that are not whole, or out of `MOST`."""
    counts = {name: whole_number(name, count) for name, count in given.items()}
    if small := [name for name, count in counts.items() if count < 1]:
        raise ZooError(f"{listed(small)}: give 1 or more")
    if large := [
        f"{name}: give {MOST[name]:,} or fewer" for name, count in counts.items() if count > MOST[name]
    ]:
        raise ZooError("; ".join(large))
    return counts


def _checked_time(timeout_s: float | None) -> float | None:
    """The seconds of `timeout_s`. Raises ZooError for what is no time."""
    if timeout_s is None:
        return None
    if not (isinstance(timeout_s, Real) and timeout_s > 0):
        raise ZooError(f"timeout_s={timeout_s!r}: give more than 0, or None for no limit, in seconds")
    return float(timeout_s)


def _argument_text(name: str, value: object) -> str:
    """An argument as a call has it: `final_seeds=7`, or `final_seeds` without a value."""
    if value is None:
        return name
    return f"{name}={value}"
