"""What the fork server imports once for all processes of a run; importing this module does it.

Only torch, gymnasium and modules of this package: any exception but ImportError would end the fork server.
"""

from __future__ import annotations

import importlib

from a3c_zoo.processes.start import without_collections

MODULES = (
    "torch",
    "gymnasium",
    "a3c_zoo.processes.pool",
    "a3c_zoo.agents.a3c",
    "a3c_zoo.agents.a3c_data",
    "a3c_zoo.agents.a3c_grad",
)

with without_collections(hides=True):
    for name in MODULES:
        importlib.import_module(name)
