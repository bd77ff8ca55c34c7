"""The best policy by training episodes, what a run recommends, and who takes it."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import pytest
import torch

import a3c_zoo
from a3c_zoo.errors import DivergedError
from a3c_zoo.records import Episode, Outcome, Report, Snapshot
from a3c_zoo.runs.best import BestPolicy, copied
from a3c_zoo.runs.progress import RunProgress
from a3c_zoo.runs.resources import Clock
from a3c_zoo.store.checkpoints import (
    PolicyState,
    ResourceState,
    RunState,
    WindowState,
    checkpoint_steps,
    read_policy,
    step_file,
    write_checkpoint,
)
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.recommended import Choice, choose, is_better, recommended
from a3c_zoo.store.run import Run
from tests.test_resume_from import poisoned
from tests.toys_runs import Listener, Running, checkpoint, command_line, episodes, toy_installed

Captured = pytest.CaptureFixture[str]
NOTHING = ResourceState(None, None)
ALONE = {"run.stop_when_solved": False, "agent.n_steps": 5}
#: CartPole in which nothing is worth anything after the first 60 episodes of each environment. Values that forget fast.
FADING = {
    "run.stop_when_solved": False,
    "env.num_envs": 2,
    "env.wrappers": [{"tests.toys_env:Fading": {"after": 60}}],
    "agent.n_steps": 5,
    "agent.clip_ratio": None,
    "agent.teams": None,
    "agent.epochs": 1,
    "agent.update_samples": None,
    "agent.gae_lambda": 1.0,
    "agent.reward_scale": 0.1,
    "network.normalize_observations": False,
    "optimizer.learning_rate": 1e-3,
}


class Watched:
    """A best policy that is fed with episodes; its agent's only parameter is the number of episodes so far."""

    def __init__(self, folder: Path) -> None:
        (folder / "checkpoints").mkdir(exist_ok=True, parents=True)
        self.directory = RunDirectory(folder)
        self.progress = RunProgress(Clock(), None)
        self.copies: list[int] = []
        self.best = BestPolicy(self.directory, self.progress)

    def report(self, *returns: float) -> None:
        """A report of episodes with these returns, each of ten steps."""
        before = self.progress.episodes
        ended = [Episode(each, 10, 0, 0.0, 0) for each in returns]
        self.progress.add([Report(steps=10 * (before + len(ended)))], ended)
        self.best.look(Snapshot(self.agent), self.run_state)

    def agent(self) -> dict[str, Any]:
        self.copies.append(self.progress.episodes)
        return {"parameters": torch.tensor([float(self.progress.episodes)])}

    def run_state(self) -> RunState:
        window = WindowState([*self.progress.returns], [*self.progress.lengths])
        steps, ended = self.progress.steps, self.progress.episodes
        return RunState(steps, ended, 0, 0, 0, window, 0, {"training": 1.0}, NOTHING)

    def written(self) -> tuple[float, PolicyState]:
        self.best.write(ResourceState(3.0, None))
        saved = read_policy(self.directory.best_file)
        return float(saved.agent["parameters"]), saved.state


def test_the_parameters_behind_the_greatest_mean_are_kept(tmp_path: Path) -> None:
    run = Watched(tmp_path)
    run.report(*[9.0] * 19)
    assert run.copies == []  # one too few
    run.report(1.0)
    assert run.copies == [20]
    run.report(*[8.6] * 9)
    assert run.copies == [20]  # a better mean comes nine episodes after the last copy
    run.report(8.7)  # (171 + 1 + 77.4 + 8.7) / 30 = 8.603; before it was 172 / 20 = 8.6
    assert run.copies == [20, 30]
    run.report(*[10.0] * 70)
    at_100 = 9.581  # (258.1 + 700) / 100
    run.report(*[0.0] * 100)
    assert run.copies[-1] == 100
    number, state = run.written()
    assert number == 100
    assert (state.steps, state.return_episodes) == (1000, 100)
    assert state.best_return == state.training_return == pytest.approx(at_100)
    assert state.run is not None
    assert (state.run.episodes, state.run.resources.cpu_s) == (100, 3.0)


def test_equal_returns_are_kept_once(tmp_path: Path) -> None:
    run = Watched(tmp_path)
    for _ in range(50):
        run.report(*[1.0] * 10)
    assert run.copies == [20]


def test_a_later_session_knows_the_best_of_an_earlier_one(tmp_path: Path) -> None:
    run = Watched(tmp_path)
    run.report(*[5.0] * 30)
    run.written()
    again = Watched(tmp_path)
    again.report(*[4.0] * 300)
    again.best.write(NOTHING)
    assert again.copies == []
    assert read_policy(run.directory.best_file).state.training_return == 5.0
    again.report(*[6.0] * 300)
    assert again.written()[1].training_return == 6.0


def test_a_copy_of_an_agents_state_does_not_change_with_it() -> None:
    state: dict[str, Any] = {"a": torch.zeros(2, requires_grad=True), "b": [torch.ones(1), (2, "x")], "c": None}
    kept = copied(state)
    with torch.no_grad():
        state["a"] += 1
        state["b"][0] += 1
    assert kept["a"].tolist() == [0, 0]
    assert kept["b"][0].tolist() == [1]
    assert (kept["b"][1], kept["c"]) == ([2, "x"], None)


def policy(mean: float, returns: list[float] | None, count: int | None = 100, **changes: Any) -> PolicyState:
    """A best policy. returns: of the episodes before it; None for a file that does not have them."""
    window = WindowState(returns or [], [1] * len(returns or []))
    run = None if returns is None else RunState(5, 100, 0, 0, 0, window, 0, {}, NOTHING)
    return PolicyState(5, run=run, return_episodes=count, **({"training_return": mean} | changes))


def test_better_by_more_than_noise() -> None:
    """Deviations of 10 in both windows of 100: an error of √(1 + 1) = 1.414; four of them are 5.657."""
    noisy, last = [40.0, 60.0] * 50, [-10.0, 10.0] * 50
    assert pstdev(noisy) == pstdev(last) == 10
    assert is_better(policy(5.66, noisy), last)
    assert not is_better(policy(5.65, noisy), last)
    assert is_better(policy(18.4, noisy, 5), last)  # an evaluation of five episodes: √(20 + 1) = 4.583, times 4: 18.33
    assert not is_better(policy(18.3, noisy, 5), last)
    assert not is_better(policy(99.0, noisy, 4), last)  # so few show nothing
    assert not is_better(policy(5.65, None), last)  # as noisy as the last ones
    assert is_better(policy(5.66, None), last)
    evaluated = policy(0.0, noisy, 100, sampled_return=5.66)
    assert is_better(evaluated, last)
    assert is_better(policy(1e-9, [1e-9] * 100), [0.0] * 100)
    assert not is_better(policy(1.0, [1.0] * 100), [1.0] * 100)
    for unknown in (policy(9.0, noisy, None), policy(9.0, noisy, 0), PolicyState(5)):
        assert not is_better(unknown, last)
    assert not is_better(policy(9.0, noisy), [])


def test_two_lucky_episodes_of_ten_are_noise() -> None:
    """Training had no reward before. The ten episodes deviate by 0.4: an error of 0.4 / √10 = 0.126, four are 0.51."""
    lucky = PolicyState(5, sampled_return=0.2, return_episodes=10, return_deviation=0.4)
    assert not is_better(lucky, [0.0] * 97 + [1.0] * 3)
    assert is_better(replace(lucky, sampled_return=0.6), [0.0] * 97 + [1.0] * 3)


@pytest.fixture
def _toy(tmp_path: Path) -> Iterator[None]:
    with toy_installed(tmp_path / "toy"):
        yield


def train(folder: Path, **options: Any) -> Outcome:
    settings: dict[str, Any] = {"env": "cartpole", "runs_dir": folder, "overrides": ALONE, "serial": True, "seed": 3}
    return a3c_zoo.train(**(settings | options))


@pytest.mark.parametrize("agent", ["a3c", "a3c-data", "sb3-a2c"])
def test_a_serial_run_keeps_the_parameters_of_that_step(agent: str, tmp_path: Path) -> None:
    """The means are those of monitor.csv. A run that ends at this step has the same parameters."""
    overrides: dict[str, Any] = {"run.stop_when_solved": False}
    if agent != "sb3-a2c":
        overrides["optimizer.schedule_steps"] = 250_000  # not the budget, which is another one in the second run
    outcome = train(tmp_path, agent=agent, steps=6000, overrides=overrides)
    best = checkpoint(outcome.run, "best")
    session, rows = best["session"], episodes(outcome.run)
    before = [row["r"] for row in rows if row["step"] <= session["steps"]]
    assert session["training_return"] == pytest.approx(fmean(before[-100:]))
    assert session["return_episodes"] == min(100, len(before))
    assert session["run"]["episodes"] == len(before)
    means = [fmean(row["r"] for row in rows[max(0, end - 100) : end]) for end in range(20, len(rows) + 1)]
    assert session["training_return"] >= max(means) - 5  # at most ten episodes are between two looks
    told = outcome.best_return, outcome.best_step, outcome.best_by, outcome.best_episodes
    assert told == (session["training_return"], session["steps"], "training", session["return_episodes"])
    until = train(tmp_path, agent=agent, steps=session["steps"], overrides=overrides)
    assert until.steps == session["steps"]
    for one, other in zip(tensors(best["agent"]), tensors(checkpoint(until.run)["agent"]), strict=False):
        assert torch.equal(one, other)


def tensors(agent: dict[str, Any]) -> list[torch.Tensor]:
    """The parameters of an agent's state."""
    return [agent["model"]["parameters"]] if "model" in agent else [*agent["policy"].values()]


def test_a_resume_keeps_the_same_best_as_a_whole_run(tmp_path: Path) -> None:
    overrides = ALONE | {"run.checkpoint_every_steps": 1000, "run.keep_checkpoints": None, "schedule_steps": 6000}
    whole = train(tmp_path, overrides=overrides, steps=6000)
    half = train(tmp_path, overrides=overrides, steps=2500)
    a3c_zoo.train(resume=half.run, steps=6000)
    one, other = (checkpoint(each.run, "best") for each in (whole, half))
    assert one["session"]["steps"] == other["session"]["steps"] > 2500
    assert one["session"]["training_return"] == other["session"]["training_return"]
    assert torch.equal(one["agent"]["model"]["parameters"], other["agent"]["model"]["parameters"])


def test_a_resume_from_an_earlier_step_drops_a_later_best(tmp_path: Path) -> None:
    overrides = ALONE | {"run.checkpoint_every_steps": 1000, "run.keep_checkpoints": None}
    run = train(tmp_path, overrides=overrides, steps=6000).run
    directory, later = RunDirectory(run), (run / "checkpoints/best.pt").read_bytes()
    best_step = checkpoint(run, "best")["session"]["steps"]
    chosen = max(step for step in checkpoint_steps(directory) if step < best_step)
    resumed = a3c_zoo.train(resume=run, checkpoint=chosen, steps=chosen + 100)
    assert (run / "checkpoints/set-aside-1/best.pt").read_bytes() == later
    assert resumed.best_step is not None
    assert chosen < resumed.best_step <= resumed.steps


def test_going_on_from_the_best(tmp_path: Path) -> None:
    run = train(tmp_path, steps=6000).run
    best = checkpoint(run, "best")
    a3c_zoo.train(resume=run, checkpoint="best", steps=7000)
    first = checkpoint(run, str(best["session"]["steps"]))
    assert torch.equal(first["agent"]["model"]["parameters"], best["agent"]["model"]["parameters"])
    rows = episodes(run)
    assert len([row for row in rows if row["step"] <= best["session"]["steps"]]) == best["session"]["run"]["episodes"]
    assert checkpoint(run, "best")["session"]["training_return"] >= best["session"]["training_return"]


@pytest.fixture(scope="module")
def faded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that has lost what it could: `runs/faded`."""
    folder = tmp_path_factory.mktemp("faded")
    overrides = FADING | {"run.checkpoint_every_steps": 1000}
    a3c_zoo.train("gym:CartPole-v1", runs_dir=folder / "runs", name="faded", steps=40_000, seed=1, overrides=overrides)
    return folder


def test_all_commands_take_what_an_unsolved_run_recommends(
    faded: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    monkeypatch.chdir(faded)
    outcome = json.loads(Path("runs/faded/outcome.json").read_text())
    best, step = checkpoint(Path("runs/faded"), "best"), outcome["best_step"]
    assert (outcome["recommended"], best["session"]["steps"]) == ("best", step)
    assert outcome["best_return"] > 15 > 5 > outcome["mean_return_100"]
    line = f"faded: best policy, step {step:,}: mean return "
    commands: dict[str, list[str]] = {
        "evaluate": ["faded", "--episodes", "2", "--json"],
        "play": ["faded", "--video", "x.gif"],
        "export": ["faded", "--out", "x.onnx"],
        "push": ["faded", "a/b", "--dry-run", "look", "--no-film"],
    }
    told = {}
    for name, words in commands.items():
        assert command_line(name, *words) == 0, name
        told[name] = capsys.readouterr()
        assert told[name].err.startswith(line), name
    assert {"checkpoint": "best", "step": step}.items() <= json.loads(told["evaluate"].out).items()
    meta, sent = (json.loads(Path("look", name).read_text()) for name in ("meta.json", "outcome.json"))
    assert meta["checkpoint"].startswith(f"the best of {outcome['steps']:,} steps: mean return ")
    assert (sent["steps"], sent["evaluation_step"], sent["best_step"]) == (step, step, None)
    assert sent["episodes"] == best["session"]["run"]["episodes"]
    assert "| parameters | the best of " in Path("look/README.md").read_text()
    agent = a3c_zoo.load_agent("faded")
    assert (agent.checkpoint, agent.steps) == ("best", step)
    assert capsys.readouterr().err.startswith(line)
    sent_agent = a3c_zoo.load_agent("look", trust=True)
    assert capsys.readouterr().err == ""  # there is nothing to choose
    for loaded in (agent, sent_agent):
        network: Any = loaded.policy
        parameters = torch.cat([each.detach().flatten() for each in network.network.parameters()])
        assert torch.equal(parameters, best["agent"]["model"]["parameters"])
    alike = {"network.normalize_observations": False}
    run = a3c_zoo.train("gym:CartPole-v1", init_from="faded", steps=1, name="second", overrides=alike).run
    assert json.loads((run / "meta.json").read_text())["init_from"]["steps"] == step


def test_a_user_can_name_the_newest(faded: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.chdir(faded)
    newest = checkpoint_steps(RunDirectory(Path("runs/faded")))[-1]
    for which in ("final", str(newest)):
        assert command_line("evaluate", "faded", "--episodes", 1, "--json", "--checkpoint", which) == 0
        told = capsys.readouterr()
        assert {"checkpoint": which, "step": newest}.items() <= json.loads(told.out).items()
        assert told.err == ""


def test_the_last_lines_name_the_best(faded: Path, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    monkeypatch.chdir(faded)
    assert command_line("train", "--resume", "runs/faded", "--steps", 41_000) == 0
    lines = capsys.readouterr().out.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith("  best  "))
    # The best may come before a hundred episodes have ended.
    assert re.search(r"mean of (100|[2-9]\d) training episodes, at step ", lines[place])
    assert lines[place + 1] == "  watch it    a3c-zoo play runs/faded --checkpoint best"
    assert lines[place + 2].startswith("  next        a3c-zoo train --resume runs/faded --steps ")


def test_a_run_without_an_outcome_recommends_its_best(faded: Path, tmp_path: Path) -> None:
    """What is left of a run that was killed."""
    run = Path(shutil.copytree(faded / "runs/faded", tmp_path / "runs/killed"))
    (run / "outcome.json").unlink()
    assert recommended(Run(run)).which == "best"
    assert a3c_zoo.evaluate(run, runs_dir=tmp_path / "runs", episodes=1).episodes == 1


@pytest.mark.slow  # the one before is of such a run, without a kill
def test_a_run_that_was_killed_recommends_its_best(tmp_path: Path) -> None:
    words = ["train", "gym:CartPole-v1", "--name", "killed", "--seed", 1, "-o", "run.checkpoint_every_s=0.2"]
    words += [word for key, value in FADING.items() for word in ("-o", f"{key}={json.dumps(value)}")]
    words += ["-o", "run.steps=100000000"]
    run = tmp_path / "runs/killed"

    def has_faded() -> bool:
        rows = episodes(run) if (run / "checkpoints/best.pt").exists() else []
        saved = checkpoint_steps(RunDirectory(run)) if rows else [0]
        return len([row for row in rows if row["r"] < 10 and row["step"] < saved[-1]]) > 200

    with Running(*words, folder=tmp_path) as running:
        running.wait_until(has_faded)
        running.process.send_signal(signal.SIGKILL)
        running.exit_status()
        running.assert_nothing_left()
    choice = recommended(Run(run))
    assert choice.which == "best"
    assert a3c_zoo.evaluate(run, runs_dir=tmp_path / "runs", episodes=1).episodes == 1


def test_a_checked_run_recommends_its_last_parameters(tmp_path: Path, capsys: Captured) -> None:
    overrides = ALONE | {"run.evaluation_episodes": 5}
    outcome = train(tmp_path, overrides=overrides | {"run.stop_when_solved": True}, stop_return=12.0)
    assert (outcome.reason, outcome.recommended) == ("stop-return", "final")
    directory = Run(outcome.run)
    greater = read_policy(step_file(directory, outcome.steps))
    state = PolicyState(outcome.steps - 1, training_return=1e6, return_episodes=100)
    write_checkpoint(directory.best_file, greater.agent, state)
    assert recommended(directory) == Choice("final", f"newest checkpoint, step {outcome.steps:,}: {outcome.detail}")
    directory.outcome_file.unlink()
    assert recommended(Run(outcome.run)).which == "best"


def test_files_that_cannot_be_read_are_left_to_who_plays_the_newest(tmp_path: Path) -> None:
    outcome = train(tmp_path, steps=2000)
    directory = Run(outcome.run)
    directory.best_file.write_bytes(b"no checkpoint")
    assert choose(directory, "recommended").text == f"{outcome.run.name}: newest checkpoint, step {outcome.steps:,}"
    newest = read_policy(step_file(directory, outcome.steps))
    write_checkpoint(directory.best_file, newest.agent, PolicyState(outcome.steps))  # the same step
    assert choose(directory, "recommended").text == f"{outcome.run.name}: newest checkpoint, step {outcome.steps:,}"
    directory.best_file.unlink()
    assert choose(directory, "recommended").which == "final"
    for path in directory.checkpoints.glob("step-*.pt"):
        path.unlink()
    assert choose(directory, "recommended") == Choice("final")
    assert choose(directory, 7) == Choice("7")


@pytest.mark.usefixtures("_toy")
def test_a_run_with_an_evaluator_keeps_what_that_has_found(tmp_path: Path) -> None:
    overrides = {"run.evaluator_episodes": 5, "run.stop_when_solved": False, "env.evaluation_reward": 7.0}
    outcome = train(tmp_path, env="toy", steps=600, overrides=overrides | {"run.evaluation_every_steps": 150})
    told = outcome.best_by, outcome.best_return, outcome.best_episodes
    assert told == ("evaluation", 7.0, 5)
    assert outcome.recommended == "best"  # training episodes are worth 1, always
    session = checkpoint(outcome.run, "best")["session"]
    assert (session["training_return"], session["return_episodes"]) == (None, 5)
    plain = train(tmp_path, env="toy", steps=600, overrides=overrides)
    assert (plain.best_by, plain.best_return, plain.recommended) == ("training", 1.0, "final")


@pytest.mark.usefixtures("_toy")
def test_an_evaluator_replaces_the_best_of_training_by_a_greater_return_only(tmp_path: Path) -> None:
    options: dict[str, Any] = {"env": "toy", "steps": 600}
    for reward, kind in ((0.5, "training"), (1.5, "evaluation")):
        overrides = {"run.stop_when_solved": False, "env.evaluation_reward": reward}
        run = train(tmp_path, overrides=overrides, **options).run
        config = (run / "config.yml").read_text()
        (run / "config.yml").write_text(config.replace("evaluation_every_steps: null", "evaluation_every_steps: 100"))
        assert a3c_zoo.train(resume=run, steps=900).best_by == kind


def test_few_episodes_have_no_best(tmp_path: Path) -> None:
    outcome = train(tmp_path, episodes=15)
    assert outcome.episodes < 20
    assert outcome.best_return is None
    assert not (outcome.run / "checkpoints/best.pt").exists()


@pytest.mark.usefixtures("_toy")
def test_a_run_that_diverges_writes_its_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train(tmp_path, env="toy", steps=100, overrides=ALONE | {"env.unit_rewards": False}).run
    assert (run / "checkpoints/best.pt").exists()
    (run / "checkpoints/best.pt").unlink()
    poisoned(monkeypatch, None)
    with pytest.raises(DivergedError):
        a3c_zoo.train(resume=run, steps=1_000_000)
    best = read_policy(run / "checkpoints/best.pt").state
    assert best.run is not None
    assert best.steps > checkpoint_steps(RunDirectory(run))[-1]


def told(**options: Any) -> list[str]:
    listener = Listener()
    a3c_zoo.train("cartpole", serial=True, observer=listener, **options)
    return listener.messages


def test_the_start_says_which_budget_the_set_gives(tmp_path: Path) -> None:
    short: dict[str, Any] = {"runs_dir": tmp_path, "episodes": 1}
    line = "about 250,000 steps at most, the budget of cartpole/a3c.yml (--steps changes it)"
    assert told(**short)[0] == line
    assert told(**short, time_limit_s=5.0)[0] == line
    for given in ({"steps": 10}, {"overrides": "run.steps=10"}):
        assert not [text for text in told(**short | given) if "budget" in text]
    (tmp_path / "mine.yml").write_text("run: {steps: 300, time_limit_s: 90}\n")
    assert told(**short, hyperparams=tmp_path / "mine.yml")[0] == (
        f"about 300 steps at most, the budget of {tmp_path / 'mine.yml'} (--steps changes it); "
        f"about 90 s of training at most, the budget of {tmp_path / 'mine.yml'} (--time-limit changes it)"
    )


def test_a_schedule_that_ends_too_early_is_told(tmp_path: Path) -> None:
    short: dict[str, Any] = {"runs_dir": tmp_path, "stop_return": 0.0}
    zero = ["final_learning_rate=0", "schedule_steps=1000"]
    for overrides in (zero, [*zero, "run.steps=null"]):
        (line,) = [text for text in told(**short, overrides=overrides) if "schedule_steps" in text]
        assert line == (
            "optimizer.schedule_steps is 1,000: after so many steps the learning rate is 0, and nothing is learned. "
            "Leave it out, and give a budget: --steps N"
        )
    for overrides in (zero[1:], [*zero, "run.steps=1000"], [*zero, "schedule=constant"]):
        assert not [text for text in told(**short, overrides=overrides) if "schedule_steps" in text]
    ends_by_time = told(runs_dir=tmp_path, time_limit_s=1e-3, overrides=[*zero, "run.steps=null"])
    assert not [text for text in ends_by_time if "schedule_steps" in text]


@pytest.mark.parametrize("serial", [True, False])
def test_a_budget_shorter_than_a_rollout(serial: bool, tmp_path: Path) -> None:
    outcome = a3c_zoo.train("cartpole", steps=10, serial=serial, runs_dir=tmp_path)
    assert outcome.reason == "steps"
    assert 10 <= outcome.steps <= 2 * 16 * 5
