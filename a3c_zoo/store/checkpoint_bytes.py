"""The bytes of a checkpoint's file: safetensors' format, in which nothing can run code.

The tensors lie in the file under the names `0`, `1`, …. The metadata `a3c_zoo` is a text of two lines: the digest
(SHA-256) of all that the file holds, and JSON for everything that is no tensor. In the JSON an object is a dictionary
with words as keys, an array a list; an object with one key that begins with `$` stands for what JSON does not have:

    {"$tensor": 3}          the tensor with the name 3; each is named once
    {"$tuple": […]}         a tuple
    {"$pairs": [[k, v], …]} a dictionary with other keys: words or whole numbers
    {"$bytes": 3}           bytes, as the tensor with the name 3

A checkpoint may come from a stranger, so nothing in it may cost more memory or time than its size allows. Sizes are
checked first. safetensors checks that tensors fill the file without sharing any of it.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from a3c_zoo.errors import type_and_message
from a3c_zoo.files import MAX_CHECKPOINT, MAX_TABLE, open_file
from a3c_zoo.hardware import available_memory
from a3c_zoo.store.run_files import PARAMETERS

if TYPE_CHECKING:
    from torch import Tensor

#: Names of tensors in a trained agent's file: each parameter's begins with `PART`.
PART, STATISTICS = "parameters.", "observation statistics"
#: The name of this project's metadata in a file.
METADATA: Final = "a3c_zoo"
#: The most bytes of a file's header: names and places of tensors, and the JSON. Python's objects take 25 times as much.
MAX_HEADER: Final = 8 << 20
#: The deepest nesting of what is written.
MAX_DEPTH: Final = 50
#: Whole numbers as keys of dictionaries lie below it: Python hashes them to themselves, so no two collide.
MOST_KEY: Final = 1 << 53
#: How the files begin that torch's `save` writes, as a3c-zoo 0.1.0 did.
_ARCHIVE: Final = b"PK\x03\x04"


class OtherFormatError(ValueError):
    """A file that another version of a3c-zoo wrote. The message goes on after the file's name."""


def to_bytes(content: Mapping[str, Any]) -> bytes:
    """A file with this content. Raises ValueError if a file cannot hold it, or if `from_bytes` would refuse it."""
    from safetensors.torch import save

    writer = _Writer()
    try:
        text = json.dumps(writer.to_json(dict(content)))
        data = save(writer.tensors, {METADATA: f"{_digest(text, writer.tensors)}\n{text}"})
    except (RecursionError, RuntimeError, TypeError, KeyError) as error:
        raise ValueError(type_and_message(error)) from error
    header = int.from_bytes(data[:8], "little")
    if header > MAX_HEADER:
        raise ValueError(
            f"its values that are no tensors would take {header:,} bytes, and at most {MAX_HEADER:,} are read"
        )
    if len(data) > MAX_CHECKPOINT:
        raise ValueError(f"it would have {len(data):,} bytes, and at most {MAX_CHECKPOINT:,} are read")
    return bytes(data)


def from_bytes(data: bytes) -> Any:
    """The content of a file.

    Raises:
        ValueError: the file is damaged.
        Exception: safetensors has errors of its own.
    """
    text, tensors = _read_safetensors(data)
    digest, _, plain = text.partition("\n")
    if digest != _digest(plain, tensors):
        raise ValueError("it has changed since it was written (SHA-256)")
    content = _from_json(json.loads(plain), tensors)
    if tensors:
        raise ValueError(f"nothing names its tensor {min(tensors)}")
    return content


def read_content(path: Path) -> Any:
    """Reads a file: what it holds.

    Raises:
        OSError: as `open_file`.
        ValueError: the file is damaged. OtherFormatError: it is a pickle.
        MemoryError: there is too little memory for it.
        Exception: safetensors has errors of its own.
    """
    is_trained = path.name == PARAMETERS
    with open_file(path, limit=MAX_TABLE if is_trained else MAX_CHECKPOINT) as file:
        size = os.fstat(file.fileno()).st_size
        # The bytes, the tensors that are made of them, and the header.
        needed = 2 * size + 25 * min(size, MAX_HEADER)
        if needed > (free := available_memory()):
            raise MemoryError(f"it has {size:,} bytes, and {free:,} bytes of memory are free")
        data = file.read(size)
    if is_trained:
        return read_parameters(data)
    return from_bytes(data)


def read_head(path: Path) -> dict[str, Any]:
    """Reads of a file `format` and `session` alone: neither tensors nor their digest. Raises as `read_content`."""
    is_trained = path.name == PARAMETERS
    with open_file(path, limit=MAX_TABLE if is_trained else MAX_CHECKPOINT) as file:
        text = _metadata(file, os.fstat(file.fileno()).st_size)
    told = json.loads(text if is_trained else text.partition("\n")[2])
    return {"format": told["format"], "session": _from_json(told["session"], {})}


def read_parameters(data: bytes) -> dict[str, Any]:
    """What a checkpoint holds for acting, from a trained agent's file: tensors by name, and JSON as metadata.

    Parameters in bfloat16 become float32, as every network begins with.
    """
    import torch

    text, tensors = _read_safetensors(data)
    told = json.loads(text)
    parts = {name: tensors.pop(PART + name) for name in told["order"]}
    parts = {name: part.float() if part.dtype == torch.bfloat16 else part for name, part in parts.items()}
    model = {
        "spaces": told["spaces"],
        "shapes": [[name, list(part.shape)] for name, part in parts.items()],
        "parameters": torch.cat([part.flatten() for part in parts.values()]),
        "statistics": tensors.pop(STATISTICS, None),
        "buffers": tensors,
    }
    return {"format": told["format"], "agent": {"model": model}, "session": told["session"]}


def may_be_whole(error: Exception) -> bool:
    """Whether a file that cannot be read may be whole: the system has refused to read it, or there is no memory.

    What `open_file` refuses, such as a link, is no checkpoint.
    """
    if isinstance(error, OSError):
        return error.errno not in (errno.EINVAL, errno.ELOOP, errno.EFBIG)
    return isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and "memory" in str(error))


def _read_safetensors(data: bytes) -> tuple[str, dict[str, Tensor]]:
    """This project's metadata, and the tensors by name. Raises ValueError, and errors of safetensors."""
    from safetensors.torch import load

    return _metadata(io.BytesIO(data), len(data)), load(data)


def _metadata(file: IO[bytes], size: int) -> str:
    """This project's metadata in a file of `size` bytes. Raises ValueError."""
    start = file.read(8)
    if start[:4] == _ARCHIVE:
        cure = "train the run anew, or go on with it in that version"
        raise OtherFormatError(f"is a pickle, as a3c-zoo 0.1.0 wrote it, and this version reads none: {cure}")
    length = int.from_bytes(start, "little")
    if length > min(MAX_HEADER, size - 8):
        raise ValueError(f"its header would have {length:,} bytes")
    try:
        text = json.loads(file.read(length))["__metadata__"][METADATA]
    except (ValueError, LookupError, TypeError, RecursionError):
        raise ValueError("it has no header of a3c-zoo") from None
    if not isinstance(text, str):
        raise ValueError("it has no header of a3c-zoo")
    return text


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    import torch

    digest = hashlib.sha256(text.encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        if tensor.numel():
            digest.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


class _Writer:
    """Turns values into what JSON has; their tensors go to `tensors`, by name."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._storages: set[int] = set()
        self._values = 0

    def to_json(self, value: Any, place: str = "", depth: int = 0) -> Any:
        """place: where the value lies, for messages. Raises ValueError for what a file cannot hold."""
        import torch

        self._values += 1
        if depth > MAX_DEPTH or self._values > MAX_HEADER:  # each takes a byte or more
            raise ValueError(f"{place[:60]} is nested too deeply, or has too many values")
        if value is None or type(value) in (bool, int, float, str):
            return value
        if isinstance(value, torch.Tensor):
            return {"$tensor": self._keep(self._plain(value, place))}
        if type(value) is bytes:
            return {"$bytes": self._keep(torch.tensor(bytearray(value), dtype=torch.uint8))}
        if type(value) in (dict, OrderedDict):
            pairs = [
                (key, self.to_json(each, f"{place}.{key}".lstrip("."), depth + 1))
                for key, each in value.items()
            ]
            if all(type(key) is str and not key.startswith("$") for key, _ in pairs):
                return dict(pairs)
            for key, _ in pairs:
                _check_key(key)
            return {"$pairs": pairs}
        if type(value) in (list, tuple, torch.Size):
            items = [self.to_json(each, f"{place}.{number}", depth + 1) for number, each in enumerate(value)]
            if type(value) is list:
                return items
            return {"$tuple": items}
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        raise ValueError(f"{place[:60] or 'it'} is of type {kind}")

    def _keep(self, tensor: Tensor) -> int:
        """Keeps a tensor; returns the number by which the JSON names it."""
        number = len(self.tensors)
        self.tensors[str(number)] = tensor
        return number

    def _plain(self, tensor: Tensor, place: str) -> Tensor:
        """A tensor with numbers of its own, in the CPU's memory: safetensors writes no number for two tensors."""
        import torch

        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise ValueError(f"{place[:60]} is no plain tensor")
        plain = tensor.detach().cpu().resolve_conj().resolve_neg()
        storage = plain.untyped_storage()
        is_whole = plain.is_contiguous() and storage.nbytes() == plain.numel() * plain.element_size()
        # What others may change would be read twice: for the digest and for the file.
        is_shared = plain.is_shared()  # type: ignore[no-untyped-call]
        if not is_whole or is_shared or storage.data_ptr() in self._storages:
            return plain.clone(memory_format=torch.contiguous_format)
        self._storages.add(storage.data_ptr())
        return plain


def _check_key(key: Any) -> None:
    if not (type(key) is str or (type(key) is int and abs(key) < MOST_KEY)):
        raise ValueError(f"a dictionary has the key {key!a:.40}; words and whole numbers may be keys")


def _from_json(value: Any, tensors: dict[str, Tensor]) -> Any:
    """The value that `_Writer.to_json` was given. Takes its tensors out of `tensors`. Raises ValueError."""
    if isinstance(value, list):
        return [_from_json(each, tensors) for each in value]
    if not isinstance(value, dict):
        return value
    kind = next(iter(value), "")
    if not kind.startswith("$"):
        return {key: _from_json(each, tensors) for key, each in value.items()}
    if len(value) != 1:
        raise ValueError(f"it has other keys beside {kind[:20]}")
    inner = value[kind]
    if kind == "$tensor" and (tensor := tensors.pop(str(inner), None)) is not None:
        return tensor
    if kind == "$tuple" and isinstance(inner, list):
        return tuple(_from_json(each, tensors) for each in inner)
    if kind == "$bytes" and (numbers := tensors.pop(str(inner), None)) is not None:
        return bytes(numbers.numpy())
    if (
        kind == "$pairs"
        and isinstance(inner, list)
        and all(isinstance(each, list) and len(each) == 2 for each in inner)
    ):
        for key, _ in inner:
            _check_key(key)
        return {key: _from_json(each, tensors) for key, each in inner}
    raise ValueError(f"it has {kind[:20]} in a wrong form, or a tensor twice")
