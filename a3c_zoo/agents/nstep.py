"""`nstep` and `monte-carlo`: the textbook's actor-critics, Hogwild, with one environment for each worker.

    collect ──▶ differentiate ──▶ apply        all three in every worker, as in `a3c`

What differs from `a3c` is in their configuration models (`TextbookConfig`):

    acts_live       a worker acts with the shared parameters themselves and pulls nothing but observation statistics
    cut_at_end      a rollout ends with its episode, or after N steps
    whole_episodes  monte-carlo alone: N is the longest episode, and nothing is bootstrapped

(Zai & Brown, "Deep Reinforcement Learning in Action", 2020, chapter 5.)
"""

from __future__ import annotations

from a3c_zoo.agents.a3c import A3CWorker
from a3c_zoo.agents.training import train
from a3c_zoo.records import RunContext


def run(context: RunContext) -> None:
    """Trains until the run says stop; `AgentEntry.run` of `nstep` and `monte-carlo`."""
    train(context, A3CWorker)
