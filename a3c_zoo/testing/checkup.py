"""From a name to the checks of everything that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from a3c_zoo.config.sets import list_sets
from a3c_zoo.errors import unknown_name
from a3c_zoo.plugins.loading import PluginInfo
from a3c_zoo.plugins.registry import Registry
from a3c_zoo.testing.agent_checks import examine_agent
from a3c_zoo.testing.environment_checks import examine_environment
from a3c_zoo.testing.findings import Finding, Findings
from a3c_zoo.testing.network_checks import examine_network
from a3c_zoo.testing.plugin_checks import examine_package, examine_plugin, examine_set


class Job(NamedTuple):
    """One thing to check.

    Attributes:
        subject: its kind and name, for people. name: its name on the command line. owner: the plugin that offers it.
        examine: its check.
    """

    subject: str
    name: str
    owner: PluginInfo
    examine: Callable[[Findings], None]

    def findings(self) -> list[Finding]:
        """Runs the check; returns what it found."""
        findings = Findings(self.subject)
        self.examine(findings)
        return findings.found


def jobs_for(registry: Registry, name: str) -> list[Job]:
    """Returns the checks of everything that has a name, and of all that a plugin of this name offers.

    Raises:
        UnknownNameError: nothing has this name.
    """
    jobs = list(_jobs(registry))
    chosen = [job for job in jobs if name in (job.name, job.owner.name)]
    if not chosen and ":" in name:
        entry = registry.env(name)
        owner, examine = registry.owner(entry), partial(examine_environment, registry, entry)
        chosen = [Job(f"environment '{name}'", name, owner, examine)]
    if not chosen:
        names = [each for job in jobs for each in (job.name, job.owner.name)]
        raise unknown_name("environment, agent, network, set or plugin", name, names, listing="a3c-zoo list --help")
    return chosen


def _jobs(registry: Registry) -> Iterator[Job]:
    """Everything that can be checked: each plugin first, then what plugins offer."""
    for info in registry.plugins:
        yield Job(str(info), info.name, info, partial(examine_plugin, registry, info))
    for env in registry.envs.values():
        examine = partial(examine_environment, registry, env)
        yield Job(f"environment '{env.name}'", env.name, registry.owner(env), examine)
    for agent in registry.agents.values():
        yield Job(
            f"{agent.kind} '{agent.name}'", agent.name, registry.owner(agent), partial(examine_agent, registry, agent)
        )
    for network in registry.networks.values():
        examine = partial(examine_network, network)
        yield Job(f"network '{network.name}'", network.name, registry.owner(network), examine)
    for package in registry.hyperparams.values():
        examine = partial(examine_package, registry, package)
        yield Job(f"sets of {package.package}", package.package, registry.owner(package), examine)
    for each in list_sets(registry):
        name, owner = f"{each.env}/{each.name}", registry.owner(registry.hyperparams[each.package])
        yield Job(f"set '{name}' of {each.package}", name, owner, partial(examine_set, registry, each))
