"""For the tests of plugins: temporary distributions, and a check of environments."""

from __future__ import annotations

from a3c_zoo.testing.conformance import check_env
from a3c_zoo.testing.distributions import plugin_distribution

__all__ = ["check_env", "plugin_distribution"]
