"""The three stages: collect, differentiate, apply. No processes, no files, no printing.

The names below are public: what networks and agents of plugins use. Their modules are imported at the first
access.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from a3c_zoo.public_names import lazy_names

__all__: list[str]

if TYPE_CHECKING:
    from a3c_zoo.learning.actions import ActionDistribution as ActionDistribution
    from a3c_zoo.learning.actions import masked_logits as masked_logits
    from a3c_zoo.learning.counters import Counters as Counters
    from a3c_zoo.learning.network_configs import CoreConfig as CoreConfig
    from a3c_zoo.learning.network_configs import ImageConfig as ImageConfig
    from a3c_zoo.learning.network_configs import MLPConfig as MLPConfig
    from a3c_zoo.learning.networks import ActorCritic as ActorCritic
    from a3c_zoo.learning.networks import Split as Split
    from a3c_zoo.learning.networks import in_training as in_training
    from a3c_zoo.learning.networks import orthogonal as orthogonal
    from a3c_zoo.learning.objective import Loss as Loss
    from a3c_zoo.learning.objective import LossInputs as LossInputs
    from a3c_zoo.learning.objective import LossTerms as LossTerms
    from a3c_zoo.learning.objective import Objective as Objective
    from a3c_zoo.learning.objective import actor_critic_loss as actor_critic_loss
    from a3c_zoo.learning.objective import advantages_and_returns as advantages_and_returns
    from a3c_zoo.learning.objective import descend as descend
    from a3c_zoo.learning.objective import differentiate as differentiate
    from a3c_zoo.learning.observation_statistics import ObservationStatistics as ObservationStatistics
    from a3c_zoo.learning.optimizers import Optimizer as Optimizer
    from a3c_zoo.learning.recurrent import with_core as with_core
    from a3c_zoo.learning.reward_statistics import RewardStatistics as RewardStatistics
    from a3c_zoo.learning.rollout import Rollout as Rollout
    from a3c_zoo.learning.running_statistics import RunningStatistics as RunningStatistics
    from a3c_zoo.learning.samples import Samples as Samples
    from a3c_zoo.learning.samples import differentiate_samples as differentiate_samples
    from a3c_zoo.learning.samples import samples_of as samples_of
    from a3c_zoo.learning.spaces import ObservationSpec as ObservationSpec
else:
    __all__, __getattr__ = lazy_names(__name__)
