"""Tables of README.md and of the benchmarks are those that benchmarks/doc_tables.py makes of committed figures."""

from __future__ import annotations

import csv
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.test_zoo_table import load
from tests.wheels import ROOT


@pytest.fixture
def tables() -> ModuleType:
    return load("doc_tables", ROOT / "benchmarks" / "doc_tables.py")


@pytest.mark.parametrize(
    "page", ["README.md", "docs/benchmarks.md", "docs/benchmarks-atari.md", "docs/benchmarks-rl-zoo.md"]
)
def test_a_page_has_the_figures_of_its_files(page: str, tables: ModuleType) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    assert tables.written(ROOT / page) == text, "python benchmarks/doc_tables.py"
    assert text.count(": written by benchmarks/doc_tables.py -->") == len(tables.TABLES[ROOT / page])


def test_other_figures_make_another_page(tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for file in (ROOT / "docs" / "figures").glob("*.csv"):
        text = file.read_text(encoding="utf-8")
        (tmp_path / file.name).write_text(text.replace("895", "450").replace("18.16", "58.16"), encoding="utf-8")
    monkeypatch.setattr(tables, "FIGURES", tmp_path)
    line = "| Pong: steps/s, with `a3c-plain` and the same network | 1,705 | 450 | 3.8 × more |"
    assert line in "\n".join(tables.how_fast())
    assert "| sb3-a2c | 8 | yes | 58.16 s |" in "\n".join(tables.cartpole_seeds())
    assert tables.written(tables.README) != tables.README.read_text(encoding="utf-8")


def test_sb3s_best_is_what_ours_is_divided_by(
    tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fields = "env title agent network workers vec_env torch_threads round seconds steps steps_per_s cpu_s cpu cores day"
    names = fields.split()
    speeds = {"dummy": (900, 800, 1000), "subproc": (400, 500, 600), "ours": (1800, 1700, 2000)}
    rows: list[dict[str, Any]] = []
    for name, values in speeds.items():
        agent = "a3c" if name == "ours" else "sb3-a2c"
        for number, value in enumerate(values, 1):
            row: dict[str, Any] = dict.fromkeys(names, "")
            row |= {"env": "pong", "title": name, "agent": agent, "network": "CNN", "round": number}
            row |= {"steps_per_s": value, "seconds": "20", "cpu": "Processor", "cores": "2", "day": "2026-11-27"}
            if agent != "a3c":
                row |= {"vec_env": name, "torch_threads": 1 + number % 2}
            rows.append(row)
    monkeypatch.setattr(tables, "FIGURES", tmp_path)
    assert tables.against_the_best_of_sb3() == []
    assert tables.sb3_speed() == ["Not measured yet: `python benchmarks/sb3_speed.py`."]
    with (tmp_path / "sb3-speed.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)
    assert tables.sb3_speed()[2:] == [
        "| pong | dummy | CNN | dummy | 1, 2 | 900 | 800 to 1,000 | 1.00 |",
        "| pong | subproc | CNN | subproc | 1, 2 | 500 | 400 to 600 | 0.56 |",
        "| pong | ours | CNN | – | – | 1,800 | 1,700 to 2,000 | 2.00 |",
        "",
        "Processor, 2 cores, 2026-11-27, 20 s each, in turn, 3 times round.",
    ]


def test_readme_divides_by_sb3s_best_too(tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FIGURES", tmp_path)
    speeds = [
        ("cartpole", "slow", "sb3-a2c", 100),
        ("cartpole", "best", "sb3-a2c", 200),
        ("cartpole", "a3c", "a3c", 1900),
        ("pong", "best", "sb3-a2c", 50),
        ("pong", "a3c-plain", "a3c", 210),
        ("pong", "a3c-plain, the same network", "a3c", 80),
    ]
    head = ("env", "title", "agent", "steps_per_s", "cpu", "cores", "day")
    with (tmp_path / "sb3-speed.csv").open("w", newline="") as file:
        csv.writer(file).writerows([head, *((*each, "Processor", 2, "2026-11-27") for each in speeds)])
    sentence = " ".join(tables.against_the_best_of_sb3())
    assert "machine (Processor, 2 cores, 2026-11-27)" in sentence
    assert "steps/s: 9.5 on CartPole, 4.2 on Pong with `a3c-plain`, 1.6 on Pong with the same network (" in sentence


def test_seconds_to_a_level_by_hand(tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FIGURES", tmp_path)
    assert tables.zoo_times() == ["Not measured yet: `python benchmarks/zoo_times.py`."]
    seconds = {
        "a3c": ["10,True", "12,True", "11,True"],
        "sb3-a2c": ["40,False", "22,True", "33,True"],
        "sb3-ppo": ["48,False", "20,True", "48,False"],
    }
    lines = ["env,agent,seed,training_s,reached,level"]
    for agent, runs in seconds.items():
        lines += [f"gym:Hopper-v5,{agent},{seed},{run},733.5" for seed, run in enumerate(runs, 1)]
    (tmp_path / "zoo-times.csv").write_text("\n".join(lines), encoding="utf-8")
    # The medians are 11, 33 and a run that ended after 48 s without the level.
    assert tables.zoo_times()[-1] == (
        "| `gym:Hopper-v5` | 733.5 | 10, 12, 11 | > 40, 22, 33 | 3.0 × | > 48, 20, > 48 | > 4.4 × |"
    )
    text = "\n".join(lines).replace("10,True", "10,False").replace("12,True", "12,False")
    (tmp_path / "zoo-times.csv").write_text(text, encoding="utf-8")
    assert tables.zoo_times()[-1] == (  # nothing is said of a factor if our median run did not reach the level
        "| `gym:Hopper-v5` | 733.5 | > 10, > 12, 11 | > 40, 22, 33 | – | > 48, 20, > 48 | – |"
    )
