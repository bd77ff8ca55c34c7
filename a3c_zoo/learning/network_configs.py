"""The networks' configuration models. No torch here: help, listings and `show` read them."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from a3c_zoo.config import NetworkConfig
from a3c_zoo.hardware import has_fast_bfloat16

Activation = Literal["tanh", "relu", "elu"]
Precision = Literal["auto", "float32", "bfloat16"]
Width = Annotated[int, Field(ge=1, le=65_536)]


class CoreConfig(NetworkConfig):
    """A recurrent core between body and heads."""

    recurrent: Literal["none", "lstm", "gru"] = Field("none", description="recurrent core between body and heads")
    recurrent_size: Width = Field(256, description="units of the recurrent core")

    @property
    def has_core(self) -> bool:
        return self.recurrent != "none"


class MLPConfig(CoreConfig):
    """Fully connected layers for vector observations."""

    hidden_sizes: tuple[Width, ...] = Field((64, 64), description="units of each hidden layer, first to last")
    activation: Activation = Field("tanh", description="nonlinearity after each hidden layer")
    separate: bool = Field(True, description="separate bodies for policy and value")
    normalize_observations: bool = Field(
        False, description="observations scaled by their running mean and deviation, over all workers"
    )
    recurrent_size: Width = Field(64, description="units of the recurrent core")

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        if self.has_core and self.separate:
            raise ValueError("network.separate: true — a recurrent core has one body; set network.separate to false")
        return self


class ImageConfig(CoreConfig):
    """Convolutions over frames of 0 to 255."""

    center: float = Field(0.0, ge=0, le=255, description="subtracted from every pixel")
    scale: float = Field(1 / 255, gt=0, le=1, description="multiplied with every pixel then")
    activation: Activation | None = Field(
        None, description="nonlinearity after each layer; null: the one that the network is known with"
    )
    precision: Precision = Field(
        "auto",
        description="of the workers' networks; auto: bfloat16 where it is faster: AMX or AVX512-BF16",
    )

    @property
    def computes_in(self) -> Literal["float32", "bfloat16"]:
        return "bfloat16" if self.precision == "bfloat16" else "float32"

    def settled(self, device: str, num_envs: int) -> Self:
        """With what "auto" means on this machine, so that config.yml holds what was used.

        bfloat16 loses where there is little to multiply: in the small convolutions of `conv42` for one frame, or with a
        recurrent core behind them, which sees one step at a time (docs/explanation/experiments.md).
        """
        if self.precision != "auto":
            return self
        is_small = self.name == "conv42" and (num_envs == 1 or self.has_core)
        is_fast = device == "cpu" and has_fast_bfloat16() and not is_small
        return self.model_copy(update={"precision": "bfloat16" if is_fast else "float32"})
