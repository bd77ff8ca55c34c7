"""Commands that messages tell a user to type next."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from a3c_zoo.files import shown
from a3c_zoo.plugins.loading import Selection
from a3c_zoo.plugins.module_files import MODULE_FILES


def next_command(words: str) -> str:
    """A command to type next, `words` after the program's name. It finds the plugin files and modules of this one.

    PYTHONPATH is repeated if a folder in it is relative. Absolute ones are likely set for every command.
    """
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    # A run's own name finds no module in the current folder, and no file.
    folders += [folder for folder in MODULE_FILES.typed_folders.values() if folder not in folders]
    is_typed = bool(MODULE_FILES.typed_folders) or not all(map(os.path.isabs, folders))
    if is_typed:
        program = f"PYTHONPATH={shlex.quote(os.pathsep.join(folders))} a3c-zoo"
    else:
        program = "a3c-zoo"
    # `--plugin` puts absolute paths into the variable.
    files = dict.fromkeys(shown(Path(os.path.abspath(file))) for file in Selection.from_environ().files)
    return " ".join([program, words, *(f"--plugin {shlex.quote(str(file))}" for file in files)])
