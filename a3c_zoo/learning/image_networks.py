"""Actor-critic networks for images: frames are stored as uint8 and become floating point here.

The configuration holds the constants for centring and scaling, or the spaces a measured background (`center:
null`). Nothing about them is learned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from a3c_zoo.config import NetworkConfig
from a3c_zoo.errors import ConfigError
from a3c_zoo.learning.network_configs import ImageConfig
from a3c_zoo.learning.networks import ActorCritic, Split, as_made, orthogonal
from a3c_zoo.learning.recurrent import with_core
from a3c_zoo.learning.spaces import ObservationSpec

#: In place, each saves an allocation, and the gradient of ELU is computed from its result, without an
#: exponential.
IN_PLACE: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh_,
    "relu": torch.relu_,
    "elu": functional.elu_,
}


#: Height and width of the blocks of pixels that a first convolution may take as one pixel with more channels.
BLOCK = 4


class Conv(NamedTuple):
    """One convolution with square kernels."""

    filters: int
    kernel: int
    stride: int
    padding: int = 0

    def size(self, size: int) -> int:
        """Output height for an input height."""
        return (size + 2 * self.padding - self.kernel) // self.stride + 1

    def fits(self, size: int) -> bool:
        """Whether a kernel never reaches over both edges of an input of this size.

        Around a single pixel most of a padded kernel sees padding only. In bfloat16 torch 2.13 on AMX leaves
        that part of the gradient uninitialised, at times NaN.
        """
        return size >= self.kernel - self.padding


class Architecture(NamedTuple):
    """A body of convolutions and a hidden layer.

    Attributes:
        convs: first to last. hidden: units of the layer behind them.
        separate: policy and value have a hidden layer each. elu: the activation is ELU; false: ReLU.
        core_is_hidden: a recurrent core replaces the hidden layer; false: it stands behind it.
    """

    convs: tuple[Conv, ...]
    hidden: int
    separate: bool = False
    elu: bool = False
    core_is_hidden: bool = False


#: Mnih et al. 2016, section 8 (the network of DQN's first version).
A3C_FF = Architecture((Conv(16, 8, 4), Conv(32, 4, 2)), hidden=256)
#: Mnih et al. 2015, extended data table 1.
NATURE = Architecture((Conv(32, 8, 4), Conv(64, 4, 2), Conv(64, 3, 1)), hidden=512)
NATURE_DUAL = NATURE._replace(separate=True)
#: `NATURE` with at most 32 filters and half the units: a quarter of its parameters.
NATURE_SLIM = Architecture((Conv(32, 8, 4), Conv(32, 4, 2), Conv(32, 3, 1)), hidden=256)
#: The body of the well-known Hogwild programs, for 42×42 frames.
CONV42 = Architecture((Conv(32, 3, 2, 1),) * 4, hidden=256, elu=True, core_is_hidden=True)


def takes_blocks(conv: Conv, sizes: Sequence[int]) -> bool:
    """Whether a first convolution is one of blocks: its kernel moves by whole blocks, and a frame is made of them."""
    return (
        conv.stride == BLOCK
        and conv.kernel % BLOCK == conv.padding == 0
        and all(s % BLOCK == 0 for s in sizes)
    )


def as_blocks(frames: Tensor) -> Tensor:
    """Frames `[B, C, H, W]`, uint8, as `pixel_unshuffle` rearranges them: `[B, 16·C, H/4, W/4]`, channels last.

    A kernel of 8×8 with stride 4 over few channels becomes one of 2×2 with stride 1 over many. With it, an
    update of `a3c-ff` in bfloat16 takes an eighth less time. Four pixels of a row are moved as one number.
    """
    count, channels, height, width = frames.shape
    rows = frames.contiguous().view(torch.int32).view(count, channels, height // BLOCK, BLOCK, width // BLOCK)
    blocks = rows.permute(0, 2, 4, 1, 3).contiguous().view(torch.uint8)
    return blocks.view(count, height // BLOCK, width // BLOCK, channels * BLOCK**2).permute(0, 3, 1, 2)


class ConvActorCritic(Split):
    """Convolutions, one or two hidden layers, and linear heads."""

    def __init__(
        self,
        spec: ObservationSpec,
        num_logits: int,
        config: ImageConfig,
        architecture: Architecture,
        name: str,
    ) -> None:
        super().__init__()
        channels, *sizes = spec.shape
        center = spec.background if config.center is None else config.center
        self.scale = config.scale
        self.offset = torch.tensor(-center * config.scale)
        activation = config.activation or ("elu" if architecture.elu else "relu")
        self.activation = IN_PLACE[activation]
        gain = nn.init.calculate_gain("tanh" if activation == "tanh" else "relu")
        initial = orthogonal if config.init == "orthogonal" else as_made
        convs: list[nn.Conv2d] = []
        for conv in architecture.convs:
            if not all(map(conv.fits, sizes)):
                raise ConfigError(
                    f"network '{name}' cannot take frames of {spec.shape[1]}×{spec.shape[2]}: they are too small for "
                    f"convolution {len(convs) + 1}. Use larger frames (Atari's env.frame_size), or another network"
                )
            layer = nn.Conv2d(channels, conv.filters, conv.kernel, conv.stride, conv.padding)
            convs.append(initial(layer, gain))
            channels = conv.filters
            sizes = [conv.size(size) for size in sizes]
        self.convs = nn.ModuleList(convs)
        self._convs = tuple(convs)  # for fast access, see mlp.py
        self._takes_blocks = takes_blocks(architecture.convs[0], spec.shape[1:])
        convolved = channels * math.prod(sizes)
        width = architecture.hidden
        hidden = 2 if architecture.separate else 1
        if config.has_core:
            if architecture.separate:
                raise ConfigError(
                    f"network '{name}' has two hidden layers side by side, so it takes no recurrent core"
                )
            hidden = 0 if architecture.core_is_hidden else 1
            width = config.recurrent_size
        self.hidden = nn.ModuleList(
            initial(nn.Linear(convolved, architecture.hidden), gain) for _ in range(hidden)
        )
        if hidden:
            self.num_features = architecture.hidden
        else:
            self.num_features = convolved
        self._separate = architecture.separate
        self.actor = initial(nn.Linear(width, num_logits), 0.01)
        self.critic = initial(nn.Linear(width, 1), 1.0)

    def _convolved(self, observations: Tensor) -> Tensor:
        """`[B, features]` in the network's precision, from uint8 `[B, C, H, W]`."""
        first, *others = self._convs
        # ONNX cannot view numbers as other numbers.
        in_blocks = self._takes_blocks and not torch.compiler.is_exporting()
        x = as_blocks(observations) if in_blocks else observations
        x = x.to(self.actor.weight.dtype)
        x = torch.add(self.offset, x, alpha=self.scale)  # scale · (x − center), in one pass
        # A cast and then a reordering are twice as fast as both at once. Blocks have this order already.
        x = x.contiguous(memory_format=torch.channels_last)
        if in_blocks:
            weight = functional.pixel_unshuffle(first.weight, BLOCK).contiguous(
                memory_format=torch.channels_last
            )
            x = self.activation(functional.conv2d(x, weight, first.bias))
        else:
            x = self.activation(first(x))
        for conv in others:
            x = self.activation(conv(x))
        return x.flatten(1)

    def features(self, observations: Tensor) -> Tensor:
        x = self._convolved(observations)
        if self._separate or not self.hidden:
            return x
        return self._hidden(x, 0)

    def logits(self, outputs: Tensor) -> Tensor:
        logits: Tensor = self.actor(self._hidden(outputs, 0) if self._separate else outputs)
        return logits.float()

    def values(self, outputs: Tensor) -> Tensor:
        values: Tensor = self.critic(self._hidden(outputs, 1) if self._separate else outputs)
        return values.squeeze(-1).float()

    def _hidden(self, features: Tensor, number: int) -> Tensor:
        hidden: Tensor = self.activation(self.hidden[number](features))
        return hidden


def _factory(
    architecture: Architecture, name: str
) -> Callable[[ObservationSpec, int, NetworkConfig], ActorCritic]:
    def build(spec: ObservationSpec, num_logits: int, config: NetworkConfig) -> ActorCritic:
        assert isinstance(config, ImageConfig)
        return with_core(ConvActorCritic(spec, num_logits, config, architecture, name), config)

    return build


build_a3c_ff = _factory(A3C_FF, "a3c-ff")
build_nature = _factory(NATURE, "nature")
build_nature_dual = _factory(NATURE_DUAL, "nature-dual")
build_nature_slim = _factory(NATURE_SLIM, "nature-slim")
build_conv42 = _factory(CONV42, "conv42")
