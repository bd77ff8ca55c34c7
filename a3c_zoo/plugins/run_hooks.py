"""Calls the run hooks of all plugins, typed, and says which plugin it was when one fails."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from a3c_zoo.errors import PluginError

if TYPE_CHECKING:
    import pluggy

    from a3c_zoo.plugins.loading import PluginInfo
    from a3c_zoo.records import Episode, Outcome, Progress, RunInfo


class RunHooks:
    """What the plugins have to say while a run goes on; called in the parent process only.

    Every method raises `PluginError`, naming the plugin, when one raises.
    """

    def __init__(self, manager: pluggy.PluginManager, plugins: Mapping[str, PluginInfo]) -> None:
        self._hook = manager.hook
        self._plugins = plugins
        #: Does any plugin look at single episodes? They are many, so that callers ask before they loop.
        self.wants_episodes: bool = bool(manager.hook.zoo_episode.get_hookimpls())

    def run_start(self, run: RunInfo) -> None:
        """The run directory is there; no worker has started."""
        self._call(self._hook.zoo_run_start, run=run)

    def episode(self, run: RunInfo, episode: Episode) -> None:
        """A training episode has ended."""
        if self.wants_episodes:
            self._call(self._hook.zoo_episode, run=run, episode=episode)

    def metrics(self, run: RunInfo, progress: Progress) -> None:
        """New training figures have been written."""
        self._call(self._hook.zoo_metrics, run=run, progress=progress)

    def should_stop(self, run: RunInfo, progress: Progress) -> str | None:
        """The first plugin's reason to end the run now, in words; None to go on."""
        reason = self._call(self._hook.zoo_should_stop, run=run, progress=progress)
        return str(reason) if reason else None

    def run_end(self, run: RunInfo, outcome: Outcome) -> None:
        """Everything of the run is written."""
        self._call(self._hook.zoo_run_end, run=run, outcome=outcome)

    def _call(self, hook: pluggy.HookCaller, **arguments: Any) -> Any:
        try:
            return hook(**arguments)
        except Exception as error:
            message = " ".join(f"{type(error).__name__}: {error}".split())
            raise PluginError(f"{self._culprit(hook, error)} failed in {hook.name}: {message}") from error

    def _culprit(self, hook: pluggy.HookCaller, error: Exception) -> str:
        """The plugin whose function the exception passed through."""
        passed = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
        for implementation in hook.get_hookimpls():
            if getattr(implementation.function, "__code__", None) in passed:
                return str(self._plugins[implementation.plugin_name])
        return "a plugin"
