"""Calls the run hooks of all plugins, and names the plugin when one fails."""

from __future__ import annotations

import traceback
from typing import Any

import pluggy

from a3c_zoo.errors import PluginError, type_and_message
from a3c_zoo.records import Episode, Outcome, Progress, RunInfo


class RunHooks:
    """The run hooks of all plugins, with types. They are called in the parent process only.

    `hookspecs` says when each hook is called.

    Raises:
        PluginError: a plugin failed in a hook; the message has its name. Every method can raise this.
    """

    def __init__(self, manager: pluggy.PluginManager) -> None:
        self._hook = manager.hook
        #: True if a plugin implements `zoo_episode`. Callers check it before they loop over many episodes.
        self.wants_episodes: bool = bool(manager.hook.zoo_episode.get_hookimpls())

    def run_start(self, run: RunInfo) -> None:
        self._call(self._hook.zoo_run_start, run=run)

    def episode(self, run: RunInfo, episode: Episode) -> None:
        self._call(self._hook.zoo_episode, run=run, episode=episode)

    def metrics(self, run: RunInfo, progress: Progress) -> None:
        self._call(self._hook.zoo_metrics, run=run, progress=progress)

    def should_stop(self, run: RunInfo, progress: Progress) -> str | None:
        """Returns the first plugin's reason to end the run now, None to continue."""
        reason = self._call(self._hook.zoo_should_stop, run=run, progress=progress)
        return str(reason) if reason else None

    def run_end(self, run: RunInfo, outcome: Outcome) -> None:
        self._call(self._hook.zoo_run_end, run=run, outcome=outcome)

    def _call(self, hook: pluggy.HookCaller, **arguments: Any) -> Any:
        try:
            return hook(**arguments)
        except (Exception, SystemExit) as error:
            passed = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
            codes = [(getattr(each.function, "__code__", None), each.plugin_name) for each in hook.get_hookimpls()]
            culprit = next((plugin for code, plugin in codes if code in passed), "a plugin")
            raise PluginError(f"{culprit} failed in {hook.name}: {type_and_message(error)}") from error
