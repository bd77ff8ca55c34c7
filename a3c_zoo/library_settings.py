"""What torch and NumPy keep for a whole process. An environment, or the user's program, may change it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LibrarySettings:
    """The settings of a moment. Neither library is imported for them: what is not loaded has its defaults.

    Attributes:
        threads: torch's number of threads; None if torch is not loaded.
        has_gradients: torch's grad mode. dtype, device: torch's defaults for new tensors, as texts.
        errors: what NumPy does about overflow and the like: kind of error → what.
    """

    threads: int | None = None
    has_gradients: bool = True
    dtype: str = "torch.float32"
    device: str = "cpu"
    errors: Mapping[str, Any] | None = None

    @classmethod
    def now(cls) -> LibrarySettings:
        """Those of this moment."""
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        errors = None if numpy is None else numpy.geterr()
        if torch is None:
            return cls(errors=errors)
        # `get_default_device` takes ten times as long as an empty tensor, which tells the same.
        kinds = str(torch.get_default_dtype()), str(torch.empty(0).device)
        return cls(torch.get_num_threads(), torch.is_grad_enabled(), *kinds, errors)

    def restore(self) -> None:
        """Sets back what has changed since."""
        torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
        if numpy is not None and self.errors is not None and numpy.geterr() != self.errors:
            numpy.seterr(**self.errors)
        if torch is None:
            return
        if self.threads is not None and torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)
        if torch.is_grad_enabled() != self.has_gradients:
            torch.set_grad_enabled(self.has_gradients)
        if str(torch.empty(0).device) != self.device:
            torch.set_default_device(None if self.device == "cpu" else self.device)
        if str(torch.get_default_dtype()) != self.dtype:
            torch.set_default_dtype(getattr(torch, self.dtype.removeprefix("torch.")))


@contextmanager
def kept_settings() -> Iterator[None]:
    """What the body changes of torch's and NumPy's settings is set back after it."""
    before = LibrarySettings.now()
    try:
        yield
    finally:
        before.restore()


@contextmanager
def our_settings() -> Iterator[None]:
    """Within the body torch makes numbers in float32 on the CPU, and has gradients.

    What the program has set otherwise, it has again after the body.
    """
    with kept_settings(), _without_inference_mode():
        LibrarySettings().restore()
        yield


def _without_inference_mode() -> AbstractContextManager[object]:
    """Nothing learns in torch's inference mode."""
    torch = sys.modules.get("torch")
    if torch is None:
        return nullcontext()
    inference_mode: AbstractContextManager[object] = torch.inference_mode(False)
    return inference_mode
