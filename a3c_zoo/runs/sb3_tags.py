"""TensorBoard's tags as stable-baselines3 writes them, so that its runs and ours lie in one chart.

Source: stable_baselines3/common/on_policy_algorithm.py, a2c/a2c.py, ppo/ppo.py, common/callbacks.py (2.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from a3c_zoo.records import EvaluatorResult, Progress

#: SB3's tag of a metric → the agents' name, and the factor between them.
METRICS: Final = {
    "train/policy_loss": ("loss_policy", 1.0),
    "train/policy_gradient_loss": ("loss_policy", 1.0),
    "train/value_loss": ("loss_value", 1.0),
    "train/loss": ("loss_total", 1.0),
    "train/entropy_loss": ("entropy", -1.0),
    "train/learning_rate": ("learning_rate", 1.0),
    "train/explained_variance": ("explained_variance", 1.0),
    "train/approx_kl": ("approx_kl", 1.0),
    "train/clip_fraction": ("clip_fraction", 1.0),
    "train/clip_range": ("clip_range", 1.0),
    "rollout/exploration_rate": ("exploration_rate", 1.0),
}


def sb3_scalars(progress: Progress) -> dict[str, float]:
    """What SB3 would write of a run: tag → value. The speed is the mean since the start of the training."""
    scalars = {}
    if progress.mean_return_100 is not None and progress.mean_length_100 is not None:
        scalars["rollout/ep_rew_mean"] = progress.mean_return_100
        scalars["rollout/ep_len_mean"] = progress.mean_length_100
    if progress.training_s > 0:
        scalars["time/fps"] = progress.steps / progress.training_s
    return scalars | _of_metrics(progress.metrics)


def _of_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """The metrics of the newest update. SB3's PPO has another tag for the policy's loss than its A2C."""
    if "clip_fraction" in metrics:
        others_tag = "train/policy_loss"
    else:
        others_tag = "train/policy_gradient_loss"
    return {
        tag: factor * metrics[name]
        for tag, (name, factor) in METRICS.items()
        if name in metrics and tag != others_tag
    }


def sb3_evaluation(result: EvaluatorResult) -> dict[str, float]:
    """What SB3's EvalCallback would write of an evaluation: it plays greedily."""
    return {"eval/mean_reward": result.greedy_return}
