"""benchmarks/zoo_table.py: its lists, its environments, its trainings across processes, and the tables on the page."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tests.toys_runs import environ
from tests.waits import LIMIT_S, wait_until
from tests.wheels import ROOT

LISTS = """
rows:
  - env: gym:CartPole-v1
    kind: finite actions, vector
    steps: 600
    published:
      id: CartPole-v1
      a2c: {mean: 30.0, std: 1.0, steps: 600}
      ppo: {mean: 40.0, std: 1.0, steps: 600}
  - env: minigrid:Empty-5x5
    kind: small grid
    steps: 300
    overrides: [agent.entropy_coefficient=0.0625]
    published: {id: MiniGrid-Empty-5x5-v0, ppo: {mean: 0.5, std: 0.0, steps: 300}}
"""
DRIVER = """
import pathlib, sys
sys.path.insert(0, BENCHMARKS)
import zoo_table

here = pathlib.Path(__file__).parent
zoo_table.LISTS = dict.fromkeys(zoo_table.LISTS, here / "list.yml")
zoo_table.FIGURES = {"table": here / "figures.csv"}
zoo_table.EPISODES = 2
if __name__ == "__main__":
    sys.exit(zoo_table.main())
"""

TIMER = """
import pathlib, sys
sys.path.insert(0, ROOT)
from benchmarks import zoo_table, zoo_times

here = pathlib.Path(__file__).parent
zoo_table.LISTS = {"table": here / "list.yml"}
zoo_times.FILE = here / "times.csv"
zoo_times.ENVS = ("gym:CartPole-v1",)
zoo_times.BASELINES = ("sb3-ppo",)
zoo_times.PATIENCE = 1000
if __name__ == "__main__":
    zoo_times.main()
"""


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


zoo_table: Any = load("zoo_table", ROOT / "benchmarks" / "zoo_table.py")
zoo_environments: Any = load("zoo_environments", ROOT / "benchmarks" / "zoo" / "zoo_environments.py")


class TestLists:
    def test_the_table_has_the_rows_for_which_rl_zoo_publishes_an_a2c_and_eight_of_minigrid(self) -> None:
        rows = zoo_table.read_list("table")
        assert sum("a2c" in row.published for row in rows) == 14
        assert sum(row.env.startswith("minigrid:") for row in rows) == 8
        assert len({row.env for row in rows}) == len(rows) == 22

    def test_a_row_has_no_more_steps_than_the_better_of_rl_zoos_agents(self) -> None:
        for row in zoo_table.read_list("table"):
            assert row.steps <= min(each.steps for each in row.published.values() if each.mean == row.better)

    def test_numbers_of_rl_zoo(self) -> None:
        rows = {row.env: row for row in zoo_table.read_list("table")}
        assert rows["gym:Walker2d-v5"].published["ppo"] == zoo_table.Published(3478.798, 821.708, 1_000_000)
        assert rows["gym:Walker2d-v5"].published_id == "Walker2d-v3"
        assert rows["gym:Humanoid-v5"].published == {"a2c": zoo_table.Published(388.321, 92.652, 2_000_000)}

    def test_the_held_out_environments_are_on_no_other_list(self) -> None:
        held_out = {row.env for row in zoo_table.read_list("held-out")}
        others = {row.env for name in ("table", "tuning") for row in zoo_table.read_list(name)}
        assert len(held_out) >= 8
        assert not held_out & others
        assert not any(name in env for env in held_out for name in ("CartPole", "Pong", "Breakout"))

    def test_the_tuning_list_says_which_of_its_environments_are_rows_of_the_table(self) -> None:
        import yaml

        rows = {row.env for row in zoo_table.read_list("table")}
        tuned = yaml.safe_load(zoo_table.LISTS["tuning"].read_text())["rows"]
        assert {each["env"] for each in tuned if each.get("row")} == rows & {each["env"] for each in tuned}

    @pytest.mark.parametrize("name", ["table", "held-out", "tuning"])
    def test_every_environment_is_registered(self, name: str) -> None:
        pytest.importorskip("minigrid")
        for row in zoo_table.read_list(name):
            family, _, env_id = row.env.partition(":")
            found = f"MiniGrid-{env_id}-v0" if family == "minigrid" else env_id.rpartition(":")[2]
            assert found in gymnasium.registry


class TestEnvironments:
    @pytest.mark.filterwarnings("ignore")
    def test_the_inventory_keeps_the_contract(self) -> None:
        check_env(gymnasium.make("Inventory-v0").unwrapped, skip_render_check=True)

    def test_a_day_of_the_inventory_by_hand(self) -> None:
        shop = zoo_environments.Inventory()
        shop.reset(seed=1)
        shop._day, shop._stock, shop._coming = 3, 4000.0, [6000.0, 7000.0]
        observation, profit, terminated, truncated, _ = shop.step(np.int64(2))
        # The demand is 10,000 ± 20 %, so 4,000 are sold for 1 each; 6,000 come for 0.6 each; 6,000 are kept for 0.05.
        assert profit == pytest.approx(4000 - 3600 - 300)
        assert observation.tolist() == [6000, 7000, 10000, 12000]  # the fifth day of the week has a demand of 1.2
        assert (terminated, truncated) == (False, False)

    def test_the_store_is_never_fuller_than_it_can_be(self) -> None:
        shop = gymnasium.make("Inventory-v0")
        shop.reset(seed=2)
        stocks, truncated, days = [], False, 0
        while not truncated:
            observation, _, _, truncated, _ = shop.step(6)
            stocks.append(float(observation[0]))
            days += 1
        assert (days, max(stocks)) == (30, 100_000)

    @pytest.mark.parametrize(("name", "factor"), [("CartPoleTenThousand", 1e4), ("CartPoleThousandth", 1e-3)])
    def test_rewards_are_scaled_and_nothing_else(self, name: str, factor: float) -> None:
        env, plain = gymnasium.make(f"{name}-v0"), gymnasium.make("CartPole-v1")
        assert env.reset(seed=3)[0].tolist() == plain.reset(seed=3)[0].tolist()
        (seen, reward, *_), (wanted, one, *_) = env.step(1), plain.step(1)
        assert seen.tolist() == wanted.tolist()
        assert reward == pytest.approx(factor * float(one))


def figures(env: str, seed: int, mean: float, method: tuple[str, str] = ("a3c", "kind")) -> Any:
    agent, chosen = method
    played = {"greedy_mean": mean, "greedy_std": 1.0, "sampled_mean": 0.0, "sampled_std": 0.0}
    return zoo_table.Figures(
        env, agent, chosen, seed, 10, 1.5, None, "best", 100, *played.values(), started="now", cpu="a", cores=2
    )


def row(env: str, **published: float) -> Any:
    known = {name: zoo_table.Published(mean, 0.0, 10) for name, mean in published.items()}
    return zoo_table.Row(env, "kind", 10, (), known, env)


ROWS = [row("both", a2c=10, ppo=20), row("neither", a2c=10, ppo=20), row("grid", ppo=0.5), row("late", a2c=1, ppo=2)]
FOUND = [
    *(figures("both", seed, mean) for seed, mean in ((1, 25.0), (2, 9.0), (3, 20.0))),  # the median is 20
    *(figures("neither", seed, mean) for seed, mean in ((1, 9.0), (2, 99.0), (3, 8.0))),  # 9
    *(figures("neither", seed, 15.0, ("a3c", "own")) for seed in (1, 2, 3)),
    *(figures("grid", seed, 0.5) for seed in (1, 2, 3)),
    *(figures("late", seed, 5.0) for seed in (1, 2)),  # seed 3 has not run
]


class TestTables:
    @pytest.mark.parametrize("name", list(zoo_table.FIGURES))
    def test_the_page_has_the_figures(self, name: str) -> None:
        assert zoo_table.part_on_page(name) == zoo_table.part(name), "run: python benchmarks/zoo_table.py write"

    def test_rows_by_hand(self) -> None:
        lines = list(zoo_table.zoo_table(ROWS, FOUND))
        assert len(lines) == 2 + 5
        assert lines[2].startswith("| `both` | `a3c` | 25.0 ± 1.0 | 9.000 ± 1.000 | 20.0 ± 1.0 | **20.0** |")
        assert [line.split(" | ")[-1] for line in lines[2:]] == ["A2C and PPO |", "– |", "A2C |", "PPO |", "– |"]
        assert "`a3c`, set `own`" in lines[4]

    def test_counts_by_hand(self) -> None:
        kind, own = zoo_table.zoo_counts(ROWS, FOUND)
        assert "A2C in 1 of 2 rows" in kind
        assert "PPO in 1 of these, and in 2 of all 3 rows (1 row without all runs)." in kind
        assert "A2C in 2 of 2 rows" in own
        assert "PPO in 1 of these, and in 2 of all 3 rows" in own

    def test_the_held_out_table_by_hand(self) -> None:
        rows = [row("won"), row("lost"), row("open")]
        found = [
            *(figures("won", seed, seed) for seed in (1, 2, 3)),
            *(figures("won", seed, 1.5, ("sb3-ppo", "kind")) for seed in (1, 2, 3)),
            *(figures("lost", seed, -2e5) for seed in (1, 2, 3)),
            *(figures("lost", seed, -1e5, ("sb3-ppo", "kind")) for seed in (1, 2, 3)),
            figures("open", 1, 1.0),
        ]
        lines = list(zoo_table.held_out_table(rows, found))
        assert lines[2].endswith("| 1.000, 2.000, 3.000 | **2.000** | 1.500, 1.500, 1.500 | **1.500** | `a3c` |")
        assert [line.split(" | ")[-1] for line in lines[2:]] == ["`a3c` |", "`sb3-ppo` |", "– |"]
        (text,) = zoo_table.held_out_counts(rows, found)
        assert text.endswith("better than `sb3-ppo` in 1 of 2 held-out rows (1 row without all runs).")

    def test_files_of_figures_are_read_as_they_were_written(self, tmp_path: Path) -> None:
        zoo_table.write_figures(tmp_path / "new" / "figures.csv", FOUND, ROWS)
        assert sorted(map(repr, zoo_table.read_figures(tmp_path / "new" / "figures.csv"))) == sorted(map(repr, FOUND))


@pytest.mark.slow
class TestTraining:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "list.yml").write_text(LISTS)
        (tmp_path / "driver.py").write_text(DRIVER.replace("BENCHMARKS", repr(str(ROOT / "benchmarks"))))
        return tmp_path

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "driver.py", *arguments]

    def run(self, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*arguments), cwd=folder, env=environ(), capture_output=True, text=True, timeout=2 * LIMIT_S
        )

    def test_rows_are_trained_once_and_evaluated(self, folder: Path) -> None:
        pytest.importorskip("minigrid")
        first = self.run(folder, "train", "--seeds", "1")
        assert first.returncode == 0, first.stdout + first.stderr
        assert re.search(r"gym:CartPole-v1 a3c kind seed 1: [\d,]+ steps in", first.stdout)
        config = (folder / "runs" / "zoo" / "minigrid_Empty-5x5-a3c-kind-s1" / "config.yml").read_text()
        assert "entropy_coefficient: 0.0625" in config
        assert "stop_when_solved: false" in config
        again = self.run(folder, "train", "--seeds", "1")
        assert again.stdout.count("has ended before") == 2
        assert self.run(folder, "evaluate").returncode == 0
        lines = (folder / "figures.csv").read_text().splitlines()
        assert [line.split(",")[:4] for line in lines[1:]] == [
            ["gym:CartPole-v1", "a3c", "kind", "1"],
            ["minigrid:Empty-5x5", "a3c", "kind", "1"],
        ]
        assert self.run(folder, "evaluate").stdout == ""  # nothing is played twice

    def test_runs_are_timed_to_a_level_once(self, folder: Path) -> None:
        (folder / "list.yml").write_text(
            LISTS.replace("mean: 30.0", "mean: 12.0").replace("steps: 600", "steps: 20000")
        )
        (folder / "timer.py").write_text(TIMER.replace("ROOT", repr(str(ROOT))))
        command = [sys.executable, "timer.py", "--seeds", "1", "2"]

        def timed() -> str:
            told = subprocess.run(
                command, cwd=folder, env=environ(), capture_output=True, text=True, timeout=2 * LIMIT_S
            )
            assert told.returncode == 0, told.stdout + told.stderr
            return told.stdout

        assert timed().count(": at the level after ") == 4
        with (folder / "times.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
        assert [(line["agent"], line["seed"]) for line in lines] == [
            ("a3c", "1"),
            ("a3c", "2"),
            ("sb3-ppo", "1"),
            ("sb3-ppo", "2"),
        ]
        assert all(int(line["steps"]) < 20_000 for line in lines)
        assert timed() == ""

    def test_ctrl_c_ends_it_in_order_and_the_same_command_goes_on(self, folder: Path) -> None:
        (folder / "list.yml").write_text(LISTS.replace("steps: 600", "steps: 3000000", 1))
        path = folder / "runs" / "zoo" / "gym_CartPole-v1-a3c-kind-s2"
        command = self.command("train", "gym:CartPole-v1", "--seeds", "2")
        with subprocess.Popen(command, cwd=folder, env=environ(), stdout=subprocess.PIPE, text=True) as process:
            wait_until(lambda: (path / "monitor.csv").exists() and (path / "monitor.csv").stat().st_size > 1000)
            process.send_signal(signal.SIGINT)
            told, _ = process.communicate(timeout=LIMIT_S)
        assert process.returncode == 130
        assert told.endswith("interrupted; the same command goes on\n")
        outcome = json.loads((path / "outcome.json").read_text())
        assert outcome["reason"] == "interrupted"
        config = path / "config.yml"
        config.write_text(config.read_text().replace("steps: 3000000", f"steps: {outcome['steps'] + 10}"))
        done = self.run(folder, "train", "gym:CartPole-v1", "--seeds", "2")
        assert done.returncode == 0, done.stdout
        assert json.loads((path / "outcome.json").read_text())["steps"] >= outcome["steps"] + 10

    def test_a_run_without_a_checkpoint_is_kept_and_trained_anew(self, tmp_path: Path) -> None:
        path = tmp_path / "run"
        for number in (1, 2):
            path.mkdir()
            (path / "config.yml").write_text(f"{number}")
            zoo_table.set_aside(path)
            assert (tmp_path / f"run.cut-short-{number}" / "config.yml").read_text() == f"{number}"
        assert not path.exists()
        zoo_table.set_aside(path)

    def test_a_run_of_another_command_is_left_alone(self, folder: Path) -> None:
        path = folder / "runs" / "zoo" / "gym_CartPole-v1-a3c-kind-s1"
        path.mkdir(parents=True)
        (path / "meta.json").write_text(json.dumps({"command": ["a3c-zoo", "train", "gym:CartPole-v1"]}))
        done = self.run(folder, "train", "gym:CartPole-v1", "--seeds", "1")
        assert done.returncode == 1
        assert "was made by another command: a3c-zoo train gym:CartPole-v1" in done.stderr
        assert [each.name for each in path.iterdir()] == ["meta.json"]

    def test_a_run_that_fails_is_told_and_the_others_go_on(self, folder: Path) -> None:
        broken = LISTS.replace("agent.entropy_coefficient=0.0625", "agent.n_stops=4")
        (folder / "list.yml").write_text(broken.replace("minigrid:Empty-5x5", "gym:Acrobot-v1"))
        done = self.run(folder, "train", "gym:Acrobot-v1", "gym:CartPole-v1", "--seeds", "1")
        assert done.returncode == 1
        assert "gym:Acrobot-v1 a3c kind seed 1: failed: " in done.stdout
        assert "agent.n_stops" in done.stdout
        assert re.search(r"gym:CartPole-v1 a3c kind seed 1: [\d,]+ steps in", done.stdout)

    def test_a_set_that_a_row_does_not_have(self, folder: Path) -> None:
        done = self.run(folder, "train", "gym:CartPole-v1", "--seeds", "1", "--set", "no-such-set")
        assert (done.returncode, done.stdout.count("left out, it has no set 'no-such-set'")) == (0, 1)

    def test_a_default_set_of_its_own_is_not_that_of_the_kind(self, tmp_path: Path) -> None:
        """`cartpole` has one, and so have some `gym:` environments for stable-baselines3's agents."""

        def reason(env: str, agent: str) -> str:
            why: str = zoo_table.why_left_out(zoo_table.Run(row(env), agent, "kind", 1, tmp_path))
            return why

        assert reason("cartpole", "a3c") == "its default is a set of its own, cartpole/a3c.yml"
        assert reason("gym:Taxi-v4", "a3c") == ""
        assert reason("gym:Acrobot-v1", "sb3-ppo") == ""

    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (["gym:NoSuch-v0"], "no row of the list 'table': gym:NoSuch-v0"),
            (["--seeds", "50"], "the seeds of the list 'table' are below 50"),
            (["--seeds", "1", "--list", "tuning"], "the seeds of the list 'tuning' are from 50 on"),
        ],
    )
    def test_wrong_arguments(
        self, arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(zoo_table, "prepare", lambda: None)
        monkeypatch.setattr(signal, "signal", lambda *given: None)
        monkeypatch.setattr(sys, "argv", ["zoo_table.py", "train", *arguments])
        with pytest.raises(SystemExit) as left:
            zoo_table.main()
        assert left.value.code == 2
        assert told in capsys.readouterr().err
