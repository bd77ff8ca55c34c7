"""benchmarks/package_table.py: its list, its figures, and what the page says of twenty packages; slow: all of them."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from tests.test_zoo_table import load
from tests.wheels import ROOT

table: Any = load("package_table", ROOT / "benchmarks" / "package_table.py")
FILES = ROOT / "benchmarks" / "packages"
LEARNED = table.Figures(
    package="MiniGrid",
    installed="minigrid==3.2.0",
    env="gym:minigrid:MiniGrid-Empty-5x5-v0",
    set="gym/a3c-mixed",
    steps=40955,
    training_s=151.6,
    check="ok",
    episodes=100,
    random_mean=1.0,
    random_error=0.3,
    trained_mean=3.6,
    trained_error=0.4,
    started="2026-11-27T11:57:56+0000",
    cpu="Processor",
    cores=2,
)


def test_the_page_is_made_of_the_list_and_the_figures() -> None:
    assert table.written() == table.PAGE.read_text(encoding="utf-8"), "python benchmarks/package_table.py write"


def test_there_are_twenty_rows_with_pinned_versions() -> None:
    rows = table.read_list()
    assert len({row.package for row in rows}) == len(rows) == 20
    for row in rows:
        assert all(re.fullmatch(r"[\w.-]+==[\d.]+", each) for each in row.install), row.package
        assert not row.file or (FILES / row.file).exists()
    used = {row.file for row in rows if row.file}
    assert used == {file.name for file in FILES.glob("*.py")}


def test_the_figures_are_of_the_versions_of_the_list() -> None:
    """And a package that a3c-zoo itself pins has that version."""
    rows = {row.package: row for row in table.read_list()}
    for package, found in table.read_figures().items():
        assert (found.installed, found.env) == (" ".join(rows[package].install), rows[package].env)
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").split()
    for package in ("MiniGrid", "ALE", "MuJoCo"):
        assert rows[package].install[0] in pins


def test_learned_is_five_standard_errors_of_the_difference() -> None:
    """sqrt(0.3² + 0.4²) = 0.5: five of them are 2.5."""
    assert LEARNED.is_learned
    assert not dataclasses.replace(LEARNED, trained_mean=3.4).is_learned


def test_lines_of_the_table() -> None:
    row = table.Row("MiniGrid", ("minigrid==3.2.0",), LEARNED.env, 40000, ("env.wrappers=[a:b]",), note="a note")
    blocked = dataclasses.replace(row, package="Blocked", overrides=(), note="", blocked="no wheel")
    other = dataclasses.replace(row, package="Other", file="crafter_env.py", overrides=())
    lines = list(table.package_table([row, blocked, other], {"MiniGrid": LEARNED}))[2:]
    assert lines == [
        "| MiniGrid 3.2.0 | `gym:minigrid:MiniGrid-Empty-5x5-v0` | `-o 'env.wrappers=[a:b]'`; a note | `gym/a3c-mixed` "
        "| 40,955 | 1 ± 0.3 | **3.6 ± 0.4** |",
        "| Blocked 3.2.0 | `gym:minigrid:MiniGrid-Empty-5x5-v0` | – | – | – | – | no wheel |",
        "| Other 3.2.0 | `gym:minigrid:MiniGrid-Empty-5x5-v0` | [crafter_env.py](#crafter_envpy); a note | – | – | – "
        "| not run yet |",
    ]
    assert next(table.counts([row, blocked, other], {"MiniGrid": LEARNED})).startswith(
        "1 of 3 train. 1 of them learned"
    )


def test_figures_come_back_from_their_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "FIGURES", tmp_path / "packages.csv")
    table.write_figures({"MiniGrid": LEARNED}, table.read_list())
    assert table.read_figures() == {"MiniGrid": LEARNED}


def test_a_row_whose_plugin_is_missing_is_left_out() -> None:
    row = table.Row("MiniGrid", ("minigrid==3.2.0",), LEARNED.env, 40000, needs="plugins/no-such-plugin")
    assert table.why_left_out(row) == "there is no plugins/no-such-plugin"


def test_the_small_screen_of_vizdoom() -> None:
    class Doom(gymnasium.Env[Any, Any]):
        observation_space = gymnasium.spaces.Dict({"screen": gymnasium.spaces.Box(0, 255, (240, 320, 3), np.uint8)})
        action_space = gymnasium.spaces.Discrete(4)

        def reset(self, **given: Any) -> Any:
            screen = np.zeros((240, 320, 3), np.uint8)
            screen[:120] = 255
            return {"screen": screen}, {}

    env = load("vizdoom_screen", FILES / "vizdoom_screen.py").small_screen(Doom())
    seen, _ = env.reset()
    assert env.observation_space.contains(seen)
    assert seen[:30].min() == 255
    assert seen[30:].max() == 0


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("package", [row.package for row in table.read_list()])
def test_a_package_trains(package: str, tmp_path: Path) -> None:
    """Installed into build/packages, checked, and trained for 2,000 steps."""
    row = next(row for row in table.read_list() if row.package == package)
    if reason := table.why_left_out(row):
        pytest.skip(reason)
    found = table.measure(dataclasses.replace(row, episodes=2), 2000, tmp_path)
    assert found.steps >= 2000
    assert (tmp_path / f"{package}-a3c" / "config.yml").exists()
