"""The command line that meta.json holds: whether it is one of a3c-zoo, and how others read it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any, Final

import yaml

#: The beginning of an absolute path, of POSIX or of Windows. `//` behind a colon is one of an address.
_ROOT: Final = r"(?:/(?!/)|(?<!:)//|[A-Za-z]:[\\/](?!/)|\\\\)"
WHOLE_PATH: Final = re.compile(_ROOT + r"[^'\",;{}\[\]]+$")
#: An absolute path within a text. Within quotes it may have blanks.
ABSOLUTE_PATH: Final = re.compile(
    rf"(?<='){_ROOT}[^']+(?=')|(?<=\"){_ROOT}[^\"]+(?=\")"
    rf"|(?:(?<=file://)|(?<![\w.~/\\-])){_ROOT}[^\s'\",;{{}}\[\]]+"
)


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

    So others see no names of users, projects and disks. A path may have blanks if it is within quotes, or is the whole
    text, or all that follows the first `=`, or a value of a YAML list or mapping there. What follows `~/` stays, and so
    do relative paths and addresses such as `https://…`.
    """
    text = without_home(text)
    option, equals, value = text.partition("=")
    for head, path in (("", text), (option + equals, value)):
        if WHOLE_PATH.match(path):
            return head + _last_name(path)
    if value.startswith(("{", "[")):
        text = option + equals + _without_plain_paths(value)
    return ABSOLUTE_PATH.sub(lambda found: _last_name(found[0]), text)


def _without_plain_paths(flow: str) -> str:
    """A YAML list or mapping with the last name alone of each value that is an absolute path without quotes."""
    try:
        tokens = list(yaml.scan(flow, yaml.SafeLoader))
    except yaml.YAMLError:
        return flow  # a text that only looks like one
    for token in reversed(tokens):
        if isinstance(token, yaml.ScalarToken) and token.plain and WHOLE_PATH.match(token.value):
            flow = flow[: token.start_mark.index] + _last_name(token.value) + flow[token.end_mark.index :]
    return flow


def _last_name(path: str) -> str:
    """The last name of a path of any system, also where it is that of a drive or a share."""
    return re.split(r"[\\/]", path.rstrip("\\/"))[-1]


def absolute_paths(text: str) -> list[str]:
    """The absolute paths in a text, each once."""
    return list(dict.fromkeys(ABSOLUTE_PATH.findall(text)))


def shell_line(words: Iterable[str]) -> str:
    """A command as a line for a shell, which expands `~/` only without quotes, and only where a word begins."""
    apart = (part for word in words for part in _option_and_home(word))
    parts = (word.partition("/") if word[:2] in ("~", "~/") else ("", "", word) for word in apart)
    return " ".join(
        head + slash + (shlex.quote(rest) if rest or not head else "") for head, slash, rest in parts
    )


def _option_and_home(word: str) -> list[str]:
    """`--option=~/x` as the two words `--option` and `~/x`; any other word as it is."""
    option, _, value = word.partition("=")
    if option.startswith("--") and value[:2] in ("~", "~/"):
        return [option, value]
    return [word]
