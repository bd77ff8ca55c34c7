"""Builds stable-baselines3's environments and algorithms from a run's configuration; acts with their policies."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from gymnasium import Env, spaces
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.atari_wrappers import ClipRewardEnv
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_atari_env, make_vec_env, unwrap_wrapper
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.sb2_compat.rmsprop_tf_like import RMSpropTFLike
from stable_baselines3.common.vec_env import (
    VecEnv,
    VecFrameStack,
    VecNormalize,
    VecTransposeImage,
)

from a3c_zoo.baselines.baseline_configs import SB3A2CConfig, SB3Config
from a3c_zoo.baselines.computing import VecEnvName
from a3c_zoo.baselines.env_process import MadeInProcess, in_processes
from a3c_zoo.baselines.sb3_observations import refuse_forms
from a3c_zoo.baselines.vec_env import make_zoo_vec_env
from a3c_zoo.config import Config, EnvConfig
from a3c_zoo.cures import install_needed
from a3c_zoo.errors import ConfigError, ObservationError, RunDirectoryError, ZooError
from a3c_zoo.learning.arguments import check_arguments
from a3c_zoo.learning.environments import faults_of
from a3c_zoo.learning.generators import lent_generator
from a3c_zoo.learning.wrappers import load_wrappers, wrap_all
from a3c_zoo.library_settings import kept_settings
from a3c_zoo.plugins.entries import EnvEntry, load_object
from a3c_zoo.plugins.module_files import MODULE_FILES
from a3c_zoo.store.saved_state import fitting, loading

ACTIVATIONS: dict[str, type[torch.nn.Module]] = {
    "tanh": torch.nn.Tanh,
    "relu": torch.nn.ReLU,
    "elu": torch.nn.ELU,
    "gelu": torch.nn.GELU,
}

#: Height and width of the smallest image that SB3's NatureCNN takes.
SMALLEST_IMAGE = 36

#: The zoo's key → AtariWrapper's.
WRAPPER_KEYS = {
    "frame_size": "screen_size",
    "frame_skip": "frame_skip",
    "noop_max": "noop_max",
    "life_loss": "terminal_on_life_loss",
    "sticky_actions": "action_repeat_probability",
}

#: Keys that ale_py's own environments have, too.
EMULATOR_KEYS = {"full_action_space", "mode", "difficulty"}

#: Key of a schedule → SB3's attribute with the schedule.
SCHEDULES = {"learning_rate_schedule": "lr_schedule", "clip_range_schedule": "clip_range"}

#: Keys that SB3's constructors take as `policy_kwargs`.
POLICY_KEYS = {"net_arch", "ortho_init", "log_std_init"}
POLICY_KEYS |= {"lstm_hidden_size", "n_lstm_layers", "enable_critic_lstm", "shared_lstm"}
#: Our keys that SB3's constructors do not have.
NOT_SB3 = {
    *POLICY_KEYS,
    "activation",
    "vec_env",
    "schedule_steps",
    "clip_rewards",
    "normalize",
    "torch_threads",
    "rms_prop_tf_like",
}


def make_stack(
    entry: EnvEntry, config: Config, num_envs: int, seed: int, vec_env: VecEnvName = "dummy"
) -> VecEnv:
    """Makes the environments of `env.stack`; `info["episode"]` has the raw return of an episode that ended.

    Args:
        vec_env: what steps those of `own`.

    Raises:
        ConfigError: actions of `own` do not begin with 0, a key that SB3's environments do not have was
            changed, or there are observations that `agent.normalize` cannot scale.
        ZooError: OpenCV is missing, which SB3's Atari wrappers need, or a package of the environment.
        PluginError: the environment cannot be made.
    """
    assert isinstance(config.agent, SB3Config)
    with kept_settings():
        env = _make_envs(entry, config, num_envs, seed, vec_env)
    chosen = config.agent.normalize
    if not chosen:
        return env
    norm_obs = chosen in (True, "observations")
    norm_reward = chosen in (True, "rewards")
    try:
        # RL Zoo gives it the algorithm's discount, too.
        return VecNormalize(env, norm_obs=norm_obs, norm_reward=norm_reward, gamma=config.agent.gamma)
    except ValueError as error:
        space = env.observation_space
        env.close()
        raise ConfigError(
            f"agent.normalize: {str(chosen).lower()} — environment '{entry.name}' has observations {space}; "
            "VecNormalize scales arrays"
        ) from error


def _make_envs(entry: EnvEntry, config: Config, num_envs: int, seed: int, vec_env: VecEnvName) -> VecEnv:
    """See `make_stack`."""
    assert isinstance(config.agent, SB3Config)
    clip = config.agent.clip_rewards
    given = config.env.factory_kwargs()
    if config.env.stack != "own":
        return make_zoo_vec_env(entry, config.env, num_envs, seed, clip)
    env_id = entry.own_id
    assert env_id is not None  # "own" requires it
    wrappers = load_wrappers(config.env)
    if wrappers and (entry.factory is not None or any(wrapper.takes_vectors for wrapper in wrappers)):
        raise ConfigError("env.stack: own — SB3's environments take no env.wrappers here; set env.stack=zoo")
    # Not `gym:PongNoFrameskip-v4`, which is the game without a wrapper.
    if "NoFrameskip-v" in (entry.gym_id or ""):
        return _make_atari_stack(entry, config, num_envs, seed, vec_env)
    if entry.factory is not None:  # `gymnasium.make` has no keys of a factory
        _refuse_changed(entry, config.env, given.keys() | {"kwargs"})
        kwargs = {}
    else:
        kwargs = config.env.arguments(entry.kwargs)

    # SB3 puts its monitor around it, and `wrapper_class` around both. To an id it would add a `render_mode`, which
    # some environments refuse.
    def make(**kwargs: Any) -> Env[Any, Any]:
        wrapped: Env[Any, Any] = wrap_all(gymnasium.make(env_id, **kwargs), wrappers)
        refuse_forms(wrapped.observation_space, entry.name, config.env.wrappers)
        return wrapped

    made: Any = make
    if vec_env == "subproc":
        made = MadeInProcess(MODULE_FILES, env_id, tuple(wrappers))
    wrapper_class = ClipRewardEnv if clip else None
    with faults_of(entry, config=config.env), _stepping(entry, config, vec_env) as arguments:
        if entry.factory is None:
            check_arguments(entry, config.env)
        env = make_vec_env(made, num_envs, seed, env_kwargs=kwargs, wrapper_class=wrapper_class, **arguments)
    if np.any(start := getattr(env.action_space, "start", 0)):
        env.close()
        raise ConfigError(
            f"env.stack: own — the actions of environment '{entry.name}' begin with {start}, those of "
            f"stable-baselines3 with 0; env.stack=zoo translates them"
        )
    return env


def _stepping(entry: EnvEntry, config: Config, vec_env: VecEnvName) -> AbstractContextManager[dict[str, Any]]:
    """While environments are made: gives the arguments of `make_vec_env` that choose what steps them."""
    if vec_env == "subproc":
        return in_processes(entry, config.run.start_method)
    return nullcontext({})


def _make_atari_stack(
    entry: EnvEntry, config: Config, num_envs: int, seed: int, vec_env: VecEnvName
) -> VecEnv:
    """Makes `make_atari_env`, `VecFrameStack` and `VecTransposeImage`, combined as in RL Zoo.

    The monitors are below the wrappers that end episodes at lost lives and clip rewards. So the monitors'
    episodes are whole games with raw scores.
    """
    try:
        import cv2  # noqa: F401
    except ImportError as error:
        raise ZooError(
            f"stable-baselines3's Atari wrappers need OpenCV ({error}): {install_needed('opencv-python-headless')}. "
            f"Without it: env.stack=zoo"
        ) from error
    assert entry.own_id is not None
    assert isinstance(config.agent, SB3Config)
    given = config.env.factory_kwargs()
    # SB3's wrapper always fires; the key is for evaluations on the zoo's games
    given.pop("fire_after_life_loss", None)
    unknown = given.keys() - WRAPPER_KEYS.keys() - EMULATOR_KEYS - {"frame_stack"}
    _refuse_changed(entry, config.env, unknown | {"kwargs"})
    wrapper = {theirs: given[ours] for ours, theirs in WRAPPER_KEYS.items() if ours in given}
    emulator = {key: given[key] for key in EMULATOR_KEYS if key in given}
    made: Any = entry.own_id
    if vec_env == "subproc":
        made = MadeInProcess(MODULE_FILES, entry.own_id)
    wrapper_kwargs = {**wrapper, "clip_reward": config.agent.clip_rewards}
    with faults_of(entry), _stepping(entry, config, vec_env) as arguments:
        env = make_atari_env(
            made, num_envs, seed, wrapper_kwargs=wrapper_kwargs, env_kwargs=emulator, **arguments
        )
    return VecTransposeImage(VecFrameStack(env, given.get("frame_stack", 4)))


def _refuse_changed(entry: EnvEntry, config: EnvConfig, keys: Collection[str]) -> None:
    """Raises ConfigError if one of these keys, which SB3's environments do not have, is not at its default."""
    for name in sorted(keys):
        if getattr(config, name) != type(config).model_fields[name].get_default(call_default_factory=True):
            raise ConfigError(
                f"env.{name}: {entry.own_id} doesn't know this key of '{entry.name}'; set env.stack=zoo"
            )


def with_small_buffers(config: Config) -> Config:
    """A configuration of the same policy. Its buffers have the smallest sizes that SB3 accepts."""
    keys = ("n_steps", "batch_size", "buffer_size")
    least: dict[str, Any] = {name: 2 for name in keys if name in type(config.agent).model_fields}
    return replace(config, agent=config.agent.model_copy(update=least))


def build_model(
    entry: EnvEntry, config: Config, env: VecEnv, seed: int | None, device: str = "cpu"
) -> BaseAlgorithm:
    """Builds the algorithm of the `agent` section. A seed seeds torch, NumPy and `random`, as in SB3.

    Raises:
        ConfigError: SB3 refuses the arguments.
    """
    agent = config.agent
    assert isinstance(agent, SB3Config)
    arguments = agent.model_dump(exclude=NOT_SB3)
    linear = [key for key in SCHEDULES if arguments.pop(key, None) == "linear"]
    algorithm: type[BaseAlgorithm] = load_object(agent.algorithm)
    steps = agent.length_of_schedules(config.run)
    policy = agent.policy_for(_kind_of(env.observation_space))
    arguments["policy"] = policy
    try:
        model = algorithm(env=env, policy_kwargs=_policy_kwargs(agent), seed=seed, device=device, **arguments)
    except RunDirectoryError:
        raise
    except Exception as error:  # SB3 raises many kinds of errors if a policy does not fit the spaces
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"agent '{config.agent_name}' with agent.policy={policy} doesn't fit environment '{entry.name}': "
            f"{reason}"
        ) from error
    for key in linear:
        setattr(model, SCHEDULES[key], _linear(model, arguments[key.removesuffix("_schedule")], steps))
    if isinstance(model, DQN):
        of_progress = model.exploration_schedule
        model.exploration_schedule = lambda progress_remaining: of_progress(1.0 - model.num_timesteps / steps)
    model.set_logger(Logger(None, []))  # SB3's default logger makes a folder with TensorBoard files
    return model


def _kind_of(space: gymnasium.Space[Any]) -> Literal["Mlp", "Cnn", "MultiInput"]:
    """For which kind of observations SB3 has a policy class. Its convolutions do not fit into smaller images."""
    if isinstance(space, spaces.Dict):
        return "MultiInput"
    if isinstance(space, spaces.Box) and is_image_space(space) and sorted(space.shape)[-2] >= SMALLEST_IMAGE:
        return "Cnn"
    return "Mlp"


def _linear(model: BaseAlgorithm, initial: float, steps: int) -> Callable[[float], float]:
    """Returns a schedule that falls linearly from `initial` to 0 over `steps` agent steps, like RL Zoo's `lin_`.

    SB3 passes to its schedules the share of `learn`'s steps that is left. Here `learn` does not know its end,
    and a resume calls it again. So the schedule reads SB3's counter of agent steps.
    """
    return lambda progress_remaining: initial * max(0.0, 1.0 - model.num_timesteps / steps)


def _policy_kwargs(agent: SB3Config) -> dict[str, Any]:
    given: dict[str, Any] = {name: getattr(agent, name, None) for name in POLICY_KEYS}
    if agent.activation:
        given["activation_fn"] = ACTIVATIONS[agent.activation]
    else:
        given["activation_fn"] = None
    if isinstance(agent, SB3A2CConfig) and agent.use_rms_prop and agent.rms_prop_tf_like:
        given |= {"optimizer_class": RMSpropTFLike, "optimizer_kwargs": {"eps": agent.rms_prop_eps}}
    return {name: value for name, value in given.items() if value is not None}


def kept_by_monitors(model: BaseAlgorithm) -> list[list[Any]]:
    """The lists in which SB3's monitors keep figures of all episodes. Nothing reads them; the zoo's stack has none."""
    assert model.env is not None
    monitors = (unwrap_wrapper(env, Monitor) for env in getattr(model.env.unwrapped, "envs", ()))
    names = ("episode_returns", "episode_lengths", "episode_times")
    return [getattr(monitor, name) for monitor in monitors if monitor is not None for name in names]


def saved_state(model: BaseAlgorithm) -> dict[str, Any]:
    """Returns the state of a model for a checkpoint: tensors, numbers and strings."""
    return {
        "policy": dict(model.policy.state_dict()),
        "optimizer": model.policy.optimizer.state_dict(),
        "steps": model.num_timesteps,
        "n_updates": model._n_updates,
        "n_calls": getattr(model, "_n_calls", 0),  # DQN's, which time the target network
        "normalize": {
            name: {"mean": torch.tensor(each.mean), "var": torch.tensor(each.var), "count": float(each.count)}
            for name, each in _running_statistics(model).items()
        },
    }


def restore(model: BaseAlgorithm, state: Mapping[str, Any]) -> None:
    """Loads a result of `saved_state`. A replay buffer is not saved, and is filled again before DQN learns on.

    Raises:
        RunDirectoryError: the state is of a model of another shape.
    """
    with loading():
        model.policy.load_state_dict(state["policy"])
        model.policy.optimizer.load_state_dict(state["optimizer"])
        for parameter, moments in model.policy.optimizer.state.items():  # torch does not compare them
            for name, moment in moments.items():
                if not isinstance(moment, int):  # SB3's RMSprop counts its steps in a plain number
                    like = parameter if moment.dim() else moment
                    fitting(moment, like, f"optimizer.{name}")
        model.num_timesteps = int(state["steps"])
        model._n_updates = int(state["n_updates"])
        for name, each in _running_statistics(model).items():
            saved = state["normalize"][name]
            like = torch.tensor(each.mean)
            each.mean, each.var = (
                fitting(saved[key], like, f"{name}.{key}").numpy() for key in ("mean", "var")
            )
            each.count = float(saved["count"])
        if isinstance(model, DQN):
            model._n_calls = int(state["n_calls"])
            model.learning_starts += model.num_timesteps


def _running_statistics(model: BaseAlgorithm) -> dict[str, RunningMeanStd]:
    """VecNormalize's running statistics by name; those of a dictionary's arrays are `observation.KEY`."""
    normalizer = model.get_vec_normalize_env()
    if normalizer is None:
        return {}
    if not normalizer.norm_obs:
        return {"return": normalizer.ret_rms}
    of_observations: dict[str, RunningMeanStd] | RunningMeanStd = normalizer.obs_rms
    arrays = {}
    if isinstance(of_observations, dict):
        arrays = {f"observation.{key}": each for key, each in of_observations.items()}
    return {"return": normalizer.ret_rms, **(arrays or {"observation": of_observations})}  # type: ignore[dict-item]


class SB3Policy:
    """Acts with an SB3 policy by SB3's own `predict`, and samples from a random state of its own.

    The noise of `use_sde` is a function of the observation. It is drawn for each episode when it begins, and
    for all every `sde_sample_freq` steps. SB3 draws it for each rollout in training, and once for a policy
    that it loads.

    Args:
        model: the algorithm; the parameters of its policy may change later.
        seed: seed of the sampling.
    """

    def __init__(self, model: BaseAlgorithm, seed: int) -> None:
        assert model.env is not None
        self.policy: Any = model.policy
        self._normalizer = model.get_vec_normalize_env()
        self._first_action = getattr(model.env.unwrapped, "first_action", 0)  # SB3 calls it 0
        self._uses_sde = model.use_sde
        self._noise_every = model.sde_sample_freq
        self._steps = 0
        self._random_state = torch.Generator().manual_seed(seed).get_state()

    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Returns actions for observations `[N, ...]`, or one action for one observation, and the state unchanged.

        Raises:
            ObservationError: the observation does not have the shape of the environment's.
        """
        if not isinstance(observation, dict):
            observation = self._checked(observation)
        if self._normalizer is not None:
            observation = self._normalizer.normalize_obs(observation)
        # SB3 samples from torch's global generator, which training also uses.
        with lent_generator():
            torch.set_rng_state(self._random_state)
            self._draw_noise(episode_start, deterministic)
            actions, state = self.policy.predict(observation, state, episode_start, deterministic)
            self._random_state = torch.get_rng_state()
        if np.any(self._first_action):
            actions = actions + self._first_action
        return actions, state

    def _draw_noise(self, episode_start: NDArray[np.bool_] | None, deterministic: bool) -> None:
        if not self._uses_sde or deterministic:
            return
        if episode_start is None:
            starts = np.ones(1, np.bool_)
        else:
            starts = np.asarray(episode_start, np.bool_)
        is_all = self._steps == 0 or (self._noise_every > 0 and self._steps % self._noise_every == 0)
        self._steps += 1
        if is_all or (episode_start is not None and starts.any()):
            drawn = self.policy.action_dist
            before = self.policy.action_dist.exploration_matrices
            with torch.no_grad():
                self.policy.reset_noise(len(starts))
            if not is_all and len(before) == len(starts):  # in the middle of an episode it stays
                mask = torch.from_numpy(starts)[:, None, None]
                drawn.exploration_matrices = torch.where(mask, drawn.exploration_matrices, before)

    def _checked(self, observation: Any) -> NDArray[Any]:
        try:
            if isinstance(observation, tuple) and len(observation) == 2 and isinstance(observation[1], dict):
                raise ValueError(
                    "not an observation, but what a Gymnasium reset() returns: (observation, info)"
                )
            array = np.asarray(observation)
            if array.dtype.kind not in "biuf":
                raise ValueError(f"an observation of {type(observation).__name__} is not made of numbers")
            self.policy.is_vectorized_observation(array)  # raises ValueError if the shape is wrong
        except ValueError as error:
            raise ObservationError(str(error)) from error
        return array
