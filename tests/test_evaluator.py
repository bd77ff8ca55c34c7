"""The evaluator beside training: real runs, real processes, real files."""

from __future__ import annotations

import csv
import itertools
import json
import multiprocessing
import os
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import a3c_zoo
from a3c_zoo.baselines.random import RandomWorker
from a3c_zoo.display.displays import LineDisplay
from a3c_zoo.errors import RunDirectoryError, printable
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Outcome
from a3c_zoo.runs.api import evaluate
from a3c_zoo.runs.evaluation import MODES, EvaluationTask, play_task
from a3c_zoo.runs.evaluation_process import EvaluationProcess
from a3c_zoo.seeds import EVALUATOR_EVALUATIONS, SEED_EVALUATION, seed_for
from a3c_zoo.store.checkpoint_bytes import read_content
from a3c_zoo.store.checkpoints import read_policy
from a3c_zoo.store.evaluation_files import HEADER, EvaluationRows, write_npz
from a3c_zoo.store.run import Run
from tests.shared import all_agents
from tests.toys_env import MADE, NUM_ENVS, reward_of
from tests.toys_runs import (
    Listener,
    Running,
    checkpoint,
    command_line,
    scalars,
    signal_self,
    toy_installed,
    toy_path,
    write_content,
)
from tests.waits import LIMIT_S, wait_until

EPISODES = 4
EVALUATED = {"run.evaluator_episodes": EPISODES, "run.stop_when_solved": False, "agent.n_steps": 5}
#: No waiting between evaluations.
UNLIMITED = {**EVALUATED, "run.evaluation_cpu_share": 1.0}


@pytest.fixture
def _toy(tmp_path: Path) -> Iterator[None]:
    with toy_installed(tmp_path / "toy"):
        yield


def rows(run: Path) -> list[dict[str, str]]:
    path = run / "evaluations.csv"
    return list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []


def by_evaluation(run: Path) -> dict[tuple[int, float], dict[str, list[float]]]:
    """(step, seconds) → mode → returns."""
    found: dict[tuple[int, float], dict[str, list[float]]] = {}
    for row in rows(run):
        modes = found.setdefault((int(row["step"]), float(row["seconds"])), {})
        modes.setdefault(row["mode"], []).append(float(row["return"]))
    return found


def assert_npz_agrees(run: Path) -> None:
    """evaluations.npz, read with NumPy's defaults as RL Zoo's all_plots reads it, says what evaluations.csv says."""
    log = np.load(run / "evaluations.npz")
    means = np.squeeze(log["results"].mean(axis=1))
    evaluations = by_evaluation(run)
    assert log["timesteps"].tolist() == [step for step, _ in evaluations]
    assert means.tolist() == [pytest.approx(np.mean(each["greedy"]), abs=1e-12) for each in evaluations.values()]
    assert log["sampled_results"].tolist() == [each["sampled"] for each in evaluations.values()]
    for prefix, mode in (("", "greedy"), ("sampled_", "sampled")):
        lengths = [int(row["length"]) for row in rows(run) if row["mode"] == mode]
        assert log[f"{prefix}ep_lengths"].ravel().tolist() == lengths
    shapes = {log[name].shape for name in log.files if name != "timesteps"}
    assert shapes == {(len(evaluations), log["results"].shape[1])}
    assert {log[name].dtype for name in log.files} == {np.dtype(np.int64), np.dtype(np.float64)}


def train(folder: Path, *, overrides: dict[str, Any], **options: Any) -> tuple[Outcome, Listener]:
    listener = options.pop("observer", Listener())
    return a3c_zoo.train("toy", overrides=overrides, runs_dir=folder, observer=listener, **options), listener


def after_evaluations(count: int, do: Callable[[], None]) -> Callable[[Any], None]:
    """For a listener: does something once, when the run has seen so many results."""
    steps: set[int] = set()

    def look(progress: Any) -> None:
        if progress.evaluator and progress.evaluator.step not in steps:
            steps.add(progress.evaluator.step)
            if len(steps) == count:
                do()

    return look


def seeds(root: int, count: int) -> list[int]:
    return [seed_for(root, SEED_EVALUATION, EVALUATOR_EVALUATIONS + number) for number in range(count)]


@pytest.mark.usefixtures("_toy")
@pytest.mark.parametrize("serial", [False, True])
def test_every_episode_is_recorded_and_the_best_policy_kept(serial: bool, tmp_path: Path) -> None:
    overrides = {**UNLIMITED, "run.evaluation_every_s": 0.2, "env.step_s": 0.005, "env.evaluation_by_seed": True}
    observer = Listener(after_evaluations(3, signal_self))
    outcome, listener = train(
        tmp_path, overrides=overrides, serial=serial, seed=7, time_limit_s=LIMIT_S, observer=observer
    )
    assert outcome.reason == "interrupted"
    found = by_evaluation(outcome.run)
    assert len(found) == 3
    expected = [reward_of(seed) for seed in seeds(7, len(found))]
    assert list(found.values()) == [{mode: [r] * EPISODES for mode in ("greedy", "sampled")} for r in expected]
    assert {row["length"] for row in rows(outcome.run)} == {"1"}
    times = [at_s for _, at_s in found]
    assert times[0] >= 0.2
    assert all(late // 0.2 > early // 0.2 for early, late in itertools.pairwise(times))
    assert times[-1] <= outcome.training_s
    assert all(0 <= step <= outcome.steps for step, _ in found)
    steps = [step for step, _ in found]
    for mode in ("greedy", "sampled"):
        points = scalars(outcome.run)[f"eval/return_mean_{mode}"]
        assert [step for step, _ in points] == steps
        assert [value for _, value in points] == pytest.approx(expected)
    best = checkpoint(outcome.run, "best")["session"]
    assert best["sampled_return"] == pytest.approx(max(expected))
    assert best["steps"] == steps[expected.index(max(expected))]
    assert times[expected.index(max(expected))] <= best["seconds"]["training"] <= outcome.training_s
    assert listener.messages == []
    assert outcome.evaluator_fault is None
    assert sorted(path.name for path in (outcome.run / "checkpoints").iterdir())[0] == "best.pt"


@pytest.mark.usefixtures("_toy")
def test_best_holds_the_parameters_that_were_evaluated(tmp_path: Path) -> None:
    """A serial run that ends where an evaluation began has the same parameters then."""
    overrides = {**EVALUATED, "run.evaluation_every_steps": 200}
    outcome, _ = train(tmp_path, overrides=overrides, serial=True, steps=500)
    best = checkpoint(outcome.run, "best")
    step = best["session"]["steps"]
    assert 200 <= step < 400  # all are worth 1; the first stays
    until, _ = train(tmp_path, overrides=EVALUATED, serial=True, steps=step)
    assert until.steps == step
    assert torch.equal(best["agent"]["model"]["parameters"], checkpoint(until.run)["agent"]["model"]["parameters"])
    assert command_line("evaluate", outcome.run, "--checkpoint", "best", "--episodes", 3) == 0


@pytest.mark.usefixtures("_toy")
def test_evaluations_change_nothing_that_is_learned(tmp_path: Path) -> None:
    overrides = {**EVALUATED, "run.evaluation_every_steps": 100}
    one, _ = train(tmp_path, overrides=overrides, serial=True, steps=500)
    other, _ = train(tmp_path, overrides=EVALUATED, serial=True, steps=500)
    assert len(by_evaluation(one.run)) == 4
    assert by_evaluation(other.run) == {}
    assert not (other.run / "evaluations.csv").exists()
    states = [checkpoint(each.run)["agent"] for each in (one, other)]
    assert torch.equal(states[0]["model"]["parameters"], states[1]["model"]["parameters"])
    assert one.evaluation_s > 0 == other.evaluation_s


@pytest.mark.usefixtures("_toy")
def test_its_seeds_are_its_own(tmp_path: Path) -> None:
    overrides = {**EVALUATED, "run.evaluation_every_steps": 100}
    outcome, _ = train(tmp_path, overrides=overrides, serial=True, steps=500)
    played = [seed for num_envs, seed in MADE if num_envs == EPISODES]
    assert played == [seed for seed in seeds(0, 4) for _ in ("greedy", "sampled")]
    assert not set(played) & {seed for num_envs, seed in MADE if num_envs == NUM_ENVS}
    checks = [seed_for(0, SEED_EVALUATION, number) for number in range(1000)]
    assert not set(played) & set(checks)
    assert outcome.evaluation is None


@pytest.mark.usefixtures("_toy")
def test_greedy_and_sampled_are_told_apart(tmp_path: Path) -> None:
    """Both actions are nearly as probable, and nothing is learned: greedily it is one of them; sampled it is 0 or 1."""
    outcome = a3c_zoo.train(
        "coin",
        agent="a3c",
        steps=4000,
        runs_dir=tmp_path,
        overrides={"run.evaluation_every_steps": 1000, "optimizer.learning_rate": 1e-30},
        serial=True,
    )
    found = by_evaluation(outcome.run)
    assert len(found) == 3
    assert len({r for modes in found.values() for r in modes["greedy"]}) == 1
    sampled = [r for modes in found.values() for r in modes["sampled"]]
    assert set(sampled) == {0.0, 1.0}
    assert 0.1 < statistics.fmean(sampled) < 0.9


@pytest.mark.usefixtures("_toy")
def test_a_result_is_taken_in_the_middle_of_a_rollout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollout of SB3 may last minutes. No other evaluation begins in it."""
    begun: list[EvaluationTask] = []

    def begin(process: EvaluationProcess, task: EvaluationTask, begin: Any = EvaluationProcess.begin) -> None:
        begun.append(task)
        begin(process, task)

    def work(worker: RandomWorker, work: Any = RandomWorker.work) -> None:
        if worker._steps:
            wait_until(lambda: worker._collector._on_tick() or rows(tmp_path / "x"))
            worker._collector._on_tick()
        work(worker)

    monkeypatch.setattr(RandomWorker, "work", work)
    monkeypatch.setattr(EvaluationProcess, "begin", begin)
    monkeypatch.setattr("a3c_zoo.runs.session.REPORT_EVERY_S", 0.0)
    overrides = {**UNLIMITED, "run.evaluation_every_s": 0.001, "agent.n_steps": 50}
    outcome, _ = train(tmp_path, agent="random", name="x", overrides=overrides, steps=100)
    assert [step for step, _ in by_evaluation(outcome.run)] == [50]
    assert len(begun) == 1


@pytest.mark.usefixtures("_toy")
def test_it_keeps_to_its_share_of_the_cores(tmp_path: Path) -> None:
    """An evaluation takes 0.2 CPU seconds: 0.1 for each mode. With a tenth of a core, the next starts 2 s later."""
    cores = len(os.sched_getaffinity(0))
    overrides = {
        **EVALUATED,
        "run.evaluation_every_s": 0.1,
        "run.evaluation_cpu_share": 0.1 / cores,
        "env.evaluation_busy_s": 0.1,
        "env.step_s": 0.01,
    }
    observer = Listener(after_evaluations(2, signal_self))
    outcome, _ = train(tmp_path, overrides=overrides, workers=1, time_limit_s=LIMIT_S, observer=observer)
    times = [at_s for _, at_s in by_evaluation(outcome.run)]
    gaps = [late - early for early, late in itertools.pairwise(times)]
    assert gaps
    assert min(gaps) >= 1.95


@pytest.mark.usefixtures("_toy")
def test_its_process_starts_with_the_first_evaluation_and_ends_with_the_run(tmp_path: Path) -> None:
    workers = ["a3c-zoo worker 0", "a3c-zoo worker 1"]
    everybody = ["a3c-zoo evaluator", *workers]
    seen: list[tuple[float, list[str]]] = []

    def look(progress: Any) -> None:
        if not progress.training_s:  # the workers start
            return
        names = sorted(process.name for process in multiprocessing.active_children())
        seen.append((progress.training_s, names))
        if [names for _, names in seen].count(everybody) == 5:
            signal_self()

    overrides = {**UNLIMITED, "run.evaluation_every_s": 1.0, "env.step_s": 0.005}
    outcome, _ = train(tmp_path, overrides=overrides, time_limit_s=LIMIT_S, observer=Listener(look))
    assert outcome.reason == "interrupted"
    first = [names for _, names in seen].index(everybody)
    assert first > 0
    assert seen[first][0] >= 1.0
    assert all(names == workers for _, names in seen[:first])
    assert all(names == everybody for _, names in seen[first : first + 5])
    assert multiprocessing.active_children() == []


FAULTS = {
    "raise": ("RuntimeError: the toy broke", "the toy broke"),
    "name": ("RuntimeError: \udcff", "\\udcff"),
    "factory-raise": ("the toy factory broke", "the toy factory broke"),
    "kill": ("it was ended by signal SIGKILL (out of memory?)", ""),
    "sleep": ("it has made no step for 3 s: does its environment hang? (limit: run.worker_timeout_s)", ""),
}


@pytest.mark.usefixtures("_toy")
@pytest.mark.parametrize(("serial", "fault"), [(False, each) for each in FAULTS] + [(True, "raise")])
def test_training_goes_on_without_an_evaluator_that_fails(serial: bool, fault: str, tmp_path: Path) -> None:
    line, traced = FAULTS[fault]
    overrides = {
        **UNLIMITED,
        "run.evaluation_every_s": 0.2,
        "run.worker_timeout_s": 3.0 if fault == "sleep" else LIMIT_S,
        "run.worker_restarts": 0,
        "env.evaluation_fault": fault,
        "env.step_s": 0.005,
    }
    steps_then: list[int] = []

    class Ending(Listener):
        """Ends the run a hundred steps later."""

        def message(self, text: str) -> None:
            super().message(text)
            steps_then.append(max(self.steps, default=0))

        def progress(self, progress: Any) -> None:
            super().progress(progress)
            if steps_then and progress.steps > steps_then[0] + 100:
                steps_then[0] = 2**62
                signal_self()

    outcome, listener = train(tmp_path, overrides=overrides, serial=serial, time_limit_s=LIMIT_S, observer=Ending())
    assert outcome.reason == "interrupted"
    assert outcome.evaluator_fault is not None
    assert line in outcome.evaluator_fault
    assert json.loads((outcome.run / "outcome.json").read_text())["evaluator_fault"] == outcome.evaluator_fault
    log = outcome.run / "evaluator.log"
    told = f"the evaluator has failed, training goes on: {outcome.evaluator_fault} (see {log})"
    assert listener.messages == [told]
    event = json.loads((outcome.run / "events.jsonl").read_text())
    assert (event["kind"], event["text"]) == ("evaluator_failed", told)
    assert event["fault"] == outcome.evaluator_fault
    assert 0 <= event["step"] <= outcome.steps
    text = log.read_text()
    assert printable(outcome.evaluator_fault) in text.splitlines()[0]
    assert traced in text
    assert ("Traceback (most recent call last)" in text) == bool(traced)
    assert rows(outcome.run) == []
    names = {path.name for path in (outcome.run / "checkpoints").iterdir()}
    assert names == {f"step-{step:012d}.pt" for step in (0, outcome.steps)}
    assert multiprocessing.active_children() == []


@pytest.mark.usefixtures("_toy")
def test_the_command_line_tells_of_results_and_faults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LineDisplay, "every_s", 0.0)
    settings = {**UNLIMITED, "run.evaluation_every_steps": 20}
    options = [part for key, value in settings.items() for part in ("-o", f"{key}={str(value).lower()}")]
    shared = ["train", "toy", "--serial", "--runs-dir", tmp_path, "--steps", 300, *options]
    assert command_line(*shared, "-o", "env.evaluation_reward=0.25") == 0
    assert "return 1 (+0)  evaluated 0.25" in capsys.readouterr().out
    assert command_line(*shared, "-o", "env.evaluation_fault=raise", "--quiet", "--name", "x") == 0
    printed = capsys.readouterr().out
    assert "\n  evaluator   failed: RuntimeError: the toy broke" in printed
    assert f"(see {tmp_path / 'x/evaluator.log'})" in printed


@pytest.mark.usefixtures("_toy")
def test_a_run_does_not_wait_for_its_evaluator(tmp_path: Path) -> None:
    """It sleeps for ever in a step; the run has not noticed when it ends."""
    ended_s: list[float] = []

    def look(progress: Any) -> None:
        ended_s.append(time.monotonic())

    overrides = {**UNLIMITED, "run.evaluation_every_s": 0.2, "env.evaluation_fault": "sleep", "env.step_s": 0.005}
    outcome, _ = train(tmp_path, overrides=overrides, time_limit_s=2, observer=Listener(look))
    assert time.monotonic() - ended_s[-2] < 60.0  # 0.5 s for it to see, then it is killed; it sleeps much longer
    assert (outcome.reason, outcome.evaluator_fault) == ("time-limit", None)
    assert multiprocessing.active_children() == []


@pytest.mark.slow
def test_it_ends_with_a_parent_that_is_killed_and_obeys_ctrl_c(tmp_path: Path) -> None:
    path = toy_path(tmp_path / "toy")
    overrides = {**UNLIMITED, "run.evaluation_every_s": 0.2, "env.step_s": 0.005, "env.evaluation_step_s": 0.3}
    options = [part for key, value in overrides.items() for part in ("-o", f"{key}={str(value).lower()}")]
    for number in (signal.SIGKILL, signal.SIGINT):
        name = number.name
        command = ("train", "toy", "--name", name, *options)
        with Running(*command, folder=tmp_path, path=path) as running:
            running.wait_until((tmp_path / "runs" / name / "checkpoints/best.pt").exists)
            assert len(running.workers()) == 3
            if number == signal.SIGKILL:
                running.process.kill()
            else:
                running.signal_group(number)
            running.exit_status()
            running.assert_nothing_left()
    outcome = json.loads((tmp_path / "runs/SIGINT/outcome.json").read_text())
    assert (outcome["reason"], outcome["evaluator_fault"]) == ("interrupted", None)
    with toy_installed(tmp_path / "again"):
        assert evaluate(tmp_path / "runs/SIGKILL", checkpoint="best", episodes=1).mean_return == 1.0


@pytest.mark.usefixtures("_toy")
def test_a_resume_goes_on_as_if_never_interrupted(tmp_path: Path) -> None:
    overrides = {**EVALUATED, "run.evaluation_every_steps": 100, "env.evaluation_by_seed": True}
    whole, _ = train(tmp_path, overrides=overrides, serial=True, steps=900)
    half, _ = train(tmp_path, overrides=overrides, serial=True, steps=450)
    file = half.run / "evaluations.csv"
    kept = file.read_text()
    assert_npz_agrees(half.run)
    file.write_text(kept + "99999,1.0,greedy,5.0,1\n99999,1.0,sampled,5.0,1\n")  # after the checkpoint
    write_npz(half.run)
    assert np.load(half.run / "evaluations.npz")["timesteps"].tolist() == [99999]  # alone has one episode
    a3c_zoo.train(resume=half.run, steps=900)
    assert file.read_text().startswith(kept)
    assert_npz_agrees(half.run)
    assert [(r["step"], r["mode"], r["return"]) for r in rows(half.run)] == [
        (r["step"], r["mode"], r["return"]) for r in rows(whole.run)
    ]
    best = [checkpoint(each.run, "best") for each in (whole, half)]
    assert best[0]["session"]["steps"] == best[1]["session"]["steps"]
    assert torch.equal(best[0]["agent"]["model"]["parameters"], best[1]["agent"]["model"]["parameters"])


def test_the_npz_has_the_evaluations_that_are_alike(tmp_path: Path) -> None:
    played = [(10, 2), (20, 3), (30, 3)]
    lines = [f"{at},0.5,{mode},nan,{n}\n" for at, count in played for mode in MODES for n in range(count)]
    table = tmp_path / "evaluations.csv"
    table.write_text(HEADER + "".join(lines))
    write_npz(tmp_path)
    log = np.load(tmp_path / "evaluations.npz")
    assert log["timesteps"].tolist() == [20, 30]  # the first had two episodes
    assert log["ep_lengths"].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert np.isnan(log["results"]).all()  # an environment may return it
    table.write_text(f"{HEADER}1,2,greedy,x,4\n")
    with pytest.raises(RunDirectoryError, match=r"^evaluations.csv is damaged: could not convert"):
        write_npz(tmp_path)
    for step in ("inf", "nan", "1e30"):
        table.write_text(f"{HEADER}{step},2,greedy,3,4\n")
        with pytest.raises(RunDirectoryError, match=r"^evaluations.csv is damaged: a step is no whole number$"):
            write_npz(tmp_path)


def test_the_npz_is_made_seldom(tmp_path: Path) -> None:
    kept = EvaluationRows(tmp_path)
    npz = tmp_path / "evaluations.npz"
    stamps, ends = [], []
    for at in range(5):
        rows = "".join(f"{at},0.5,{mode},1.0,1\n" for mode in MODES)
        kept.append(((HEADER if not at else "") + rows).encode())
        kept.sync()
        ends.append(kept.position)
        stamps.append(npz.stat().st_mtime_ns)
    assert len(set(stamps)) < 5  # it takes no more than a hundredth of the time
    kept.close()
    assert np.load(npz)["timesteps"].tolist() == [0, 1, 2, 3, 4]
    os.link(npz, tmp_path / "victim")
    npz.unlink()
    npz.symlink_to("victim")  # a stranger's: it is replaced, and not written through
    second = EvaluationRows(tmp_path, resume_at=ends[0])
    assert np.load(tmp_path / "victim")["timesteps"].tolist() == [0, 1, 2, 3, 4]
    (tmp_path / "victim").unlink()
    assert np.load(npz)["timesteps"].tolist() == [0]
    second.close()
    EvaluationRows(tmp_path, resume_at=0).close()
    assert [path.name for path in tmp_path.iterdir()] == []


@pytest.mark.usefixtures("_toy")
def test_a_better_policy_from_before_a_resume_is_not_lost(tmp_path: Path) -> None:
    overrides = {**EVALUATED, "run.evaluation_every_steps": 100}
    outcome, _ = train(tmp_path, overrides=overrides, serial=True, steps=300)
    best = outcome.run / "checkpoints/best.pt"
    content = read_content(best)
    content["session"] |= {"sampled_return": 2.0, "steps": 12345}  # found after the last checkpoint, before a crash
    write_content(best, content)
    a3c_zoo.train(resume=outcome.run, steps=900)
    assert len(by_evaluation(outcome.run)) > 2
    kept = read_policy(best)
    assert (kept.state.steps, kept.state.sampled_return, kept.state.run) == (12345, 2.0, None)
    assert kept.agent.keys() == content["agent"].keys()
    assert torch.equal(kept.agent["model"]["parameters"], content["agent"]["model"]["parameters"])


@pytest.mark.usefixtures("_toy")
def test_a_best_policy_of_unknown_return_is_replaced(tmp_path: Path) -> None:
    """Even by one whose return is negative."""
    overrides = {**EVALUATED, "run.evaluation_every_steps": 100, "env.evaluation_reward": -1.0}
    outcome, _ = train(tmp_path, overrides=overrides, serial=True, steps=300)
    best = outcome.run / "checkpoints/best.pt"
    content = read_content(best)
    del content["session"]["sampled_return"]
    write_content(best, content)
    a3c_zoo.train(resume=outcome.run, steps=600)
    assert checkpoint(outcome.run, "best")["session"]["sampled_return"] == -1.0


@pytest.mark.usefixtures("_toy")
def test_a_run_without_a_best_policy_says_what_it_has(tmp_path: Path) -> None:
    outcome, _ = train(tmp_path, overrides=EVALUATED, serial=True, steps=1)
    with pytest.raises(RunDirectoryError) as raised:
        a3c_zoo.load_agent(outcome.run, checkpoint="best")
    assert str(raised.value) == (
        f"run {outcome.run.name} has no checkpoint 'best'; it has: final, 0, {outcome.steps} "
        "(best: from the first evaluation on, and in a run without evaluations from the 20th training episode on, "
        "written with the next checkpoint)"
    )
    (outcome.run / "checkpoints/best.pt").write_bytes(b"not a checkpoint")
    with pytest.raises(RunDirectoryError, match=r"best\.pt cannot be read"):
        a3c_zoo.load_agent(outcome.run, checkpoint="best")
    with pytest.raises(RunDirectoryError, match=rf"has no checkpoint '7'; it has: final, best, 0, {outcome.steps}$"):
        a3c_zoo.load_agent(outcome.run, checkpoint="7")


@pytest.mark.parametrize("agent", all_agents())
def test_every_agent_is_evaluated_beside_its_training(agent: str, tmp_path: Path) -> None:
    """With workers or in one process: what `AgentEntry.load` needs lies in the copy."""

    outcome = a3c_zoo.train(
        "cartpole",
        agent=agent,
        time_limit_s=LIMIT_S,
        runs_dir=tmp_path,
        observer=Listener(after_evaluations(1, signal_self)),
        overrides={
            "run.evaluation_every_s": 0.3,
            "run.evaluation_cpu_share": 1.0,
            "run.evaluator_episodes": 3,
            "run.stop_when_solved": False,
        },
    )
    assert (outcome.reason, outcome.evaluator_fault) == ("interrupted", None)
    found = by_evaluation(outcome.run)
    assert all(len(modes["greedy"]) == len(modes["sampled"]) == 3 for modes in found.values())
    assert_best_plays_again(agent, outcome.run)


def assert_best_plays_again(agent: str, run: Path) -> None:
    """Training has gone on since; what is in best.pt still plays the very episodes of the first evaluation."""
    registry = get_registry()
    config = Run(run).config(registry)
    network = registry.network(config.network.name) if config.network else None
    load, file = registry.agent(agent).load, run / "checkpoints/best.pt"
    task = EvaluationTask(registry.env("cartpole"), network, config, load, file, EVALUATOR_EVALUATIONS, 3, 20)
    played = play_task(task, lambda played: None).by_mode
    first = next(iter(by_evaluation(run).values()))
    assert {mode: [e.episode_return for e in each.episodes] for mode, each in played.items()} == first
