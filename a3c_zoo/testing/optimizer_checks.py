"""The check of an optimizer: it changes parameters and moments in place, and leaves gradients as they are."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from a3c_zoo.config import OptimizerConfig
from a3c_zoo.learning.generators import lent_generator
from a3c_zoo.learning.optimizers import new_moments, new_optimizer, without_denormals
from a3c_zoo.plugins.entries import OptimizerEntry
from a3c_zoo.testing.findings import Findings

#: The number of updates: the first ones may move nothing, as in a warm-up. It is prime, because a counter that is not
#: kept in a moment shows itself only within its period.
UPDATES = 311
#: The number of updates after which two optimizers are compared: a counter may change an update once in so many.
UPDATES_AFTER = 50
#: The number of parameters.
P = 100
#: The learning rate.
RATE = 0.01

CURE_PARAMETERS = "change the tensor that __init__ got: parameters.add_(step, alpha=-learning_rate)"
CURE_GRADIENT = "compute with a copy: gradient * learning_rate, not gradient.mul_(learning_rate)"
CURE_MOMENTS = (
    "keep all in the tensors that moments() returns, and change them in place: moment.mul_(), moment.copy_()"
)


def examine_optimizer(entry: OptimizerEntry, config: OptimizerConfig, findings: Findings, check: str) -> None:
    """Makes some updates as a worker does, and some more beside a new optimizer, as a resumed worker does."""
    with lent_generator(), without_denormals():
        torch.manual_seed(0)
        parameters = torch.randn(P)
        gradients = torch.rand(UPDATES + UPDATES_AFTER, P) + 0.5
        before = parameters.clone()
        moments = new_moments(entry, parameters, config)
        used = _Updates(entry, config, parameters, moments)
        after = used.make(gradients[:UPDATES])
        if torch.equal(parameters, before):
            findings.stop(
                check, f"{UPDATES} updates do not change the parameters that it got", CURE_PARAMETERS
            )
        if not torch.isfinite(parameters).all():
            findings.stop(check, "an update gives parameters that are not finite", "add ε to a divisor")
        if not torch.equal(after, gradients[:UPDATES]):
            findings.stop(check, "apply changes the gradient that it gets", CURE_GRADIENT)
        copy = parameters.clone()
        copies = {name: moment.clone() for name, moment in moments.items()}
        used.make(gradients[UPDATES:])
        _Updates(entry, config, copy, copies).make(gradients[UPDATES:])
    message = "a new optimizer with the same moments makes other updates: workers and checkpoints miss what it keeps"
    if not torch.allclose(parameters, copy):
        findings.stop(check, message, CURE_MOMENTS)
    findings.ok(check, f"{UPDATES} updates change parameters and moments in place")


class _Updates:
    """An optimizer that gets other tensors of the same memory: one that replaces their memory changes nothing here."""

    def __init__(
        self,
        entry: OptimizerEntry,
        config: OptimizerConfig,
        parameters: Tensor,
        moments: Mapping[str, Tensor],
    ) -> None:
        views = {name: moment.view_as(moment) for name, moment in moments.items()}
        self._optimizer = new_optimizer(entry, parameters.view_as(parameters), views, config)

    def make(self, gradients: Tensor) -> Tensor:
        """Makes an update from a copy of each gradient, `[U, P]`; returns the copies as they are afterwards."""
        torch.manual_seed(1)  # an optimizer may draw numbers
        copies = gradients.clone()
        for gradient in copies:
            self._optimizer.apply(gradient, RATE)
        return copies
