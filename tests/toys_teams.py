"""Members of a team for the tests of teams. Each worker imports this module, so it imports little."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor

from a3c_zoo.learning.counters import STEPS, UPDATES, Counters
from a3c_zoo.processes.crew import CutShort
from a3c_zoo.processes.team import Team, TeamMemory
from a3c_zoo.records import Report

#: Updates of a rollout, environment steps of one, and numbers of a gradient.
NUM_UPDATES, NUM_STEPS, NUM_PARAMETERS = 3, 5, 7


def gradient_of(rank: int, rollout: int, update: int) -> Tensor:
    """A number for each parameter that tells whose it is: rank, rollout and update as digits, times 1 to 7."""
    return torch.arange(1.0, NUM_PARAMETERS + 1) * (100 * rollout + 10 * update + rank)


class Member:
    """Collects by sleeping, gives `gradient_of`, and adds the sums to shared parameters.

    Args:
        plan: memory of the teams, counters, shared parameters `[workers, P]`, of which each worker that applies
            changes its own row, seconds of a step for each rank.
    """

    def __init__(self, plan: Any, rank: int, state: dict[str, Any] | None, on_tick: Callable[[], None]) -> None:
        self.memory, counters, self.parameters, self.step_s = plan
        self.row, self.rank, self.on_tick = Counters(counters).row(rank), rank, on_tick
        self.team = Team(self.memory, rank, self.tick_of_updates)
        self.rollouts = self.cut = 0

    def tick_of_updates(self) -> None:
        with suppress(CutShort):
            self.on_tick()

    def work(self) -> None:
        if not self.team.begin():
            return
        try:
            for _ in range(NUM_STEPS):
                time.sleep(self.step_s[self.rank])
                self.on_tick()
                self.team.check()
            moments = np.full((NUM_UPDATES, 3), float(self.rank))
            self.moments = self.team.exchange(moments).copy()
        except CutShort:
            self.cut += 1
            self.team.leave()
            raise
        self.row[STEPS] += NUM_STEPS
        for update in range(NUM_UPDATES):
            if update == self.rollouts % NUM_UPDATES and self.team.group.start:
                continue  # as an update without a valid sample: the first group makes one more
            total = self.team.sum(gradient_of(self.rank, self.rollouts, update))
            if total is not None:
                self.parameters[self.rank].add_(total)
                self.row[UPDATES] += 1
            self.team.made()
            self.seen = self.parameters[self.applying].clone()
        self.team.end()
        self.rollouts += 1

    @property
    def applying(self) -> int:
        """The rank of the member that applies the updates of this one's group."""
        return self.rank % len(self.memory.gradients) + self.team.group.start * len(self.memory.gradients)

    def finish(self) -> None:
        if self.team.is_behind:
            self.cut += 1
            self.team.leave()

    def report(self) -> Report:
        return Report(worker=self.rank, steps=int(self.row[STEPS]))

    def state_dict(self) -> dict[str, Any]:
        state: dict[str, Any] = {"rollouts": self.rollouts, "cut": self.cut, "pid": os.getpid()}
        if self.rollouts:
            state |= {"moments": self.moments, "seen": self.seen}
        return state

    def close(self) -> None:
        pass


def memory_of(teams: int, members: int, group_size: int) -> TeamMemory:
    """Shared memory of teams whose members sleep while they wait."""
    return TeamMemory.zeros(teams, members, group_size, NUM_PARAMETERS, NUM_UPDATES, spins=False)
