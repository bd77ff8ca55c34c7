"""Changes of a file's structure: the tokens of checkpoints, nesting and counts of JSON and YAML, members of archives.

What results can be read as its format can: it is wrong in what it says, and a digest may fit it.
"""

from __future__ import annotations

import io
import json
import struct
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from a3c_zoo.store.checkpoint_bytes import METADATA, _digest
from tests.fuzz.values import INTEGERS, nested, texts

#: Words that mean something in a checkpoint's JSON.
TOKENS = ("$tensor", "$tuple", "$pairs", "$bytes", "$", "$other")
#: A file that grows over it is not written: its size alone would cost time.
LARGEST = 32 << 20


@dataclass(frozen=True, slots=True)
class Edit:
    """One change of a tree of JSON.

    Attributes:
        picks: the way to a place, one number for each level. how: see `_HOW`.
        count: how deep, how often, or how large. value: what comes there.
    """

    picks: tuple[int, ...]
    how: str
    count: int
    value: Any


@dataclass
class Tree:
    """JSON in which some values are texts that no writer would write, such as 100,000 brackets."""

    content: Any
    raw: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The whole as JSON."""
        text = json.dumps(self.content)
        for number, raw in reversed([*enumerate(self.raw)]):
            text = text.replace(f'"@{number}@"', raw)
        return text

    def keep(self, raw: str) -> str:
        """Returns what stands for a text until the end."""
        self.raw.append(raw)
        return f"@{len(self.raw) - 1}@"

    def edit(self, edit: Edit) -> None:
        """Changes one place."""
        root = [self.content]
        parent: Any = root
        key: Any = 0
        for pick in edit.picks:
            node = parent[key]
            if not isinstance(node, dict | list) or not node:
                break
            parent, key = node, (list(node)[pick % len(node)] if isinstance(node, dict) else pick % len(node))
        _HOW[edit.how](self, parent, key, edit)
        self.content = root[0] if root else None


def _nest(tree: Tree, parent: Any, key: Any, edit: Edit) -> None:
    begin, end = [('{"a": ', "}"), ("[", "]"), ('{"$tuple": [', "]}"), ('{"$pairs": [[1, ', "]]}")][edit.count % 4]
    depth = 10 ** (edit.count % 6)
    parent[key] = tree.keep(begin * depth + json.dumps(parent[key]) + end * depth)


def _repeat(tree: Tree, parent: Any, key: Any, edit: Edit) -> None:
    times = 10 ** (edit.count % 6)
    value = json.dumps(parent[key])
    if times * len(value) < LARGEST // 2:
        parent[key] = tree.keep("[" + ", ".join([value] * times) + "]")


def _many(tree: Tree, parent: Any, key: Any, edit: Edit) -> None:
    """Many entries, whose keys may collide: whole numbers that differ by multiples of 2⁶¹ − 1."""
    times = 10 ** (edit.count % 6)
    step = [1, 2**61 - 1, 2**53][edit.count % 3]
    pairs = ", ".join(f"[{number * step}, 0]" for number in range(times))
    names = ", ".join(f'"{number}": 0' for number in range(times))
    parent[key] = tree.keep(f'{{"$pairs": [{pairs}]}}' if edit.count % 2 else f"{{{names}}}")


def _digits(tree: Tree, parent: Any, key: Any, edit: Edit) -> None:
    parent[key] = tree.keep(
        ["9" * 5_000, "1e999", "-1e999", "NaN", "1" * 400, "-0", "1.5e-400", "9" * 300_000][edit.count % 8]
    )


def _twice(tree: Tree, parent: Any, key: Any, edit: Edit) -> None:
    """The same name twice in one object."""
    value = json.dumps(parent[key])
    parent[key] = tree.keep(f'{{"a": {value}, "a": {value}}}')


def _rename(tree: Tree, parent: Any, key: Any, edit: Edit) -> None:
    if isinstance(parent, dict):
        names = [*TOKENS, *parent, str(edit.value)[:50], "0", "__metadata__", "constructor", "\ud800"]
        parent[names[edit.count % len(names)]] = parent.pop(key)


def _token(tree: Tree, parent: Any, key: Any, edit: Edit) -> None:
    parent[key] = {TOKENS[edit.count % len(TOKENS)]: edit.value}


def _swap(tree: Tree, parent: Any, key: Any, edit: Edit) -> None:
    others = list(parent) if isinstance(parent, dict) else range(len(parent))
    other = others[edit.count % len(others)]
    parent[key], parent[other] = parent[other], parent[key]


def _replace(tree: Tree, parent: Any, key: Any, edit: Edit) -> None:
    parent[key] = edit.value


def _remove(tree: Tree, parent: Any, key: Any, edit: Edit) -> None:
    del parent[key]


_HOW: dict[str, Callable[[Tree, Any, Any, Edit], None]] = {
    "nest": _nest,
    "repeat": _repeat,
    "many": _many,
    "digits": _digits,
    "twice": _twice,
    "rename": _rename,
    "token": _token,
    "swap": _swap,
    "replace": _replace,
    "remove": _remove,
}


def change_tokens(path: Path, outside: Path, edits: list[Edit], part: str, signs: bool, number: int) -> None:
    """Changes the tokens of a checkpoint, or of a JSON or YAML file.

    Args:
        part: of a checkpoint: "content" (its JSON), "header" (safetensors' own), "length" (of the header) or "data".
        signs: whether the digest fits what results. number: a length, or how many bytes more or less.
    """
    if not path.is_file():
        return
    try:
        raw = path.read_bytes()
        if path.suffix == ".json":
            made = _edited(json.loads(raw), edits).encode(errors="surrogatepass")
        elif path.suffix == ".yml":
            made = _edited(yaml.safe_load(raw), edits).encode(errors="surrogatepass")  # JSON is YAML
        else:
            made = _checkpoint(raw, edits, part, signs, number)
    except (ValueError, LookupError, TypeError, RecursionError, struct.error, yaml.YAMLError):
        return  # an earlier change has damaged it, or nothing can be written so
    if len(made) <= LARGEST:
        path.write_bytes(made)


def _edited(content: Any, edits: list[Edit]) -> str:
    tree = Tree(content)
    for edit in edits:
        tree.edit(edit)
    return tree.text()


def _checkpoint(raw: bytes, edits: list[Edit], part: str, signs: bool, number: int) -> bytes:
    (length,) = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    if part == "length":
        return struct.pack("<Q", number % 2**64) + raw[8:]
    if part == "data":
        return raw + bytes(number) if 0 <= number < LARGEST else raw[: number % len(raw)]
    if part == "header":
        text = _edited(header, edits).encode(errors="surrogatepass")
        return struct.pack("<Q", len(text)) + text + data
    digest, _, plain = header["__metadata__"][METADATA].partition("\n")
    changed = _edited(json.loads(plain), edits)
    if signs:
        from safetensors.torch import load

        digest = _digest(changed, load(raw))
    header["__metadata__"][METADATA] = f"{digest}\n{changed}"
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


#: Names of members of an archive.
_MEMBERS = [
    "timesteps.npy",
    "results.npy",
    "ep_lengths.npy",
    "TIMESTEPS.NPY",
    "../x.npy",
    "/tmp/x.npy",
    "a\\b.npy",
    "x" * 300,
]
#: What an array's own header says of its numbers and of its shape.
_DESCR = ["'<f8'", "'|O'", "'<U9'", "'>i2'", "'<c16'", "[('a', '<f8')]", "'|V1000000000'", "'<M8[s]'", "'<f4'", "''"]
_SHAPES = ["(10, 1)", "(10**12,)", "(-1,)", "(0, 1)", "(9223372036854775807, 2)", "(1000000000000,)", "1", "((2,),)"]


def change_archive(path: Path, outside: Path, name: str, count: int, packed: int, descr: str, shape: str) -> None:
    """Makes an archive of arrays anew: one member with another name, many times, packed otherwise, of another kind."""
    if not path.is_file() or path.suffix != ".npz":
        return
    try:
        with zipfile.ZipFile(path) as archive:
            members = {each.filename: archive.read(each) for each in archive.infolist()}
    except (zipfile.BadZipFile, OSError, ValueError, EOFError):
        return
    head = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head) + 1) + head + b"\n" + bytes(count % 5 * 80)
    written = io.BytesIO()
    kind = [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA][packed % 4]
    with warnings.catch_warnings(action="ignore"), zipfile.ZipFile(written, "w", kind) as archive:
        for each, content in members.items():
            if each != name:
                archive.writestr(each, content)
        for number in range(10 ** (count % 4)):
            archive.writestr(name if number == 0 else f"{number}{name}"[:60], array)
    raw = bytearray(written.getvalue())
    place = raw.rfind(b"PK\x01\x02")  # the last member in the table of contents
    if packed % 3 == 0:
        struct.pack_into("<I", raw, place + 24, count * 10_000_000 % 2**32)  # the size that it says to have
    path.write_bytes(raw)


_picks = st.lists(st.integers(0, 40), max_size=7).map(tuple)
_values = nested | st.sampled_from(INTEGERS) | st.integers(-2, 20) | texts | st.lists(st.integers(-1, 9), max_size=3)
_values = _values | st.sampled_from(["F64", "F32", "BF16", "BOOL", "U8", "I64", "F8_E4M3", "C64", "X"])
edits = st.builds(Edit, _picks, st.sampled_from([*_HOW]), st.integers(0, 300), _values)
_parts = st.sampled_from(["content", "content", "content", "header", "header", "length", "data"])
_numbers = st.sampled_from([*(each for each in INTEGERS if abs(each) < 2**70), 7, 8, 100, 4096, 2**20, 8 << 20])
tokens = st.tuples(st.just("tokens"), st.lists(edits, min_size=1, max_size=2), _parts, st.booleans(), _numbers)
archives = st.tuples(
    st.just("archive"),
    st.sampled_from(_MEMBERS),
    st.integers(0, 500),
    st.integers(0, 11),
    st.sampled_from(_DESCR),
    st.sampled_from(_SHAPES),
)
