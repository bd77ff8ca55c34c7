"""Trains stable-baselines3's algorithms by their own `learn`, and reports to the run.

One callback joins SB3 to a run. After each environment step it collects ended episodes. Between two rollouts
it reports and lets the run evaluate, save or end. After the time limit it drops the rollout. SB3 runs in the
calling process.

Raises:
    ZooError: at import, stable-baselines3 is missing or broken.
"""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from a3c_zoo import processes
from a3c_zoo.config import NEVER, Config
from a3c_zoo.cures import install_needed
from a3c_zoo.errors import EnvironmentContractError, ZooError, type_and_message
from a3c_zoo.learning.action_masks import masks_refused
from a3c_zoo.learning.contract import (
    NO_REWARD,
    PROMISES,
    broken_promise,
    is_taken_apart,
    raise_misfit,
    wrong_observation,
)
from a3c_zoo.learning.environments import faults_of
from a3c_zoo.learning.memory_check import SizeLimit, check_fits, check_memory
from a3c_zoo.learning.observed_masks import holds_masks
from a3c_zoo.learning.spaces import check_supported, observation_spec
from a3c_zoo.library_settings import LibrarySettings
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.processes.crew import REPORT_EVERY_S
from a3c_zoo.records import Episode, Report, RunContext, Snapshot
from a3c_zoo.seeds import SEED_ENV, seed_for
from a3c_zoo.store.saved_state import loading

try:
    from stable_baselines3.common.callbacks import BaseCallback
except Exception as error:  # a broken installation may raise any error
    raise ZooError(
        f"stable-baselines3 cannot be imported ({type_and_message(error)}). "
        f"Install it: {install_needed('stable-baselines3')}"
    ) from error

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from a3c_zoo.baselines.baseline_configs import SB3Config, SB3DQNConfig
from a3c_zoo.baselines.computing import torch_threads
from a3c_zoo.baselines.env_process import process_ended
from a3c_zoo.baselines.sb3_choice import decide
from a3c_zoo.baselines.sb3_model import (
    SB3Policy,
    build_model,
    kept_by_monitors,
    make_stack,
    restore,
    saved_state,
    with_small_buffers,
)
from a3c_zoo.baselines.sb3_observations import refuse_numbers
from a3c_zoo.runs.sb3_tags import METRICS


class RunOverError(Exception):
    """Ends SB3's `learn`; before a rollout only an exception can do that."""


def refuse_masks(env: VecEnv, context: RunContext) -> None:
    """Refuses an environment that was reset and gives action masks, which SB3's algorithms do not take.

    Raises:
        ConfigError: it gives masks.
        EnvironmentContractError: an info is no dictionary: `reset()` returned two numbers alone, perhaps.
    """
    base = env.unwrapped
    gives = getattr(base, "gives_masks", None)  # of the zoo's stack
    if gives is None:
        for info in base.reset_infos:
            if not isinstance(info, Mapping):
                promise = f"reset(), which must be {PROMISES['reset']}: info is {type(info).__name__}"
                raise EnvironmentContractError(
                    f"environment '{context.entry.name}' returned a wrong result of {promise}"
                )
        gives = any("action_mask" in info for info in base.reset_infos) or base.has_attr("action_masks")
        gives |= holds_masks(base.observation_space, base.action_space)
    if gives and context.config.env.action_masks:
        raise masks_refused(context.entry.name, context.config.agent_name)


class RunCallback(BaseCallback):
    """Reports to a run, and asks the run between rollouts whether to continue.

    Args:
        context: the run.
        model: the algorithm. Its optimizer steps are counted; SB3 counts PPO's epochs, which have several
            steps each.
        updates: the optimizer steps of earlier sessions. resumes: how often the run was resumed.

    Attributes:
        snapshot: the state that the run saves and evaluates. episodes: those that have ended since the last
            report.
        settings: those of torch and NumPy in training. After each step of the environments they are set back.
    """

    def __init__(self, context: RunContext, model: BaseAlgorithm, updates: int, resumes: int) -> None:
        super().__init__()
        self._context = context
        self._updates = updates
        self.snapshot = Snapshot(
            lambda: {**saved_state(model), "updates": self._updates, "session": resumes},
            counts=lambda: Report(steps=model.num_timesteps, updates=self._updates),
        )
        model.policy.optimizer.register_step_post_hook(self._count_update)
        # Steps before the rollout; steps at which the run may have to act.
        self._first_step = self._next_pause = 0
        self.episodes: list[Episode] = []
        self.settings = LibrarySettings.now()
        # agent steps of the unfinished episodes
        self._lengths = np.zeros(context.config.env.num_envs, np.int64)
        self._kept = kept_by_monitors(model)
        self._next_report_s = 0.0

    def _count_update(self, *_: Any) -> None:
        self._updates += 1

    def _on_training_start(self) -> None:
        refuse_masks(self.training_env, self._context)
        self._context.started(self.snapshot)

    def _on_step(self) -> bool:
        self.settings.restore()
        dones: NDArray[np.bool_] = self.locals["dones"]
        self._lengths += 1
        if dones.any():
            now = time.monotonic()
            steps = self.model.num_timesteps
            for n, info in enumerate(self.locals["infos"]):
                if (episode := info.get("episode")) is not None:  # from the monitors below the wrappers: raw
                    # Their lengths are in steps of the innermost environment: on Atari, in emulator frames.
                    self.episodes.append(Episode(float(episode["r"]), int(self._lengths[n]), steps, now, 0))
                    self._lengths[n] = 0
        if self._context.cuts_rollouts():
            self.model.num_timesteps = self._first_step  # the rollout is lost, as with all agents
            self.episodes = []
            self._report()
            self._settle()
        return True

    def _on_rollout_start(self) -> None:
        """Called after the update from a rollout and before the next rollout, when counts and parameters agree."""
        now = time.monotonic()
        steps = self.model.num_timesteps
        self._first_step = steps
        # A rollout that can end the run is reported at once, so runs of one seed end at the same step.
        if self.episodes or steps >= self._next_pause or now >= self._next_report_s:
            self._next_report_s = now + REPORT_EVERY_S
            self._report()
            self._next_pause = self._context.config.run.next_pause(steps)
        if self._context.due():
            self._settle()

    def _report(self) -> None:
        episodes = self.episodes
        self.episodes = []
        self._context.record([Report(0, self.model.num_timesteps, self._updates, episodes, self._metrics())])
        for figures in self._kept:
            figures.clear()

    def _settle(self) -> None:
        if not self._context.settle(self.snapshot):
            raise RunOverError

    def _metrics(self) -> dict[str, float]:
        values = self.logger.name_to_value
        return {name: sign * float(values[key]) for key, (name, sign) in METRICS.items() if key in values}


def run(context: RunContext) -> None:
    """Trains until the run ends; `AgentEntry.run`.

    A resume continues with the parameters, optimizer, schedules and counts. Environments start new episodes
    with other random numbers, so a resumed run does not equal an uninterrupted one.

    Raises:
        ConfigError: the algorithm cannot be built for this configuration and environment, or its rollouts do
            not fit into memory.
    """
    entry = context.entry
    config = context.config
    saved = context.checkpoint
    resumes = updates = 0
    if saved is not None:
        with loading():
            resumes = int(saved["session"]) + 1
            updates = int(saved["updates"])
    # The run's own seed, of 32 bits as NumPy requires: SB3's users find their own results again.
    if resumes:
        seed = seed_for(config.run.seed, SEED_ENV, resumes)
    else:
        seed = config.run.seed % 2**32
    _check_spaces(entry, config, context.supported_spaces)
    try:
        computing = decide(context)
    except Exception as error:
        _raise_broken_contract(error, entry)
        raise
    with torch_threads(computing.threads):  # initial weights depend on the number, too
        env = make_stack(entry, config, config.env.num_envs, seed, computing.vec_env)
        try:
            model = build_model(entry, config, env, seed, config.run.device)
            callback = RunCallback(context, model, updates, resumes)
            if saved is not None:
                restore(model, saved)
            _learn(context, model, callback)
        finally:
            with suppress(Exception, SystemExit):  # an environment that failed may fail to close too
                env.close()
            if processes.is_ours:
                # Python's end collects no frozen objects (`without_collections`). Some hold this environment in a
                # cycle, and ale-py tells of each emulator that is left.
                gc.unfreeze()


def _learn(context: RunContext, model: BaseAlgorithm, callback: RunCallback) -> None:
    try:
        # The run decides its end between rollouts.
        model.learn(NEVER, callback, log_interval=None, reset_num_timesteps=False)  # type: ignore[arg-type]
    except RunOverError:
        return
    except (Exception, KeyboardInterrupt) as error:
        context.rescue(callback.snapshot, error, [Report(0, episodes=callback.episodes)])
        _raise_broken_contract(error, context.entry)
        raise


def _raise_broken_contract(error: BaseException, entry: EnvEntry) -> None:
    """Says what an environment did wrong, if an error of SB3 tells it.

    Raises:
        EnvironmentContractError: SB3's environments could not take what it returned.
        PluginError: its process has ended.
    """
    name = entry.name
    if isinstance(error, (EOFError, ConnectionError)):
        raise process_ended(entry) from error
    if not isinstance(error, Exception):
        return
    raise_misfit(error, name)
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    if frames[-1].f_code is DummyVecEnv.reset.__code__ and is_taken_apart(error):
        raise EnvironmentContractError(f"environment '{name}' {broken_promise('reset', error)}") from error
    for frame in frames:
        if frame.f_code is DummyVecEnv.step_wait.__code__ and None in frame.f_locals["self"].buf_infos:
            what = f"a wrong result of step(), which must be {PROMISES['step']}: info is None"
            raise EnvironmentContractError(f"environment '{name}' returned {what}") from error
        if frame.f_code is Monitor.step.__code__ and frame.f_locals.get("reward", 0) is None:
            raise EnvironmentContractError(NO_REWARD.format(name=name)) from error
        if frame.f_code is Monitor.step.__code__ and np.ndim(frame.f_locals.get("reward", 0)):
            raise EnvironmentContractError(f"environment '{name}' {broken_promise('step', error)}") from error
        if frame.f_code is DummyVecEnv._save_obs.__code__:
            space = frame.f_locals["self"].observation_space
            if text := wrong_observation(space, [frame.f_locals["obs"]]):
                raise EnvironmentContractError(f"environment '{name}' returned {text}") from error


def _check_spaces(entry: EnvEntry, config: Config, supported: Sequence[str]) -> None:
    """Checks that the actions are among the `supported` spaces, and that SB3's rollouts or replay buffer fit into
    memory. The memory is not checked for observations that are dictionaries.

    Raises:
        ConfigError: the actions are not supported, or the memory is too small.
        PluginError: the environment cannot be made, or cannot be closed.
    """
    agent = config.agent
    num_envs = config.env.num_envs
    assert isinstance(agent, SB3Config)
    env = make_stack(entry, config, 1, 0)
    space = env.observation_space
    with faults_of(entry, "closed"):
        env.close()
    check_supported(env.action_space, supported, config.agent_name, entry.name)
    refuse_numbers(space, entry.name, config.env.wrappers)
    if not isinstance(space, spaces.Box):
        return
    spec = observation_spec(space)
    if isinstance(agent, SB3DQNConfig):
        observation = spec.dtype.itemsize * prod(spec.shape)
        subject = f"a replay buffer of {agent.buffer_size:,} steps needs"
        check_fits(
            subject, 2 * agent.buffer_size * observation, "two observations a step", "agent.buffer_size"
        )
        return
    if config.run.device == "cpu":
        on_cpu = agent.updates(num_envs)[1]
    else:
        on_cpu = 0
    check_memory(
        spec,
        workers=1,
        num_envs=num_envs,
        stored_steps=agent.rollout_steps,
        update_samples=on_cpu,
        environment_bytes=config.env.environment_bytes,
    )


def load(
    entry: EnvEntry, network: NetworkEntry | None, config: Config, state: Mapping[str, Any]
) -> SB3Policy:
    """Returns the policy of a checkpoint; `AgentEntry.load`. One environment is made, to read its spaces."""
    config = with_small_buffers(config)
    env = make_stack(entry, config, 1, 0)
    try:
        with SizeLimit(state):
            model = build_model(entry, config, env, seed=None)
        restore(model, state)
        return SB3Policy(model, config.run.seed)
    finally:
        env.close()
