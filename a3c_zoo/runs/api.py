"""The Python side of `train`, `evaluate` and `load_agent`; the command line is thin over it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from a3c_zoo.config import Config
from a3c_zoo.config.models import TRAIN_OPTIONS
from a3c_zoo.config.sets import override_texts, resolve_config
from a3c_zoo.display.displays import display_of_python
from a3c_zoo.errors import ZooError
from a3c_zoo.files import path_argument, same_folder
from a3c_zoo.library_settings import our_settings
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.plugins.registry import PYTHON, get_registry
from a3c_zoo.plugins.typed_names import env_name as typed_env_name
from a3c_zoo.processes.start import refuse_unguarded
from a3c_zoo.records import Evaluation, Outcome, Policy
from a3c_zoo.runs.init_from import with_initial
from a3c_zoo.runs.loaded_agent import LoadedAgent
from a3c_zoo.runs.playing_view import PlayingView
from a3c_zoo.runs.run_html import RunOutcome
from a3c_zoo.runs.setup import Observer, RunSetup
from a3c_zoo.runs.train import examine, train_new, train_on
from a3c_zoo.runs.training_view import TrainingView
from a3c_zoo.seeds import USER_EVALUATIONS
from a3c_zoo.store.checkpoints import BEST, FINAL, Checkpoint, PolicyState
from a3c_zoo.store.directory import DEFAULT_RUNS_DIR, refuse_trust
from a3c_zoo.store.recommended import RECOMMENDED, Choice, choose_in_python, return_of
from a3c_zoo.store.run import Run, find_run
from a3c_zoo.store.trained import find_policy, policy_state

if TYPE_CHECKING:
    from a3c_zoo.learning.function_env import EnvFunction
    from a3c_zoo.runs.episodes import EpisodesToPlay


#: A name; or an entry, or what makes one environment.
Environment: TypeAlias = "str | EnvEntry | EnvFunction"
#: A run, as functions of Python take it: its directory, its name, or what `train` returned.
GivenRun: TypeAlias = "str | Path | Outcome"


def train(
    env: Environment | None = None,
    *,
    agent: str | None = None,
    hyperparams: str | Path | None = None,
    overrides: Mapping[str, Any] | str | Sequence[str] = (),
    workers: int | Literal["auto"] | None = None,
    serial: bool = False,
    device: str | None = None,
    seed: int | None = None,
    steps: int | None = None,
    episodes: int | None = None,
    time_limit_s: float | None = None,
    stop_return: float | None = None,
    film_every: int | None = None,
    resume: GivenRun | None = None,
    checkpoint: str | int | None = None,
    init_from: GivenRun | None = None,
    name: str | None = None,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    trust: bool = False,
    observer: Observer | None = None,
    progress: bool | None = None,
) -> Outcome:
    """Trains an agent on an environment until it is solved or a budget is spent, as `a3c-zoo train` does.

    Args:
        env: a name, as `a3c-zoo train` takes it; or an entry, or a function or class that makes one `gymnasium.Env`.
            Workers import it by its name; if they cannot, as in a notebook, they get it with its code.
        agent: a name; by default the environment's. With `resume` both are the run's.
        hyperparams: a set or a YAML file. overrides: single values, `{"agent.n_steps": 5}` or `["agent.n_steps=5"]`.
        workers, device, seed, steps, episodes, time_limit_s, stop_return, film_every: the keys of these names in the
            section `run` of the configuration; None leaves the value of the set.
        serial: workers in turn in this process, exactly reproducible.
        resume: a run to go on with, or what `train` returned. trust: its configuration may name modules to
            import, and switch on run hooks, even if it is not your own.
        checkpoint: of that run: "best", or its number of steps; by default the newest. Later ones are moved aside.
        init_from: a new run begins with the parameters of this policy, as `load_agent` takes it.
        name: name of the new run directory, which must not exist yet. runs_dir: where it is made.
        observer: is told how the run goes; see `a3c_zoo.runs.setup.Observer`.
        progress: True: show how the run goes, in scripts on stderr. False: show nothing. By default only notebooks
            show it, unless there is an observer.

    Raises:
        ZooError: the caller did something wrong; one line says what. WorkerError: a worker failed.
    """
    refuse_unguarded()
    runs_dir = path_argument("runs_dir", runs_dir)
    given = run_settings(
        workers=workers,
        device=device,
        seed=seed,
        steps=steps,
        episodes=episodes,
        time_limit_s=time_limit_s,
        stop_return=stop_return,
        film_every=film_every,
    )
    with same_folder(), our_settings(), closing(display_of_python(progress, observer, "observer")) as display:
        view = TrainingView(display)
        watcher = observer or view
        if resume is not None:
            others: dict[str, Any] = {
                "--agent": agent,
                "--hyperparams": hyperparams,
                "-o": overrides,
                "--name": name,
            }
            others |= {"--serial": serial, "--init-from": init_from}
            run = _run_to_resume(name_or_path("resume", resume), runs_dir, trust, env)
            outcome = train_on(run, given, watcher, others, checkpoint)
        else:
            _refuse_without_resume(trust and init_from is None, checkpoint)
            config = _config(env, agent, hyperparams, overrides, given)
            initial = None if init_from is None else name_or_path("init_from", init_from)
            setup = new_setup(config, serial, initial, runs_dir, trust)
            outcome = train_new(setup, runs_dir, name, watcher)
        view.ended(outcome)
        return RunOutcome.of(outcome)


def new_setup(
    config: Config, serial: bool, init_from: str | Path | None, runs_dir: Path, trust: bool
) -> RunSetup:
    """All that a new run needs to know; arguments as in `train`."""
    return with_initial(RunSetup.of(get_registry(), config, serial), init_from, runs_dir, trust)


def examined(
    env: Environment | None,
    *,
    agent: str | None,
    hyperparams: str | Path | None,
    overrides: Sequence[str],
    serial: bool,
    init_from: str | None,
    name: str | None,
    runs_dir: Path,
    trust: bool,
    **given: Any,
) -> RunSetup:
    """What `train` would train, after all checks that need no training; arguments as there. Makes no directory.

    Raises:
        ZooError: the run could not begin.
    """
    with same_folder():
        refuse_trust(trust and init_from is None, "--init-from")
        config = _config(env, agent, hyperparams, overrides, run_settings(**given))
        setup = new_setup(config, serial, init_from, runs_dir, trust)
        examine(setup, runs_dir, name)
        return setup


def _name_of(env: Environment | None) -> str | None:
    """The name of an environment that a user types, or a program gives. The registry then knows one that is given."""
    if env is None:
        return None
    if isinstance(env, str):
        return typed_env_name(get_registry(), env)
    registry = get_registry()
    if isinstance(env, EnvEntry):
        module = str(env.factory or env.env_id)
    else:
        from a3c_zoo.learning.function_env import entry_of, path_of

        module = path_of(env)
        env = entry_of(env)
    if registry.envs.get(env.name) != env:
        registry.give(env, module)
    return env.name


def _refuse_without_resume(trust: bool, checkpoint: str | int | None) -> None:
    """Raises ZooError for an option that has a meaning only with `resume`."""
    refuse_trust(trust, "--resume or --init-from")
    if checkpoint is not None:
        raise ZooError("--checkpoint chooses where a run goes on: name the run with --resume RUN")


def _config(
    env: Environment | None,
    agent: str | None,
    hyperparams: str | Path | None,
    overrides: Mapping[str, Any] | str | Sequence[str],
    flags: Mapping[str, tuple[Any, str]],
) -> Config:
    """The configuration of a fresh run; arguments as in `train`."""
    if (env_name := _name_of(env)) is None:
        raise ZooError("name an environment to train, or a run to --resume. See: a3c-zoo list envs")
    registry = get_registry()
    entry = registry.env(env_name)
    chosen = None if hyperparams is None else str(hyperparams)
    agent_entry = registry.agent(agent or entry.default_agent)
    texts = override_texts(overrides)
    return resolve_config(registry, entry, agent_entry, hyperparams=chosen, overrides=texts, flags=flags)


def run_settings(**values: Any) -> dict[str, tuple[Any, str]]:
    """The keys of the `run` section that were given, each with its option on the command line."""
    return {
        f"run.{key}": (value, TRAIN_OPTIONS[key].name) for key, value in values.items() if value is not None
    }


def _run_to_resume(resume: str | Path, runs_dir: Path, trust: bool, env: Environment | None) -> Run:
    """The run to go on with. Raises ZooError if it trains another environment than `env`."""
    directory = find_run(resume, runs_dir, trust)
    _take_env(directory, env, _name_of(env))
    return directory


def _take_env(directory: Run, env: Environment | None, env_name: str | None) -> None:
    """Takes an environment that a program gives for that of a run, if it is none by name. env_name: its name.

    Raises:
        ZooError: the run trains another one.
    """
    started_as = directory.meta["env"]
    if env_name is None:
        return
    registry = get_registry()
    given = registry.envs.get(env_name)
    # The command line has named the same class or function by its module.
    is_named = given is not None and started_as == f"{PYTHON}:{given.kwargs.get('function')}"
    if env_name != started_as and not is_named:
        raise ZooError(f"run {directory.home.name} trains '{started_as}', not '{env_name}'")
    if not isinstance(env, str):
        registry.given_to_run(directory.home, started_as)


def load_agent(
    run: GivenRun,
    *,
    agent: str | None = None,
    env: EnvEntry | EnvFunction | None = None,
    checkpoint: str | int = RECOMMENDED,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    trust: bool = False,
) -> LoadedAgent:
    """Loads a trained policy, to act with: `load_agent(run).predict(observation)`.

    Args:
        run: a run directory, the name of one within `runs_dir`, or what `train` returned. Or an environment's name: its
            newest solved run, else a trained agent that a plugin offers, which has a name of its own, too. stderr says
            which.
        agent: with an environment's name, only policies of this agent count.
        env: what was given to `train`, if it was no name and another program trained the run. One of another name than
            the run's is refused.
        checkpoint: "recommended": the newest, or the best if it is better by more than noise; stderr says so then. Or
            "final" for the newest, "best", or the number of steps of another.
        trust: as in `train`.

    Raises:
        ZooError: there is no such run, trained agent or checkpoint, or it is damaged.
    """
    env_name = _name_of(env)
    directory = find_policy(name_or_path("run", run), agent, path_argument("runs_dir", runs_dir), trust)
    _take_env(directory, env, env_name)
    choice = choose_in_python(directory, checkpoint)
    setup, saved = _read(directory, choice.which)
    policy = _policy(setup, saved)
    state = saved.state
    choice.tell()
    outcome = directory.outcome
    if outcome and choice.which == FINAL and outcome.steps == state.steps:
        returns = outcome.returns
    else:
        returns = "return not known"
    if choice.which == BEST and state.best_return is not None:
        returns = return_of(state)
    return LoadedAgent(
        policy,
        directory.path,
        setup.entry.name,
        setup.agent.name,
        state.steps,
        returns,
        choice.which,
        source=(setup, saved),
    )


def name_or_path(argument: str, run: GivenRun) -> str | Path:
    """The name or the directory of a run. Raises ZooError if `argument` has neither."""
    if isinstance(run, Outcome):
        return run.run
    path_argument(argument, run)
    return run


def _read(directory: Run, checkpoint: str | int) -> tuple[RunSetup, Checkpoint[PolicyState]]:
    """How a run was set up, and a checkpoint of it."""
    registry = get_registry()
    setup = RunSetup.of(registry, directory.config(registry), serial=True)
    return setup, policy_state(directory, str(checkpoint))


def _policy(setup: RunSetup, saved: Checkpoint[PolicyState], seed: int | None = None) -> Policy:
    """The policy of a checkpoint. seed: of the sampled actions; by default the run's."""
    from a3c_zoo.runs.evaluation import load_policy  # imports torch: a wrong name is known before

    config = setup.config
    if seed is not None:
        config = replace(config, run=config.run.model_copy(update={"seed": seed}))
    return load_policy(setup.agent.load, setup.entry, setup.network, config, saved.agent)


def load_from(
    directory: Run, checkpoint: str | int = FINAL, episodes: int = 1, seed: int | None = None
) -> tuple[Policy, EpisodesToPlay]:
    """Loads a policy, and says which episodes it plays; arguments as in `evaluate`. Raises ZooError as `load_agent`.

    Args:
        checkpoint: "final", "best" or a number of steps.
    """
    episodes, seed = _whole_numbers(episodes, seed)
    return _to_play(*_read(directory, checkpoint), episodes, seed)


def _whole_numbers(episodes: int, seed: int | None) -> tuple[int, int | None]:
    """Both as Python's own numbers; NumPy's are taken, too. Raises ZooError for others, and out of range."""
    try:
        episodes = operator.index(episodes)
        seed = None if seed is None else operator.index(seed)
    except TypeError as error:
        raise ZooError(f"episodes and seed must be whole numbers: {error}") from error
    if episodes < 1:
        raise ZooError(f"--episodes {episodes}: give 1 or more")
    if seed is not None and not 0 <= seed < 2**63:
        raise ZooError(f"--seed {seed}: give a number from 0 to 2**63 - 1")
    return episodes, seed


def _to_play(
    setup: RunSetup, saved: Checkpoint[PolicyState], episodes: int, seed: int | None
) -> tuple[Policy, EpisodesToPlay]:
    """The policy of a checkpoint, and which episodes it plays."""
    policy = _policy(setup, saved, seed)
    from a3c_zoo.runs.episodes import EpisodesToPlay

    config = setup.config
    seed = config.run.seed if seed is None else seed
    num_envs = config.run.evaluation_envs
    patience_s = config.run.evaluation_patience_s
    return policy, EpisodesToPlay(
        setup.entry, config.env, episodes, seed, USER_EVALUATIONS, num_envs, patience_s
    )


def evaluate(
    run: GivenRun | LoadedAgent,
    *,
    agent: str | None = None,
    env: EnvEntry | EnvFunction | None = None,
    episodes: int = 100,
    deterministic: bool = False,
    checkpoint: str | int = RECOMMENDED,
    seed: int | None = None,
    runs_dir: str | Path = DEFAULT_RUNS_DIR,
    trust: bool = False,
    on_step: Callable[[int], None] | None = None,
    progress: bool | None = None,
) -> Evaluation:
    """Plays episodes with a trained policy, on fresh seeds, as `a3c-zoo evaluate` does.

    Args:
        run, agent, env, checkpoint, trust: as in `load_agent`. Or run is what `load_agent` returned: this very policy
            plays, whatever has become of its run since.
        deterministic: most probable instead of sampled actions.
        seed: of the episodes and the sampled actions; by default the run's.
        on_step: called with the number of episodes played so far.
        progress: True: show how far it is, in scripts on stderr. False: show nothing. By default only notebooks show
            it, unless there is `on_step`.
    """
    import numpy as np  # nothing is evaluated without it

    if not isinstance(deterministic, bool | np.bool_):
        raise ZooError(f"deterministic={deterministic!r:.80}: give True or False")
    deterministic = bool(deterministic)
    if on_step is not None and not callable(on_step):
        raise ZooError(f"on_step={on_step!r:.80}: give a function")
    env_name = _name_of(env)
    with closing(display_of_python(progress, on_step, "on_step")) as display:
        if isinstance(run, LoadedAgent):
            if agent is not None or env is not None or checkpoint != RECOMMENDED:
                raise ZooError(
                    "a loaded agent has its environment and its checkpoint: leave out agent, env and checkpoint"
                )
            told = on_step or PlayingView(display, run.run.name, episodes).played
            return _evaluate_loaded(run, episodes, deterministic, seed, told)
        place = name_or_path("run", run)
        directory = find_policy(place, agent, path_argument("runs_dir", runs_dir), trust)
        _take_env(directory, env, env_name)
        told = on_step or PlayingView(display, str(place), episodes).played
        return evaluate_from(
            directory, choose_in_python(directory, checkpoint), episodes, deterministic, seed, told
        )


def _evaluate_loaded(
    agent: LoadedAgent,
    episodes: int,
    deterministic: bool,
    seed: int | None,
    on_step: Callable[[int], None],
) -> Evaluation:
    """As `evaluate`, for an agent that was loaded before."""
    episodes, seed = _whole_numbers(episodes, seed)
    policy, to_play = _to_play(*agent.source, episodes, seed)
    from a3c_zoo.runs.evaluation import evaluate_policy

    return evaluate_policy(policy, to_play, deterministic, on_step).evaluation()


def evaluate_from(
    directory: Run,
    choice: Choice,
    episodes: int,
    deterministic: bool,
    seed: int | None,
    on_step: Callable[[int], None],
) -> Evaluation:
    """As `evaluate`, for a checkpoint that was chosen before."""
    policy, to_play = load_from(directory, choice.which, episodes, seed)
    choice.tell()
    from a3c_zoo.runs.evaluation import evaluate_policy

    return evaluate_policy(policy, to_play, deterministic, on_step).evaluation()
