"""The Python API in a Jupyter kernel: one line of progress a cell, which changes in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

manager = pytest.importorskip("jupyter_client.manager")
pytest.importorskip("ipykernel")


@dataclass
class Cell:
    """What a cell has shown: texts of new displays, texts that replaced them, and everything else."""

    displays: list[str] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)
    result: str = ""
    others: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found, client = manager.start_new_kernel(cwd=str(tmp_path_factory.mktemp("notebook")))
    yield client
    client.stop_channels()
    found.shutdown_kernel(now=True)


def run(client: Any, code: str, limit_s: float = 150.0) -> Cell:
    """Runs a cell; fails if it raises."""
    cell, number = Cell(), client.execute(code)
    while True:
        try:
            message = client.get_iopub_msg(timeout=limit_s)
        except Empty:
            raise AssertionError(f"no message within {limit_s} s: {cell}") from None
        if message["parent_header"].get("msg_id") != number:
            continue
        kind, content = message["msg_type"], message["content"]
        text = content.get("data", {}).get("text/plain", "")
        if kind == "status" and content["execution_state"] == "idle":
            return cell
        assert kind != "error", "\n".join(content["traceback"])
        if kind == "display_data":
            cell.displays.append(text)
        elif kind == "update_display_data":
            cell.updates.append(text)
        elif kind == "execute_result":
            cell.result = text
        elif kind not in ("status", "execute_input"):
            cell.others.append(f"{kind}: {content}")


def test_train_and_evaluate_show_one_line(kernel: Any) -> None:
    trained = run(kernel, "import a3c_zoo\na3c_zoo.train('cartpole', seed=1, steps=2000, workers=1, name='one')")
    assert trained.displays == ["a3c on cartpole, seed 1, 1 workers → runs/one"]
    assert trained.updates[-1].startswith("a3c on cartpole, seed 1, 1 workers: 2,")
    assert trained.updates[-1].endswith(" → runs/one")
    assert trained.result.startswith("<Outcome: steps (2,000 steps done); 2,")
    assert trained.others == []

    played = run(kernel, "agent = a3c_zoo.load_agent('one')\nfigures = a3c_zoo.evaluate('one', episodes=20)\nagent")
    assert len(played.displays) == 1
    assert played.updates[-1] == "one: 20 of 20 episodes"
    assert played.result.startswith("<a3c on cartpole: 2,")
    assert played.others == []


@pytest.mark.slow  # four trainings
def test_compare_shows_one_line(kernel: Any) -> None:
    compared = run(
        kernel,
        "import a3c_zoo; how = dict(seeds=2, steps=5000, episodes=2, out='x')\n"
        "a3c_zoo.compare('cartpole', agents=['a3c', 'a3c-grad'], **how)",
        600.0,
    )
    assert len(compared.displays) == 1
    assert any(text.startswith("run 4 of 4, a3c-grad on cartpole, seed 2") for text in compared.updates)
    assert compared.updates[-1] == "evaluating: 10 of 10 checkpoints"
    assert compared.result.splitlines()[0] == "<Comparison of a3c and a3c-grad on cartpole: 4 runs, 0 left out; x>"
    assert compared.others == []


def test_a_script_shows_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import a3c_zoo

    a3c_zoo.train("cartpole", serial=True, steps=500, runs_dir=tmp_path)
    assert capfd.readouterr() == ("", "")
