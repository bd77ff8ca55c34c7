"""Action masks: which actions an environment allows at each step.

An environment gives them in one of two ways, and a run finds out once which one it is, before it starts:

    info["action_mask"]    of `reset` and `step`, as Gymnasium's and PettingZoo's environments give it
    action_masks()         a method, as sb3-contrib calls it

Masks in observations (`observed_masks.py`) are put into infos.

A mask has a bool, or 0 and 1, for each action of a Discrete space. For a MultiDiscrete space the masks of the choices
follow each other, or come as a tuple. For a Dict or a Tuple of such spaces the mask is a dictionary or a tuple of those
of the parts, or all in a row. Other parts, such as a Box, have None or nothing there, and nothing in the row. What
follows from a mask is in `actions.masked_logits`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from gymnasium.vector import SyncVectorEnv, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import ConfigError, EnvironmentContractError, type_and_message
from a3c_zoo.learning.actions import (
    ActionDistribution,
    Product,
    action_distribution,
    choices_of,
    is_choice,
    mask_length,
)
from a3c_zoo.learning.autoreset import autoreset_of
from a3c_zoo.learning.returns import Bools
from a3c_zoo.learning.spaces import row_of

#: The key of an info, and the name of the method.
KEY: Final = "action_mask"
METHOD: Final = "action_masks"

#: Takes the numbers of some environments; returns what has the mask of environment n under n.
Caller = Callable[[list[int]], Any]


def masks_refused(env_name: str, agent_name: str) -> ConfigError:
    """The error of an agent that cannot act within the masks that an environment gives."""
    return ConfigError(
        f"environment '{env_name}' gives action masks, and agent '{agent_name}' takes none. "
        "-o env.action_masks=false trains without them"
    )


def gives_masks(env: VectorEnv[Any, Any, Any], info: Mapping[str, Any]) -> bool:
    """Whether an environment gives action masks.

    Args:
        info: what its `reset` returned.
    """
    return KEY in info or _caller(env) is not None


def _caller(env: VectorEnv[Any, Any, Any]) -> Caller | None:
    """What calls the method of an environment; None if it has none.

    Gymnasium's vector wrappers hide it, so it is looked for behind them.
    """
    while isinstance(env, VectorWrapper) and METHOD not in vars(type(env)):
        env = env.env
    if isinstance(env, SyncVectorEnv):
        if not all(single.has_wrapper_attr(METHOD) for single in env.envs):
            return None
        methods = [single.get_wrapper_attr(METHOD) for single in env.envs]
        if not all(map(callable, methods)):
            return None
        return lambda numbers: _ByNumber((n, methods[n]()) for n in numbers)
    method = getattr(env, METHOD, None)
    if not callable(method):
        return None
    return lambda numbers: method()


class _ByNumber(dict[int, Any]):
    """Number of an environment → its mask. The keys of a Dict action space may be numbers, too."""


class ActionMasks:
    """Reads the masks of N environments with A actions in all choices (`actions.mask_length`).

    Args:
        env: the environments. distribution: over their actions. name: of the environment, in messages.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], distribution: ActionDistribution, name: str) -> None:
        sizes = choices_of(distribution)
        self._distribution = distribution
        self._size = sum(sizes)
        self._starts = np.cumsum((0, *sizes[:-1]))
        self._num_envs = env.num_envs
        self._name = name
        self._call = _caller(env)

    def take(self, info: Mapping[str, Any], out: Bools, which: Bools | None = None) -> None:
        """Writes the masks of what is acted on next.

        Args:
            info: what `reset` or `step` returned. out: `[N, A]`.
            which: the environments whose rows are written, `[N]`; None for all.

        Raises:
            EnvironmentContractError: a mask is missing, has a wrong form, or forbids every action.
        """
        if which is None:
            which = np.ones(self._num_envs, np.bool_)
        elif not which.any():
            return
        given = info.get(KEY)
        if given is None and self._call is not None:
            numbers = np.flatnonzero(which).tolist()
            masks = self._rows(self._call(numbers), numbers)
        else:
            masks = self._of_info(given, info.get(f"_{KEY}"), which)
        forbids_all = ~np.logical_or.reduceat(masks, self._starts, axis=1)
        if forbids_all.any():
            row, choice = np.argwhere(forbids_all)[0].tolist()
            self._refuse_empty(int(np.flatnonzero(which)[row]), choice)
        out[which] = masks

    def _of_info(self, given: Any, present: Any, which: Bools) -> Bools:
        """The masks of an info, `[which.sum(), A]`."""
        missing = which if given is None else np.zeros_like(which)
        if given is not None and present is not None:
            missing = which & ~np.asarray(present, np.bool_)
        if missing.any():
            raise EnvironmentContractError(
                f"environment '{self._name}' gave no action mask in info['{KEY}'] "
                f"(environment {int(np.flatnonzero(missing)[0])} of {self._num_envs}): reset() and each step() must "
                "give one, as the first reset() did. env.action_masks=false ignores them"
            )
        is_product = isinstance(self._distribution, Product)
        if isinstance(given, tuple) and not is_product and all(map(self._is_of_all, given)):
            given = np.concatenate(given, axis=1)  # an array for each choice
        if isinstance(given, np.ndarray) and given.dtype != object:
            return self._checked(given, self._num_envs)[which]
        return self._rows(given, np.flatnonzero(which).tolist())

    def _is_of_all(self, part: Any) -> bool:
        """Whether this has a row for each environment."""
        return isinstance(part, np.ndarray) and part.ndim == 2 and len(part) == self._num_envs

    def _rows(self, masks: Any, numbers: list[int]) -> Bools:
        """The masks of some environments, `[n, A]`, of what has the mask of environment n under n."""
        try:
            rows = [in_a_row(self._distribution, self._mask_of(masks, n)) for n in numbers]
        except (TypeError, ValueError, LookupError) as error:
            raise self._wrong(f"{type(masks).__name__} ({type_and_message(error)})") from error
        for row in rows:
            self._checked(row[np.newaxis], 1)
        return np.array(rows, np.bool_)

    def _mask_of(self, masks: Any, n: int) -> Any:
        """The mask of environment n; those of a vector environment may be a dictionary or a tuple of arrays."""
        if isinstance(self._distribution, Product) and not isinstance(masks, _ByNumber):
            return row_of(masks, n)
        return masks[n]

    def _checked(self, masks: NDArray[Any], num_envs: int) -> Bools:
        """The same as bools; raises EnvironmentContractError unless they are `[num_envs, A]`, of bools or 0 and 1."""
        is_form = masks.shape == (num_envs, self._size) and masks.dtype.kind in "biu"
        if is_form and masks.dtype.kind == "b":
            return masks
        if is_form and ((masks == 0) | (masks == 1)).all():
            return masks.astype(np.bool_)
        form = f"{masks.dtype} {list(masks.shape[1:])}"
        if is_form:
            form += " with other numbers than 0 and 1"
        raise self._wrong(form)

    def _wrong(self, form: str) -> EnvironmentContractError:
        return EnvironmentContractError(
            f"environment '{self._name}' gave a wrong action mask: {form}; it must be of bool, or of 0 and 1 in "
            f"integers, with {self._size} elements. env.action_masks=false ignores masks"
        )

    def _refuse_empty(self, n: int, choice: int) -> None:
        what = "every action"
        if len(self._starts) > 1:
            what = f"every action of choice {choice}"
        raise EnvironmentContractError(
            f"environment '{self._name}' gave an action mask that forbids {what} (environment {n} of "
            f"{self._num_envs}): allow one, or end the episode with the step before. "
            "env.action_masks=false ignores masks"
        )


def in_a_row(distribution: Any, mask: Any) -> NDArray[Any]:
    """A mask `[..., A]`: an array, one for each choice, or a dictionary or a tuple of the masks of the parts.

    Args:
        distribution: over the actions that it is for.

    Raises:
        TypeError, ValueError, LookupError: it does not fit the distribution.
    """
    if isinstance(distribution, Product) and isinstance(mask, tuple | list | Mapping) and not _is_flat(mask):
        by_place: Any = mask
        rows = []
        for place, part in zip(distribution.places, distribution.parts, strict=True):
            size = mask_length(part)
            if not size:
                _refuse_mask(place, by_place)
                continue
            row = in_a_row(part, by_place[place])
            if row.shape[-1:] != (size,):
                raise ValueError(f"part '{place}' has shape {list(row.shape)}")
            rows.append(row)
        return np.concatenate(rows, axis=-1)
    if isinstance(mask, tuple | list) and any(map(np.ndim, mask)):
        return np.concatenate([np.asarray(part) for part in mask], axis=-1)
    return np.asarray(mask)


def _refuse_mask(place: str | int, by_place: Any) -> None:
    """Raises ValueError for the mask of a part that has no choices: it would have no influence."""
    try:
        mask = by_place[place]
    except LookupError:
        return
    if mask is not None:
        raise ValueError(f"part '{place}' is neither Discrete nor MultiDiscrete, and takes no mask, but None")


def _is_flat(mask: Any) -> bool:
    """Whether a sequence holds numbers alone: the masks of all choices in a row."""
    return not isinstance(mask, Mapping) and not any(
        isinstance(part, Mapping) or np.ndim(part) for part in mask
    )


class FollowedMasks:
    """The masks of what is acted on next, from step to step.

    Args:
        info: what the first `reset` returned. Others: see `ActionMasks`.

    Attributes:
        allowed: `[N, A]`, bool.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        distribution: ActionDistribution,
        name: str,
        info: Mapping[str, Any],
    ) -> None:
        self._masks = ActionMasks(env, distribution, name)
        self._autoreset = autoreset_of(env)
        self._distribution = distribution
        self._space = env.action_space
        self.allowed: Bools = np.ones((env.num_envs, mask_length(distribution)), np.bool_)
        self._masks.take(info, self.allowed)

    def step(self, info: Mapping[str, Any], ended: Bools) -> None:
        """Reads what a step returned. A final observation has no mask, and the action after it may be any."""
        self.allowed[ended] = True
        self._masks.take(info, self.allowed, ~ended)

    def restart(self, info: Mapping[str, Any], ended: Bools) -> None:
        """Reads what `Autoreset.restart` returned; with NEXT_STEP, episodes begin a step later."""
        if not self._autoreset.ignores_a_step:
            self._masks.take(info, self.allowed, ended)

    def within(self, actions: Any) -> Any:
        """Actions `[N, ...]`, as the environment takes them: the same, and the next allowed one for a forbidden one."""
        sizes = choices_of(self._distribution)
        chosen = _indices(self._distribution, actions)
        for k, mask in enumerate(np.split(self.allowed, np.cumsum(sizes)[:-1], axis=1)):
            following = (chosen[:, [k]] + np.arange(sizes[k])) % sizes[k]
            first = np.take_along_axis(mask, following, axis=1).argmax(axis=1)
            chosen[:, k] = following[np.arange(len(chosen)), first]
        return _with_choices(self._distribution, actions, chosen)

    def random_actions(self, generator: np.random.Generator) -> Any:
        """Random actions `[N, ...]`, as the environment takes them; choices are uniform among the allowed actions."""
        return random_action(self._distribution, self._space.sample(), self.allowed, generator)


def masks_to_follow(
    env: VectorEnv[Any, Any, Any], config: EnvConfig, name: str, info: Mapping[str, Any]
) -> FollowedMasks | None:
    """The masks for actions that no policy chooses; None if the environment gives none, or if they are ignored.

    Args:
        config: of the environment. Others: see `FollowedMasks`.

    Raises:
        ConfigError: none of the actions are Discrete or MultiDiscrete.
        EnvironmentContractError: see `ActionMasks.take`.
    """
    if not (config.action_masks and gives_masks(env, info)):
        return None
    return FollowedMasks(env, action_distribution(env.single_action_space, has_masks=True), name, info)


def random_action(
    distribution: ActionDistribution, actions: Any, masks: Bools, generator: np.random.Generator
) -> Any:
    """Actions of the environment `[N, ...]` whose choices are uniformly random among those that masks `[N, A]` allow.

    Args:
        actions: `[N, ...]`; what is no choice in them stays as it is.
    """
    scores = np.where(masks, generator.random(masks.shape), -1.0)
    choices = np.split(scores, np.cumsum(choices_of(distribution))[:-1], axis=1)
    chosen = np.stack([choice.argmax(axis=1) for choice in choices], axis=1)
    return _with_choices(distribution, actions, chosen)


def _indices(distribution: Any, actions: Any) -> NDArray[Any]:
    """The indices that actions of the environment `[N, ...]` have, `[N, choices]`."""
    if isinstance(distribution, Product):
        parts = zip(distribution.places, distribution.parts, strict=True)
        return np.concatenate(
            [_indices(part, actions[place]) for place, part in parts if mask_length(part)], axis=1
        )
    indices: NDArray[Any] = np.reshape(actions, (len(actions), -1)) - np.reshape(distribution.start, -1)
    return indices


def _with_choices(distribution: ActionDistribution, actions: Any, indices: NDArray[Any]) -> Any:
    """Actions of the environment `[N, ...]` with other indices `[N, choices]`; the reverse of `_indices`."""
    if not isinstance(distribution, Product):
        if not is_choice(distribution):
            return actions
        return distribution.to_env(indices.reshape(len(indices), *distribution.shape))
    changed = []
    first = 0
    for place, part in zip(distribution.places, distribution.parts, strict=True):
        count = len(choices_of(part))
        changed.append(_with_choices(part, actions[place], indices[:, first : first + count]))
        first += count
    return distribution.in_places(changed)
