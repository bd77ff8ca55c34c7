"""What a stranger, a disk or an editor can do to a run directory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from hypothesis import strategies as st

from a3c_zoo.store.checkpoint_bytes import read_content
from tests.fuzz.structure import LARGEST, archives, change_archive, change_tokens, tokens
from tests.fuzz.values import OBEYED, nested, numbers, texts
from tests.fuzz.watch import EVIL
from tests.toys_runs import unchecked_bytes

_TEXTS = ["meta.json", "outcome.json", "config.yml", "monitor.csv", "evaluations.csv"]
_OTHERS = [
    "run.lock",
    "events.jsonl",
    "evaluations.npz",
    "evaluations.json",
    "timing.json",
    "checkpoints",
    "tensorboard",
    ".x.tmp",
]
_OTHERS += [f"checkpoints/{name}" for name in (".evaluated.pt", ".checked.pt", ".x.tmp", "set-aside-1")]
_OTHERS += ["checkpoints/step-000000000700.pt", "checkpoints/step-999999999999999999.pt", "tensorboard/events.out.x"]
_CHECKPOINTS = [0, 1, 2, 3]


@dataclass(frozen=True, slots=True)
class Damage:
    """One change of a run directory.

    Attributes:
        file: a path in the run; a number stands for a checkpoint, the newest first.
        how: a function's name and its arguments; see `_HOW`.
    """

    file: str | int
    how: tuple[Any, ...]

    def apply(self, run: Path, outside: Path) -> None:
        """Changes the run; `outside` is where planted links lead."""
        path = run / self.file if isinstance(self.file, str) else _checkpoint(run, self.file)
        name, *args = self.how
        if path.parent.is_dir() and not path.is_symlink() and not _is_huge(path):
            _HOW[name](path, outside, *args)


def _is_huge(path: Path) -> bool:
    """Whether an earlier change has made a file of it that nobody could read."""
    return path.is_file() and path.stat().st_size > LARGEST


def _checkpoint(run: Path, number: int) -> Path:
    files = sorted((run / "checkpoints").glob("*.pt"), reverse=True)
    return files[number % len(files)] if files else run / "checkpoints" / "best.pt"


def _bytes(path: Path, change: Callable[[bytearray], bytes | bytearray]) -> None:
    if path.is_file():
        path.write_bytes(change(bytearray(path.read_bytes())))


def _flip(path: Path, outside: Path, where: float, mask: int) -> None:
    def change(raw: bytearray) -> bytearray:
        if raw:
            raw[int(where * (len(raw) - 1))] ^= mask
        return raw

    _bytes(path, change)


def _cut(path: Path, outside: Path, where: float) -> None:
    _bytes(path, lambda raw: raw[: int(where * len(raw))])


def _insert(path: Path, outside: Path, where: float, piece: bytes) -> None:
    _bytes(path, lambda raw: raw[: int(where * len(raw))] + piece + raw[int(where * len(raw)) :])


def _write(path: Path, outside: Path, content: bytes) -> None:
    if not path.is_dir():
        path.write_bytes(content)


def _plant(path: Path, outside: Path, kind: str) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    match kind:
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to(outside / "victim")
        case "link to nothing":
            path.symlink_to(outside / "new")
        case "link to a folder":
            path.symlink_to(outside)
        case "loop":
            path.symlink_to(path.name)
        case "device":
            path.symlink_to("/dev/zero")
        case "huge":
            with path.open("wb") as file:
                file.truncate((1 << 40) + 1)  # sparse: it takes no room


def _cell(path: Path, outside: Path, line: int, column: int, value: str) -> None:
    """Replaces a cell of a CSV file."""
    if not path.is_file() or not (lines := path.read_text(errors="replace").split("\n")):
        return
    cells = lines[line % len(lines)].split(",")
    cells[column % len(cells)] = value
    lines[line % len(lines)] = ",".join(cells)
    path.write_bytes("\n".join(lines).encode(errors="surrogatepass"))


def _structure(path: Path, outside: Path, picks: Sequence[int], action: str, value: Any) -> None:
    """Changes one place in a JSON or YAML file, or in a checkpoint, whose digest is made anew."""
    if not path.is_file():
        return
    try:
        match path.suffix:
            case ".json":
                content = json.loads(path.read_bytes())
                _change(content, picks, action, value)
                path.write_bytes(json.dumps(content).encode(errors="surrogatepass"))
            case ".yml":
                content = yaml.safe_load(path.read_bytes())
                _change(content, picks, action, value)
                path.write_bytes(yaml.safe_dump(content, allow_unicode=True).encode(errors="surrogatepass"))
            case ".pt":
                content = read_content(path)
                _change(content, picks, action, value)
                path.write_bytes(unchecked_bytes(content))
    except Exception:  # an earlier change has damaged it
        return


def _change(content: Any, picks: Sequence[int], action: str, value: Any) -> None:
    parent: Any = {"": content}
    key: Any = ""
    node = content
    for pick in picks:
        if isinstance(node, dict) and node:
            parent, key = node, list(node)[pick % len(node)]
        elif isinstance(node, list) and node:
            parent, key = node, pick % len(node)
        else:
            break
        node = parent[key]
    if isinstance(node, torch.Tensor):
        parent[key] = _TENSORS[action](node) if action in _TENSORS else value
    elif action == "remove":
        del parent[key]
    elif action == "add" and isinstance(node, dict):
        node[str(value)] = value
    elif action == "add" and isinstance(node, list):
        node.append(value)
    else:
        parent[key] = value


#: What becomes of a tensor.
_TENSORS: dict[str, Callable[[torch.Tensor], Any]] = {
    "nan": lambda t: torch.full_like(t, float("nan")) if t.is_floating_point() else t * 0 - 1,
    "inf": lambda t: t * float("inf"),
    "one element": lambda t: t.reshape(-1)[:1],
    "no element": lambda t: t.reshape(-1)[:0],
    "a scalar": lambda t: torch.tensor(1.0, dtype=t.dtype),
    "one more": lambda t: torch.cat([t.reshape(-1), t.reshape(-1)[:1]]),
    "one more dimension": lambda t: t[None],
    "transposed": lambda t: t.mT if t.ndim > 1 else t.flip(0),
    "double": lambda t: t.double(),
    "half": lambda t: t.half(),
    "complex": lambda t: t.to(torch.complex64),
    "integers": lambda t: t.long(),
    "booleans": lambda t: t.bool(),
    "sparse": lambda t: t.to_sparse(),
    "a parameter": lambda t: torch.nn.Parameter(t.float()),
    "expanded": lambda t: torch.zeros(1).expand(1 << 40),
    "large": lambda t: t * 1e38,
    "a list": lambda t: t.tolist(),
    "meta": lambda t: t.to("meta"),
}
_HOW: dict[str, Callable[..., None]] = {
    "flip": _flip,
    "cut": _cut,
    "insert": _insert,
    "write": _write,
    "plant": _plant,
    "cell": _cell,
    "structure": _structure,
    "tokens": change_tokens,
    "archive": change_archive,
}
_where = st.sampled_from([0.0, 0.5, 0.99, 1.0]) | st.floats(0, 1, width=16)
_piece = st.sampled_from([b"\x00", b"\xff\xfe", b"\n", b"{", b"[" * 3000, b"'", b"\x1b[2J", b",,,", b"nan"])
_piece = _piece | st.binary(max_size=8) | texts.map(lambda text: text.encode(errors="surrogatepass"))
_any_bytes = st.one_of(
    st.tuples(st.just("flip"), _where, st.integers(1, 255)),
    st.tuples(st.just("cut"), _where),
    st.tuples(st.just("insert"), _where, _piece),
    st.tuples(
        st.just("write"), st.sampled_from([b"", b"{}", b"[]", b"null", b"1", b"\x00" * 100]) | st.binary(max_size=9)
    ),
)
_plants = st.tuples(
    st.just("plant"),
    st.sampled_from(
        ["nothing", "folder", "fifo", "link", "link to nothing", "link to a folder", "loop", "device", "huge"]
    ),
)
_picks = st.lists(st.integers(0, 40), min_size=1, max_size=6)
_new_values = nested | st.sampled_from(
    [f"gym:{EVIL}module:X-v0", f"{EVIL}module:make", "pong", "gym:CartPole-v1", "a3c-data"]
)
_structures = st.tuples(st.just("structure"), _picks, st.sampled_from(["remove", "replace", "add"]), _new_values)
_tensors = st.tuples(
    st.just("structure"), _picks, st.sampled_from(["remove", "replace", "add", *_TENSORS]), _new_values
)
_cells = st.tuples(
    st.just("cell"), st.integers(0, 30), st.integers(0, 6), numbers | st.sampled_from(OBEYED) | st.text(max_size=6)
)
_JSON = ["meta.json", "outcome.json", "config.yml"]
#: What other programs have written of a run, too.
of_other_programs = st.one_of(
    st.builds(Damage, st.just("evaluations.npz"), archives),
    st.builds(Damage, st.sampled_from(["monitor.csv", "evaluations.npz"]), _any_bytes),
    st.builds(Damage, st.just("monitor.csv"), _cells),
    st.builds(Damage, st.sampled_from(["monitor.csv", "evaluations.npz", "tensorboard"]), _plants),
)
damages = st.one_of(
    st.builds(Damage, st.sampled_from([*_JSON, *_CHECKPOINTS, *_CHECKPOINTS]), tokens),
    st.builds(Damage, st.sampled_from(_JSON), _structures),
    st.builds(Damage, st.sampled_from(_CHECKPOINTS), _tensors),
    st.builds(Damage, st.sampled_from(["monitor.csv", "evaluations.csv"]), _cells),
    st.builds(Damage, st.sampled_from([*_TEXTS, *_CHECKPOINTS]), _any_bytes),
    st.builds(Damage, st.sampled_from([*_TEXTS, *_OTHERS, *_CHECKPOINTS]), _plants),
)
