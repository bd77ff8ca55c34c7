"""The whole check of an environment: the contract, its pictures, the checkers of Gymnasium and SB3, and its speed."""

from __future__ import annotations

import math
import re
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv

from a3c_zoo.config import EnvConfig
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.errors import CannotDrawError, PluginError, ZooError, type_and_message
from a3c_zoo.learning import function_env
from a3c_zoo.learning.action_masks import KEY, gives_masks, masks_to_follow, random_action
from a3c_zoo.learning.actions import action_distribution
from a3c_zoo.learning.autoreset import autoreset_of, episode_over
from a3c_zoo.learning.contract import naming_misfits
from a3c_zoo.learning.environments import closed, make_vector_env, missing_package
from a3c_zoo.learning.model import probe_spaces
from a3c_zoo.learning.observed_masks import with_observed_masks
from a3c_zoo.learning.space_check import in_words
from a3c_zoo.learning.wrappers import Wrapper, load_wrappers, wrap_all
from a3c_zoo.plugins.entries import AgentEntry, EnvEntry, load_object
from a3c_zoo.plugins.registry import Registry
from a3c_zoo.runs.episodes import EpisodesToPlay
from a3c_zoo.runs.pictures import play_scenes
from a3c_zoo.runs.setup import RunSetup
from a3c_zoo.testing import random_play
from a3c_zoo.testing.conformance import check_contract, check_env_entry
from a3c_zoo.testing.findings import LIMIT_S, USUAL, CheckOptions, Findings
from a3c_zoo.testing.short_run import ShortRun
from a3c_zoo.testing.tested_environment import CURE_MASK, Subject

#: The numbers of environments with which the contract is checked.
NUM_ENVS = (1, 3)
#: Seconds for which the speed is measured: of the environment alone, and in a worker.
ALONE_S, WORKER_S = 0.5, 1.0
#: Seconds for which random actions are played at most.
RANDOM_S = 2.0
#: Colours and the prefix of Gymnasium's warnings.
DECORATION = re.compile(r"\x1b\[\d+m|WARN: ")

CURE_ENDLESS = "play longer (a3c-zoo check --steps; steps= of a3c_zoo.testing.check_env), or add a time limit"
PICTURE = "with 'rgb_array' render() returns [height, width, 3], uint8"
#: Steps in which action masks are looked at, and environments side by side.
MASK_STEPS = 500
MASK_ENVS = 2
CURE_RENDER = f"give the factory a parameter render_mode; {PICTURE}"
CURE_RENDER_ONE = (
    f"give __init__ a parameter render_mode, and metadata 'render_modes': ['rgb_array']; {PICTURE}"
)


def examine_environment(
    registry: Registry, entry: EnvEntry, findings: Findings, options: CheckOptions = USUAL
) -> None:
    """Checks an environment as its default agent trains it."""
    with findings.during("entry", "correct the entry"):
        check_env_entry(entry, None, findings)
    agent: AgentEntry | None = None
    with findings.during("configuration", "correct EnvEntry.default_agent"):
        agent = registry.agent(entry.default_agent)
    if agent is None:
        return
    setup: RunSetup | None = None
    with findings.during("configuration", "correct the environment's hyperparameter set, or its own keys"):
        config = resolve_config(registry, entry, agent, overrides=options.overrides)
        run = {"workers": 1, "worker_restarts": 0, "worker_timeout_s": LIMIT_S / 2}
        config = replace(config, run=config.run.model_copy(update=run))
        setup = RunSetup.of(registry, config, serial=False)
        setup.warm_up()
    if not findings.is_sound or setup is None:
        return
    has_ended = False
    for n in NUM_ENVS:
        with findings.during("contract", "correct the environment"):
            has_ended |= check_contract(Subject(entry, setup.config.env, n, findings), options.steps)
    if findings.is_sound:
        findings.ok("contract", "spaces, steps, seeds, autoreset and state keep it")
        with findings.during(
            "fit", f"correct it, or name a network that fits in the set '{setup.agent.name}.yml'"
        ):
            spaces = probe_spaces(setup.entry, setup.network, setup.config, setup.agent.spaces)
            seen = in_words(spaces.observations)
            acted = in_words(spaces.actions)
            findings.ok("spaces", f"observations: {seen}; actions: {acted}")
        if not has_ended:
            message = (
                f"no episode ended within {options.steps} steps of random actions, so no end was checked"
            )
            findings.warn("episodes", message, CURE_ENDLESS)
        with findings.during("action mask", CURE_MASK):
            _check_masks(setup, findings)
        with findings.during("random actions", "correct the environment"):
            _play_randomly(setup, findings)
        is_single = entry.factory in (None, function_env.FACTORY)
        cure = CURE_RENDER_ONE if is_single else CURE_RENDER
        with findings.during("render", cure):
            _check_render(setup, findings, cure)
    _run_other_checkers(setup, findings)
    with findings.during("in a worker", "correct the environment, or its default agent"):
        _measure(setup, findings)


def _check_masks(setup: RunSetup, findings: Findings) -> None:
    """Plays allowed actions at random, and looks at the masks of all steps, if the environment gives masks."""
    check = "action mask"
    name = setup.entry.name
    with closed(make_vector_env(setup.entry, setup.config.env, MASK_ENVS, seed=0)) as env:
        observation, info = env.reset(seed=0)
        masks = masks_to_follow(env, setup.config.env, name, info)
        if masks is None:
            if gives_masks(env, info):
                findings.ok(check, "the environment gives masks, which env.action_masks=false ignores")
            elif KEY in env.step(env.action_space.sample())[4]:
                message = f"step() gives info['{KEY}'], but reset() does not, so agents do not act within it"
                findings.warn(check, message, CURE_MASK)
            return
        autoreset = autoreset_of(env)
        is_over = episode_over(env)
        share = 0.0
        random = np.random.default_rng(0)
        for _ in range(MASK_STEPS):
            findings.give_sign()
            share += masks.allowed.mean() / MASK_STEPS
            with naming_misfits(name):
                result = env.step(masks.random_actions(random))
            observation, _, terminated, truncated, info = result
            ended = np.asarray(is_over(terminated, truncated, info), np.bool_)
            masks.step(info, ended)
            if ended.any():
                observation, info = autoreset.restart(observation, info, ended)
                masks.restart(info, ended)
    findings.ok(
        check, f"masks allow {share:.0%} of the actions; agents act within them", {"allowed_share": share}
    )


def _play_randomly(setup: RunSetup, findings: Findings) -> None:
    """Measures what random actions meet, and compares it with the settings."""
    env_config = setup.config.env
    settings = vars(setup.config.agent)
    gamma = settings.get("gamma", random_play.USUAL_GAMMA)  # an agent of a plugin may have none
    with closed(make_vector_env(setup.entry, env_config, env_config.num_envs, seed=0)) as env:
        steps = max(random_play.STEPS, random_play.FEW_STEPS * env_config.num_envs)
        play = random_play.measure(
            env,
            gamma,
            steps,
            limit_s=RANDOM_S,
            give_sign=findings.give_sign,
            takes_masks=env_config.action_masks,
            reward_limit=reward_limit_of(settings),
        )
    random_play.judge(play, setup.config, findings)


def reward_limit_of(settings: Mapping[str, Any]) -> float:
    """To what size the loss clips rewards before it scales them; infinite if it does not, or finds the scale itself."""
    scale = settings.get("reward_scale", 1.0)
    if not settings.get("clip_rewards") or scale in (None, "auto"):
        return math.inf
    return 1 / float(scale)


def _check_render(setup: RunSetup, findings: Findings, cure: str) -> None:
    entry = setup.entry
    env_config = setup.config.env
    with closed(make_vector_env(entry, env_config, 1, seed=0)) as env:
        policy = _RandomPolicy(env)
    try:
        with closing(play_scenes(policy, EpisodesToPlay(entry, env_config, 1, 0, 0), False)) as scenes:
            height, width = next(scenes).picture.shape[:2]
    except PluginError:
        raise
    except CannotDrawError as error:
        findings.warn("render", str(error), "only pictures and films need it; training does not")
    except ZooError as error:
        if "pip install" in str(error):
            findings.warn("render", str(error), "install it to see pictures")
        else:  # it trains all the same
            findings.ok("render", f"no pictures: {error}. For films, {cure}")
    else:
        findings.ok("render", f"pictures of {height} × {width} pixels")


class _RandomPolicy:
    """Samples the action space of environments, within action masks."""

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        self._space = env.action_space
        self._distribution = action_distribution(env.single_action_space)
        self._random = np.random.default_rng(0)

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[Any, Any]:
        if action_masks is None:
            return self._space.sample(), state
        return random_action(self._distribution, self._space.sample(), action_masks, self._random), state


def _run_other_checkers(setup: RunSetup, findings: Findings) -> None:
    """Runs the checkers of Gymnasium and stable-baselines3, which take a single environment."""
    entry = setup.entry
    make_one = _maker_of_one(setup)
    if make_one is None:
        message = (
            "not run: they take a single environment, and the entry names no Gymnasium id (env_id or gym_id)"
        )
        findings.ok("gymnasium, sb3", message)
        return
    for name, module in (
        ("gymnasium", "gymnasium.utils.env_checker"),
        ("sb3", "stable_baselines3.common.env_checker"),
    ):
        is_content = False
        with findings.during(name, "change what it names"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            # SB3's looks at what is trained; Gymnasium's wants the environment itself.
            if name == "sb3" and not entry.gym_id:
                wrappers = load_wrappers(setup.config.env)
            else:
                wrappers = []
            inner = [wrapper for wrapper in wrappers if not wrapper.takes_vectors]
            checker = load_object(f"{module}:check_env")
            takes_masks = setup.config.env.action_masks
            is_content = _run_checker(name, checker, make_one, inner, takes_masks, findings)
        texts = [DECORATION.sub("", str(warning.message)) for warning in caught]
        for text in dict.fromkeys(texts):
            findings.warn(name, f"its checker says: {text}", "change it, unless it is meant so")
        if is_content and not texts and findings.is_sound:
            findings.ok(name, "its checker finds no fault")


def _maker_of_one(setup: RunSetup) -> Callable[[], gymnasium.Env[Any, Any]] | None:
    """Makes a single environment: that of a Gymnasium id, or of a class or function. None if there is neither."""
    entry = setup.entry
    kwargs = setup.config.env.arguments(entry.kwargs)
    if entry.env_id:
        return partial(gymnasium.make, entry.env_id, **kwargs)
    if entry.gym_id:
        return partial(gymnasium.make, entry.gym_id)
    if entry.factory == function_env.FACTORY:
        return partial(function_env.loaded(kwargs.pop("function")), **kwargs)
    return None


def _run_checker(
    name: str,
    checker: Callable[..., None],
    make_one: Callable[[], gymnasium.Env[Any, Any]],
    wrappers: list[Wrapper],
    takes_masks: bool,
    findings: Findings,
) -> bool:
    """Runs one checker; returns whether it came to its end. What SB3's refuses, a3c-zoo's own agents can still train.

    Args:
        takes_masks: whether action masks count, if the environment gives them. Neither checker knows them.
    """
    has_masks = False
    try:
        with closed(make_one()) as env:
            has_masks = takes_masks and _gives_masks(env)
            checker(wrap_all(env.unwrapped, wrappers), skip_render_check=True)  # it would open windows
    except Exception as error:
        if cure := missing_package(error):
            findings.warn(name, "not run: a package is not installed", cure)
            return False
        if has_masks:
            cure = "change what it names, unless it took an action that a mask forbids"
            findings.warn(name, f"its checker says: {type_and_message(error)}", cure)
            return False
        say = findings.problem if name == "gymnasium" else findings.warn
        say(name, f"its checker says: {type_and_message(error)}", "change what it names")
        return False
    return True


def _gives_masks(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether a single environment gives action masks. It is reset."""
    vector = with_observed_masks(SyncVectorEnv([lambda: env]))
    return gives_masks(vector, vector.reset(seed=0)[1])


def _measure(setup: RunSetup, findings: Findings) -> None:
    """Measures the steps a second of the environment alone, and in a worker that trains."""
    if not findings.is_sound:
        findings.ok("speed", "not measured: see the problems")
        return
    entry = setup.entry
    num_envs = setup.config.env.num_envs
    with closed(make_vector_env(entry, setup.config.env, num_envs, seed=0)) as env:
        alone = _speed(env, setup.config.env, entry.name)
    findings.ok("speed alone", f"{alone:,.0f} steps/s, {num_envs} environments together")
    run = ShortRun(setup, findings, WORKER_S)
    run.run()
    if not run.steps_per_s:
        message = f"agent '{setup.agent.name}' trains; its speed is unknown, as only one report of steps came in time"
    elif alone:
        share = run.steps_per_s / alone
        message = (
            f"{run.steps_per_s:,.0f} steps/s with agent '{setup.agent.name}', {share:.0%} of its speed alone"
        )
    else:
        message = f"{run.steps_per_s:,.0f} steps/s with agent '{setup.agent.name}'"
    findings.ok("in a worker", message)


def _speed(env: VectorEnv[Any, Any, Any], config: EnvConfig, name: str) -> float:
    """Steps a second with random actions; with action masks, the time to follow them counts, too."""
    batches = [env.action_space.sample() for _ in range(64)]
    masks = masks_to_follow(env, config, name, env.reset(seed=0)[1])
    autoreset = autoreset_of(env)
    is_over = episode_over(env)
    steps = 0
    start_s = time.monotonic()
    while time.monotonic() - start_s < ALONE_S:
        actions = batches[steps % len(batches)]
        if masks is not None:
            actions = masks.within(actions)
        observation, _, terminated, truncated, info = env.step(actions)
        ended = np.asarray(is_over(terminated, truncated, info), np.bool_)
        if masks is not None:
            masks.step(info, ended)
        _, info = autoreset.restart(observation, info, ended)
        if masks is not None:
            masks.restart(info, ended)
        steps += 1
    return steps * env.num_envs / (time.monotonic() - start_s)
