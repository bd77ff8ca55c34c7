"""Environments, agents, networks and optimizers that break one rule each, for the tests of `a3c-zoo check`."""

from __future__ import annotations

import time
from typing import Any, cast

import gymnasium
import numpy as np
import torch
from gymnasium import Env, spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeLimit
from pydantic import Field
from torch import nn

from a3c_zoo.agents import A3CWorker, train
from a3c_zoo.config import AgentConfig, Config
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning import Rollout
from a3c_zoo.learning.networks import ActorCritic, Split
from a3c_zoo.learning.recurrent import kept
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.records import Report, RunContext, Snapshot
from tests.walks import Walk

# Environments


class StringMode(Walk):
    """Names its autoreset mode by a string."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.metadata = {"autoreset_mode": "NextStep"}


class Unseeded(Walk):
    """Does not call `super().reset(seed=seed)`."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return super().reset(seed=None, options=options)


class OneFlag(Walk):
    """Reports each end as terminated and truncated."""

    def finish(self, rewards: Any, terminated: np.ndarray, truncated: np.ndarray) -> Any:
        ended = terminated | truncated
        return super().finish(rewards, ended, ended)


class OneBuffer(Walk):
    """Returns the same array at each step. Gives masks that allow all actions."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observation, info = super().reset(seed=seed, options=options)
        return observation, info | {"action_mask": np.ones((self.num_envs, 2), np.int8)}

    def step(self, actions: np.ndarray) -> Any:
        *result, info = super().step(actions)
        return *result, info | {"action_mask": np.ones((self.num_envs, 2), np.int8)}

    def observe(self) -> Any:
        if not hasattr(self, "buffer"):
            self.buffer = np.zeros((self.num_envs, 1), np.float32)
        self.buffer[:] = self.place[:, None]
        return self.buffer


class WritesActions(Walk):
    """Changes the actions in place."""

    def step(self, actions: np.ndarray) -> Any:
        result = super().step(actions)
        actions[:] = 1
        return result


class FailsToClose(Walk):
    """Raises when it is closed."""

    def close(self, **kwargs: Any) -> None:
        raise OSError("the door is stuck")


class ManyFaults(Walk):
    """A wrong dtype, a column of rewards, and numbers for flags: in each step."""

    def observe(self) -> Any:
        return self.place[:, None].astype(np.float64)

    def finish(self, rewards: Any, terminated: np.ndarray, truncated: np.ndarray) -> Any:
        observations, rewards, terminated, truncated, info = super().finish(rewards, terminated, truncated)
        return observations, rewards[:, None], terminated.astype(np.int64), truncated, info


class House(Env[dict[str, Any], int]):
    """Observations of several parts. fault: words for what it does wrong, or ""."""

    def __init__(self, fault: str = "") -> None:
        arm = spaces.Tuple((spaces.Box(-1, 1, (2,)), spaces.Discrete(3)))
        self.observation_space = spaces.Dict({"arm": arm, "room": spaces.Box(0, 4, (1,), np.float32)})
        self.action_space: Any = spaces.Discrete(2)
        self.fault, self.steps, self.episodes = fault, 0, 0

    def observe(self) -> dict[str, Any]:
        joints = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        room = np.array([9.0 if "room" in self.fault else self.steps], np.float32)
        if "joints" in self.fault:
            joints = joints * np.float32(np.nan)
        if "wide" in self.fault:
            room = np.zeros(6, np.float32)
        if "empty" in self.fault:
            return None  # type: ignore[return-value]
        return {"arm": (joints, np.int64(self.steps % 3)), "room": room}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if "ruin" in self.fault:
            raise ValueError("the roof fell in")
        super().reset(seed=None if "unseeded" in self.fault else seed)
        self.steps = 0
        self.episodes = self.episodes + 1 if seed is None else 1
        return self.observe(), {}

    def step(self, action: int) -> Any:
        self.steps += 1
        last = 3 if "second" in self.fault and self.episodes % 2 == 0 else 4
        terminated = self.steps == last or ("early" in self.fault and bool(self.np_random.random() < 0.3))
        truncated = self.steps == last and "double" in self.fault
        reward = np.ones(1) if "column" in self.fault else np.nan if "unpaid" in self.fault else 1.0
        return self.observe(), reward, terminated, truncated, {}


class Hut(House):
    """Knows no options."""

    def reset(self, seed: int | None = None) -> Any:  # type: ignore[override]
        return super().reset(seed=seed)


class Terrace(House):
    """Has a vector environment of its own, which fails."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        return SyncVectorEnv([lambda: House("wide")]).reset(seed=seed)


class DrawnHouse(House):
    """Takes a render mode, and says that it knows none."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode

    def render(self) -> Any:
        return np.zeros((4, 4, 3), np.uint8)


class BlindHouse(House):
    """Takes a render mode, as many environments do, and has no render()."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__()
        self.render_mode = render_mode


class DoubleHouse(House):
    """A part of its first observation is float64, which its space is not."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observation, info = super().reset(seed=seed, options=options)
        return {**observation, "room": observation["room"].astype(np.float64)}, info


class ShyHouse(House):
    """Refuses render modes of which it does not say that it has them."""

    metadata: dict[str, Any] = {"render_modes": ["human"]}  # noqa: RUF012

    def __init__(self, render_mode: str | None = None) -> None:
        assert render_mode is None or render_mode in self.metadata["render_modes"]
        super().__init__()


class WindowHouse(DrawnHouse):
    """Draws in a window, of whatever driver SDL is told to take."""

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def render(self) -> Any:
        import pygame

        pygame.display.init()
        pygame.display.set_mode((4, 4))
        return super().render()


class RefusingConfig(AgentConfig):
    def check_run(self, config: Config, entry: EnvEntry) -> None:
        raise ConfigError(f"{config.run.steps} steps on {entry.name} are not for me")


class UnsayableConfig(AgentConfig):
    thing: House = Field(House(), description="of a type that pydantic does not know")


def make_drawn_house(**kwargs: Any) -> Any:
    return DrawnHouse(**kwargs)


gymnasium.register("House-v0", f"{__name__}:House")
gymnasium.register("DrawnHouse-v0", f"{__name__}:DrawnHouse")
gymnasium.register("ShyHouse-v0", f"{__name__}:ShyHouse")
gymnasium.register("ShyHouseByClass-v0", cast(Any, ShyHouse))
gymnasium.register("WindowHouse-v0", f"{__name__}:WindowHouse")
gymnasium.register("UncheckedHouse-v0", make_drawn_house, disable_env_checker=True)


def make(num_envs: int, seed: int, kind: str, **kwargs: Any) -> Walk:
    env: Walk = globals()[kind](num_envs, **kwargs)
    return env


def make_house(num_envs: int, seed: int, fault: str = "", same_step: bool = False, limit: int = 0) -> SyncVectorEnv:
    mode = AutoresetMode.SAME_STEP if same_step else AutoresetMode.NEXT_STEP

    def make_one() -> Any:
        return TimeLimit(House(fault), limit) if limit else House(fault)

    return SyncVectorEnv([make_one] * num_envs, autoreset_mode=mode)


def make_hut(num_envs: int, seed: int) -> SyncVectorEnv:
    return SyncVectorEnv([Hut] * num_envs)


def make_processes(num_envs: int, seed: int) -> AsyncVectorEnv:
    return AsyncVectorEnv([House] * num_envs)


class Frames(Walk):
    """Returns frames."""

    def __init__(self, num_envs: int) -> None:
        super().__init__(num_envs)
        self.single_observation_space = spaces.Box(0, 255, (1, 84, 84), np.uint8)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def observe(self) -> Any:
        return np.full((self.num_envs, 1, 84, 84), 1, np.uint8) * (self.place + 3).astype(np.uint8)[:, None, None, None]


def make_frames(num_envs: int, seed: int) -> Frames:
    return Frames(num_envs)


# Agents: a sound one, and faults that the name of the agent chooses.


class Chance:
    """Acts at random; `fault` is the name of its agent."""

    def __init__(self, space: Any) -> None:
        self.space = space

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: Any = False
    ) -> Any:
        return np.array([self.space.sample() for _ in observation]), state


def run(context: Any) -> None:
    """Counts steps; takes none."""
    fault = context.config.agent_name
    saved = context.checkpoint or {"steps": 0}
    steps = 0 if fault == "forgets" else saved["steps"]
    held: Any = frozenset([1]) if fault == "unsaved" else None
    snapshot = Snapshot(lambda: {"steps": steps, "held": held})
    if fault == "crashes":
        raise KeyError("policy")
    if fault != "unstarted":
        context.started(snapshot)
    while True:
        time.sleep(0.25 if fault == "forgets" else 0.01)  # longer than the whole run of a check
        steps += 10
        steps_told, skipped = 10_000 - steps if fault == "shrinks" else steps, int(fault == "diverges")
        context.record([Report(steps=steps_told, updates=0 if skipped else steps, skipped=skipped)])
        if fault == "returns":
            return
        if context.due() and not context.settle(snapshot) and fault != "endless":
            return


def load(entry: Any, network: Any, config: Any, state: Any) -> Chance:
    from a3c_zoo.testing.small_environment import ACTIONS

    if config.agent_name == "unloaded":
        raise ValueError("no weights")
    space = "Box" if config.agent_name == "misplays" else entry.kwargs["space"]
    return Chance(ACTIONS[space])


# Networks


class Sound(ActorCritic):
    """One layer; the classes below change one thing."""

    def __init__(self, spec: Any, num_logits: int, config: Any) -> None:
        super().__init__()
        self.spec = spec
        self.actor, self.critic = nn.Linear(spec.num_features, num_logits), nn.Linear(spec.num_features, 1)

    def policy(self, observations: Any) -> Any:
        return self.actor(self.inputs(observations))

    def value(self, observations: Any) -> Any:
        return self.critic(self.inputs(observations)).squeeze(-1)

    def inputs(self, observations: Any) -> Any:
        return self.spec.encode(observations)


class Column(Sound):
    def value(self, observations: Any) -> Any:
        return super().value(observations).unsqueeze(-1)


class Doubles(Sound):
    def policy(self, observations: Any) -> Any:
        return super().policy(observations).double()


class Wider(Sound):
    def policy(self, observations: Any) -> Any:
        return nn.functional.pad(super().policy(observations), (0, 1))


class Silent(Split):
    """Has a body, and no heads."""

    def __init__(self, spec: Any, num_logits: int, config: Any) -> None:
        super().__init__()
        self.layer = nn.Linear(spec.num_features, 8)

    def features(self, observations: Any) -> Any:
        return self.layer(observations)


class Mixes(Sound):
    """Depends on the other observations of its batch."""

    def inputs(self, observations: Any) -> Any:
        inputs = super().inputs(observations)
        return inputs - inputs.mean(dim=0)


class Drops(Sound):
    def inputs(self, observations: Any) -> Any:
        return nn.functional.dropout(super().inputs(observations))


class Normed(Sound):
    """Dropout and BatchNorm, which know when the network acts."""

    def __init__(self, spec: Any, num_logits: int, config: Any) -> None:
        super().__init__(spec, num_logits, config)
        self.norm = nn.Sequential(nn.BatchNorm1d(spec.num_features), nn.Dropout(0.5))

    def inputs(self, observations: Any) -> Any:
        return self.norm(super().inputs(observations))


class Remembers(Sound):
    """A core whose state is a fading sum of its inputs."""

    def start(self, num_envs: int) -> Any:
        return torch.zeros(1, num_envs, self.spec.num_features)

    def step(self, observations: Any, state: Any) -> Any:
        state = 0.5 * state + self.inputs(observations)
        return self.actor(state[0]), state

    def value_after(self, observations: Any, state: Any) -> Any:
        return self.critic(self.step(observations, state)[1][0]).squeeze(-1)

    def unroll(self, observations: Any, state: Any, resets: Any, places: Any) -> Any:
        logits, values, states = [], [], []
        for rows, begins in zip(observations, resets, strict=True):
            acted, state = self.step(rows, self.before(state, begins))
            logits.append(acted)
            values.append(self.critic(state[0]).squeeze(-1))
            states.append(state.detach())
        return torch.cat(logits[:-1]), torch.cat(values), torch.stack([states[t][:, n] for t, n in places], dim=1)

    def before(self, state: Any, begins: Any) -> Any:
        return kept(state, begins)


class Leaks(Remembers):
    """Remembers the episode before."""

    def before(self, state: Any, begins: Any) -> Any:
        return state


class Blind(Remembers):
    def value_after(self, observations: Any, state: Any) -> Any:
        return torch.zeros(len(observations))


class Muddles(Remembers):
    """Gives the state before a step."""

    def unroll(self, observations: Any, state: Any, resets: Any, places: Any) -> Any:
        *outputs, states = super().unroll(observations, state, resets, places)
        return *outputs, torch.zeros_like(states)


class Idle(Sound):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.spare = nn.Linear(2, 2)


class ClearsGradients(Sound):
    def inputs(self, observations: Any) -> Any:
        if self.training:
            self.zero_grad()
        return super().inputs(observations)


class TakesRoots(Sound):
    """The argument of a root is positive at first."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.shift = nn.Parameter(torch.zeros(1))

    def value(self, observations: Any) -> Any:
        return super().value(observations) + torch.sqrt(self.shift + 1e-3)


class KeepsScaled(Sound):
    """Computes something from its weights, once."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.kept = self.scaled()

    def scaled(self) -> Any:
        return self.critic.weight * self.critic.weight

    def value(self, observations: Any) -> Any:
        return super().value(observations) + self.inputs(observations) @ self.kept[0]


class KeepsMoved(KeepsScaled):
    """What it keeps has a graph that torch lets it use again and again."""

    def scaled(self) -> Any:
        return self.critic.weight + 1


class KeepsOnceActed(KeepsScaled):
    """Keeps what it computed when it was called first."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.kept = None

    def value(self, observations: Any) -> Any:
        if self.kept is None:
            self.kept = self.scaled().detach()
        return super().value(observations)


class Frozen(Sound):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.actor.weight.requires_grad_(False)


class Unseedable(Sound):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        nn.init.normal_(self.actor.weight, generator=torch.Generator().manual_seed(time.time_ns() % 2**31))


class Infinite(Sound):
    def value(self, observations: Any) -> Any:
        return super().value(observations) / 0


class Module(nn.Linear):
    def __init__(self, spec: Any, num_logits: int, config: Any) -> None:
        super().__init__(2, 2)


class Raises(Sound):
    def policy(self, observations: Any) -> Any:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")


# Optimizers


class Ball:
    """Momentum in place; the classes below change one thing."""

    def __init__(self, parameters: Any, moments: Any, config: Any) -> None:
        self.parameters, self.moments_given, self.velocity = parameters, moments, moments["velocity"]

    @staticmethod
    def moments(parameters: Any, config: Any) -> Any:
        return {"velocity": torch.zeros_like(parameters)}

    def apply(self, gradient: Any, learning_rate: float) -> None:
        self.velocity.mul_(0.9).add_(gradient)
        self.parameters.add_(self.velocity, alpha=-learning_rate)


class WarmsUp(Ball):
    """Its first hundred updates move nothing."""

    @staticmethod
    def moments(parameters: Any, config: Any) -> Any:
        return {"velocity": torch.zeros_like(parameters), "count": torch.zeros(1)}

    def apply(self, gradient: Any, learning_rate: float) -> None:
        count = self.moments_given["count"].add_(1)
        super().apply(gradient, learning_rate if count > 100 else 0.0)


class Idler(Ball):
    apply: Any = None


class RatelessBall(Ball):
    def apply(self, gradient: Any) -> None:  # type: ignore[override]
        super().apply(gradient, 0.01)


class OutOfPlace(Ball):
    def apply(self, gradient: Any, learning_rate: float) -> None:
        self.parameters = self.parameters - learning_rate * gradient


class OtherMemory(Ball):
    def apply(self, gradient: Any, learning_rate: float) -> None:
        self.parameters.data = self.parameters - learning_rate * gradient


class DividesByZero(Ball):
    def apply(self, gradient: Any, learning_rate: float) -> None:
        self.parameters.addcdiv_(gradient, self.velocity, value=-learning_rate)


class ScalesGradient(Ball):
    def apply(self, gradient: Any, learning_rate: float) -> None:
        self.parameters.sub_(gradient.mul_(learning_rate))


class OtherMoments(Ball):
    def apply(self, gradient: Any, learning_rate: float) -> None:
        self.velocity = 0.9 * self.velocity + gradient
        self.parameters.add_(self.velocity, alpha=-learning_rate)


class OtherMomentsByName(Ball):
    def apply(self, gradient: Any, learning_rate: float) -> None:
        self.moments_given["velocity"] = 0.9 * self.moments_given["velocity"] + gradient
        self.parameters.add_(self.moments_given["velocity"], alpha=-learning_rate)


class Counts(Ball):
    """Keeps a number beside its moments."""

    updates = 0

    def apply(self, gradient: Any, learning_rate: float) -> None:
        self.updates += 1
        super().apply(gradient, learning_rate / self.updates)


class LooksAhead(Ball):
    """Goes half of its way back after each fifth update, which it counts beside its moments."""

    updates = 0

    def apply(self, gradient: Any, learning_rate: float) -> None:
        self.updates += 1
        super().apply(gradient, learning_rate)
        if self.updates % 5 == 0:
            self.parameters.mul_(0.5)


class ListOfMoments(Ball):
    @staticmethod
    def moments(parameters: Any, config: Any) -> Any:
        return [torch.zeros_like(parameters)]


class NumberAsMoment(Ball):
    @staticmethod
    def moments(parameters: Any, config: Any) -> Any:
        return {"velocity": 0}


class CrossingWorker(A3CWorker):
    """Bootstraps across terminations, as if the next episode were the same one."""

    def collect(self) -> Rollout:
        rollout = super().collect()
        rollout.terminated[:] = False
        return rollout


class UnpaidWorker(A3CWorker):
    """Learns without rewards."""

    def collect(self) -> Rollout:
        rollout = super().collect()
        rollout.rewards[:] = 0
        return rollout


def run_unpaid(context: RunContext) -> None:
    train(context, UnpaidWorker)


def run_crossing(context: RunContext) -> None:
    train(context, CrossingWorker)
