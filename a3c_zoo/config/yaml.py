"""YAML for hyperparameter sets: plain data, and the line of each key.

Differences from YAML 1.1, which PyYAML reads: `1e-4` is a number; only true and false are booleans (`no` and
`off` are words); dates, base-60 numbers and `0o17` are words, and `010` is ten; tags, anchors, aliases and
duplicate keys are refused. Values are null, booleans, numbers, strings, lists and mappings; nothing else is
constructed.

The nodes that PyYAML composes are turned into data here, because no library among the dependencies gives the
line of each key and reports several faults at once, which error messages and `show` need.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

from a3c_zoo.errors import printable
from a3c_zoo.files import open_file

MAX_BYTES: Final = 128 * 1024
"""The largest document. PyYAML takes two seconds for it."""
MAX_DEPTH: Final = 20

#: The path to a value: keys of mappings and positions in lists.
Location = tuple[str | int, ...]

_PREFIX = "tag:yaml.org,2002:"
_REFUSED_TAG = "refused:"
#: Replaces a value that cannot be used; a fault says why.
_UNUSABLE: Final = object()
_FLOAT = r"""[-+]?(?:[0-9][0-9_]*\.[0-9]*(?:[eE][-+]?[0-9]+)?
    |\.[0-9]+(?:[eE][-+]?[0-9]+)?
    |[0-9][0-9_]*[eE][-+]?[0-9]+
    |\.(?:inf|Inf|INF))
    |\.(?:nan|NaN|NAN)"""


def _read_float(text: str) -> float:
    return float(text.replace("_", "").lower().replace(".inf", "inf").replace(".nan", "nan"))


#: Type → pattern, reader.
_SCALARS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "null": (r"~|null|Null|NULL|", lambda text: None),
    "bool": (r"true|True|TRUE|false|False|FALSE", lambda text: text.lower() == "true"),
    "int": (r"[-+]?[0-9]+(?:_[0-9]+)*", int),
    "float": (_FLOAT, _read_float),
}


class YamlFault(NamedTuple):
    """A fault of a document; `location` is empty if the fault belongs to no key."""

    line: int
    location: Location
    message: str


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML mapping read from `source`; `lines` has the line of each key and list item, from 1."""

    source: str
    data: dict[str, Any]
    lines: dict[Location, int]
    faults: tuple[YamlFault, ...]


class _Loader(yaml.SafeLoader):
    """Composes nodes by the scalar rules above, and marks nodes with an explicit tag."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - PyYAML's own name

    depth = 0
    allows_anchors = False

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Reads a node. Refuses anchors, aliases and deep nesting, and marks explicit tags."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        # An alias event has an anchor, too.
        has_anchor = getattr(event, "anchor", None) is not None and not self.allows_anchors
        if has_anchor or self.depth >= MAX_DEPTH:
            if has_anchor:
                problem = "anchors and aliases are not allowed"
            else:
                problem = "nested too deeply"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        if node is not None and (tag := getattr(event, "tag", None)) is not None:
            node.tag = _REFUSED_TAG + tag.replace(_PREFIX, "!!")
        return node


class _LoaderOfOthers(_Loader):
    """As `_Loader`, with anchors and aliases, for files of other programs."""

    allows_anchors = True


class _Dumper(yaml.SafeDumper):
    """Writes data that `_Loader` reads back unchanged, with lists on one line."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


# The dumper quotes a string that YAML 1.1 or this module would read as another type.
for _name, (_pattern, _) in _SCALARS.items():
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_PREFIX + _name, re.compile(rf"^(?:{_pattern})$", re.X), None)
_Dumper.add_representer(
    list, lambda dumper, items: dumper.represent_sequence(_PREFIX + "seq", items, flow_style=True)
)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quotes a text with a line break of Unicode, which PyYAML would fold."""
    has_line_ends = bool({*text} & {*"\x85\u2028\u2029"})
    return dumper.represent_scalar(_PREFIX + "str", text, style='"' if has_line_ends else None)


_Dumper.add_representer(str, _represent_text)


class _Builder:
    """Turns nodes into plain data, and notes the line of each key."""

    def __init__(self) -> None:
        self.lines: dict[Location, int] = {}
        self.faults: list[YamlFault] = []

    def build(self, node: yaml.Node, location: Location) -> Any:
        """Turns a node into plain data; unusable values are left out, with a fault in `faults`."""
        self.lines.setdefault(location, _line(node))
        if node.tag.startswith(_REFUSED_TAG):
            tag = node.tag.removeprefix(_REFUSED_TAG)
            return self.refuse(_line(node), location, f"tag '{tag}' is not allowed, only plain data")
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, location)
        if isinstance(node, yaml.SequenceNode):
            items = [self.build(item, (*location, i)) for i, item in enumerate(node.value)]
            return [item for item in items if item is not _UNUSABLE]
        _, read = _SCALARS.get(node.tag.removeprefix(_PREFIX), ("", str))
        try:
            return read(node.value)
        except ValueError:  # Python limits the digits of an integer
            return self.refuse(_line(node), location, "a number with too many digits")

    def _mapping(self, node: yaml.MappingNode, location: Location) -> dict[str, Any]:
        built: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = self.build(key_node, location)
            if not isinstance(key, str):
                if key is not _UNUSABLE:
                    self.refuse(_line(key_node), location, f"key {display(key)} is no word; quote it")
            elif (*location, key) in self.lines:
                first = self.lines[*location, key]
                self.refuse(_line(key_node), (*location, key), f"duplicate key, first given in line {first}")
            else:
                self.lines[*location, key] = _line(key_node)
                value = self.build(value_node, (*location, key))
                if value is not _UNUSABLE:
                    built[key] = value
        return built

    def refuse(self, line: int, location: Location, message: str) -> object:
        """Adds a fault; returns what stands for the value that cannot be used."""
        self.faults.append(YamlFault(line, location, message))
        return _UNUSABLE


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _parse(raw: bytes) -> tuple[Any, _Builder]:
    builder = _Builder()
    if len(raw) > MAX_BYTES:
        return builder.refuse(0, (), f"larger than {MAX_BYTES // 1024} KiB"), builder
    try:
        node = _Loader(raw.decode("utf-8-sig")).get_single_node()
        return None if node is None else builder.build(node, ()), builder
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        message = f"is not UTF-8 (byte {error.start})"
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        parts = [getattr(error, name, None) for name in ("context", "problem", "reason")]
        line = mark.line + 1 if mark else 1
        message = " ".join(str(part) for part in parts if part)
        if "'\\t'" in message:
            message = "a tab stands in this line. YAML takes blanks alone: replace each tab by two blanks"
        if isinstance(error, yaml.reader.ReaderError):  # it has a place, and no mark
            line = raw.decode("utf-8-sig").count("\n", 0, error.position) + 1
    except (ValueError, OverflowError):  # PyYAML makes a character of an escape such as \U00110000
        line = 1
        message = "has an escape that is no Unicode character"
    return builder.refuse(line, (), message), builder


def parse_document(raw: bytes, source: str) -> Document:
    """Reads a mapping; faults are in the document's `faults`. An empty document is an empty mapping."""
    data, builder = _parse(raw)
    if data is not None and data is not _UNUSABLE and not isinstance(data, dict):
        key, colon, value = str(data).partition(":")
        cure = f". A blank follows a colon: '{key}: {value}'" if isinstance(data, str) and colon else ""
        builder.refuse(1, (), f"must be a mapping of sections, not {display(data)}{cure}")
    return Document(source, data if isinstance(data, dict) else {}, builder.lines, tuple(builder.faults))


def read_document(path: Path | Traversable, source: str, follow: bool = False) -> Document:
    """Reads a file with `parse_document`; an unreadable file is a fault of the document.

    follow: whether it may be a link, see `open_file`.
    """
    try:
        with open_file(path, follow=follow) if isinstance(path, Path) else path.open("rb") as file:
            return parse_document(file.read(MAX_BYTES + 1), source)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        if missing:
            message = "no such file"
        else:
            message = f"cannot be read: {error.strerror or error}"
        return Document(source, {}, {}, (YamlFault(0, (), message),))


#: The most nodes that are looked at in another program's file, with those that aliases repeat.
MAX_NODES: Final = 20_000


class OthersDocument:
    """Another program's file, which may have anchors, aliases, merged mappings, and the tags of plain values.

    Args:
        raw: the file.

    Raises:
        ValueError: it is no YAML, or too large; so do the methods, as aliases may repeat what lies in it.
    """

    def __init__(self, raw: bytes) -> None:
        if len(raw) > MAX_BYTES:
            raise ValueError("it is too large")
        try:
            self.root: yaml.Node | None = _LoaderOfOthers(raw.decode("utf-8-sig")).get_single_node()
        except (yaml.YAMLError, OverflowError) as error:
            raise ValueError("it is no YAML") from error
        self._left = MAX_NODES

    def pairs(self, node: yaml.Node | None, depth: int = MAX_DEPTH) -> dict[str, tuple[int, yaml.Node]]:
        """Keys of a mapping → line and node of each value; nothing of another node. Later keys replace earlier ones.

        The key `<<` adds those of other mappings, which the mapping's own replace.
        """
        self._count(depth)
        if not isinstance(node, yaml.MappingNode):
            return {}
        pairs_by_key: dict[str, tuple[int, yaml.Node]] = {}
        for key, value in node.value:
            if key.value == "<<":
                for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    pairs_by_key = self.pairs(source, depth - 1) | pairs_by_key
        for key, value in node.value:
            self._count(depth)
            if isinstance(key, yaml.ScalarNode) and key.value != "<<":
                pairs_by_key[key.value] = (_line(key), value)
        return pairs_by_key

    def plain(self, node: yaml.Node, depth: int = MAX_DEPTH) -> Any:
        """The value of a node. What has another tag than those of plain values is its text."""
        self._count(depth)
        if isinstance(node, yaml.MappingNode):
            return {key: self.plain(value, depth - 1) for key, (_, value) in self.pairs(node, depth).items()}
        if isinstance(node, yaml.SequenceNode):
            return [self.plain(element, depth - 1) for element in node.value]
        kind = node.tag.removeprefix(_REFUSED_TAG).removeprefix("!!").removeprefix(_PREFIX)
        try:
            if kind in _SCALARS:
                return _SCALARS[kind][1](node.value)
            return str(node.value)
        except ValueError:
            return str(node.value)

    def _count(self, depth: int) -> None:
        self._left -= 1
        if self._left < 0 or depth == 0:
            raise ValueError("it has too many values, or is nested too deeply")


def parse_value(text: str) -> Any:
    """Reads one value by the rules of sets: `1e-4`, `null`, `true`, `[64, 64]`, a word.

    Raises:
        ValueError: the text is no plain YAML value.
    """
    value, builder = _parse(text.encode(errors="surrogatepass"))
    if builder.faults:
        raise ValueError(builder.faults[0].message)
    return value


def dump(data: dict[str, Any]) -> str:
    """Returns plain data as YAML, which `parse_document` reads back unchanged."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)


def depth(value: Any) -> int:
    """How many levels plain data has; a document may have `MAX_DEPTH`."""
    if isinstance(value, dict):
        inner = [*value, *value.values()]
    else:
        inner = value if isinstance(value, list) else []
    return 1 + max(map(depth, inner), default=0)


def written(value: Any) -> str:
    """Returns a value as YAML. A tuple or an array is a list; what YAML does not know is its text."""
    return _dumped(_plain(value))


def _dumped(value: Any) -> str:
    text: str = yaml.dump(
        value, Dumper=_Dumper, default_flow_style=True, allow_unicode=True, width=float("inf")
    )
    return text.removesuffix("\n").removesuffix("\n...")


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_plain(key) if isinstance(key, str) else key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(element) for element in value]
    if value is None or isinstance(value, bool):
        return value
    if hasattr(value, "tolist"):  # of NumPy or torch
        return value.tolist()
    for kind in (int, float):  # also of an Enum
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, str):
        return str.__str__(value)
    return str(value)


def display(value: Any, limit: int = 60) -> str:
    """Returns a value as YAML in one line, shortened to `limit` characters (0: no limit)."""
    try:
        text = printable(_dumped(value))
    except yaml.representer.RepresenterError:  # a Python caller may pass any object
        text = printable(repr(value))
    if limit and len(text) > limit:
        return f"{text[: limit - 1]}…"
    return text
