"""Asynchronous advantage actor-critic agents, trained by name and extended by plugins.

Importing this package is fast: torch, gymnasium and others are imported when one of its functions is used.
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 11):  # noqa: UP036  # in a checkout; elsewhere pip refuses
    raise ImportError("a3c-zoo needs Python 3.11 to 3.14, and this is {}.{}".format(*sys.version_info[:2]))

# `python -m a3c_zoo` puts the current folder first on sys.path, and a `yaml.py` there would be imported. argv[0] is
# "-m" only while Python looks for the module that it has to run.
if sys.argv[:1] == ["-m"] and "a3c_zoo" in sys.orig_argv and not sys.flags.safe_path:
    del sys.path[0]

from typing import TYPE_CHECKING

from a3c_zoo.errors import ZooError
from a3c_zoo.plugins.entries import (
    AgentEntry,
    CommandEntry,
    EngineEntry,
    EnvEntry,
    EnvFamily,
    HookEntry,
    HyperparamEntry,
    NetworkEntry,
    OptimizerEntry,
    TrainedEntry,
)
from a3c_zoo.plugins.hookspecs import hookimpl
from a3c_zoo.plugins.variants import variant_of
from a3c_zoo.public_names import lazy_names
from a3c_zoo.version import __version__

if TYPE_CHECKING:
    from a3c_zoo.comparison.compare import compare
    from a3c_zoo.plugins.registry import load_registry
    from a3c_zoo.report.plot import plot
    from a3c_zoo.runs.api import evaluate, load_agent, train
    from a3c_zoo.tuning.from_python import tune
else:
    __getattr__ = lazy_names(__name__)[1]

__all__ = [
    "AgentEntry",
    "CommandEntry",
    "EngineEntry",
    "EnvEntry",
    "EnvFamily",
    "HookEntry",
    "HyperparamEntry",
    "NetworkEntry",
    "OptimizerEntry",
    "TrainedEntry",
    "ZooError",
    "__version__",
    "compare",
    "evaluate",
    "hookimpl",
    "load_agent",
    "load_registry",
    "plot",
    "train",
    "tune",
    "variant_of",
]


def __dir__() -> list[str]:
    """All names, for `help` and completion; also those of functions whose module is not imported yet."""
    return sorted({*globals(), *__all__})
