"""The notebook of the tutorial runs from its first cell to its last, in a Jupyter kernel, with real trainings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.reference_pages import NOTEBOOK
from tests.test_notebook import manager, run


@pytest.fixture
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found, client = manager.start_new_kernel(cwd=str(tmp_path_factory.mktemp("tutorial")))
    yield client
    client.stop_channels()
    found.shutdown_kernel(now=True)


def test_the_tutorial_trains(kernel: Any) -> None:
    """With half of the steps, the agent is far better than random actions, and nearly as good as the rule."""
    printed: dict[str, float] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            shown = run(kernel, "".join(cell["source"]).replace("steps=30_000", "steps=15_000"))
            told = re.findall(r"(random actions|a rule|the agent): ([\d.]+)", " ".join(shown.others))
            printed |= {name: float(value) for name, value in told}
    assert printed["random actions"] < 45
    assert printed["a rule"] > 90
    assert printed["the agent"] > 80
