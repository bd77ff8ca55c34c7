"""The fixtures of these tests: the plugin is installed, and there is a cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
from a3c_zoo.testing import plugin_distribution
from ray_clusters import STARTED, STORE


@pytest.fixture(scope="session")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a process in which the plugin is installed: `make test-ray` has done so, `make test` has not."""
    folder = tmp_path_factory.mktemp("installed")
    if not entry_points(group="a3c_zoo", name="ray"):
        plugin_distribution(folder, "ray-plugin", "from a3c_zoo_ray.plugin import *\n")
    found = {name: value for name, value in os.environ.items() if not name.startswith(("A3C_ZOO", "RAY_"))}
    return found | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path]), "RAY_USAGE_STATS_ENABLED": "0"}


@pytest.fixture(scope="session")
def cluster(environ: dict[str, str]) -> Iterator[Any]:
    """A head without CPUs, where drivers and servers live, and three nodes with one CPU each."""
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        for name in ("PYTHONPATH", "RAY_USAGE_STATS_ENABLED"):
            patch.setenv(name, environ[name])
        cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **STORE})
        try:
            for _ in range(3):
                cluster.add_node(num_cpus=1, **STORE)
            yield cluster
        finally:
            cluster.shutdown()


@pytest.fixture(autouse=True)
def nothing_goes_on() -> Iterator[None]:
    """However a test ends, so do the processes that it has started."""
    yield
    for process in STARTED:
        process.kill()
        process.communicate()
    STARTED.clear()
