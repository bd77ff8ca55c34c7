"""The finished runs of a directory: which one has exactly a planned configuration, and how fast methods are."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from a3c_zoo.comparison.methods import method_settings
from a3c_zoo.config import Config
from a3c_zoo.config.provenance import plugin_versions, plugins_of
from a3c_zoo.config.sets import dump_config, entries_of
from a3c_zoo.errors import RunDirectoryError
from a3c_zoo.learning.network_configs import ImageConfig
from a3c_zoo.plugins.registry import Registry
from a3c_zoo.plugins.sources import SourceDigests
from a3c_zoo.store.directory import describe_host, run_paths
from a3c_zoo.store.run import Run, moment_of
from a3c_zoo.store.run_records import record_of
from a3c_zoo.store.timing_file import speed_variables
from a3c_zoo.words import listed

#: A guess for a method without an earlier run.
GUESSED_STARTUP_S: Final = 5.0


class KnownRuns:
    """The finished runs of a directory. Without `reuse` they only tell how fast a method is.

    Attributes:
        left_out, outdated: see `Plan`; what calls of `same` have found.
    """

    def __init__(
        self, registry: Registry, runs_dir: Path, reuse: bool, host: Mapping[str, Any] | None = None
    ) -> None:
        self.left_out: dict[Path, str] = {}
        self.outdated: dict[Path, str] = {}
        self._registry = registry
        self._host = dict(host or describe_host())
        self._reuse = reuse
        self._digests = SourceDigests()
        finished = filter(_is_finished, map(Run, run_paths(runs_dir)))
        self._runs = sorted(finished, key=lambda run: moment_of(run.meta["started"]))

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
            timing = run.timing  # None for a run that was interrupted and resumed by hand
            if timing is None or timing.variables != speed_variables():
                continue
            if (_made_with(run.meta), run.config_content) != wanted:
                continue
            if run.meta["sources"] != sources:
                outdated[run.path] = _difference(run.meta["sources"], sources)
                continue
            try:
                return record_of(run).path
            except RunDirectoryError as error:  # damaged since it ended; it is trained again
                self.left_out[run.path] = str(error)
        self.outdated |= outdated
        return None

    def _as_there(self, config: Config) -> Config:
        """The configuration on the machines of an engine, whose processor decides `network.precision: auto`."""
        network = config.network
        has_fast_bfloat16 = self._host["host"].get("bfloat16")
        if (
            has_fast_bfloat16 is None
            or "network.precision" in config.sources
            or not isinstance(network, ImageConfig)
        ):
            return config
        network = network.decided(config.run.device, config.env.num_envs, has_fast_bfloat16)
        return replace(config, network=network)

    def guess(self, config: Config, steps: int | None, time_limit_s: float | None) -> float | None:
        """How long a run with this budget will take, in seconds; None if no earlier run tells.

        Only runs tell that have the same settings, beside seed and budget, on a machine such as this.
        """
        runs = [run for run in self._runs if self._fits(run, config)]
        outcomes = [run.outcome for run in runs if run.outcome is not None]
        startup_s = statistics.median(
            [each.total_s - each.training_s for each in outcomes] or [GUESSED_STARTUP_S]
        )
        if steps is None:
            return startup_s + (time_limit_s or 0.0)
        if not outcomes:
            return None
        return startup_s + steps / max(statistics.median(each.steps_per_s for each in outcomes), 1e-3)

    def _fits(self, run: Run, config: Config) -> bool:
        """Whether a run is as fast as one with this configuration would be."""
        names = config.env_name, config.agent_name
        host = self._host["host"]
        if (run.meta["env"], run.meta["agent"]) != names or run.meta["host"]["cpu"] != host["cpu"]:
            return False
        if run.meta["host"]["cores"] != host["cores"] or run.meta["serial"]:
            return False
        try:
            settings = run.settings
        except RunDirectoryError:
            return False
        wanted = method_settings(config)
        return all(settings.get(key) == value for key, value in wanted.items())


def _is_finished(run: Run) -> bool:
    """Whether a run has spent its budget, and its files say all by which runs are compared."""
    try:
        is_whole = {"started", "sources"} <= run.meta.keys() and bool(
            run.config_content and _made_with(run.meta)
        )
        return is_whole and run.outcome is not None and run.outcome.has_spent_its_budget
    except (RunDirectoryError, KeyError, TypeError):  # TypeError: a value is of another type
        return False


def _made_with(meta: Mapping[str, Any]) -> tuple[Any, ...]:
    """From a meta.json: environment, agent, and what a run's figures depend on beside its configuration."""
    names = (meta[key] for key in ("env", "agent", "serial", "plugins", "versions"))
    return (*names, meta["host"]["cpu"], meta["host"]["cores"], meta.get("init_from"))


def _difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """Why a run with the digests `theirs` is not the same as one that would be made now, of `ours`."""
    changed = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
    return f"the sources of {listed(changed)} have changed since"
