"""Workers that collect and learn as one: each has a part of the environments, and they learn when all have collected.

    every member: collect ─▶ wait for all ─▶ differentiate its part ─┐                                 ─▶ wait for all
    every member: collect ─▶ wait for all ─▶ differentiate its part ─┴▶ sum: one applies it ─▶ again … ─▶ wait for all

This is synchronous data parallelism, as in DD-PPO (Wijmans et al. 2020, arXiv:1911.00357, section 3). An update has the
samples that it would have with one worker. A team may have several groups, each of which sums its own updates, and
which make them beside each other without a lock. Each member counts its arrivals in a cell of its own
(`store_order.py`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3c_zoo.learning.parameters import share
from a3c_zoo.processes.crew import CutShort
from a3c_zoo.processes.ring import LONGEST_WAIT_S, SHORTEST_WAIT_S
from a3c_zoo.store_order import memory_barrier

#: How long a member waits for others before it sleeps, in seconds, where each member has a core of its own.
SPIN_S = 2e-3
#: How often it lets `on_wait` look around, in seconds.
LOOK_EVERY_S = 1e-3
#: Arrivals of a member for a rollout: it has collected; it has learned.
ARRIVALS_OF_ROLLOUT = 2
#: And for an update: its gradient is there; its part of the sum is there; the update is made.
ARRIVALS_OF_UPDATE = 3

#: Gives the core to another process that waits for it.
let_others_run: Callable[[], object] = getattr(os, "sched_yield", lambda: time.sleep(0))

Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TeamMemory:
    """What the members of all teams share; the first index is that of the team.

    Attributes:
        gradients: of the members' parts of an update, `[teams, members, P]`, float32; empty if groups have one member.
        sums: of the gradients of each group, `[teams, groups, P]`, float32; the same.
        moments: what `Team.exchange` exchanges, `[teams, members, U, 3]`, float64, for U updates of a rollout.
        arrived: how often each member has arrived, `[teams, members]`, int64.
        begun: the number of the newest rollout that a leader has begun, `[teams]`, int64.
        void: the number of the newest rollout that a member has left, `[teams]`, int64.
        spins: whether each worker has a core of its own.
        group_size: how many members make an update together.
    """

    gradients: Tensor
    sums: Tensor
    moments: Tensor
    arrived: Tensor
    begun: Tensor
    void: Tensor
    spins: bool
    group_size: int

    @staticmethod
    def zeros(
        teams: int, members: int, group_size: int, num_parameters: int, num_updates: int, spins: bool
    ) -> TeamMemory:
        """Makes it in shared memory. Raises ConfigError if there is no room."""
        summed = num_parameters if group_size > 1 else 0
        memory = TeamMemory(
            gradients=torch.zeros(teams, members, summed),
            sums=torch.zeros(teams, members // group_size, summed),
            moments=torch.zeros(teams, members, num_updates, 3, dtype=torch.float64),
            arrived=torch.zeros(teams, members, dtype=torch.int64),
            begun=torch.zeros(teams, dtype=torch.int64),
            void=torch.zeros(teams, dtype=torch.int64),
            spins=spins,
            group_size=group_size,
        )
        share(memory.gradients, memory.sums, memory.moments, memory.arrived, memory.begun, memory.void)
        return memory


class Team:
    """One member's view of its team.

    The leaders have the first ranks: worker r is member r // teams of team r % teams, and member 0 leads. The leader
    alone begins rollouts, so a standstill of the leaders is one of their teams, once all have finished. The first
    members are the first group, and so on.

    Args:
        memory: of all teams. rank: the worker's.
        on_wait: called while the member waits; may raise to stop.

    Attributes:
        place: the member's number. group: the members of its group, as a part of the team.
    """

    def __init__(self, memory: TeamMemory, rank: int, on_wait: Callable[[], None]) -> None:
        teams, _, num_parameters = memory.gradients.shape
        team = rank % teams
        self.place = rank // teams
        number, place_in_group = divmod(self.place, memory.group_size)
        first = number * memory.group_size
        self.group = slice(first, first + memory.group_size)
        self._is_alone = memory.group_size == 1
        self._on_wait = on_wait
        self._gradients = memory.gradients[team, self.group]
        self._sum = memory.sums[team, number]
        self._moments: Doubles = memory.moments[team].numpy()
        self._arrived = memory.arrived[team].numpy()
        self._begun = memory.begun[team : team + 1].numpy()
        self._void = memory.void[team : team + 1].numpy()
        self._spin_s = SPIN_S if memory.spins else 0.0
        self._arrivals_of_rollout = ARRIVALS_OF_ROLLOUT + ARRIVALS_OF_UPDATE * memory.moments.shape[2]
        size = memory.group_size
        edges = [num_parameters * place // size for place in range(size + 1)]
        self._part = slice(edges[place_in_group], edges[place_in_group + 1])
        self._rollout = int(self._begun[0])
        self._arrivals = 0

    @property
    def is_leader(self) -> bool:
        return self.place == 0

    @property
    def applies(self) -> bool:
        """Whether this member applies the updates of its group."""
        return self.place == self.group.start

    def begin(self) -> bool:
        """Begins the next rollout, as the leader; another member tells whether one has begun, after a short wait."""
        if self.is_leader:
            self._begun[0] += 1
        elif self._begun[0] == self._rollout:
            self._on_wait()  # it is alive; its leader may stand still until another team does
            self._wait(lambda: bool(self._begun[0] != self._rollout), LONGEST_WAIT_S)
            if self._begun[0] == self._rollout:
                return False
        self._rollout = int(self._begun[0])
        self._arrivals = self._rollout * self._arrivals_of_rollout
        return True

    def check(self) -> None:
        """Raises CutShort if another member has left the rollout under way."""
        if self._void[0] >= self._rollout:
            raise CutShort

    def leave(self) -> None:
        """Leaves the newest rollout that has begun, which is then lost to all; nothing if it has been finished."""
        self._void[0] = self._begun[0]

    @property
    def is_behind(self) -> bool:
        """Whether a rollout has begun that this member has not."""
        return bool(self._begun[0] != self._rollout)

    def exchange(self, moments: Doubles) -> Doubles:
        """Gives the others what each update `[U, 3]` needs of this member; returns that of all, `[members, U, 3]`.

        Waits for all, so nobody learns before all have collected.

        Raises:
            CutShort: a member has left the rollout.
        """
        self._moments[self.place] = moments
        self._arrive()
        self._wait_for(slice(None))
        return self._moments

    def end(self) -> None:
        """Waits until all have learned: the next rollout is made by the policy with all updates of this one."""
        self._arrivals = (
            self._rollout + 1
        ) * self._arrivals_of_rollout - 1  # another group may have made more updates
        self._arrive()
        self._wait_for(slice(None))

    def sum(self, gradient: Tensor) -> Tensor | None:
        """Adds up the gradients `[P]` of the group. Returns the sum to the member that applies it, None to the others.

        Each member adds up a part of the numbers. Call `made` afterwards.
        """
        if self._is_alone:
            return gradient
        self._gradients[self.place - self.group.start].copy_(gradient)
        self._arrive()
        self._wait_for(self.group)
        torch.sum(self._gradients[:, self._part], dim=0, out=self._sum[self._part])
        self._arrive()
        if not self.applies:
            return None
        self._wait_for(self.group)
        return self._sum

    def made(self) -> None:
        """The sum has been applied; the others of the group wait for it."""
        if self._is_alone:
            return
        self._arrive()
        if not self.applies:
            self._wait(lambda: bool(self._arrived[self.group.start] >= self._arrivals))

    def _arrive(self) -> None:
        self._arrivals += 1
        memory_barrier()
        self._arrived[self.place] = self._arrivals

    def _wait_for(self, members: slice) -> None:
        self._wait(lambda: bool(self._arrived[members].min() >= self._arrivals))

    def _wait(self, is_over: Callable[[], bool], limit_s: float | None = None) -> None:
        """Waits until `is_over`, or until the limit. A member that has left the rollout is not waited for."""
        if is_over():
            memory_barrier()
            return
        began_s = looked_s = time.monotonic()
        pause_s = SHORTEST_WAIT_S
        while not is_over():
            now_s = time.monotonic()
            if limit_s is not None and now_s - began_s >= limit_s:
                return
            if now_s - looked_s >= LOOK_EVERY_S:
                looked_s = now_s
                self._on_wait()
                if limit_s is None:
                    self.check()
            if now_s - began_s < self._spin_s:
                let_others_run()
            else:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_WAIT_S)
        memory_barrier()
