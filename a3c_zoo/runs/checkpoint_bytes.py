"""The bytes of a checkpoint's file: their digest, and what is checked of a file before torch reads it and after.

A file is torch's archive, a ZIP file, with a comment at its end: `sha256:` and the digest of all bytes before the
digest. `torch.load` reads it as it is. A checkpoint may come from a stranger, so nothing in it may run code, or cost
more memory or time than its size allows. Sizes and names are checked first: torch believes them.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import os
import pickle
import pickletools
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from a3c_zoo.errors import type_and_message
from a3c_zoo.files import MAX_CHECKPOINT, MAX_TABLE, open_file
from a3c_zoo.hardware import available_memory
from a3c_zoo.saved_state import UNPICKLABLE, tensors_of

if TYPE_CHECKING:
    from torch import Tensor

#: The one file with numbers in a trained agent's folder. Names of tensors: each parameter's begins with `PART`.
PARAMETERS, PART, STATISTICS = "parameters.safetensors", "parameters.", "observation statistics"
_MARK = b"sha256:"
_DIGEST_SIZE = 64
#: What torch's pickles of tensors, numbers, strings, bytes, lists, dictionaries and sets name, beside the types of
#: storages and numbers. No `bytearray`: with a number in place of bytes it takes any amount of memory.
_KNOWN_NAMES = {
    "__builtin__ complex",
    "__builtin__ set",
    "_codecs encode",
    "collections OrderedDict",
    "torch Size",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_tensor_v3",
    "torch device",
    "torch.storage UntypedStorage",
}
#: It finds all names in a pickle of torch, and in rare cases other bytes that look like one. It is fast.
_MAYBE_NAMES = re.compile(rb"c([\w.]+)\n([\w.]+)\n")
#: Tensors may share their numbers. Together they have at most so many times the bytes of their file.
_MOST_SHARED = 16


class _Pickler(pickle.Pickler):
    """Writes a tensor that claims more numbers than it holds, as `expand` makes them, with all its numbers."""

    def reducer_override(self, value: Any) -> Any:
        import torch

        if isinstance(value, torch.Tensor) and value.layout is torch.strided and _claims_more(value):
            return value.detach().contiguous().__reduce_ex__(2)  # type: ignore[no-untyped-call]
        return NotImplemented


def to_bytes(content: Mapping[str, Any]) -> memoryview:
    """A file with a digest. Raises ValueError if it cannot be pickled, or if `read_content` would refuse it."""
    import torch

    file = io.BytesIO()  # torch would turn the OSError of a full disk into a RuntimeError
    try:
        torch.save(dict(content), file, pickle_module=SimpleNamespace(__name__="pickle", Pickler=_Pickler))
    except UNPICKLABLE as error:
        raise ValueError(type_and_message(error)) from error
    with zipfile.ZipFile(file) as archive:
        code = archive.read(next(name for name in archive.namelist() if name.endswith("data.pkl")))
    if not all(_is_known(b" ".join(name).decode()) for name in _MAYBE_NAMES.findall(code)):
        _check_names(code)
    _check_shared(content, len(file.getbuffer()))
    data = with_digest(file)
    if len(data) > MAX_CHECKPOINT:
        raise ValueError(f"it would have {len(data):,} bytes, and at most {MAX_CHECKPOINT:,} are read")
    return data


def with_digest(file: io.BytesIO) -> memoryview:
    """What torch has written, and its digest."""
    file.seek(-2, io.SEEK_END)  # the length of the ZIP file's comment
    file.write(struct.pack("<H", len(_MARK) + _DIGEST_SIZE) + _MARK)
    file.write(hashlib.sha256(file.getvalue()).hexdigest().encode())
    return file.getbuffer()


def read_content(path: Path) -> tuple[Any, bool]:
    """Reads a file: what it holds, and whether it has a digest, which is right.

    Raises:
        OSError: as `open_file`.
        ValueError: the file is damaged, or holds what a checkpoint never holds.
        MemoryError: there is too little memory for it.
        Exception: torch raises many kinds for a damaged file.
    """
    import torch

    is_trained = path.name == PARAMETERS
    with open_file(path, limit=MAX_TABLE if is_trained else MAX_CHECKPOINT) as file:
        size = os.fstat(file.fileno()).st_size
        if 2 * size > (free := available_memory()):  # the bytes, and the tensors that are made of them
            raise MemoryError(f"it has {size:,} bytes, and {free:,} bytes of memory are free")
        data = file.read(size)
    if is_trained:
        return read_parameters(data), True
    has_digest = data[-_DIGEST_SIZE - len(_MARK) : -_DIGEST_SIZE] == _MARK
    whole = memoryview(data)
    if has_digest and hashlib.sha256(whole[:-_DIGEST_SIZE]).hexdigest().encode() != whole[-_DIGEST_SIZE:]:
        raise ValueError("its bytes have changed since it was written (SHA-256)")
    _check_archive(data, has_digest)
    try:
        content = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:  # its message tells how to switch the check off
        raise ValueError("its pickle holds more than tensors, numbers, strings, lists and dictionaries") from None
    _check_tensors(content, len(data))
    return content, has_digest


def read_parameters(data: bytes) -> dict[str, Any]:
    """What a checkpoint holds for acting, from a trained agent's file: tensors by name, and JSON as metadata.

    Parameters in bfloat16 become float32, as every network begins with.
    """
    import torch
    from safetensors.torch import load

    tensors = load(data)
    told = json.loads(json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])["__metadata__"]["a3c_zoo"])
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


def _check_archive(data: bytes, has_digest: bool) -> None:
    """Refuses an archive that unpacks to more than its size, and a pickle that names what no checkpoint needs."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        if sum(member.file_size for member in members) > len(data):
            raise ValueError(f"its parts say that they hold more than its {len(data):,} bytes")
        if not has_digest and (damaged := archive.testzip()):
            raise ValueError(f"its part {damaged} has changed since it was written (CRC-32)")
        for member in members:
            if member.filename.endswith(".pkl"):
                _check_names(archive.read(member))


def _check_names(code: bytes) -> None:
    for operation, name, _ in pickletools.genops(code):
        if operation.name in ("GLOBAL", "INST", "STACK_GLOBAL"):
            named = str(name or operation.name)
            if not _is_known(named):
                raise ValueError(f"it names {named.replace(' ', '.')!a}: nothing of it is loaded")


def _is_known(name: str) -> bool:
    import torch

    module, _, rest = name.partition(" ")
    is_type = rest.endswith("Storage") or isinstance(vars(torch).get(rest), torch.dtype)
    return (module == "torch" and is_type) or name in _KNOWN_NAMES


def _check_tensors(content: Any, size: int) -> None:
    """Refuses tensors that claim more numbers than they hold: a copy of them would fill the memory."""
    import torch

    for where, tensor in tensors_of(content, size):
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            raise ValueError(f"{where} is no plain tensor")
        if _claims_more(tensor):
            raise ValueError(f"{where} claims more numbers than it holds")
    _check_shared(content, size)


def _claims_more(tensor: Tensor) -> bool:
    return tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes()


def _check_shared(content: Any, size: int) -> None:
    total = 0
    for where, tensor in tensors_of(content, size):
        total += tensor.numel() * tensor.element_size()
        if total > _MOST_SHARED * size:
            raise ValueError(f"{where} claims more numbers than it holds")
