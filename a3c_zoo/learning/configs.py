"""The networks' configuration models. No torch here: help, listings and `show` read them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from a3c_zoo.config import NetworkConfig

Width = Annotated[int, Field(ge=1, le=65_536)]


class MLPConfig(NetworkConfig):
    """Fully connected layers for vector observations."""

    hidden_sizes: tuple[Width, ...] = Field((64, 64), description="units of each hidden layer, first to last")
    activation: Literal["tanh", "relu", "elu"] = Field("tanh", description="nonlinearity after each hidden layer")
    separate: bool = Field(True, description="separate bodies for policy and value")
