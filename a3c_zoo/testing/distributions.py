"""Throw-away distributions, so that the tests of a plugin load real entry points."""

from __future__ import annotations

from pathlib import Path


def plugin_distribution(
    path: Path, name: str, module_source: str, version: str = "1.0", entry_point: str | None = None
) -> Path:
    """Writes a distribution with one module, as an installer would, and returns the folder that it lies in.

    With that folder on `sys.path` or `PYTHONPATH`, the plugin is installed.

    Args:
        path: the folder; it is made if need be, and may hold several distributions.
        name: the distribution's name; its module has the same, with underscores.
        module_source: the module's source text.
        version: the distribution's version.
        entry_point: the plugin's name, by default that of the distribution.
    """
    module = name.replace("-", "_")
    metadata = path / f"{module}-{version}.dist-info"
    metadata.mkdir(parents=True)
    (path / f"{module}.py").write_text(module_source, encoding="utf-8")
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    (metadata / "entry_points.txt").write_text(f"[a3c_zoo]\n{entry_point or name} = {module}\n", encoding="utf-8")
    return path
