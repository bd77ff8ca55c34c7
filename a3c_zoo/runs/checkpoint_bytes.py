"""The bytes of a checkpoint's file: their digest, and what is checked of a file before torch reads it and after.

A file is torch's archive, a ZIP file, with a comment at its end: `sha256:` and the digest of all bytes before the
digest. `torch.load` reads it as it is. A checkpoint may come from a stranger, so nothing in it may run code, or cost
more memory or time than its size allows. Sizes and names are checked first: torch believes them.
"""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import pickletools
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from a3c_zoo.files import MAX_CHECKPOINT, open_file
from a3c_zoo.hardware import available_memory
from a3c_zoo.saved_state import tensors_of

_MARK = b"sha256:"
_DIGEST_SIZE = 64
#: What torch's pickles of tensors, numbers, strings, lists and dictionaries name, beside the types of storages.
_KNOWN_NAMES = {
    "collections OrderedDict",
    "torch Size",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_tensor_v3",
    "torch.storage UntypedStorage",
}
#: Tensors may share their numbers. Together they have at most so many times the bytes of their file.
_MOST_SHARED = 16


def to_bytes(content: Mapping[str, Any]) -> memoryview:
    """A file with a digest."""
    import torch

    file = io.BytesIO()  # torch would turn the OSError of a full disk into a RuntimeError
    torch.save(dict(content), file)
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

    with open_file(path, limit=MAX_CHECKPOINT) as file:
        size = os.fstat(file.fileno()).st_size
        if 2 * size > (free := available_memory()):  # the bytes, and the tensors that are made of them
            raise MemoryError(f"it has {size:,} bytes, and {free:,} bytes of memory are free")
        data = file.read(size)
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
            is_storage = isinstance(name, str) and name.startswith("torch ") and name.endswith("Storage")
            if not is_storage and name not in _KNOWN_NAMES:
                raise ValueError(f"it names {str(name or operation.name).replace(' ', '.')!a}: nothing of it is loaded")


def _check_tensors(content: Any, size: int) -> None:
    """Refuses tensors that claim more numbers than they hold: a copy of them would fill the memory."""
    import torch

    total = 0
    for where, tensor in tensors_of(content, size):
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            raise ValueError(f"{where} is no plain tensor")
        claimed = tensor.numel() * tensor.element_size()
        total += claimed
        if claimed > tensor.untyped_storage().nbytes() or total > _MOST_SHARED * size:
            raise ValueError(f"{where} claims more numbers than it holds")
