"""The network of the textbook's CartPole agents (Zai & Brown, "Deep Reinforcement Learning in Action", 2020, ch. 5)."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from a3c_zoo.config import NetworkConfig
from a3c_zoo.learning.networks import Split
from a3c_zoo.learning.spaces import ObservationSpec


class Textbook(Split):
    """Inputs of unit length, a body of 25 and 50 units, and a critic that does not train the body.

    The critic (25 units and a tanh) takes the features of the body as constants, so only the policy trains the body.
    Values lie in (−1, 1), like returns of unit length. Initial weights are torch's defaults, as in the book.
    """

    def __init__(self, spec: ObservationSpec, num_logits: int, config: NetworkConfig) -> None:
        super().__init__()
        self.spec = spec
        self.body = nn.Sequential(nn.Linear(spec.num_features, 25), nn.ReLU(), nn.Linear(25, 50), nn.ReLU())
        self.actor = nn.Linear(50, num_logits)
        self.critic = nn.Sequential(nn.Linear(50, 25), nn.ReLU(), nn.Linear(25, 1), nn.Tanh())

    def features(self, observations: Tensor) -> Tensor:
        features: Tensor = self.body(functional.normalize(self.spec.encode(observations), dim=-1))
        return features

    def logits(self, outputs: Tensor) -> Tensor:
        logits: Tensor = self.actor(outputs)
        return logits

    def values(self, outputs: Tensor) -> Tensor:
        values: Tensor = self.critic(outputs.detach())
        return values.squeeze(-1)
