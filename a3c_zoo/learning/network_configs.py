"""The networks' configuration models. No torch here: help, listings and `show` read them."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from a3c_zoo.config import NetworkConfig
from a3c_zoo.hardware import has_fast_bfloat16

Activation = Literal["tanh", "relu", "elu"]
Precision = Literal["auto", "float32", "bfloat16"]
Width = Annotated[int, Field(ge=1, le=65_536)]


class CoreConfig(NetworkConfig):
    """A recurrent core between body and heads."""

    recurrent: Literal["none", "lstm", "gru"] = Field(
        "none", description="recurrent core between body and heads"
    )
    recurrent_size: Width = Field(256, description="units of the recurrent core")

    @property
    def has_core(self) -> bool:
        return self.recurrent != "none"


class MLPConfig(CoreConfig):
    """Fully connected layers for vector observations."""

    hidden_sizes: tuple[Width, ...] = Field(
        (64, 64), max_length=100, description="units of each hidden layer, first to last"
    )
    activation: Activation = Field("tanh", description="activation after each hidden layer")
    separate: bool = Field(
        True, description="separate bodies for policy and value; a recurrent core has one body"
    )
    normalize_observations: bool = Field(
        False, description="scale observations by their running mean and standard deviation over all workers"
    )
    recurrent_size: Width = Field(64, description="units of the recurrent core")


class MixedConfig(CoreConfig):
    """Convolutions for each image, and a hidden layer for them and for vectors."""

    hidden_size: Width = Field(128, description="units of the hidden layer")
    recurrent_size: Width = Field(128, description="units of the recurrent core")


class ImageConfig(CoreConfig):
    """Convolutions over frames of 0 to 255.

    Attributes (what the network is, not keys):
        is_small: its convolutions of one frame are too small for bfloat16 to be faster.
    """

    is_small: ClassVar[bool] = False

    center: float | None = Field(
        0.0,
        ge=0,
        le=255,
        description="subtracted from every pixel; null: the most frequent value, measured before training",
    )
    scale: float = Field(1 / 255, gt=0, le=1, description="factor of every pixel after that")
    activation: Activation | None = Field(
        None, description="activation after each layer; null: that of the published network"
    )
    init: Literal["orthogonal", "torch"] = Field(
        "orthogonal",
        description="initial weights of convolutions and linear layers; torch: as `nn.Conv2d` and `nn.Linear` are made",
    )
    precision: Precision = Field(
        "auto",
        description="number type of the workers' networks; auto: bfloat16 where it is faster (AMX; AVX512-BF16 of AMD)",
    )

    @property
    def computes_in(self) -> Literal["float32", "bfloat16"]:
        if self.precision == "bfloat16":
            return "bfloat16"
        return "float32"

    @property
    def needs_background(self) -> bool:
        return self.center is None

    def settled(self, device: str, num_envs: int) -> Self:
        """Replaces `precision: auto`, so that config.yml says which precision was used."""
        if self.precision != "auto":
            return self
        return self.decided(device, num_envs, has_fast_bfloat16())

    def decided(self, device: str, num_envs: int, has_fast_bfloat16: bool) -> Self:
        """What `precision: auto` is on a machine.

        bfloat16 is slower for small products: the convolutions of a small network for one frame, or with a
        recurrent core behind them, which takes one step at a time (docs/explanation/experiments-precision.md).
        """
        has_small_products = self.is_small and (num_envs == 1 or self.has_core)
        is_fast = device == "cpu" and has_fast_bfloat16 and not has_small_products
        return self.model_copy(update={"precision": "bfloat16" if is_fast else "float32"})


class SmallImageConfig(ImageConfig):
    """Few convolutions over small frames."""

    is_small: ClassVar[bool] = True
