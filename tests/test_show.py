"""`a3c-zoo show hyperparams`, as a person, a pipe and a program see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from a3c_zoo.cli import show as module
from a3c_zoo.config.sets import describe, resolve_config
from a3c_zoo.plugins.loading import Selection
from a3c_zoo.plugins.registry import load_registry


def show(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "a3c_zoo", "show", "hyperparams", *args]
    environ = {**os.environ, "A3C_ZOO_PLUGINS": ""}
    return subprocess.run(command, capture_output=True, text=True, env=environ, check=False)


@pytest.fixture(scope="module")
def shown() -> list[str]:
    result = show("cartpole", "-o", "n_steps=5")
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


def test_show_without_a_terminal_cuts_nothing(shown: list[str]) -> None:
    assert shown[0].split() == ["key", "value", "source", "meaning"]
    by_key = {line.split()[0]: line for line in shown}
    assert by_key["agent.n_steps"].split(maxsplit=3)[1:] == ["5", "-o", "steps per environment in one rollout (T)"]
    assert by_key["run.stop_return"].endswith("null: at the environment's threshold")
    assert "cartpole/a3c.yml:" in by_key["optimizer.learning_rate"]


def test_show_json() -> None:
    rows = json.loads(show("cartpole", "--json").stdout)
    assert set(rows[0]) == {"key", "value", "description", "default", "source"}
    assert {row["key"]: row["default"] for row in rows}["network.hidden_sizes"] == [64, 64]


def test_show_reports_faults_and_leaves_with_2() -> None:
    result = show("cartpole", "-o", "gamma=2", "-o", "n_stps=3")
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        "Error: 2 faults in the configuration:",
        "  -o agent.gamma: 2 — must be less than or equal to 1",
        "  -o n_stps: unknown key. Did you mean 'n_steps'?",
    ]


def test_show_on_a_terminal_fits_its_width(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    registry = load_registry(Selection(allowed=frozenset()))
    config = resolve_config(registry, registry.env("cartpole"), registry.agent("a3c"))
    rows = describe(config)
    module._print_sections("cartpole, agent a3c", [(r.key, str(r.value), r.source, r.description) for r in rows])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    text = " ".join(" ".join(lines).split())
    for row in rows:
        assert row.key.partition(".")[2] in text
        assert "…" not in text
