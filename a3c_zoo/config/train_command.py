"""A training as `a3c-zoo train` is given it: one record from which its configuration and its command line are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from a3c_zoo.config.models import Config
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.plugins.registry import Registry


@dataclass(frozen=True, slots=True)
class TrainCommand:
    """What a training is given.

    Attributes:
        env, agent: names.
        hyperparams: the name of a set, or a file, see `resolve_config`. overrides: `KEY=VALUE` texts.
        steps, time_limit_s: the budget, in agent steps or in seconds of training. Neither: the set's.
    """

    env: str
    agent: str
    seed: int
    steps: int | None = None
    time_limit_s: float | None = None
    hyperparams: str | None = None
    overrides: tuple[str, ...] = ()

    def config(self, registry: Registry) -> Config:
        """The configuration. Raises ConfigError, which has one line for each fault."""
        flags: dict[str, tuple[Any, str]] = {"run.seed": (self.seed, "--seed")}
        if self.steps is not None:
            flags["run.steps"] = self.steps, "--steps"
        if self.time_limit_s is not None:
            flags["run.time_limit_s"] = self.time_limit_s, "--time-limit"
        return resolve_config(
            registry,
            registry.env(self.env),
            registry.agent(self.agent),
            hyperparams=self.hyperparams,
            overrides=self.overrides,
            flags=flags,
        )

    def words(self) -> list[str]:
        """The arguments of `a3c-zoo train`, without those that name directories."""
        words = [self.env, "--agent", self.agent, "--seed", str(self.seed)]
        if self.hyperparams is not None:
            words += ["--hyperparams", self.hyperparams]
        words += self.limits()
        for override in self.overrides:
            words += ["-o", override]
        return words

    def limits(self) -> list[str]:
        """The arguments that say when the training ends. A run that goes on gets no others."""
        words = []
        if self.steps is not None:
            words += ["--steps", str(self.steps)]
        if self.time_limit_s is not None:
            words += ["--time-limit", f"{self.time_limit_s:.3f}s"]
        return words
