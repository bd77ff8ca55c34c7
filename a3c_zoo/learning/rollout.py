"""The rollout: what the collect stage hands to the differentiate stage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from a3c_zoo.learning.returns import Bools, Floats

#: The arrays of a rollout of T steps, and how many rows more than T each has.
MORE_ROWS = {"observations": 1, "actions": 0, "rewards": 0, "terminated": 0, "truncated": 0, "valid": 0}
#: Those that only some rollouts have: the first two with a recurrent core, the third with action masks.
OPTIONAL_ROWS = {"states": 1, "resets": 1, "masks": 1}


@dataclass(slots=True)
class Rollout:
    """T steps of N environments. The arrays are views of the collector's buffers, valid until it collects again.

    Attributes:
        observations: s_0 … s_T, `[T+1, N, ...]`, as stored (`ObservationSpec`).
        actions: as their distribution stores them, `[T, N, ...]` (`ActionDistribution`). In a Discrete space:
            indices, `[T, N]`, int64.
        rewards: as the environment gave them, `[T, N]`, float32.
        terminated: whether step t ended an episode in this way, `[T, N]`, bool. truncated: the same.
        valid: False where the environment ignored the action (NEXT_STEP, after an end), `[T, N]`, bool.
        finals: (t, n) → final observation of an episode that was truncated at step t, unless it is
            `observations[t+1, n]`.
        states: state of a recurrent core before each row, `[T+1, K, N, H]`, before resets; None without a
            core.
        resets: before which rows that state becomes 0, `[T+1, N]`, bool; None without a core.
        logits: of the policy that acted, `[T, N, A]`, float32. values: V of the rows before the last, by the
            same parameters, `[T+1, N]`, float32. None if the collector does not keep them.
        masks: which actions of all choices the environment allowed, in the order of their logits, `[T+1, N, A]`, bool;
            all of an ignored step. None for an environment without action masks.
    """

    observations: Tensor
    actions: Tensor
    rewards: Floats
    terminated: Bools
    truncated: Bools
    valid: Bools
    finals: dict[tuple[int, int], NDArray[Any]] = field(default_factory=dict)
    states: Tensor | None = None
    resets: Bools | None = None
    logits: Tensor | None = None
    values: Tensor | None = None
    masks: Tensor | None = None

    @classmethod
    def zeros(
        cls,
        rows: int,
        num_envs: int,
        observation: Any,
        action: Any,
        start: Tensor | None,
        mask_size: int | None = None,
    ) -> Rollout:
        """A rollout of T = `rows` steps, all 0.

        Args:
            observation: has the shape and the NumPy dtype of one. action: has the shape and the torch dtype
                of one.
            start: a state of the recurrent core, `[K, N, H]`, if there is one.
            mask_size: A, with action masks.
        """
        masks = None
        if mask_size is not None:
            masks = torch.zeros(rows + 1, num_envs, mask_size, dtype=torch.bool)
        states = resets = None
        if start is not None:
            states = torch.zeros(rows + 1, *start.shape)
            resets = np.zeros((rows + 1, num_envs), np.bool_)
        return cls(
            observations=torch.from_numpy(
                np.zeros((rows + 1, num_envs, *observation.shape), observation.dtype)
            ),
            actions=torch.zeros((rows, num_envs, *action.shape), dtype=action.dtype),
            rewards=np.zeros((rows, num_envs), np.float32),
            terminated=np.zeros((rows, num_envs), np.bool_),
            truncated=np.zeros((rows, num_envs), np.bool_),
            valid=np.zeros((rows, num_envs), np.bool_),
            states=states,
            resets=resets,
            masks=masks,
        )

    @property
    def _more_rows(self) -> dict[str, int]:
        """The arrays that this rollout has, and how many rows more than T each has."""
        optional = {name: more for name, more in OPTIONAL_ROWS.items() if getattr(self, name) is not None}
        return MORE_ROWS | optional

    def acted_masks(self, columns: slice) -> Tensor | None:
        """The masks of the T steps of some environments, `[T·n, A]`; None without masks."""
        if self.masks is None:
            return None
        return self.masks[: len(self.rewards), columns].flatten(0, 1)

    @property
    def core(self) -> tuple[Tensor, Bools]:
        """`states` and `resets` of a rollout with a recurrent core."""
        assert self.states is not None
        assert self.resets is not None
        return self.states, self.resets

    def final_places(self, columns: slice) -> list[tuple[int, int]]:
        """The places in `finals` that belong to these environments: row, and number within `columns`."""
        chosen = range(*columns.indices(self.rewards.shape[1]))
        return [(t, chosen.index(n)) for t, n in self.finals if n in chosen]

    def head(self, length: int) -> Rollout:
        """The first `length` steps, as views."""
        arrays = {name: getattr(self, name)[: length + more] for name, more in self._more_rows.items()}
        if self.logits is not None and self.values is not None:
            arrays |= {"logits": self.logits[:length], "values": self.values[: length + 1]}
        return replace(self, **arrays)

    def arrays(self) -> list[NDArray[Any]]:
        """All arrays in the order of the fields; tensors as NumPy arrays of the same memory."""
        return [np.asarray(getattr(self, name)) for name in self._more_rows]

    def next_values(self, values: Floats, columns: slice, value: Callable[[Tensor], Tensor]) -> Floats:
        """The value of the state after each step, `[T, n]`. After a truncation it is that of the final observation.

        Terminated states are not set to 0. A bootstrap multiplies with `~terminated`, as `returns.py` does:
        `rewards + gamma * next_values * ~terminated`. Otherwise the first state of the next episode counts.

        Args:
            values: V of the observations in rows 1 … T, `[T, n]`. They hold wherever `finals` has nothing
                else.
            columns: the n environments.
            value: returns V, `[B]`, of the final observations `[B, ...]` at `final_places`, in that order.
        """
        places = self.final_places(columns)
        if not places:
            return values
        values = values.copy()
        chosen = range(*columns.indices(self.rewards.shape[1]))
        with torch.no_grad():
            finals = torch.from_numpy(np.stack([self.finals[t, chosen[n]] for t, n in places]))
            for (t, n), v in zip(places, value(finals).tolist(), strict=True):
                values[t, n] = v
        return values
