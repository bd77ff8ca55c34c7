"""What a network must return, and a try before a run begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from a3c_zoo.errors import PluginError, ZooError, one_line
from a3c_zoo.learning.generators import lent_generator
from a3c_zoo.learning.model import Model, one_torch_thread
from a3c_zoo.learning.networks import ActorCritic, WithDeviations
from a3c_zoo.plugins.entries import NetworkEntry

#: Observations of the try.
N = 2


def check_outputs(model: Model, entry: NetworkEntry) -> None:
    """Tries the network of a new model on observations that are all 0, with the methods that a run calls.

    Networks of a3c-zoo are left out: they are tested, and the try takes 13 MB for images.

    Raises:
        PluginError: an output has another shape or dtype than learning needs, or the network fails.
    """
    if entry.factory.startswith("a3c_zoo."):
        return
    spec = model.spaces.observations
    title = f"network '{entry.name}'"
    if isinstance(model.module, WithDeviations):
        network = model.module.network
    else:
        network = model.module
    rows = torch.from_numpy(np.zeros((N, *spec.shape), spec.dtype))
    try:
        with torch.no_grad(), one_torch_thread(), lent_generator():
            for output in _outputs(network, rows, model.spaces.actions.num_logits):
                if fault := fault_of(*output):
                    raise PluginError(f"{title}: {fault}")
    except ZooError:
        raise
    except Exception as error:
        raise PluginError(f"{title} fails: {one_line(error)}. Its traceback: --debug") from error


def _outputs(network: ActorCritic, rows: Tensor, num_logits: int) -> Iterator[tuple[str, Any, Sequence[int]]]:
    """What the methods of a network return for observations `[N, ...]`: method, output, and the shape that it needs."""
    start = network.start(N)
    rollout = rows.unsqueeze(1)  # a rollout of one environment
    if start is None:
        yield "policy()", network.policy(rows), (N, num_logits)
        yield "value()", network.value(rows), (N,)
        logits, values = network.evaluate(rollout)
        learned = "evaluate()"
    else:
        logits, state = network.step(rows, start)
        yield "step()", logits, (N, num_logits)
        yield "the state after step()", state, start.shape
        yield "value_after()", network.value_after(rows, start), (N,)
        logits, values, _ = network.unroll(rollout, start[:, :1].contiguous(), np.zeros((N, 1), np.bool_), [])
        learned = "unroll()"
    yield learned, logits, (N - 1, num_logits)
    yield learned, values, (N,)


def fault_of(what: str, output: Any, shape: Sequence[int]) -> str:
    """What is wrong with an output that must be float32 and of a shape; empty if nothing is."""
    wanted = f"float32 {list(shape)}"
    form = type(output).__name__
    if isinstance(output, Tensor):
        form = f"{str(output.dtype)[6:]} {list(output.shape)}"
    if form == wanted:
        return ""
    return f"{what} returned {form}, where {wanted} is expected"
