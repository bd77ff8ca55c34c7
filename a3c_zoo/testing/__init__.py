"""For the tests of plugins: temporary distributions, and checks of environments, agents and networks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from a3c_zoo.public_names import lazy_names

if TYPE_CHECKING:
    from a3c_zoo.testing.agent_checks import check_agent
    from a3c_zoo.testing.conformance import check_env
    from a3c_zoo.testing.network_checks import check_network
else:
    __getattr__ = lazy_names(__name__)[1]

__all__ = ["check_agent", "check_env", "check_network", "plugin_distribution"]


def plugin_distribution(
    path: Path, name: str, module_source: str, version: str = "1.0", entry_point: str | None = None
) -> Path:
    """Writes a distribution with one module, as an installer does, and returns its folder.

    The plugin is installed if this folder is on `sys.path` or `PYTHONPATH`.

    Args:
        path: the folder, which is made if it does not exist; it may hold several distributions.
        name: the distribution's name; the name of its module has underscores.
        module_source: the module's source text.
        version: the distribution's version.
        entry_point: the plugin's name; by default the name of the distribution.
    """
    module = name.replace("-", "_")
    metadata = path / f"{module}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (path / f"{module}.py").write_text(module_source, encoding="utf-8")
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8"
    )
    (metadata / "entry_points.txt").write_text(
        f"[a3c_zoo]\n{entry_point or name} = {module}\n", encoding="utf-8"
    )
    return path
