"""The command line that meta.json holds: whether it is one of a3c-zoo, and how others read it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any, Final

#: The beginning of an absolute path, of POSIX or of Windows.
_ROOT: Final = r"(?:/(?!/)|[A-Za-z]:[\\/](?!/)|\\\\)"
WHOLE_PATH: Final = re.compile(_ROOT + r"[^'\",;{}\[\]]*$")
#: An absolute path within a text; one of an address, which begins with `https://HOST`, is none.
ABSOLUTE_PATH: Final = re.compile(rf"(?:(?<=file://)|(?<![\w.~/\\-])){_ROOT}[^\s'\",;{{}}\[\]]*")


def command_of(meta: Mapping[str, Any]) -> list[str]:
    """The words of the a3c-zoo command that trained a run; none for a run of a program or a notebook."""
    words = [str(word) for word in meta.get("command", ())]
    program = PureWindowsPath(words[0] if words else "").parts  # it takes paths of every system apart
    is_ours = program[-1:] in (("a3c-zoo",), ("a3c-zoo.exe",)) or program[-2:] == ("a3c_zoo", "__main__.py")
    if is_ours:
        return ["a3c-zoo", *words[1:]]
    return []


def without_home(text: str) -> str:
    """A text with `~` for the path of the home folder, and not for a part of another path."""
    home = str(Path.home())
    if home == "/":
        return text
    return re.sub(rf"(?<![\w.-]){re.escape(home)}(?!\.?[\w-])", "~", text)


def without_folders(text: str) -> str:
    """A text with `~` for the path of the home folder, and with the last name alone of every other absolute path.

    So others see no names of users, projects and disks. A path of which a whole word consists, or what follows its
    first `=`, may have blanks. What follows `~/` stays, and so do relative paths and addresses such as `https://…`.
    """
    text = without_home(text)
    option, equals, value = text.partition("=")
    for head, path in (("", text), (option + equals, value)):
        if WHOLE_PATH.match(path):
            return head + (PureWindowsPath(path).name or path)
    return ABSOLUTE_PATH.sub(lambda found: PureWindowsPath(found[0]).name or found[0], text)


def absolute_paths(text: str) -> list[str]:
    """The absolute paths in a text, each once."""
    return list(dict.fromkeys(ABSOLUTE_PATH.findall(text)))


def shell_line(words: Iterable[str]) -> str:
    """A command as a line for a shell, which expands `~/` only without quotes."""
    parts = (word.partition("/") if word[:2] in ("~", "~/") else ("", "", word) for word in words)
    return " ".join(
        head + slash + (shlex.quote(rest) if rest or not head else "") for head, slash, rest in parts
    )
