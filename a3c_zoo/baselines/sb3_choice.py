"""Decides how a session of a baseline computes: as the user has set it, else as it is faster here."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Final

import torch
from stable_baselines3.common.vec_env import VecEnv

from a3c_zoo.baselines.baseline_configs import SB3Config
from a3c_zoo.baselines.computing import Computing, VecEnvName, seconds_of_a_rollout, seconds_of_a_step
from a3c_zoo.baselines.sb3_model import build_model, make_stack, with_small_buffers
from a3c_zoo.config import Config
from a3c_zoo.errors import MissingGuardError, one_line
from a3c_zoo.hardware import available_cores
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.processes.child import check_main
from a3c_zoo.records import RunContext

#: SubprocVecEnv is not tried for environments whose step takes less time, in seconds: to send an action and to
#: receive an observation takes the learning process as long.
LEAST_STEP_S: Final = 25e-6
#: A session that measures longer than this says so, in seconds.
SIGN_AFTER_S: Final = 1.0
#: The seed of environments that are only measured.
MEASURED_SEED: Final = 0
#: SB3's names.
CLASSES: Final[Mapping[VecEnvName, str]] = {"dummy": "DummyVecEnv", "subproc": "SubprocVecEnv"}


class _Sign:
    """Tells once that a session measures, if that takes long."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._next_s = time.monotonic() + SIGN_AFTER_S

    def look(self) -> None:
        if time.monotonic() >= self._next_s:
            self._next_s = math.inf
            self._context.event(
                "measuring", "stable-baselines3: measures which way to compute is fastest here"
            )


def decide(context: RunContext) -> Computing:
    """How this session computes. The first way wins a tie.

    What was measured becomes an event of the run. So does what a resume takes without a measurement: the events of
    earlier sessions no longer hold. CPU seconds of the measurement are not counted as those of the run.

    Raises:
        ConfigError: `agent.vec_env` does not fit `env.stack`.
        MissingGuardError: `agent.vec_env` is `subproc`, and processes cannot import the main module.
        PluginError, ZooError: see `make_stack`.
    """
    with context.uncounted():
        return _decide(context)


def _decide(context: RunContext) -> Computing:
    config = context.config
    agent = config.agent
    assert isinstance(agent, SB3Config)
    sign = _Sign(context)
    numbers = _numbers(agent, config.run.device)
    if (
        agent.torch_threads is None
        and len(numbers) == 1
        and (numbers != [1] or context.checkpoint is not None)
    ):
        _tell_threads(context, numbers[0], {})
    names = _names(context, agent)
    sign.look()
    if len(names) == len(numbers) == 1:
        return Computing(numbers[0], names[0])
    with ExitStack() as closing:
        envs, fault = _environments(context.entry, config, names, closing)
        if len(envs) == len(numbers) == 1:
            seconds = {Computing(numbers[0], "dummy"): 0.0}  # there is no choice left
        else:
            model = build_model(
                context.entry, with_small_buffers(config), envs[names[0]], None, config.run.device
            )
            seconds = seconds_of_a_rollout(model, agent, numbers, envs, sign.look)
    chosen = min(seconds, key=lambda way: seconds[way])
    if len(numbers) > 1:
        by_number = {way.threads: s for way, s in seconds.items() if way.vec_env == chosen.vec_env}
        _tell_threads(context, chosen.threads, by_number)
    if fault:
        _tell_vec_env(context, "dummy", f"SubprocVecEnv does not work here: {fault}", fault=fault)
    elif len(names) > 1:
        by_name = {way.vec_env: s for way, s in seconds.items() if way.threads == chosen.threads}
        measured = ", ".join(f"{taken:.2g} s with {CLASSES[name]}" for name, taken in by_name.items())
        _tell_vec_env(context, chosen.vec_env, f"a rollout and its updates take {measured}", by_name)
    return chosen


def _numbers(agent: SB3Config, device: str) -> list[int]:
    """The numbers of torch's threads among which to choose."""
    if agent.torch_threads is not None:
        return [agent.torch_threads]
    most = torch.get_num_threads()
    if most == 1 or device != "cpu":
        return [most]
    return [1, most]


def _names(context: RunContext, agent: SB3Config) -> list[VecEnvName]:
    """The vector environments among which to choose; "dummy" stands for those of the zoo, too."""
    config = context.config
    if config.env.stack != "own":
        return ["dummy"]
    if agent.vec_env == "subproc":
        check_main(config.run.start_method)  # else each of its processes would say that it cannot import it
    if agent.vec_env != "auto":
        return [agent.vec_env]
    num_envs = config.env.num_envs
    if num_envs == 1 or available_cores() == 1:
        if context.checkpoint is not None:
            _tell_vec_env(context, "dummy", "SubprocVecEnv is not tried with one environment or one core")
        return ["dummy"]
    step_s = _seconds_of_a_step(context)
    if step_s is None:
        if context.checkpoint is not None:
            _tell_vec_env(context, "dummy", "a step has failed")
        return ["dummy"]
    if step_s >= LEAST_STEP_S:
        try:
            check_main(config.run.start_method, is_quiet=True)
        except MissingGuardError:
            if context.checkpoint is not None:
                _tell_vec_env(context, "dummy", "processes cannot import this script")
            return ["dummy"]
        return ["dummy", "subproc"]
    least = f"{1e6 * LEAST_STEP_S:.0f} µs"
    _tell_vec_env(
        context,
        "dummy",
        f"a step of one environment takes {1e6 * step_s:.0f} µs, and SubprocVecEnv is not tried below {least}",
    )
    return ["dummy"]


def _seconds_of_a_step(context: RunContext) -> float | None:
    """How long a step of one environment takes; None if a step fails, which training will tell."""
    num_envs = context.config.env.num_envs
    env = make_stack(context.entry, context.config, num_envs, MEASURED_SEED)
    try:
        env.reset()
        return seconds_of_a_step(env) / num_envs
    except Exception:
        return None
    finally:
        with suppress(Exception, SystemExit):
            env.close()


def _environments(
    entry: EnvEntry, config: Config, names: Sequence[VecEnvName], closing: ExitStack
) -> tuple[dict[VecEnvName, VecEnv], str]:
    """Environments to measure; and why there are none in processes, if they do not work there.

    Args:
        closing: closes them.
    """
    envs: dict[VecEnvName, VecEnv] = {}
    if len(names) == 1:  # it is not stepped
        envs[names[0]] = make_stack(entry, config, config.env.num_envs, MEASURED_SEED)
        closing.callback(_close, envs[names[0]])
        return envs, ""
    for name in names:
        try:
            env = make_stack(entry, config, config.env.num_envs, MEASURED_SEED, name)
            closing.callback(_close, env)
            env.reset()
            envs[name] = env
        except Exception as error:
            if name != "subproc":
                raise
            return envs, one_line(error)
    return envs, ""


def _close(env: VecEnv) -> None:
    with suppress(Exception, SystemExit):
        env.close()


def _tell_threads(context: RunContext, number: int, seconds: Mapping[int, float]) -> None:
    measured = ", ".join(f"{taken:.2g} s with {threads}" for threads, taken in seconds.items())
    threads = "1 thread" if number == 1 else f"{number} threads"
    text = f"torch computes with {threads}"
    if seconds:
        text += f"; a rollout and its updates take {measured}"
    told = {str(key): each for key, each in seconds.items()}
    context.event("torch_threads", text, threads=number, seconds=told)


def _tell_vec_env(
    context: RunContext,
    name: VecEnvName,
    why: str,
    seconds: Mapping[VecEnvName, float] | None = None,
    **facts: object,
) -> None:
    text = f"{CLASSES[name]} steps the environments; {why}"
    context.event("vec_env", text, vec_env=name, seconds=dict(seconds or {}), **facts)
