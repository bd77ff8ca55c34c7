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
from pathlib import Path
from typing import Any

from a3c_zoo.errors import PluginError, ZooError
from a3c_zoo.files import MAX_TEXT, open_file

#: Tells the processes of this program which files the user has named: paths with `os.pathsep` between them.
TYPED_FILES = "_A3C_ZOO_TYPED_FILES"


def cure_in_current_folder(env_name: str, has_hint: bool) -> str:
    """What to type for an unknown environment, by the files of the current folder; "" if they tell nothing.

    Args:
        has_hint: whether another name was found that may be meant. A file with the name is nearer.
    """
    module, colon, _ = env_name.partition(":")
    top = module.partition(".")[0]
    if not top.isidentifier():
        return ""
    file = f"{top}.py"
    if not colon and os.path.isfile(file):
        with open_file(Path(file)) as content:
            is_plugin = b"hookimpl" in content.read(MAX_TEXT)
        if is_plugin:
            return f"{file} here is a plugin: add --plugin {file}"
        return f"Type: ./{file}"
    is_here = os.path.exists(file) or os.path.isdir(top)
    if colon and not has_hint and not is_here and find_spec(top) is None:
        return f"There is no module '{top}', and no {file} in this folder"
    return ""


class ModuleFiles(MetaPathFinder):
    """Finds top-level modules by their files. Installed modules come first.

    When it is pickled for another process, that process's own one finds the modules, too. Objects that are
    unpickled after it can be of their classes.

    Attributes:
        paths: name → path of the file.
        typed_folders: folders whose modules belong to names that were typed: absolute path → path as it was typed.
    """

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self.typed_folders: dict[str, str] = {}

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
        if fault := self._fault_of(path):
            raise PluginError(fault)
        name = _module_name(path)
        self.add({name: path})
        return name

    def add_file(self, typed: str) -> str:
        """Adds a file that the user names, and returns the name of its module. So do processes that this one starts.

        Raises:
            ZooError: it is no Python file, or its name is that of another module.
        """
        path = os.path.abspath(typed)
        if fault := self._fault_of(path):
            raise ZooError(f"{typed}: {fault}")
        name = _module_name(path)
        self.add({name: path})
        self.typed_folders[os.path.dirname(path)] = os.path.dirname(typed) or "."
        others = filter(None, os.environ.get(TYPED_FILES, "").split(os.pathsep))
        os.environ[TYPED_FILES] = os.pathsep.join(dict.fromkeys([*others, path]))
        return name

    def add_typed_files(self) -> None:
        """Adds the files that the user has named to the program that has started this process."""
        for path in filter(None, os.environ.get(TYPED_FILES, "").split(os.pathsep)):
            if not self._fault_of(path):
                self.add({_module_name(path): path})

    def _fault_of(self, path: str) -> str:
        """Why a file cannot be a module; "" if it can."""
        name, ending = os.path.splitext(os.path.basename(path))
        if not os.path.lexists(path):
            return "there is no such file"
        if ending != ".py" or not os.path.isfile(path):
            return "it is no Python file; its name must end in .py"
        if os.pathsep in path:
            return f"its path has a '{os.pathsep}', which separates paths; rename it"
        if not name.isidentifier():
            return "its name is no module name; rename it: letters, digits and '_'"
        if (
            self.paths.get(name) != path
            and (other := place_of(name)) is not None
            and not _is_same(other, path)
        ):
            return f"Python has another module '{name}' ({other}); rename the file"
        return ""

    def add_from_current_folder(self, module: str) -> None:
        """Adds a module or package of the current folder, if `module` is not known otherwise. `a.b` adds `a`."""
        name = module.partition(".")[0]
        for path in files_of(os.getcwd(), name):
            if name.isidentifier() and os.path.isfile(path) and place_of(name) is None:
                self.add({name: path})
                self.typed_folders[os.getcwd()] = "."

    def __reduce__(self) -> tuple[Any, ...]:
        return _add_here, (self.paths,)


def files_of(folder: str, module: str) -> list[str]:
    """Where a top-level module or package of a folder can have its file."""
    return [os.path.join(folder, f"{module}.py"), os.path.join(folder, module, "__init__.py")]


def _module_name(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


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
