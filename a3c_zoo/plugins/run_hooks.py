"""Calls the run hooks of a run, and names the plugin when one fails."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import pluggy

from a3c_zoo.errors import PluginError, type_and_message
from a3c_zoo.records import Episode, Outcome, Progress, RunInfo


class RunHooks:
    """The run hooks of one session, with types. They are called in the parent process only.

    `hookspecs` says when each hook is called.

    Args:
        manager: has the plugins whose errors end the run.
        loggers: a manager for each `HookEntry` that is not fatal.

    Attributes:
        on_failure: gets one line when the hook of a logger fails for the 1st, 2nd, 4th, 8th … time.

    Raises:
        PluginError: a plugin failed in a hook; the message has its name. Every method can raise this.
    """

    def __init__(self, manager: pluggy.PluginManager, loggers: Sequence[pluggy.PluginManager] = ()) -> None:
        self._manager = manager
        self._loggers = tuple(loggers)
        self._failures = [0] * len(self._loggers)
        self.on_failure: Callable[[str], None] = lambda line: None
        #: True if a plugin implements `zoo_episode`. Callers check it before they loop over many episodes.
        self.wants_episodes = any(
            listening.hook.zoo_episode.get_hookimpls() for listening in (manager, *self._loggers)
        )

    def run_start(self, run: RunInfo) -> None:
        self._call("zoo_run_start", run=run)

    def episode(self, run: RunInfo, episode: Episode) -> None:
        self._call("zoo_episode", run=run, episode=episode)

    def metrics(self, run: RunInfo, progress: Progress) -> None:
        self._call("zoo_metrics", run=run, progress=progress)

    def should_stop(self, run: RunInfo, progress: Progress) -> str | None:
        """Returns the first plugin's reason to end the run now, None to continue."""
        reason = self._call("zoo_should_stop", run=run, progress=progress)
        return str(reason) if reason else None

    def run_end(self, run: RunInfo, outcome: Outcome) -> None:
        self._call("zoo_run_end", run=run, outcome=outcome)

    def _call(self, name: str, **arguments: Any) -> Any:
        """Calls a hook of all plugins, then of each logger. Returns the first result that is not empty, or None."""
        result = _call(getattr(self._manager.hook, name), arguments)
        for number, logger in enumerate(self._loggers):
            try:
                answer = _call(getattr(logger.hook, name), arguments)
                result = result or answer
            except PluginError as error:
                self._failures[number] += 1
                if (times := self._failures[number]).bit_count() == 1:
                    count = f" ({times} failures)" if times > 1 else ""
                    self.on_failure(f"{error}; the run goes on{count}")
        return result


def _call(hook: pluggy.HookCaller, arguments: dict[str, Any]) -> Any:
    try:
        return next(filter(None, hook(**arguments)), None)
    except (Exception, SystemExit) as error:
        passed = {frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)}
        codes = [
            (getattr(implementation.function, "__code__", None), implementation.plugin_name)
            for implementation in hook.get_hookimpls()
        ]
        culprit = next((plugin for code, plugin in codes if code in passed), "a plugin")
        raise PluginError(f"{culprit} failed in {hook.name}: {type_and_message(error)}") from error
