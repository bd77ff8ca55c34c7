"""Teams of workers (`agent.teams`): how environments and samples are dealt out, and what members share.

    member: collect ─▶ differentiate its part of an update ─▶ sum of the team ─▶ the leader: apply, as in `a3c`

A team learns as one worker with all its environments would. With as many workers as teams, each worker is a team, and
`a3c` trains as without teams. A member of a larger team has `env.num_envs / members` environments, and contributes
`1 / members` of the samples of each update, drawn from its own rollout. Advantages are normalised over the whole
update. Teams learn beside each other as workers do without teams: nobody waits for another team.
"""

from __future__ import annotations

from dataclasses import replace

from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.config import Config
from a3c_zoo.hardware import available_cores
from a3c_zoo.processes.team import TeamMemory


def config_of_member(config: Config) -> Config:
    """The configuration that a member of a team works by: with its part of the environments and of an update.

    The segments of a recurrent core have the steps that they have without teams.
    """
    agent = config.agent
    num_envs = config.env.num_envs
    assert isinstance(agent, A3CConfig)
    members = config.run.workers // config.teams
    own = {"update_samples": agent.samples_per_update(num_envs) // members}
    if config.network is not None and config.network.has_core:
        own["segment_steps"] = agent.steps_of_segment(num_envs)
    return replace(
        config,
        env=config.env.model_copy(update={"num_envs": num_envs // members}),
        agent=agent.model_copy(update=own),
    )


def team_memory(config: Config, num_parameters: int) -> TeamMemory:
    """What the members of all teams of a run share. Raises ConfigError if there is no room."""
    agent = config.agent
    assert isinstance(agent, A3CConfig)
    workers = config.run.workers
    num_envs = config.env.num_envs
    num_updates = agent.passes * agent.n_steps * num_envs // agent.samples_per_update(num_envs)
    has_own_core = available_cores() >= workers
    return TeamMemory.zeros(config.teams, workers // config.teams, num_parameters, num_updates, has_own_core)
