"""Monte-Carlo actor-critic, Hogwild, as the textbook has it: as `nstep`, with the whole episode as N.

collect ──▶ differentiate ──▶ apply        all three in every worker, which acts with the shared parameters themselves
"""

from __future__ import annotations

from a3c_zoo.agents.nstep import NStepWorker, train_live
from a3c_zoo.errors import ConfigError
from a3c_zoo.records import RunContext


class MonteCarloWorker(NStepWorker):
    """One worker; a rollout is an episode, and nothing is bootstrapped."""

    def collect(self) -> None:
        """Collects one episode.

        Raises:
            ConfigError: it doesn't end within the memory set aside for it.
        """
        super().collect()
        if not self.collector.ended[0]:
            length = int(self.collector.rollout.valid.sum())
            raise ConfigError(
                f"an episode of '{self.plan.entry.name}' is longer than {length:,} steps, the memory "
                "for one. Set more aside (-o agent.n_steps=…), cut episodes short (env.max_episode_steps, where "
                "there is one), or use agent nstep"
            )


def run(context: RunContext) -> None:
    """Trains until the run says stop; `AgentEntry.run` of `monte-carlo`."""
    train_live(context, MonteCarloWorker)
