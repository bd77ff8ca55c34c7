"""Modules that the user named by their files: plugin files, and modules of the current folder in `gym:` names.

Each is found by its name, in this process and in the processes of a run. Nothing beside it is found.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from typing import Any

from a3c_zoo.errors import PluginError


class ModuleFiles(MetaPathFinder):
    """Finds top-level modules by their files. Installed modules come first.

    When it is pickled for another process, that process's own one finds the modules, too. Objects that are
    unpickled after it can be of their classes.

    Attributes:
        paths: name → path of the file. has_typed: one lies in the current folder, and belongs to a name that
            was typed.
    """

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self.has_typed = False

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Called by Python's import."""
        if (file := self.paths.get(fullname)) is None:
            return None
        if os.path.basename(file) == "__init__.py":
            folders = [os.path.dirname(file)]
        else:
            folders = None
        return spec_from_file_location(fullname, file, submodule_search_locations=folders)

    def add(self, paths: Mapping[str, str]) -> None:
        """Adds modules: name → path of the file."""
        self.paths |= paths
        if self.paths and self not in sys.meta_path:
            sys.meta_path.append(self)

    def add_plugin(self, path: str) -> str:
        """Adds a plugin file, and returns the name of its module.

        Raises:
            PluginError: it is no Python file, or its name is that of another module.
        """
        name, ending = os.path.splitext(os.path.basename(path))
        if not os.path.lexists(path):
            raise PluginError("there is no such file")
        if ending != ".py" or not os.path.isfile(path):
            raise PluginError("it is no Python file; its name must end in .py")
        if not name.isidentifier():
            raise PluginError("its name is no module name; rename it: letters, digits and '_'")
        if (
            self.paths.get(name) != path
            and (other := place_of(name)) is not None
            and not _is_same(other, path)
        ):
            raise PluginError(f"Python has another module '{name}' ({other}); rename the file")
        self.add({name: path})
        return name

    def add_from_current_folder(self, module: str) -> None:
        """Adds a module or package of the current folder, if `module` is not known otherwise. `a.b` adds `a`."""
        name = module.partition(".")[0]
        for path in (os.path.abspath(file) for file in (f"{name}.py", os.path.join(name, "__init__.py"))):
            if name.isidentifier() and os.path.isfile(path) and place_of(name) is None:
                self.add({name: path})
                self.has_typed = True

    def __reduce__(self) -> tuple[Any, ...]:
        return _add_here, (self.paths,)


MODULE_FILES = ModuleFiles()
"""This process's modules of plugin files. Where it is unpickled, they can be imported, too."""


def _add_here(paths: Mapping[str, str]) -> ModuleFiles:
    MODULE_FILES.add(paths)
    return MODULE_FILES


def place_of(name: str) -> str | None:
    """Where Python finds a top-level module, None if it finds none. Imports nothing."""
    try:
        spec = find_spec(name)
    except ValueError:  # a module that was made by hand, such as __main__
        return "it has no file"
    if spec is None:
        return None
    return spec.origin or "it has no file"


def _is_same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
