"""Distributions over actions, chosen by the action space.

The network's policy gives the parameters. Noise is drawn for a whole rollout at once; a sample adds it to the
parameters. A rollout stores actions in a form of the distribution's own (`shape`, `dtype`), which the loss
needs, and `to_env` makes the environment's actions from it.

torch.distributions has the same ones. They take no generator, draw for one step at a time, and check and
allocate for every call: on small networks that costs more than the forward pass.

All distributions (`ActionDistribution`) offer the same, for B observations at a time:

    num_logits              K, how many numbers of noise a sample takes. The network gives as many logits for each
                            observation (`[B, K]`); for a Gaussian it gives K means, and K logarithms of
                            deviations follow them (`[B, 2K]`)
    shape, dtype            of one action, as a rollout stores it
    noise                   fills `out` `[..., K]`, float32, with the noise that samples are made of, and returns it
    sample                  writes one action per row into `out` `[B, *shape]`, from noise `[B, K]`
    mode                    the most probable action per row, `[B, *shape]`
    log_prob_and_entropy    log π(a) and the entropy in nats, both `[B]`, for actions `[B, *shape]`
    to_env                  the environment's actions `[B, *space.shape]`, in its dtype, for actions `[B, *shape]`
    has_masks               whether the environment gives action masks; then logits come from `masked_logits`
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from math import e, log, pi, prod
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import Space, spaces
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from a3c_zoo.errors import ConfigError, PluginError, UnsupportedSpaceError

#: log √(2π) and the entropy of N(0, 1) in nats.
LOG_ROOT_2_PI = 0.5 * log(2 * pi)
NORMAL_ENTROPY = 0.5 * log(2 * pi * e)
#: The logit of an action that a mask forbids. In float32 its probability is exactly 0, and so are its part of the
#: entropy and its gradient. With minus infinity they would be 0 · ∞, which is no number.
FORBIDDEN = -1e8
#: A bound of a Box from this size on counts as infinite.
LARGEST_BOUND = 1e30


@dataclass(frozen=True)
class Categorical:
    """Over the actions of a Discrete space, which are stored as indices.

    Attributes:
        num_logits: how many actions there are. start: the first action of the environment.
        has_masks: whether the environment gives action masks. Then logits must come from `masked_logits`.
    """

    num_logits: int
    start: int = 0
    has_masks: bool = field(default=False, compare=False)
    shape: ClassVar[tuple[int, ...]] = ()
    dtype: ClassVar[torch.dtype] = torch.int64

    @staticmethod
    def noise(out: Tensor, generator: torch.Generator) -> Tensor:
        """Gumbel(0, 1)."""
        return out.exponential_(generator=generator).log_().neg_()

    def sample(self, logits: Tensor, noise: Tensor, out: Tensor) -> None:
        """The Gumbel-max trick: argmax(logits + noise), int64."""
        torch.argmax(_scores(logits, noise, self.has_masks), dim=-1, out=out)

    def mode(self, logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1)

    def log_prob_and_entropy(self, logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """log p(a), and H = −Σ p log p."""
        log_p = torch.log_softmax(logits, dim=-1)
        entropy = -(log_p.exp() * log_p).sum(dim=-1)
        return log_p.gather(-1, actions.unsqueeze(-1)).squeeze(-1), entropy

    def to_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        return actions + self.start  # a copy: environments may change or keep it


@dataclass(frozen=True)
class MultiCategorical:
    """Over the K independent choices of a MultiDiscrete space. Their logits follow each other.

    Attributes:
        sizes: how many actions each choice has, `[K]`. start: the first action of each, `[K]`.
        space_shape, space_dtype: of the environment's actions.
        has_masks: as in `Categorical`.
    """

    sizes: tuple[int, ...]
    start: tuple[int, ...]
    space_shape: tuple[int, ...]
    space_dtype: str = "<i8"
    has_masks: bool = field(default=False, compare=False)
    dtype: ClassVar[torch.dtype] = torch.int64
    noise = staticmethod(Categorical.noise)

    @property
    def num_logits(self) -> int:
        return sum(self.sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.sizes),)

    def sample(self, logits: Tensor, noise: Tensor, out: Tensor) -> None:
        """The Gumbel-max trick for each choice, `[B, K]`, int64."""
        scores = _scores(logits, noise, self.has_masks)
        for k, part in enumerate(torch.split(scores, list(self.sizes), dim=-1)):
            out[..., k] = part.argmax(dim=-1)

    def mode(self, logits: Tensor) -> Tensor:
        return torch.stack(
            [part.argmax(dim=-1) for part in torch.split(logits, list(self.sizes), dim=-1)], dim=-1
        )

    def log_prob_and_entropy(self, logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over the choices, which are independent."""
        log_prob = torch.zeros(())
        entropy = torch.zeros(())
        for part, chosen in zip(
            torch.split(logits, list(self.sizes), dim=-1), actions.unbind(dim=-1), strict=True
        ):
            log_p = torch.log_softmax(part, dim=-1)
            log_prob = log_prob + log_p.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
            entropy = entropy - (log_p.exp() * log_p).sum(dim=-1)
        return log_prob, entropy

    def to_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        shifted = actions + np.asarray(self.start, np.int64)
        return shifted.reshape(len(actions), *self.space_shape).astype(self.space_dtype, copy=False)


def _scores(logits: Tensor, noise: Tensor, has_masks: bool) -> Tensor:
    """logits + noise, of which the largest is chosen. Noise may be infinite; a forbidden action stays the smallest."""
    scores = logits + noise
    if has_masks:
        scores.masked_fill_(logits == FORBIDDEN, -torch.inf)
    return scores


def masked_logits(distribution: ActionDistribution, logits: Tensor, masks: Tensor | None) -> Tensor:
    """Logits `[B, A]` with `FORBIDDEN` where a mask `[B, A]`, bool, is False; the same logits without masks.

    The distribution of these logits is that of the policy among the allowed actions: probabilities, entropy, samples
    and the most probable action. No gradient comes from forbidden ones (Huang & Ontañón 2022, arXiv:2006.14171).

    Raises:
        PluginError: the environment gives masks, and none came here.
    """
    if masks is not None:
        return torch.where(masks, logits, FORBIDDEN)
    if distribution.has_masks:
        raise PluginError(
            "the environment gives action masks, which this agent does not hand over to its loss (Rollout.masks). "
            "env.action_masks=false ignores them"
        )
    return logits


@dataclass(frozen=True)
class Bernoulli:
    """Over the independent bits of a MultiBinary space; a logit is log(p / (1 − p)) for a 1."""

    has_masks: ClassVar[bool] = False

    space_shape: tuple[int, ...]
    space_dtype: str = "|i1"
    dtype: ClassVar[torch.dtype] = torch.float32

    @property
    def num_logits(self) -> int:
        return prod(self.space_shape)

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.num_logits,)

    def noise(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """Logistic(0, 1): log(u / (1 − u)), the difference of two Gumbel variables."""
        return torch.logit(out.uniform_(generator=generator), eps=1e-7, out=out)

    def sample(self, logits: Tensor, noise: Tensor, out: Tensor) -> None:
        """1 if logit + noise > 0; the probability of that is the logistic function of the logit."""
        out.copy_(logits + noise > 0)

    def mode(self, logits: Tensor) -> Tensor:
        return (logits > 0).float()

    def log_prob_and_entropy(self, logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over the bits, which are independent."""
        log_prob = -functional.binary_cross_entropy_with_logits(logits, actions, reduction="none")
        p = torch.sigmoid(logits)
        entropy = functional.binary_cross_entropy_with_logits(logits, p, reduction="none")
        return log_prob.sum(dim=-1), entropy.sum(dim=-1)

    def to_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        return actions.reshape(len(actions), *self.space_shape).astype(self.space_dtype)


@dataclass(frozen=True)
class Gaussian:
    """Diagonal Gaussian over the actions of a Box. The deviations are parameters of their own.

    A rollout stores u ~ N(μ, σ²) as it was drawn. `to_env` is a fixed function of u and belongs to the
    environment for the policy gradient: ∇ log π(a) = ∇ log π(u). So loss and entropy are those of u.

    u is the distance from the middle of the bounds, in half widths of the bounds: σ = 1 means the same in
    every environment. In a dimension with an infinite bound, u is the action itself.

    Attributes:
        low, high: bounds, flat, `[D]`, may be infinite. space_shape, space_dtype: of the environment's
            actions.
        squash: takes tanh(u) instead of u clipped to ±1; needs finite bounds.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    space_shape: tuple[int, ...]
    space_dtype: str = "<f4"
    squash: bool = False
    dtype: ClassVar[torch.dtype] = torch.float32
    has_masks: ClassVar[bool] = False

    @cached_property
    def bounds(self) -> tuple[NDArray[Any], ...]:
        """Middle and half width, 0 and 1 where a bound is infinite; and both bounds, `[D]`."""
        low, high = (np.asarray(bound, self.space_dtype) for bound in (self.low, self.high))
        finite = np.isfinite(low) & np.isfinite(high)
        with np.errstate(invalid="ignore"):
            middle = np.where(finite, low / 2 + high / 2, 0)
            half = np.where(finite, high / 2 - low / 2, 1)
        return middle.astype(low.dtype), half.astype(low.dtype), low, high

    @property
    def num_logits(self) -> int:
        return len(self.low)

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.low),)

    def noise(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """N(0, 1)."""
        return out.normal_(generator=generator)

    def sample(self, logits: Tensor, noise: Tensor, out: Tensor) -> None:
        """μ + σ · noise, from μ and log σ, `[B, 2D]`."""
        mean, log_std = logits.chunk(2, dim=-1)
        torch.addcmul(mean, log_std.exp(), noise, out=out)

    def mode(self, logits: Tensor) -> Tensor:
        return logits.chunk(2, dim=-1)[0]

    def log_prob_and_entropy(self, logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Σ −½((u − μ)/σ)² − log σ − log √(2π), and Σ log σ + ½ log(2πe)."""
        mean, log_std = logits.chunk(2, dim=-1)
        distance = (actions - mean) * torch.exp(-log_std)
        log_prob = (-0.5 * distance.square() - log_std - LOG_ROOT_2_PI).sum(dim=-1)
        return log_prob, (log_std + NORMAL_ENTROPY).sum(dim=-1)

    def to_env(self, actions: NDArray[Any]) -> NDArray[Any]:
        """Squashed by tanh, or clipped; always within the bounds."""
        middle, half, low, high = self.bounds
        if self.squash:
            actions = np.tanh(actions)
        scaled = middle + half * actions
        bounded: NDArray[Any] = np.clip(scaled, low, high)
        return bounded.reshape(len(actions), *self.space_shape).astype(self.space_dtype, copy=False)


@dataclass(frozen=True)
class UniformBox(Gaussian):
    """Uniform over a Box with finite bounds, for random actions; the logits have no influence."""

    def noise(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """Uniform in ±1."""
        return out.uniform_(-1, 1, generator=generator)

    def sample(self, logits: Tensor, noise: Tensor, out: Tensor) -> None:
        out.copy_(noise)

    def mode(self, logits: Tensor) -> Tensor:
        """The middle, since all are equally probable."""
        return torch.zeros_like(logits)


ActionDistribution = Categorical | MultiCategorical | Bernoulli | Gaussian
"""A distribution over the actions of a Discrete, MultiDiscrete, MultiBinary or Box space. Its parameters are logits
`[B, num_logits]`, float32, of a network; `shape` and `dtype` are those of one stored action."""


def _bound(given: Any) -> float:
    """A bound of a Box. Some environments write the largest float32 where they mean that there is none."""
    if abs(given) < LARGEST_BOUND:
        return float(given)
    return float(np.copysign(np.inf, given))


def action_distribution(
    space: Space[Any], *, squash: bool = False, uniform: bool = False, has_masks: bool = False
) -> ActionDistribution:
    """Returns the distribution over a single environment's action space.

    Args:
        squash: bounds Box actions by tanh instead of clipping. uniform: for random actions, with all logits
            0.
        has_masks: whether the environment gives action masks.

    Raises:
        UnsupportedSpaceError: for spaces other than Discrete, MultiDiscrete, MultiBinary and Box of floating
            point, and for one without numbers.
        ConfigError: there are masks for other spaces than Discrete and MultiDiscrete; or a bound is infinite, or
            `LARGEST_BOUND` or more, and `squash` or `uniform` needs finite ones.
    """
    if 0 in (space.shape or ()):
        raise UnsupportedSpaceError(f"action space {space} holds no number: there is nothing to learn")
    if has_masks and not isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        raise ConfigError(
            "the environment gives action masks, which are supported for Discrete and MultiDiscrete actions, not for "
            f"{space}. env.action_masks=false ignores them"
        )
    match space:
        case spaces.Discrete():
            return Categorical(int(space.n), int(space.start), has_masks)
        case spaces.MultiDiscrete():
            sizes, start = (tuple(int(n) for n in array.reshape(-1)) for array in (space.nvec, space.start))
            return MultiCategorical(sizes, start, tuple(space.shape), np.dtype(space.dtype).str, has_masks)
        case spaces.MultiBinary():
            return Bernoulli(tuple(space.shape), np.dtype(space.dtype).str)
        case spaces.Box() if np.dtype(space.dtype).kind == "f":
            low, high = (tuple(map(_bound, array.reshape(-1))) for array in (space.low, space.high))
            if (squash or uniform) and not np.isfinite([low, high]).all():
                if squash:
                    need = "agent.squash_actions: true — needs finite"
                else:
                    need = "uniformly random actions need"
                raise ConfigError(f"{need} bounds, below {LARGEST_BOUND:g}; the action space is {space}")
            kind = UniformBox if uniform else Gaussian
            return kind(low, high, tuple(space.shape), np.dtype(space.dtype).str, squash and not uniform)
    raise UnsupportedSpaceError(
        f"action space {space} is not supported; supported: Discrete, MultiDiscrete, MultiBinary, Box of floating point"
    )


#: The name of each distribution in a checkpoint.
KINDS: dict[str, type[Any]] = {
    "Discrete": Categorical,
    "MultiDiscrete": MultiCategorical,
    "MultiBinary": Bernoulli,
    "Box": Gaussian,
    "UniformBox": UniformBox,
}


#: Those whose last field is `has_masks`.
MASKED_KINDS = ("Discrete", "MultiDiscrete")


def distribution_state(distribution: ActionDistribution) -> list[Any]:
    """Returns the kind of a distribution and its fields as plain numbers, strings and lists."""
    kind = next(name for name, each in KINDS.items() if each is type(distribution))
    values = [getattr(distribution, each.name) for each in fields(distribution)]
    if kind in MASKED_KINDS and not distribution.has_masks:
        values.pop()  # as checkpoints had it before there were masks
    return [kind, *map(_as_list, values)]


def _as_list(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return value


def distribution_from(state: list[Any]) -> ActionDistribution:
    """Returns the distribution from its `distribution_state`."""
    kind, *values = state
    distribution: ActionDistribution = KINDS[kind](*(tuple(v) if isinstance(v, list) else v for v in values))
    return distribution
