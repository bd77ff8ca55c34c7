"""Whether a policy is of an environment's spaces; spaces in words."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.learning.actions import (
    ActionDistribution,
    Bernoulli,
    Categorical,
    Gaussian,
    MultiCategorical,
    Product,
    UniformBox,
    action_distribution,
    leaves_of,
)
from a3c_zoo.learning.model import ModelPolicy, Spaces
from a3c_zoo.learning.spaces import Leaf, ObservationSpec, observation_spec


def check_spaces(there: Spaces, here: Spaces, env_name: str) -> None:
    """Raises RunDirectoryError if the spaces of a policy are not those of the environment in which it is to act."""
    for which in ("observations", "actions"):
        theirs = getattr(there, which)
        ours = getattr(here, which)
        if theirs != ours:
            words = [in_words(theirs), in_words(ours)]
            if words[0] == words[1]:
                theirs = repr(theirs)
                ours = repr(ours)
            else:
                theirs, ours = words
            raise RunDirectoryError(
                f"the policy has other {which} than environment '{env_name}': {theirs}, not {ours}"
            )


def check_policy(policy: object, env: VectorEnv[Any, Any, Any], env_name: str) -> None:
    """The same for an environment that is made already. A policy of another library has no spaces to compare."""
    if isinstance(policy, ModelPolicy):
        acts = [leaf for _, leaf in leaves_of(policy.spaces.actions)]
        options = {
            "squash": squashes(policy.spaces.actions),
            "uniform": any(isinstance(leaf, UniformBox) for leaf in acts),
        }
        actions = action_distribution(env.single_action_space, **options)
        check_spaces(policy.spaces, Spaces(observation_spec(env.single_observation_space), actions), env_name)


def squashes(actions: ActionDistribution) -> bool:
    """Whether Box actions are squashed to their bounds (`agent.squash_actions`)."""
    return any(isinstance(leaf, Gaussian) and leaf.squash for _, leaf in leaves_of(actions))


def in_words(part: ObservationSpec | Leaf | ActionDistribution) -> str:
    """What an observation or an action is, in a few words."""
    match part:
        case ObservationSpec(leaves=(_, *_)):
            return _in_parts([(leaf.path, in_words(leaf)) for leaf in part.leaves])
        case Product():
            return _in_parts([(path, in_words(leaf)) for path, leaf in leaves_of(part)])
        case ObservationSpec(one_hot=count) if count:
            return f"one of {count}"
        case ObservationSpec():
            return f"{part.kind} {list(part.given_shape)} of {part.dtype}"
        case Leaf(sizes=()):
            return str(list(part.shape))
        case Leaf() | MultiCategorical():
            return " and ".join(f"one of {size}" for size in part.sizes)
        case Categorical():
            return f"one of {part.num_logits}"
        case Bernoulli():
            return f"bits {list(part.space_shape)}"
        case Gaussian():
            return f"vector {list(part.space_shape)} from {np.min(part.low):g} to {np.max(part.high):g}"


def _in_parts(parts: list[tuple[tuple[str | int, ...], str]]) -> str:
    """The path of each part, and what it is, in a few words."""
    named = (("/".join(map(str, path)), words) for path, words in parts)
    return ", ".join(" ".join(filter(None, each)) for each in named)
