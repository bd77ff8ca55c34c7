"""The Python API in a Jupyter kernel: one output a cell, which changes in place."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

import pytest

from tests.reference_pages import NOTEBOOK

manager = pytest.importorskip("jupyter_client.manager")
pytest.importorskip("ipykernel")


@dataclass
class Cell:
    """What a cell has shown: texts of new displays, texts and pages that replaced them, what was printed, the rest."""

    displays: list[str] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)
    html: list[str] = field(default_factory=list)
    result: str = ""
    printed: str = ""
    result_html: str = ""
    result_png: str = ""
    others: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found, client = manager.start_new_kernel(cwd=str(tmp_path_factory.mktemp("notebook")))
    yield client
    client.stop_channels()
    found.shutdown_kernel(now=True)


def plain(text: str) -> str:
    """A text without its colours, and without blanks at its end."""
    return re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip()


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
            cell.html.append(content["data"]["text/html"])
        elif kind == "execute_result":
            cell.result = text
            cell.result_html = content["data"].get("text/html", "")
            cell.result_png = content["data"].get("image/png", "")
        elif kind == "stream" and content["name"] == "stdout":
            cell.printed += content["text"]
        elif kind not in ("status", "execute_input"):
            cell.others.append(f"{kind}: {content}")


def test_train_and_evaluate_show_one_output(kernel: Any) -> None:
    trained = run(kernel, "import a3c_zoo\na3c_zoo.train('cartpole', seed=1, steps=2000, workers=1, name='one')")
    assert [plain(text) for text in trained.displays] == ["a3c on cartpole, seed 1, 1 worker → runs/one"]
    title, *panel = plain(trained.updates[-1]).splitlines()
    assert title == "a3c on cartpole, seed 1, 1 worker → runs/one"
    assert panel[0].startswith("╭─ a3c on cartpole, seed 1, 1 worker ─")
    assert panel[1].startswith("│ steps                      2,")
    assert any("not solved: steps" in line for line in panel)
    assert panel[-1].endswith("╯")
    assert '<span style="font-weight: bold">' in trained.html[-1]  # in colours
    assert trained.result.startswith("<Outcome: steps (2,000 steps done); 2,")
    assert (trained.printed, trained.others) == ("", [])

    played = run(kernel, "agent = a3c_zoo.load_agent('one')\nfigures = a3c_zoo.evaluate('one', episodes=20)\nagent")
    assert len(played.displays) == 1
    assert plain(played.updates[-1]) == "━━━━━━━━━━━━━━━━━━━━━━━━ 100%, one: 20 of 20 episodes"
    assert played.result.startswith("<a3c on cartpole: 2,")
    assert (played.printed, played.others) == ("", [])


def test_a_message_stays_above_the_panel(kernel: Any) -> None:
    trained = run(kernel, "import a3c_zoo\na3c_zoo.train('cartpole', serial=True, episodes=5, name='two')")
    lines = plain(trained.updates[-1]).splitlines()
    assert lines[0] == "a3c on cartpole, seed 0, serial → runs/two"
    assert "the budget of cartpole/a3c.yml" in lines[1]
    assert lines[2].startswith("╭")


@pytest.mark.slow  # four trainings
def test_compare_shows_one_output(kernel: Any) -> None:
    compared = run(
        kernel,
        "import a3c_zoo; how = dict(seeds=2, steps=5000, episodes=2, out='x')\n"
        "a3c_zoo.compare('cartpole', agents=['a3c', 'a3c-grad'], **how)",
        600.0,
    )
    assert len(compared.displays) == 1
    seen = [plain(text) for text in compared.updates]
    assert any(re.search(r"a3c-grad +1 of 2 .*seed 2", text) for text in seen)
    assert re.search(r"a3c +2 of 2 .*\na3c-grad +2 of 2 ", seen[-1])
    assert seen[-1].splitlines()[-1].strip() == "evaluating: 10 of 10 checkpoints"
    assert compared.result.splitlines()[0] == "<Comparison of a3c and a3c-grad on cartpole: 4 runs, 0 left out; x>"
    assert (compared.printed, compared.others) == ("", [])


def test_a_script_shows_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    import a3c_zoo

    a3c_zoo.train("cartpole", serial=True, steps=500, runs_dir=tmp_path)
    assert capfd.readouterr() == ("", "")


def test_the_tutorial_is_a_notebook_that_trains(kernel: Any) -> None:
    """Its cells in turn, with half of the steps: the agent is far better than random actions.

    What the last training learns is not looked at, so it is short.
    """
    printed: dict[str, float] = {}
    for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            source = "".join(cell["source"])
            code = source.replace("steps=30_000", "steps=1000" if source.startswith("near = ") else "steps=15_000")
            shown = run(kernel, code)
            printed |= {name: float(value) for name, value in re.findall(r"([a-z ]+): ([\d.]+)", shown.printed)}
    assert printed["random actions"] < 45
    assert printed["a rule"] > 90
    assert printed["the agent"] > 80


CELL = """
import gymnasium, numpy as np

class Coin(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), WORTH * float(action), True, False, {}
"""


def test_a_class_of_a_cell_trains_also_when_the_cell_runs_again(kernel: Any) -> None:
    """With worker processes and an evaluator, and in turn."""
    quick = "overrides={'run.stop_when_solved': False, 'run.evaluation_every_s': 0.1}, steps=2000"
    for worth, how, name in ((1.0, "workers=2", "three"), (5.0, "workers=2", "four"), (7.0, "serial=True", "five")):
        run(kernel, CELL.replace("WORTH", str(worth)))
        trained = run(kernel, f"import a3c_zoo\nout = a3c_zoo.train(Coin, {quick}, {how}, name='{name}')\nout")
        assert trained.result.startswith("<Outcome: steps (2,000 steps done); 2,")
        assert "<polyline" in trained.result_html
        assert trained.others == []
        played = run(kernel, "a3c_zoo.evaluate(a3c_zoo.load_agent(out), episodes=5, deterministic=True).mean_return")
        assert float(played.result) == worth


def test_a_figure_is_shown(kernel: Any) -> None:
    run(kernel, "import a3c_zoo; out = a3c_zoo.train('cartpole', serial=True, steps=500, name='six')")
    shown = run(kernel, "a3c_zoo.plot([out])")
    assert shown.result_png.startswith("iVBORw0KGgo")  # PNG in base64
