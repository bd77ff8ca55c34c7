"""Public names of a package whose modules are imported when the names are first used.

The package imports them under `if TYPE_CHECKING:`. This block is their only table: type checkers read it, and so does
`lazy_names`.
"""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Callable
from importlib.abc import InspectLoader
from typing import Any, cast


def lazy_names(package: str) -> tuple[list[str], Callable[[str], Any]]:
    """The names in a package's `if TYPE_CHECKING:`, and the package's `__getattr__`, which imports their modules.

    package: its `__name__`; it is being imported.
    """
    modules: dict[str, str] = {}
    spec = sys.modules[package].__spec__
    assert spec is not None
    loader = cast(InspectLoader, spec.loader)  # of files, or of a zip
    for block in ast.parse(loader.get_source(package) or "").body:
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING":
            for node in block.body:
                assert isinstance(node, ast.ImportFrom)
                assert node.module is not None
                modules |= dict.fromkeys((alias.name for alias in node.names), node.module)

    def attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return getattr(importlib.import_module(modules[name]), name)

    return list(modules), attribute
