"""What every worker of a run gets, made anew or from a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from a3c_zoo.config import Config
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.learning.counters import Counters
from a3c_zoo.learning.model import Model, Spaces
from a3c_zoo.learning.observation_statistics import ObservationStatistics
from a3c_zoo.learning.optimizers import optimizer_state
from a3c_zoo.learning.parameters import share
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.records import RunContext


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What every worker gets; the tensors are shared by all.

    Attributes:
        parameters: `[P]`, float32. optimizer_state: of all workers, or None where each keeps its own.
        counters: `[workers, 4]`, int64, a learner being the last of them; see `Counters`. statistics: of the
            observations, as `ObservationStatistics` has them, None where the network wants none.
        session: how often this run has been resumed.
        exchange: what else the agent's processes share: a lock, a ring.
    """

    entry: EnvEntry
    network: NetworkEntry
    config: Config
    spaces: Spaces
    parameters: Tensor
    optimizer_state: dict[str, Tensor] | None
    counters: Tensor
    statistics: Tensor | None
    session: int
    exchange: Any = None


def make_worker_context(
    context: RunContext, model: Model, exchange: Any = None, has_learner: bool = False
) -> WorkerContext:
    """The plan of a new run, or of one that goes on from its checkpoint.

    Args:
        exchange: see `WorkerContext`.
        has_learner: the last row of the counters is a learner's, which alone applies; so the
            optimizer's state is in the plan, whatever `optimizer.shared_statistics` says.

    Raises:
        RunDirectoryError: the checkpoint's tensors are not those of this run.
    """
    config, saved = context.config, context.checkpoint
    assert config.optimizer is not None
    assert context.network is not None
    parameters, optimizer, statistics = model.flat.initial.clone(), None, None
    num_members = config.run.workers + has_learner
    counters = Counters.zeros(num_members)
    if model.normalizes:
        statistics = ObservationStatistics.zeros(num_members, model.spaces.observations.num_features)
    if config.optimizer.shared_statistics or has_learner:
        optimizer = optimizer_state(config.optimizer, parameters)
    if saved:
        model.check_shapes(saved["model"]["shapes"])
        _load(saved, parameters, counters, statistics, optimizer or {})
    if not context.serial:
        share(parameters, counters, *([] if statistics is None else [statistics]), *(optimizer or {}).values())
    session = saved["session"] + 1 if saved else 0
    return WorkerContext(
        context.entry,
        context.network,
        config,
        model.spaces,
        parameters,
        optimizer,
        counters,
        statistics,
        session,
        exchange,
    )


def _load(
    saved: Mapping[str, Any],
    parameters: Tensor,
    counters: Tensor,
    statistics: Tensor | None,
    optimizer: Mapping[str, Tensor],
) -> None:
    try:
        parameters.copy_(saved["model"]["parameters"])
        counters.copy_(saved["counters"])
        if statistics is not None:
            statistics.copy_(saved["model"]["statistics"])
    except (KeyError, RuntimeError, TypeError) as error:
        raise misfit(error) from error
    fill(optimizer, saved.get("optimizer", {}))


def fill(state: Mapping[str, Tensor], saved: Mapping[str, Any]) -> None:
    """Copies an optimizer's saved tensors into its own.

    Raises:
        RunDirectoryError: they are another optimizer's, or another network's.
    """
    try:
        for name, tensor in state.items():
            tensor.copy_(saved[name])
    except (KeyError, RuntimeError, TypeError) as error:
        raise misfit(error) from error


def misfit(error: Exception) -> RunDirectoryError:
    """The error for a checkpoint whose tensors are not those of this run."""
    return RunDirectoryError(f"the checkpoint does not fit the run's config.yml: {error}")
