"""Toy environments and networks whose numbers are all known beforehand. Workers import this module too.

An environment plays a script: its episodes in order, again and again. An episode is `(rewards, how it ends)`. The end
is "terminated", "truncated" or "both". After k steps of the script's episode e, environment n returns the observation
`[10·e + k, n]`. So an observation says where it comes from, and with the value function V(s) = s[0] every bootstrap is
a known number. Actions change nothing; the environment keeps them.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor, nn

from a3c_zoo.agents.a3c import A3CWorker
from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.agents.context import WorkerContext
from a3c_zoo.config import Config, EnvConfig, NetworkConfig, OptimizerConfig, RunConfig
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.mlp import build_mlp
from a3c_zoo.learning.networks import ActorCritic
from a3c_zoo.learning.spaces import ObservationSpec
from a3c_zoo.plugins.builtins import zoo_optimizers
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.records import Report

ToyEpisode = tuple[Sequence[float], str]
Script = Sequence[ToyEpisode]

MODES = ("NextStep", "SameStep", "Disabled")
#: Two steps to a goal; one step to a truncation; three steps to a goal and a truncation at once.
SCRIPT: Script = (((1.0, 2.0), "terminated"), ((3.0,), "truncated"), ((4.0, 5.0, 6.0), "both"))
OBSERVATION_SPACE = spaces.Box(-np.inf, np.inf, (2,), np.float32)


class ToyEnv(gymnasium.Env[np.ndarray, Any]):
    """One environment that plays a script, for `SyncVectorEnv`; `ToyScript-v0` in Gymnasium's registry."""

    def __init__(self, script: Script = SCRIPT, index: int = 0, num_actions: int = 2, action_start: int = 0) -> None:
        self.observation_space = OBSERVATION_SPACE
        self.action_space = spaces.Discrete(num_actions, start=action_start)
        self.script, self.index = script, index
        self.episode, self.position = -1, 0
        self.received: list[int] = []

    def _observe(self) -> np.ndarray:
        return np.array([10 * self.episode + self.position, self.index], np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.episode, self.position = self.episode + 1, 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.received.append(int(action))
        rewards, end = self.script[self.episode % len(self.script)]
        reward = rewards[self.position]
        self.position += 1
        ended = self.position == len(rewards)
        terminated, truncated = ended and end != "truncated", ended and end != "terminated"
        return self._observe(), reward, terminated, truncated, {}


gymnasium.register("ToyScript-v0", entry_point="tests.toys:ToyEnv")


class ToyVectorEnv(VectorEnv[np.ndarray, np.ndarray, np.ndarray]):
    """Plays one script in each environment, in any autoreset mode; can save and restore its state.

    Args:
        scripts: environment n plays `scripts[n % len(scripts)]`. mode: an autoreset mode's name, as in `MODES`.
        first_index: what the observation of environment 0 says that its number is.
        ignored_reward: reward of the step that NEXT_STEP ignores. Gymnasium's environments give 0; another number
            shows up wherever that step is counted by mistake.
        dense_finals: SAME_STEP gives the final observations as one dense array, as AtariVectorEnv does, rather than
            as an object array with None for those who go on, as SyncVectorEnv does.
    """

    def __init__(
        self,
        num_envs: int,
        scripts: Sequence[Script] = (SCRIPT,),
        mode: str = "NextStep",
        first_index: int = 0,
        num_actions: int = 2,
        action_start: int = 0,
        ignored_reward: float = 0.0,
        dense_finals: bool = False,
    ) -> None:
        self.num_envs, self.mode = num_envs, AutoresetMode(mode)
        self.metadata = {"autoreset_mode": self.mode}
        self.single_observation_space = OBSERVATION_SPACE
        self.single_action_space = spaces.Discrete(num_actions, start=action_start)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.ignored_reward, self.dense_finals = ignored_reward, dense_finals
        self.envs = [ToyEnv(scripts[n % len(scripts)], first_index + n) for n in range(num_envs)]
        self.waiting = np.zeros(num_envs, np.bool_)  # ended, and to be reset by the next step
        self.received: list[list[int]] = []  # actions, a list for each step
        self.closed = False

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        chosen = (options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_))
        for n in np.flatnonzero(chosen):
            self.envs[n].reset()
            self.waiting[n] = False
        return self._observe(), {}

    def _observe(self) -> np.ndarray:
        return np.stack([env._observe() for env in self.envs])

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        assert self.action_space.contains(actions), f"{actions!r} is not in {self.action_space}"
        self.received.append(actions.tolist())
        rewards = np.zeros(self.num_envs, np.float64)
        terminated, truncated = np.zeros((2, self.num_envs), np.bool_)
        for n, env in enumerate(self.envs):
            if not self.waiting[n]:
                _, rewards[n], terminated[n], truncated[n], _ = env.step(int(actions[n]))
            else:
                assert self.mode == AutoresetMode.NEXT_STEP, "stepped after the end of an episode"
                env.reset()
                rewards[n] = self.ignored_reward
        ended = terminated | truncated
        info: dict[str, Any] = {}
        if self.mode == AutoresetMode.SAME_STEP:
            if ended.any():
                info = self._finals(ended)
            for env, has_ended in zip(self.envs, ended, strict=True):
                if has_ended:
                    env.reset()
        else:
            self.waiting = ended
        return self._observe(), rewards, terminated, truncated, info

    def _finals(self, ended: np.ndarray) -> dict[str, Any]:
        observations = self._observe()
        if self.dense_finals:
            return {"final_obs": observations}
        finals = np.full(self.num_envs, None, object)
        for n in np.flatnonzero(ended):
            finals[n] = observations[n]
        return {"final_obs": finals, "_final_obs": ended}

    def close_extras(self, **kwargs: Any) -> None:
        self.closed = True

    def get_state(self) -> dict[str, Any]:
        return {
            "episode": torch.tensor([env.episode for env in self.envs]),
            "position": torch.tensor([env.position for env in self.envs]),
            "waiting": torch.from_numpy(self.waiting.copy()),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        for n, env in enumerate(self.envs):
            env.episode, env.position = int(state["episode"][n]), int(state["position"][n])
        self.waiting = state["waiting"].numpy().copy()


class FaultyVectorEnv(ToyVectorEnv):
    """A toy with a fault after some steps.

    Args:
        fault: in `step`: "raise", "exit" (ends the program), "name" (raises with a file's name that is not UTF-8),
            "sleep" (for ever), "hold" (the same with Python's global lock), "kill" (itself, by SIGKILL); "nan", "inf",
            "shape", "dtype", "list" (of the observation); "reward-nan", "reward-shape", "reward-dtype";
            "terminated-shape", "truncated-shape"; of a SAME_STEP truncation: "final-missing", "final-none",
            "final-nan", "final-shape".
            In `reset`: "reset-raise", "reset-sleep", "reset-kill", "reset-shape", "reset-dtype".
        after: steps without a fault before it.
    """

    def __init__(self, num_envs: int, fault: str, after: int = 0, **kwargs: Any) -> None:
        super().__init__(num_envs, **kwargs)
        self.fault, self.after = fault, after

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        observation, info = super().reset(seed=seed, options=options)
        where, _, fault = self.fault.partition("-")
        return (self._spoil(fault, observation) if where == "reset" else observation), info

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        observation, rewards, terminated, truncated, info = super().step(actions)
        if len(self.received) > self.after:
            where, _, fault = self.fault.rpartition("-")
            match where:
                case "":
                    observation = self._spoil(fault, observation)
                case "reward":
                    rewards = self._spoil(fault, rewards)
                case "terminated":
                    terminated = self._spoil(fault, terminated)
                case "truncated":
                    truncated = self._spoil(fault, truncated)
                case "final" if "final_obs" in info:
                    self._spoil_finals(fault, info)
        return observation, rewards, terminated, truncated, info

    def _spoil(self, fault: str, array: np.ndarray) -> Any:
        match fault:
            case "raise":
                raise RuntimeError("the toy broke")
            case "exit":
                sys.exit(0)
            case "name":
                raise RuntimeError("\udcff")
            case "sleep":
                while True:
                    time.sleep(1)
            case "hold":
                os.write(2, b"the toy holds the lock\n")
                ctypes.PyDLL(None).sleep(600)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "nan" | "inf":
                array = array.copy()
                array[-1] = float(fault)
                return array
            case "shape":
                return array[..., None]
            case "dtype":
                return array.astype(np.str_ if array.ndim == 1 else np.float64)
            case "list":
                return array.tolist()
        raise ValueError(f"unknown fault '{fault}'")

    def _spoil_finals(self, fault: str, info: dict[str, Any]) -> None:
        finals = info["final_obs"]
        match fault:
            case "missing":
                del info["final_obs"]
            case "none":
                finals[:] = None
            case "nan":
                for n in np.flatnonzero(info["_final_obs"]):
                    finals[n] = np.array([np.nan, 0], np.float32)
            case "shape":
                for n in np.flatnonzero(info["_final_obs"]):
                    finals[n] = finals[n][:, None]  # the right number of elements all the same


def make(num_envs: int, seed: int, **kwargs: Any) -> ToyVectorEnv:
    return ToyVectorEnv(num_envs, **kwargs)


def make_faulty(num_envs: int, seed: int, **kwargs: Any) -> ToyVectorEnv:
    return FaultyVectorEnv(num_envs, **kwargs)


def make_raising(num_envs: int, seed: int, **kwargs: Any) -> ToyVectorEnv:
    raise RuntimeError("the toy factory broke")


def make_wrong_type(num_envs: int, seed: int, **kwargs: Any) -> Any:
    """A plain `gymnasium.Env`, which the contract of environments does not allow."""
    return ToyEnv()


def make_too_many(num_envs: int, seed: int, **kwargs: Any) -> ToyVectorEnv:
    return ToyVectorEnv(num_envs + 1)


class TinyNetwork(ActorCritic):
    """The logits are parameters and the value is w·s[0], so both gradients can be worked out by hand."""

    def __init__(self, num_logits: int = 2, w: float = 1.0) -> None:
        super().__init__()
        self.theta = nn.Parameter(torch.zeros(num_logits))
        self.w = nn.Parameter(torch.tensor([w]))

    def policy(self, observations: Tensor) -> Tensor:
        return self.theta.expand(len(observations), -1)

    def value(self, observations: Tensor) -> Tensor:
        return self.w * observations[:, 0]


class SlopeNetwork(ActorCritic):
    """One parameter for each environment number s[1]; values are 0 whatever the parameters, with the slope 1.

    The gradient of the value loss then depends on the rewards alone: no other worker's update can change it.
    """

    def __init__(self, num_parameters: int = 2) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(num_parameters))

    def policy(self, observations: Tensor) -> Tensor:
        return torch.zeros(len(observations), 2)

    def value(self, observations: Tensor) -> Tensor:
        return (self.w - self.w.detach())[observations[:, 1].long()]


class ConstantNetwork(ActorCritic):
    """One parameter, which is the value of every observation."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(1))

    def policy(self, observations: Tensor) -> Tensor:
        return torch.zeros(len(observations), 2)

    def value(self, observations: Tensor) -> Tensor:
        return self.w.expand(len(observations))


def build_tiny(spec: ObservationSpec, num_logits: int, config: NetworkConfig) -> ActorCritic:
    return TinyNetwork(num_logits)


def build_slope(spec: ObservationSpec, num_logits: int, config: NetworkConfig) -> ActorCritic:
    return SlopeNetwork()


def build_constant(spec: ObservationSpec, num_logits: int, config: NetworkConfig) -> ActorCritic:
    return ConstantNetwork()


def build_asking(spec: ObservationSpec, num_logits: int, config: NetworkConfig) -> ActorCritic:
    """It asks a tensor for its number, so torch cannot build it without memory."""
    assert torch.tensor([100, 100, 100, 100]).sum().item() == 400  # its values are no sizes
    return build_mlp(spec, num_logits, config)


TINY = NetworkEntry("tiny", "tests.toys:build_tiny")
SLOPE = NetworkEntry("slope", "tests.toys:build_slope")
CONSTANT = NetworkEntry("constant", "tests.toys:build_constant")
OPTIMIZERS = {entry.name: entry for entry in zoo_optimizers()}
ADAM = OPTIMIZERS["adam"]


def toy_entry(factory: str = "make", **kwargs: Any) -> EnvEntry:
    """The entry of an environment from this module, with these arguments for its factory."""
    return EnvEntry("toy", f"tests.toys:{factory}", kwargs=kwargs)


def toy_config(agent: A3CConfig, optimizer: OptimizerConfig, num_envs: int = 1, workers: int = 1, **run: Any) -> Config:
    """The configuration of a run on a toy."""
    return Config(
        "toy", "a3c", RunConfig(workers=workers, **run), EnvConfig(num_envs=num_envs), agent, NetworkConfig(), optimizer
    )


@dataclass(frozen=True, slots=True)
class HandoverContext:
    """What the workers of the gradient handover tests get.

    Attributes:
        context: of the real worker. log: one row for each update, filled by the workers.
        turn: the next row of the log, `[1]`; whose turn it is. None where workers run free: then the log is
            `[workers, updates, …]` and each fills its own part.
        rewards: each worker's rewards, one for each of its updates, round and round.
    """

    context: WorkerContext
    log: Tensor
    turn: Tensor | None
    rewards: Sequence[Sequence[float]]


class HandoverWorker:
    """The real worker of `a3c`, on one environment whose episodes last one step; tells what each update applied.

    With Adam's β1 at 0 the first moment *is* the gradient that was applied last, so nothing has to be intercepted.
    """

    def __init__(
        self, context: HandoverContext, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]
    ) -> None:
        script = tuple(((reward,), "terminated") for reward in context.rewards[rank])
        entry = toy_entry(scripts=(script,), mode="SameStep", first_index=rank)
        self._worker = A3CWorker(replace(context.context, entry=entry), rank, state, on_tick)
        self._context, self._rank, self._updates = context, rank, 0

    def work(self) -> None:
        turn = self._context.turn
        if turn is None:
            self._worker.work()
            if self._updates < self._context.log.shape[1]:
                self._context.log[self._rank, self._updates] = self._applied()
            self._updates += 1
            return
        row = int(turn)  # read once: the other worker may be about to add 1 to it
        if row < len(self._context.log) and row % 2 == self._rank:
            self._worker.work()
            self._context.log[row] = torch.cat((self._applied(), self._context.context.parameters))
            turn += 1
        else:
            time.sleep(0.0005)

    def _applied(self) -> Tensor:
        state = self._context.context.moments or self._worker.state_dict()["optimizer"]
        gradient: Tensor = state["exp_avg"]
        return gradient

    def finish(self) -> None:
        self._worker.finish()

    def report(self) -> Report:
        return self._worker.report()

    def state_dict(self) -> dict[str, Any]:
        return {**self._worker.state_dict(), "own_updates": self._updates}

    def close(self) -> None:
        self._worker.close()


class CountingWorker:
    """Counts as fast as it can, 3 steps and an update at a time; the context is `(counters, how many times)`."""

    def __init__(
        self, context: tuple[Tensor, int], rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]
    ) -> None:
        counters, self._limit = context
        self._counters, self._rank, self._counted = Counters(counters), rank, 0
        self._on_tick = on_tick

    def work(self) -> None:
        row = self._counters.row(self._rank)
        for _ in range(min(1000, self._limit - self._counted)):
            row[0] += 3
            row[1] += 1
            self._on_tick()
            self._counted += 1

    def finish(self) -> None:
        pass

    def report(self) -> Report:
        return Report(self._rank, self._counters.steps, self._counters.updates)

    def state_dict(self) -> dict[str, Any]:
        return {"counted": self._counted}

    def close(self) -> None:
        pass


class TurnWorker(A3CWorker):
    """The real worker of `a3c`, on scripts of its own; two of them update in turn and tell what was applied.

    A row of the log is an update's gradient (with β1 at 0) and the parameters after it.
    """

    def __init__(
        self, context: HandoverContext, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]
    ) -> None:
        entry = context.context.entry
        own = replace(context.context, entry=replace(entry, kwargs={**entry.kwargs, "first_index": rank}))
        super().__init__(own, rank, state, on_tick)
        self._shared = context

    def work(self) -> None:
        turn, log = self._shared.turn, self._shared.log
        assert turn is not None
        now = int(turn)  # read once: the other one may take its turn meanwhile
        if now < len(log) and now % 2 == self.rank:
            super().work()
            assert self.context.moments is not None
            log[now] = torch.cat((self.context.moments["exp_avg"], self.context.parameters))
            turn += 1
        else:
            time.sleep(0.0005)
