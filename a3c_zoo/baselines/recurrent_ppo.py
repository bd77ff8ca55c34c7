"""sb3-contrib's RecurrentPPO, which trains and acts as stable-baselines3's own algorithms do.

Raises:
    ZooError: at import, sb3-contrib is missing or broken.
"""

from __future__ import annotations

from a3c_zoo.baselines.sb3 import load, run
from a3c_zoo.cures import install_extra
from a3c_zoo.errors import ZooError, type_and_message

__all__ = ["load", "run"]

try:
    import sb3_contrib  # noqa: F401
except Exception as error:  # a broken installation may raise any error
    raise ZooError(
        f"sb3-contrib cannot be imported ({type_and_message(error)}). Install it: {install_extra('sb3-contrib')}"
    ) from error
