"""The version, in one place: pyproject.toml reads it here."""

from __future__ import annotations

__version__ = "0.2.0"


def fitting_versions(version: str) -> str:
    """The range that ends before the next version that may break plugins: `>=0.1,<0.2`, after 1.0 `>=1.2,<2`."""
    major, minor = map(int, version.split(".")[:2])
    if major:
        return f">={major}.{minor},<{major + 1}"
    return f">=0.{minor},<0.{minor + 1}"
