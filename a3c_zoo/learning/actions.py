"""Distributions over actions, chosen by the action space.

The network's policy gives the parameters. Noise is drawn for a whole rollout at once; a sample adds it to the
parameters. A rollout stores actions in a form of the distribution's own (`shape`, `dtype`), which the loss
needs, and `to_env` makes the environment's actions from it.

torch.distributions has the same ones. They take no generator, draw for one step at a time, and check and
allocate for every call: on small networks that costs more than the forward pass.

All distributions (`ActionDistribution`) offer the same, for B observations at a time:

    num_logits              K, how many numbers of noise a sample takes. The network gives as many logits for each
                            observation; those of a Gaussian are means
    num_deviations          D, how many logarithms of deviations follow them: logits are `[B, K + D]`. D is K for a
                            Gaussian, and 0 for actions that are no numbers
    shape, dtype            of one action, as a rollout stores it
    noise                   fills `out` `[..., K]`, float32, with the noise that samples are made of, and returns it
    sample                  writes one action per row into `out` `[B, *shape]`, from noise `[B, K]`
    mode                    the most probable action per row, `[B, *shape]`
    log_prob_and_entropy    log π(a) and the entropy in nats, both `[B]`, for actions `[B, *shape]`
    to_env                  the environment's actions `[B, *space.shape]`, in its dtype, for actions `[B, *shape]`;
                            for a Dict or a Tuple space, a dictionary or a tuple of those of its parts
    has_masks               whether the environment gives action masks; then logits come from `masked_logits`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import copysign, e, inf, log, pi, prod
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import Space, spaces
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from a3c_zoo.errors import ConfigError, PluginError, UnsupportedSpaceError
from a3c_zoo.learning.spaces import Part, inner_spaces

#: log √(2π) and the entropy of N(0, 1) in nats.
LOG_ROOT_2_PI = 0.5 * log(2 * pi)
NORMAL_ENTROPY = 0.5 * log(2 * pi * e)
#: The logit of an action that a mask forbids. In float32 its probability is exactly 0, and so are its part of the
#: entropy and its gradient. With minus infinity they would be 0 · ∞, which is no number.
FORBIDDEN = -1e8
#: A product stores indices in float32, which holds no odd number above this one.
MOST_INDICES = 2**24
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
    num_deviations: ClassVar[int] = 0
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
    num_deviations: ClassVar[int] = 0
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
    """Logits with `FORBIDDEN` where a mask `[B, A]`, bool, is False; the same logits without masks.

    A is the number of actions in all choices (`mask_length`). Other actions of a `Product` have no masks.

    The distribution of these logits is that of the policy among the allowed actions: probabilities, entropy, samples
    and the most probable action. No gradient comes from forbidden ones (Huang & Ontañón 2022, arXiv:2006.14171).

    Raises:
        PluginError: the environment gives masks, and none came here.
    """
    if masks is not None:
        if isinstance(distribution, Product):
            masks = distribution.masks_of_logits(masks)
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
    num_deviations: ClassVar[int] = 0

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
    def num_deviations(self) -> int:
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

    @property
    def num_deviations(self) -> int:
        return 0

    def noise(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """Uniform in ±1."""
        return out.uniform_(-1, 1, generator=generator)

    def sample(self, logits: Tensor, noise: Tensor, out: Tensor) -> None:
        out.copy_(noise)

    def mode(self, logits: Tensor) -> Tensor:
        """The middle, since all are equally probable."""
        return torch.zeros_like(logits)


@dataclass(frozen=True)
class Product:
    """Over the actions of a Dict or a Tuple space. Its parts are independent, and each has its own distribution.

    So log π(a) and the entropy are sums over the parts, and the most probable action has the most probable one of each
    part. A part may be a product, too.

    A stored action has the numbers of all parts in a row, in float32. It holds each index exactly that is below 2²⁴.
    The network gives the logits of all parts in a row, `[B, K]`; the logarithms of all deviations follow, `[B, D]`.

    Attributes:
        parts: the distributions of the parts. keys: of a Dict, in the order of the parts; None for a Tuple.
    """

    parts: tuple[ActionDistribution, ...]
    keys: tuple[str | int, ...] | None = None
    dtype: ClassVar[torch.dtype] = torch.float32

    @cached_property
    def num_logits(self) -> int:
        return sum(part.num_logits for part in self.parts)

    @cached_property
    def num_deviations(self) -> int:
        return sum(part.num_deviations for part in self.parts)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return (sum(prod(part.shape) for part in self.parts),)

    @property
    def has_masks(self) -> bool:
        return any(part.has_masks for part in self.parts)

    @property
    def places(self) -> tuple[str | int, ...]:
        """What leads to each part in an action of the environment: keys, or numbers from 0 on."""
        if self.keys is None:
            return tuple(range(len(self.parts)))
        return self.keys

    @cached_property
    def _leaves(self) -> list[ActionDistribution]:
        return [leaf for _, leaf in leaves_of(self)]

    @cached_property
    def _stored(self) -> list[slice]:
        """Where the numbers of each part are in a stored action."""
        return _in_a_row([prod(part.shape) for part in self.parts])

    @cached_property
    def _logits(self) -> list[slice]:
        """Where the logits and the noise of each part are."""
        return _in_a_row([part.num_logits for part in self.parts])

    @cached_property
    def _deviations(self) -> list[slice]:
        """Where the logarithms of deviations of each part are, behind all logits."""
        return _in_a_row([part.num_deviations for part in self.parts], self.num_logits)

    def masks_of_logits(self, masks: Tensor) -> Tensor:
        """Masks `[B, A]` of the choices as `[B, K + D]`; what has no masks is allowed."""
        if all(map(is_choice, self._leaves)):
            return masks
        columns = []
        first = 0
        for leaf in self._leaves:
            if is_choice(leaf):
                columns.append(masks[..., first : first + leaf.num_logits])
                first += leaf.num_logits
            else:
                columns.append(masks.new_ones(*masks.shape[:-1], leaf.num_logits))
        columns.append(masks.new_ones(*masks.shape[:-1], self.num_deviations))
        return torch.cat(columns, dim=-1)

    def logits_of_parts(self, logits: Tensor) -> list[Tensor]:
        """The logits of each part, `[B, K + D]` with its own K and D, from those of all."""
        parts = []
        for part, columns, deviations in zip(self.parts, self._logits, self._deviations, strict=True):
            own = logits[..., columns]
            if part.num_deviations:
                own = torch.cat((own, logits[..., deviations]), dim=-1)
            parts.append(own)
        return parts

    def noise(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """The noise of each part, in their order, as the part alone draws it."""
        for part, columns in zip(self.parts, self._logits, strict=True):
            out[..., columns] = part.noise(torch.empty(*out.shape[:-1], part.num_logits), generator)
        return out

    def sample(self, logits: Tensor, noise: Tensor, out: Tensor) -> None:
        """A sample of each part."""
        logits_of_parts = self.logits_of_parts(logits)
        for part, own, columns, stored in zip(
            self.parts, logits_of_parts, self._logits, self._stored, strict=True
        ):
            actions = torch.empty((len(out), *part.shape), dtype=part.dtype)
            part.sample(own, noise[..., columns], actions)
            out[:, stored] = actions.view(len(out), prod(part.shape))

    def mode(self, logits: Tensor) -> Tensor:
        modes = []
        for part, own in zip(self.parts, self.logits_of_parts(logits), strict=True):
            modes.append(part.mode(own).reshape(len(logits), prod(part.shape)).float())
        return torch.cat(modes, dim=-1)

    def log_prob_and_entropy(self, logits: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Sums over the parts, which are independent."""
        log_prob = torch.zeros(())
        entropy = torch.zeros(())
        for part, own_logits, columns in zip(
            self.parts, self.logits_of_parts(logits), self._stored, strict=True
        ):
            stored = actions[..., columns].reshape(*actions.shape[:-1], *part.shape)
            if not part.dtype.is_floating_point:
                stored = stored.to(part.dtype)
            own_log_prob, own_entropy = part.log_prob_and_entropy(own_logits, stored)
            log_prob = log_prob + own_log_prob
            entropy = entropy + own_entropy
        return log_prob, entropy

    def to_env(self, actions: NDArray[Any]) -> Any:
        """A dictionary or a tuple of the actions of the parts."""
        given = []
        for part, columns in zip(self.parts, self._stored, strict=True):
            stored = actions[:, columns].reshape(len(actions), *part.shape)
            if not part.dtype.is_floating_point:
                stored = stored.astype(np.int64)
            given.append(part.to_env(stored))
        return self.in_places(given)

    def in_places(self, given: Sequence[Any]) -> Any:
        """What is given for each part, as a dictionary or a tuple."""
        if self.keys is None:
            return tuple(given)
        return dict(zip(self.keys, given, strict=True))


def _in_a_row(sizes: Sequence[int], first: int = 0) -> list[slice]:
    """The places of things of these sizes that follow each other."""
    ends = [*accumulate(sizes, initial=first)]
    return [slice(*place) for place in pairwise(ends)]


ActionDistribution = Categorical | MultiCategorical | Bernoulli | Gaussian | Product
"""A distribution over the actions of a Discrete, MultiDiscrete, MultiBinary or Box space, or of a Dict or Tuple of
these. Its parameters are logits `[B, num_logits]`, float32, of a network; `shape` and `dtype` are those of one stored
action."""


def leaves_of(
    distribution: ActionDistribution, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], ActionDistribution]]:
    """The distributions of the parts that are no products, with the keys and numbers that lead to them."""
    if not isinstance(distribution, Product):
        yield path, distribution
        return
    for place, part in zip(distribution.places, distribution.parts, strict=True):
        yield from leaves_of(part, (*path, place))


def choices_of(distribution: ActionDistribution) -> tuple[int, ...]:
    """How many actions each choice of a Discrete or MultiDiscrete space has, in the order of masks."""
    sizes: list[int] = []
    for _, leaf in leaves_of(distribution):
        if is_choice(leaf):
            sizes += getattr(leaf, "sizes", (leaf.num_logits,))
    return tuple(sizes)


def mask_length(distribution: ActionDistribution) -> int:
    """A: how many actions there are in all choices, the length of a mask; 0 if there can be no masks."""
    return sum(choices_of(distribution))


def is_choice(distribution: ActionDistribution) -> bool:
    """Whether it is over choices among a finite number of actions, of which masks can forbid some."""
    return isinstance(distribution, Categorical | MultiCategorical)


def correlated_columns(distribution: ActionDistribution) -> list[slice]:
    """Which of the K numbers of noise are of Box actions."""
    columns = []
    first = 0
    for _, leaf in leaves_of(distribution):
        if isinstance(leaf, Gaussian):
            columns.append(slice(first, first + leaf.num_logits))
        first += leaf.num_logits
    return columns


def within_masks(distribution: ActionDistribution) -> ActionDistribution:
    """The same distribution, for logits of `masked_logits`."""
    if isinstance(distribution, Product):
        return replace(distribution, parts=tuple(map(within_masks, distribution.parts)))
    if isinstance(distribution, Categorical | MultiCategorical):
        return replace(distribution, has_masks=True)
    return distribution


def _bound(given: Any) -> float:
    """A bound of a Box. Some environments write the largest float32 where they mean that there is none."""
    bound = float(given)  # float16 has no number as large as the limit
    if abs(bound) < LARGEST_BOUND:
        return bound
    return copysign(inf, bound)


#: The action spaces that there are distributions for, in words.
SUPPORTED = "Discrete, MultiDiscrete, MultiBinary, Box of floating point, and Dict and Tuple of these"


def action_distribution(
    space: Space[Any], *, squash: bool = False, uniform: bool = False, has_masks: bool = False
) -> ActionDistribution:
    """Returns the distribution over a single environment's action space.

    Args:
        squash: bounds Box actions by tanh instead of clipping. uniform: for random actions, with all logits
            0.
        has_masks: whether the environment gives action masks.

    Raises:
        UnsupportedSpaceError: for spaces other than Discrete, MultiDiscrete, MultiBinary, Box of floating point, and
            Dict and Tuple of these; and for one without numbers, or with a part without numbers.
        ConfigError: there are masks for a space without Discrete and MultiDiscrete actions; or a bound is infinite,
            or `LARGEST_BOUND` or more, and `squash` or `uniform` needs finite ones.
    """
    distribution = _distribution(Part((), space), space, squash=squash, uniform=uniform)
    if not has_masks:
        return distribution
    if not mask_length(distribution):
        raise ConfigError(
            "the environment gives action masks, which are for Discrete and MultiDiscrete actions; the action space "
            f"is {space}. env.action_masks=false ignores them"
        )
    return within_masks(distribution)


def _distribution(part: Part, whole: Space[Any], **options: bool) -> ActionDistribution:
    """The distribution over a part of an action space; the options are those of `action_distribution`."""
    space = part.space
    if isinstance(space, spaces.Dict | spaces.Tuple):
        return _over_parts(part, whole, **options)
    if 0 in (space.shape or ()):
        raise UnsupportedSpaceError(f"{_subject(part, whole)} holds no number: there is nothing to learn")
    match space:
        case spaces.Discrete():
            return Categorical(int(space.n), int(space.start))
        case spaces.MultiDiscrete():
            sizes, start = (tuple(int(n) for n in array.reshape(-1)) for array in (space.nvec, space.start))
            dtype = np.dtype(space.dtype).str
            return MultiCategorical(sizes, start, tuple(space.shape), dtype)
        case spaces.MultiBinary():
            return Bernoulli(tuple(space.shape), np.dtype(space.dtype).str)
        case spaces.Box() if np.dtype(space.dtype).kind == "f":
            return _over_box(part, whole, options["squash"], options["uniform"])
    raise UnsupportedSpaceError(f"{_subject(part, whole)} is not supported; supported: {SUPPORTED}")


def _over_parts(part: Part, whole: Space[Any], **options: bool) -> Product:
    inner = inner_spaces(part.space)
    if not inner:
        raise UnsupportedSpaceError(f"{_subject(part, whole)} has no parts: there is nothing to learn")
    for key in inner:
        if not isinstance(key, str | int):
            raise UnsupportedSpaceError(
                f"{_subject(part, whole)} has the key {key!r}; supported: strings and whole numbers"
            )
    made = [_distribution(Part((*part.path, key), each), whole, **options) for key, each in inner.items()]
    keys = tuple(inner) if isinstance(part.space, spaces.Dict) else None
    product = Product(tuple(made), keys)
    if max(choices_of(product), default=0) > MOST_INDICES:
        raise UnsupportedSpaceError(
            f"{_subject(part, whole)} has a choice among more than {MOST_INDICES:,} actions"
        )
    return product


def _over_box(part: Part, whole: Space[Any], squash: bool, uniform: bool) -> Gaussian:
    space: Any = part.space
    low, high = (tuple(map(_bound, array.reshape(-1))) for array in (space.low, space.high))
    if (squash or uniform) and not np.isfinite([low, high]).all():
        if squash:
            need = "agent.squash_actions: true — needs finite"
        else:
            need = "uniformly random actions need"
        raise ConfigError(
            f"{need} bounds, below {LARGEST_BOUND:g}; the action space is {space}{_place(part, whole)}"
        )
    kind = UniformBox if uniform else Gaussian
    return kind(low, high, tuple(space.shape), np.dtype(space.dtype).str, squash and not uniform)


def _subject(part: Part, whole: Space[Any]) -> str:
    """An action space, or a part of it, as the subject of a message."""
    if part.path:
        return f"action space {whole}: its part '{part.name}', {type(part.space).__name__},"
    return f"action space {whole}"


def _place(part: Part, whole: Space[Any]) -> str:
    """Where a part of an action space is, for messages; empty for a space of one part."""
    if part.path:
        return f" (part '{part.name}' of {whole})"
    return ""


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
    if isinstance(distribution, Product):
        parts = [distribution_state(part) for part in distribution.parts]
        if distribution.keys is None:
            return ["Tuple", parts]
        return ["Dict", parts, list(distribution.keys)]
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
    """Returns the distribution from its `distribution_state`. Raises errors of many kinds for what is none."""
    kind, *values = state
    if kind in ("Dict", "Tuple"):
        parts = tuple(distribution_from(part) for part in values[0])
        if kind == "Tuple":
            return Product(parts)
        keys = tuple(values[1])
        if len(set(keys)) != len(parts) or not all(isinstance(key, str | int) for key in keys):
            raise ValueError("a Dict needs a key for each part")
        return Product(parts, keys)
    distribution: ActionDistribution = KINDS[kind](*(tuple(v) if isinstance(v, list) else v for v in values))
    return distribution
