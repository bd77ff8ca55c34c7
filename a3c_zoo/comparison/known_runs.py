"""The finished runs of a directory: which one has exactly a planned configuration, and how fast methods are."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from a3c_zoo.config import Config
from a3c_zoo.config.provenance import plugin_versions, plugins_of
from a3c_zoo.config.sets import dump_config, entries_of
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.files import MAX_TEXT, read_bytes
from a3c_zoo.learning.network_configs import ImageConfig
from a3c_zoo.plugins.registry import Registry
from a3c_zoo.plugins.sources import SourceDigests
from a3c_zoo.records import FINISHED, Outcome
from a3c_zoo.store.directory import RunDirectory, describe_host, moment_of, run_paths
from a3c_zoo.store.run_records import read_run
from a3c_zoo.store.timing_file import speed_variables, timing_of
from a3c_zoo.words import listed

#: A guess for a method without an earlier run.
GUESSED_STARTUP_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class _KnownRun:
    """A finished run.

    Attributes:
        made_with: what must be equal for another run to be the same, see `_made_with`. config: its config.yml.
        sources: package → digest; empty for a run whose meta.json has no digests.
    """

    path: Path
    made_with: tuple[Any, ...]
    config: bytes
    sources: Mapping[str, str]
    started: str
    outcome: Outcome


class KnownRuns:
    """The finished runs of a directory. Without `reuse` they only tell how fast a method is.

    Attributes:
        left_out, outdated: see `Plan`; what calls of `same` have found.
    """

    def __init__(self, registry: Registry, runs_dir: Path, reuse: bool, host: Mapping[str, Any] | None = None) -> None:
        self.left_out: dict[Path, str] = {}
        self.outdated: dict[Path, str] = {}
        self._registry, self._host, self._reuse = registry, dict(host or describe_host()), reuse
        self._digests = SourceDigests()
        found = [run for path in run_paths(runs_dir) if (run := _known_run(path)) is not None]
        self._runs = sorted(found, key=lambda run: moment_of(run.started))

    def same(self, config: Config) -> Path | None:
        """The newest run with exactly this configuration, of these versions and sources, on a machine such as this."""
        if not self._reuse:
            return None
        meta = self._host | {"env": config.env_name, "agent": config.agent_name, "serial": False}
        meta["plugins"] = plugins_of(self._registry, config)
        meta["versions"] = {**meta["versions"], **plugin_versions(self._registry, config)}
        wanted = _made_with(meta), dump_config(self._as_there(config)).encode()
        entries = entries_of(self._registry, config).values()
        sources = self._digests.of(self._registry, entries, config.import_strings)
        outdated = {}
        for run in reversed(self._runs):
            timing = timing_of(run.path)  # None for a run that was interrupted and resumed by hand
            if timing is None or timing.variables != speed_variables() or (run.made_with, run.config) != wanted:
                continue
            if run.sources != sources:
                outdated[run.path] = _difference(run.sources, sources)
                continue
            try:
                return read_run(run.path).path
            except RunDirectoryError as error:  # damaged since it ended; it is trained again
                self.left_out[run.path] = str(error)
        self.outdated |= outdated
        return None

    def _as_there(self, config: Config) -> Config:
        """The configuration on the machines of an engine, whose processor decides `network.precision: auto`."""
        network, has_fast_bfloat16 = config.network, self._host["host"].get("bfloat16")
        if has_fast_bfloat16 is None or "network.precision" in config.sources or not isinstance(network, ImageConfig):
            return config
        network = network.decided(config.run.device, config.env.num_envs, has_fast_bfloat16)
        return replace(config, network=network)

    def guess(self, env: str, agent: str, steps: int | None, time_limit_s: float | None) -> float | None:
        """How long a run with this budget will take, in seconds; None if no earlier run tells."""
        outcomes = [run.outcome for run in self._runs if run.made_with[:2] == (env, agent)]
        startup_s = statistics.median([each.total_s - each.training_s for each in outcomes] or [GUESSED_STARTUP_S])
        if steps is None:
            return startup_s + (time_limit_s or 0.0)
        if not outcomes:
            return None
        return startup_s + steps / max(statistics.median(each.steps_per_s for each in outcomes), 1e-3)


def _known_run(path: Path) -> _KnownRun | None:
    directory = RunDirectory(path)
    try:
        meta, outcome = directory.meta(), directory.outcome()
        if outcome is None or outcome.reason not in FINISHED:
            return None
        config, sources = read_bytes(directory.config_file, MAX_TEXT), meta.get("sources", {})
        return _KnownRun(path, _made_with(meta), config, sources, meta["started"], outcome)
    except (RunDirectoryError, OSError, ValueError, KeyError, TypeError):  # TypeError: a value is of another type
        return None


def _made_with(meta: Mapping[str, Any]) -> tuple[Any, ...]:
    """From a meta.json: environment, agent, and what a run's figures depend on beside its configuration."""
    names = (meta[key] for key in ("env", "agent", "serial", "plugins", "versions"))
    return (*names, meta["host"]["cpu"], meta["host"]["cores"], meta.get("init_from"))


def _difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """Why a run with the digests `theirs` is not the same as one that would be made now, of `ours`."""
    if not theirs:
        return "their meta.json has no digests of sources"
    changed = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
    return f"the sources of {listed(changed)} have changed since"
