"""The serial runner: the same bits twice, interrupted or not."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
import torch

import a3c_zoo
from a3c_zoo.seeds import seed_for
from tests.toys_runs import (
    Listener,
    Running,
    assert_same_training,
    checkpoint,
    episodes,
    scalars,
    signal_self,
    toy_installed,
)

SMALL = {"env.num_envs": 4, "agent.n_steps": 32, "agent.update_samples": 64, "optimizer.schedule_steps": 4000}


def train(folder: Path, name: str, steps: int) -> Path:
    outcome = a3c_zoo.train("cartpole", serial=True, seed=3, steps=steps, overrides=SMALL, name=name, runs_dir=folder)
    assert outcome.reason == "steps"
    return outcome.run


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("serial"), "whole", 2000)


def without_time(run: Path) -> list[dict[str, float]]:
    return [{key: value for key, value in row.items() if key != "t"} for row in episodes(run)]


def assert_equal_runs(one: Path, other: Path) -> None:
    assert_same_training(checkpoint(one), checkpoint(other))
    assert without_time(one) == without_time(other)
    assert len(episodes(one)) == checkpoint(one)["session"]["episodes"]


def test_two_runs_are_equal(uninterrupted: Path, tmp_path: Path) -> None:
    assert_equal_runs(train(tmp_path, "again", 2000), uninterrupted)


def test_another_seed_is_another_run(uninterrupted: Path, tmp_path: Path) -> None:
    outcome = a3c_zoo.train("cartpole", serial=True, seed=4, steps=2000, overrides=SMALL, runs_dir=tmp_path)
    models = [checkpoint(run)["agent"]["model"] for run in (outcome.run, uninterrupted)]
    assert not torch.equal(models[0]["parameters"], models[1]["parameters"])


def test_neither_the_number_of_threads_nor_random_state_of_the_caller_matters(
    uninterrupted: Path, tmp_path: Path
) -> None:
    before = torch.get_num_threads()
    try:
        for threads in (1, 8):
            torch.set_num_threads(threads)
            torch.manual_seed(99)
            np.random.seed(99)
            assert_equal_runs(train(tmp_path, f"again-{threads}", 2000), uninterrupted)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_stopped_and_resumed_equals_uninterrupted(uninterrupted: Path, tmp_path: Path) -> None:
    run = train(tmp_path, "parts", 500)
    for steps in (500, 1200, 2000):  # the first one has nothing to do
        last = a3c_zoo.train(resume=run, steps=steps)
    assert_equal_runs(run, uninterrupted)
    first = checkpoint(uninterrupted)
    assert last.steps == first["session"]["steps"] == int(first["agent"]["counters"][:, 0].sum())
    assert_continuous(run)


def assert_continuous(run: Path) -> None:
    """TensorBoard's curves go on without gap or overlap: rising steps, and the last point at the end."""
    for tag, points in scalars(run).items():
        steps = [step for step, _ in points]
        # The final figures are written at the end of each session, also of one that had nothing to do.
        assert steps == sorted(steps if tag.startswith("final/") else set(steps)), tag
    assert scalars(run)["speed/steps_per_s"][-1][0] == checkpoint(run)["session"]["steps"]


def test_interrupted_within_and_resumed_equals_uninterrupted(uninterrupted: Path, tmp_path: Path) -> None:
    """Ctrl-C in this process, at a moment that its own progress decides."""
    signalled: list[bool] = []

    def interrupt(progress: object) -> None:
        if listener.steps[-1] > 700 and not signalled:
            signalled.append(True)
            signal_self()

    listener = Listener(interrupt)
    outcome = a3c_zoo.train(
        "cartpole", serial=True, seed=3, steps=2000, overrides=SMALL, runs_dir=tmp_path, observer=listener
    )
    assert (outcome.reason, outcome.detail) == ("interrupted", "Ctrl-C")
    assert 700 < outcome.steps < 2000
    a3c_zoo.train(resume=outcome.run)
    assert_equal_runs(outcome.run, uninterrupted)
    assert_continuous(outcome.run)


@pytest.mark.slow
def test_ctrl_c_of_a_terminal_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    options = ["--serial", "--seed", 5, "--steps", 20_000, "-o", "env.num_envs=4", "-o", "schedule_steps=15000"]
    with Running("train", "cartpole", *options, "--name", "cut", folder=tmp_path) as running:
        run = tmp_path / "runs/cut"
        running.wait_until(lambda: len(episodes(run)) > 50)
        running.signal_group(signal.SIGINT)
        assert running.exit_status() == 130
        assert "Stopped by Ctrl-C." in running.stdout
        assert running.stderr == ""
        running.assert_nothing_left()
    steps = checkpoint(run)["session"]["steps"]
    assert 0 < steps < 20_000
    a3c_zoo.train(resume=run)
    whole = a3c_zoo.train(
        "cartpole",
        serial=True,
        seed=5,
        steps=20_000,
        overrides=["env.num_envs=4", "schedule_steps=15000"],
        runs_dir=tmp_path / "whole",
    )
    assert_equal_runs(run, whole.run)
    assert_continuous(run)


@pytest.mark.slow
def test_killed_and_resumed_from_an_older_checkpoint_equals_uninterrupted(tmp_path: Path) -> None:
    """What was recorded behind the checkpoint is void: monitor.csv is cut, TensorBoard purged."""
    options = ["--serial", "--seed", 5, "--steps", 20_000, "-o", "env.num_envs=4", "-o", "checkpoint_every_s=0.2"]
    with Running("train", "cartpole", *options, "--name", "cut", folder=tmp_path) as running:
        run = tmp_path / "runs/cut"
        running.wait_until(lambda: len(list((run / "checkpoints").glob("step-*.pt"))) >= 2)
        running.process.kill()
        running.exit_status()
    recorded = len(episodes(run))
    assert checkpoint(run)["session"]["episodes"] <= recorded
    assert a3c_zoo.train(resume=run).reason == "steps"
    whole = a3c_zoo.train(
        "cartpole", serial=True, seed=5, steps=20_000, overrides=["env.num_envs=4"], runs_dir=tmp_path / "whole"
    )
    assert_equal_runs(run, whole.run)
    assert_continuous(run)


def test_private_statistics_are_resumed_too(tmp_path: Path) -> None:
    overrides = SMALL | {"optimizer.shared_statistics": False, "optimizer.name": "rmsprop"}
    runs = [
        a3c_zoo.train("cartpole", serial=True, steps=steps, overrides=overrides, name=str(steps), runs_dir=tmp_path).run
        for steps in (1000, 2000)
    ]
    a3c_zoo.train(resume=runs[0], steps=2000)
    assert_equal_runs(*runs)


def test_a_resumed_run_whose_budget_is_spent_does_nothing(uninterrupted: Path, tmp_path: Path) -> None:
    run = train(tmp_path, "spent", 1000)
    before = checkpoint(run)
    (run / "outcome.json").unlink()  # as after a kill at the end
    outcome = a3c_zoo.train(resume=run)
    assert (outcome.reason, outcome.steps) == ("steps", before["session"]["steps"])
    assert_same_training(checkpoint(run), before)


def test_an_environment_that_cannot_tell_its_state_starts_anew(tmp_path: Path) -> None:
    """Not exact, but nothing repeats: other episodes, other random numbers."""
    first = a3c_zoo.train("gym:Acrobot-v1", serial=True, steps=200, overrides={"env.num_envs": 1}, runs_dir=tmp_path)
    again = a3c_zoo.train(resume=first.run, steps=400)
    assert 400 <= again.steps < 400 + 2 * 128  # a rollout of each worker


def test_a_failure_to_close_hides_nothing(tmp_path: Path) -> None:
    with toy_installed(tmp_path / "toy"), pytest.raises(RuntimeError, match="the toy broke") as raised:
        a3c_zoo.train(
            "toy", serial=True, steps=400, overrides={"env.fault": "raise", "env.after": 50}, runs_dir=tmp_path
        )
    assert raised.value.__notes__ == ["(raised in step() of environment 'toy')"]


def test_seeds_have_branches() -> None:
    seeds = {seed_for(root, *path) for root in range(5) for path in ((0,), (1, 0), (1, 1), (2, 0), (3, 0), (3, 1))}
    assert len(seeds) == 30
    assert all(0 <= seed < 2**31 for seed in seeds)
