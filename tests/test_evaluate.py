"""Evaluations: who is counted, with which seeds, with which actions; held against numbers worked out by hand."""

from __future__ import annotations

import io
import itertools
import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import a3c_zoo
from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import EnvironmentContractError, RunDirectoryError, ZooError
from a3c_zoo.plugins.entries import EnvEntry
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs import api
from a3c_zoo.runs.episodes import EpisodesToPlay, play_episodes
from a3c_zoo.runs.evaluation import evaluate_policy
from a3c_zoo.runs.signals import StopEvaluationError
from a3c_zoo.seeds import CHECK_EVALUATIONS
from a3c_zoo.store.checkpoints import checkpoint_steps
from a3c_zoo.store.directory import RunDirectory
from a3c_zoo.store.recommended import Choice, held
from a3c_zoo.store.run import Run
from tests.toys import MODES, SCRIPT, Script, ToyVectorEnv
from tests.toys_runs import command_line, scenes_of

SHORT: Script = (((1.0,), "terminated"),)
LONG: Script = (((1.0,) * 10, "truncated"),)


class FirstAction:
    """Always the first action; remembers what it was shown."""

    def __init__(self) -> None:
        self.starts: list[list[bool]] = []

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[np.ndarray, Any]:
        self.starts.append(episode_start.tolist())
        return np.zeros(len(observation), np.int64), state


def play(policy: FirstAction | None = None, episodes: int = 10, num_envs: int = 2, **kwargs: Any) -> Any:
    entry = EnvEntry("toy", "tests.toys:make", kwargs=kwargs)
    to_play = EpisodesToPlay(entry, EnvConfig(), episodes, seed=0, number=CHECK_EVALUATIONS, num_envs=num_envs)
    return evaluate_policy(policy or FirstAction(), to_play).evaluation()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("episodes", "num_envs", "returns"),
    [
        (10, 2, [1] * 5 + [10] * 5),  # the first ten to finish would be nine short ones and one long: mean 1.9
        (7, 2, [1] * 4 + [10] * 3),
        (1, 2, [1]),
        (3, 20, [1, 10, 1]),  # no more environments than episodes
    ],
)
def test_every_environment_plays_its_quota(mode: str, episodes: int, num_envs: int, returns: list[int]) -> None:
    result = play(episodes=episodes, num_envs=num_envs, scripts=[SHORT, LONG], mode=mode)
    assert result.episodes == episodes
    assert result.mean_return == result.mean_length == pytest.approx(np.mean(returns))
    assert result.std_return == pytest.approx(np.std(returns))
    assert (result.min_return, result.max_return) == (min(returns), max(returns))


@pytest.mark.parametrize("mode", MODES)
def test_returns_and_lengths_of_a_script(mode: str) -> None:
    """The step that NEXT_STEP ignores counts for nothing, whatever its reward."""
    result = play(episodes=3, num_envs=1, scripts=[SCRIPT], mode=mode, ignored_reward=100.0)
    assert result.mean_return == pytest.approx((3 + 3 + 15) / 3)
    assert result.mean_length == pytest.approx((2 + 1 + 3) / 3)


@pytest.mark.parametrize("mode", MODES)
def test_ends_that_are_told_by_numbers(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some environments say 0 and 1, which training takes for False and True."""
    monkeypatch.setattr(ToyVectorEnv, "step", told_by_numbers(ToyVectorEnv.step))
    result = play(episodes=6, num_envs=2, scripts=[SHORT, LONG], mode=mode)
    assert result.mean_return == result.mean_length == (1 + 10) / 2


def test_environments_that_fail_to_close_lose_no_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    def close(env: ToyVectorEnv, **options: Any) -> None:
        raise OSError("the door is stuck")

    monkeypatch.setattr(ToyVectorEnv, "close_extras", close)
    assert play(episodes=3, num_envs=1, scripts=[SHORT]).episodes == 3


def told_by_numbers(step: Callable[..., Any]) -> Callable[..., Any]:
    def stepped(*arguments: Any) -> Any:
        observation, reward, terminated, truncated, info = step(*arguments)
        return observation, reward, terminated.astype(np.int8), truncated.astype(np.int8), info

    return stepped


@pytest.mark.parametrize(
    ("mode", "starts"),
    [
        # Two steps, then one, then three; an ignored step after each end in NEXT_STEP.
        ("NextStep", [True, False, False, True, False, True, False, False]),
        ("SameStep", [True, False, True, True, False, False]),
        ("Disabled", [True, False, True, True, False, False]),
    ],
)
def test_a_policy_is_told_where_episodes_start(mode: str, starts: list[bool]) -> None:
    policy = FirstAction()
    play(policy, episodes=3, num_envs=1, scripts=[SCRIPT], mode=mode)
    assert [each[0] for each in policy.starts] == starts


def test_an_evaluation_can_be_stopped() -> None:
    def stop(played: int) -> None:
        if played >= 4:
            raise StopEvaluationError

    entry = EnvEntry("toy", "tests.toys:make", kwargs={"scripts": [SHORT]})
    with pytest.raises(StopEvaluationError):
        evaluate_policy(FirstAction(), EpisodesToPlay(entry, EnvConfig(), 10, 0, 0, num_envs=2), on_step=stop)


@pytest.mark.parametrize(
    ("fault", "what"), [("nan", "an observation"), ("inf", "an observation"), ("reward-nan", "a reward")]
)
def test_what_is_not_finite_ends_it(fault: str, what: str) -> None:
    entry = EnvEntry("toy", "tests.toys:make_faulty", kwargs={"scripts": [SHORT], "fault": fault, "after": 3})
    with pytest.raises(EnvironmentContractError, match=f"environment 'toy' returned {what} that is not finite"):
        evaluate_policy(FirstAction(), EpisodesToPlay(entry, EnvConfig(), 10, 0, 0, num_envs=2))


@pytest.mark.parametrize(("fault", "method"), [("raise", "step"), ("reset-raise", "reset")])
def test_an_error_of_an_environment_names_it(fault: str, method: str) -> None:
    entry = EnvEntry("toy", "tests.toys:make_faulty", kwargs={"scripts": [SHORT], "fault": fault})
    with pytest.raises(RuntimeError, match="the toy broke") as caught:
        evaluate_policy(FirstAction(), EpisodesToPlay(entry, EnvConfig(), 10, 0, 0, num_envs=2))
    assert caught.value.__notes__ == [f"(raised in {method}() of environment 'toy')"]


def test_an_observation_of_a_wrong_shape_ends_it() -> None:
    entry = EnvEntry("house", "tests.toys_checks:make_house", kwargs={"fault": "wide"})
    with pytest.raises(EnvironmentContractError, match=r"^environment 'house' returned a wrong observation at 'room'"):
        evaluate_policy(FirstAction(), EpisodesToPlay(entry, EnvConfig(), 2, 0, 0, num_envs=2))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", [0, 1, 2, 4])  # the first reset, steps, and the first observation of a later episode
@pytest.mark.parametrize("place", [lambda bad: bad, lambda bad: {"a": (np.zeros(1), bad)}], ids=["array", "parts"])
def test_every_part_of_every_observation_is_finite(place: Callable[[Any], Any], call: int, mode: str) -> None:
    env = ToyVectorEnv(1, scripts=[SHORT], mode=mode)
    calls, shown = itertools.count(), []

    def spoiled(method: Callable[..., Any]) -> Callable[..., Any]:
        def called(*arguments: Any, **options: Any) -> Any:
            observation, *others = method(*arguments, **options)
            return place(observation * np.nan if next(calls) == call else observation), *others

        return called

    class Policy(FirstAction):
        def predict(self, observation: Any, state: Any = None, *others: Any) -> tuple[np.ndarray, Any]:
            shown.append(observation)
            return np.zeros(1, np.int64), state

    env.reset, env.step = spoiled(env.reset), spoiled(env.step)  # type: ignore[method-assign]
    to_play = EpisodesToPlay(EnvEntry("toy", "tests.toys:make"), EnvConfig(), 5, 0, 0)
    with pytest.raises(EnvironmentContractError, match="environment 'toy' returned an observation that is not finite"):
        list(play_episodes(Policy(), env, to_play, deterministic=True))
    assert len(shown) <= call
    assert "nan" not in str(shown)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run with checkpoints at several steps."""
    folder = tmp_path_factory.mktemp("evaluate")
    first = a3c_zoo.train("cartpole", serial=True, steps=500, name="trained", runs_dir=folder)
    a3c_zoo.train(resume=first.run, steps=8000)
    return first.run


def steps_of(run: Path) -> list[int]:
    return checkpoint_steps(RunDirectory(run))[1:]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_said_of_a_name_comes_before_the_bar(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(run, tmp_path / "solved")
    outcome = tmp_path / "solved/outcome.json"
    outcome.write_text(json.dumps(json.loads(outcome.read_text()) | {"solved": True}))
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("COLUMNS", "40")
    assert command_line("evaluate", "cartpole", "--runs-dir", tmp_path, "--episodes", 2) == 0
    told, _, bar = shown.getvalue().partition("\n")
    assert told == f"cartpole: {tmp_path / 'solved'}, the newest run that solved it"
    assert "episodes" in bar
    assert "100%" in bar
    chosen, _, bar = bar.partition("\n")
    assert chosen.startswith("solved: newest checkpoint, step ")
    assert max(map(len, click.unstyle(bar).replace("\n", "\r").split("\r"))) <= 40
    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    assert command_line("evaluate", run, "--checkpoint", 7) == 2
    assert click.unstyle(shown.getvalue()).startswith(f"Error: run {run.name} has no checkpoint '7'")
    with pytest.raises(RunDirectoryError, match=r"has no checkpoint '99"):
        api.evaluate(run, checkpoint="9" * 5000)  # more digits than Python makes a number of


def test_the_same_seed_plays_the_same_episodes(run: Path) -> None:
    figures = [
        (result.mean_return, result.std_return, result.mean_length)
        for result in (
            api.evaluate(run, episodes=10),
            api.evaluate(run, episodes=10, checkpoint=str(steps_of(run)[-1])),
            api.evaluate(run, episodes=10, seed=1),
            api.evaluate(run, episodes=10, checkpoint=str(steps_of(run)[0])),
            api.evaluate(run, episodes=10, deterministic=True),
        )
    ]
    assert figures[0] == figures[1]
    assert len(set(figures)) == 4
    assert all(mean == length for mean, _, length in figures)  # of CartPole
    assert figures[3][0] < figures[0][0]  # it has learned something


def test_the_seed_is_that_of_sampled_actions_too(run: Path) -> None:
    """Episodes of an environment whose start is not random would all be the same."""

    def actions(seed: int | None) -> list[int]:
        policy, _ = api.load_from(Run(run), steps_of(run)[0], seed=seed)
        return [int(policy.predict(np.zeros(4, np.float32))[0]) for _ in range(30)]

    assert actions(1) == actions(1) != actions(2)
    assert actions(None) == actions(Run(run).config(get_registry()).run.seed)


def test_numbers_of_numpy_and_no_others(run: Path) -> None:
    given: Any = {"seed": np.int64(3), "episodes": np.int32(2)}
    assert a3c_zoo.evaluate(run, **given).mean_return == a3c_zoo.evaluate(run, seed=3, episodes=2).mean_return
    wrong: Any
    for wrong in ({"episodes": 2.5}, {"seed": "3"}):
        with pytest.raises(ZooError, match=r"^episodes and seed must be whole numbers"):
            a3c_zoo.evaluate(run, **wrong)


def test_the_newest_checkpoint_of_a_run_that_still_trains_is_named_by_its_steps(run: Path) -> None:
    """It would be another one when the evaluation has ended."""
    newest = str(steps_of(run)[-1])
    assert held(Run(run), Choice("final", "why")) == Choice("final", "why")
    living = Run(run)
    living.__dict__["is_alive"] = True
    assert held(living, Choice("final", "why")) == Choice(newest, "why")
    assert held(living, Choice("best")) == Choice("best")


def test_the_command(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line("evaluate", run.name, "--runs-dir", run.parent, "--episodes", 5, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["episodes"] == 5
    assert not result["deterministic"]
    told = {"run": str(run), "env": "cartpole", "agent": "a3c", "seed": 0, "checkpoint": "final"}
    assert told.items() <= result.items()
    assert command_line("evaluate", run, "--episodes", 5, "--deterministic", "--checkpoint", steps_of(run)[0]) == 0
    out = capsys.readouterr().out
    assert "played   5 episodes with greedy actions in" in out
    assert "return  " in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--checkpoint", "123"], "has no checkpoint '123'; it has: final, "),
        (["--episodes", "0"], "Invalid value for '--episodes'"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
    ],
)
def test_what_the_command_refuses(
    arguments: list[str], message: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line("evaluate", run, *arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_an_unknown_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line("evaluate", "trainde", "--runs-dir", run.parent) == 2
    assert "Did you mean 'trained'?" in capsys.readouterr().err


def test_predict(run: Path) -> None:
    policy = a3c_zoo.load_agent(run)
    single, state = policy.predict(np.zeros(4, np.float32))
    assert np.shape(single) == ()
    assert single.dtype == np.int64
    assert state is None
    batch = np.random.default_rng(0).normal(size=(50, 4))  # of another dtype
    actions, _ = policy.predict(batch.tolist())
    assert actions.shape == (50,)
    greedy = [policy.predict(batch, deterministic=True)[0].tolist() for _ in range(2)]
    assert greedy[0] == greedy[1] == [int(policy.predict(row, deterministic=True)[0]) for row in batch]
    middling = np.zeros((400, 4), np.float32)  # nothing to choose between: a sampled policy does both
    assert set(a3c_zoo.load_agent(run, checkpoint=str(steps_of(run)[0])).predict(middling)[0].tolist()) == {0, 1}
    for wrong in (np.zeros(3), np.zeros((2, 5)), np.zeros((2, 2, 4)), 1.0):
        with pytest.raises(ValueError, match=r"an observation has shape \[4\]"):
            policy.predict(wrong)


def test_a_checkpoint_is_named_by_its_number_of_steps(run: Path) -> None:
    step = steps_of(run)[1]
    assert a3c_zoo.load_agent(run, checkpoint=step).steps == a3c_zoo.load_agent(run, checkpoint=str(step)).steps == step
    by_number, by_text = (a3c_zoo.evaluate(run, checkpoint=which, episodes=2) for which in (step, str(step)))
    assert by_number.mean_return == by_text.mean_return


@pytest.mark.parametrize(
    ("given", "message"),
    [({"episodes": 0}, "--episodes 0: give 1 or more"), ({"seed": -1}, "--seed -1: give a number from 0 ")],
)
def test_numbers_that_are_too_small(given: dict[str, Any], message: str, run: Path) -> None:
    with pytest.raises(ZooError, match=f"^{message}"):
        a3c_zoo.evaluate(run, **given)
    with pytest.raises(ZooError, match=f"^{message}"):
        next(scenes_of(run, **given))


@pytest.mark.parametrize("checkpoint", ["9", 9])
def test_load_agent_refuses(checkpoint: str | int, run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match="has no checkpoint '9'"):
        a3c_zoo.load_agent(run, checkpoint=checkpoint)
    with pytest.raises(RunDirectoryError, match="'x' is no run "):
        a3c_zoo.load_agent("x", runs_dir=tmp_path)
