"""`a3c_zoo.testing.check_env`: sound environments pass, and each way of breaking the contract is named."""

from __future__ import annotations

from typing import Any

import gymnasium
import pytest

from a3c_zoo import EnvEntry
from a3c_zoo.config import EnvConfig
from a3c_zoo.plugins.registry import load_registry
from a3c_zoo.records import RunContext
from a3c_zoo.testing import check_env
from a3c_zoo.testing.findings import Findings
from a3c_zoo.testing.short_run import ShortRun
from tests import walks

MODES = ("NextStep", "SameStep", "Disabled")


def entry(kind: str = "Walk", config: str = "a3c_zoo.config:EnvConfig", **kwargs: Any) -> EnvEntry:
    return EnvEntry("walk", "tests.walks:make", config=config, kwargs={"kind": kind, **kwargs})


def fault_of(entry: EnvEntry, **options: Any) -> str:
    with pytest.raises(AssertionError) as caught:
        check_env(entry, **options)
    message = str(caught.value)
    assert message.startswith(f"environment '{entry.name}'")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("name", ["cartpole", "gym:Acrobot-v1", "gym:FrozenLake-v1"])
def test_environments_pass(name: str) -> None:
    check_env(load_registry().env(name))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize("kind", ["Walk", "StatefulWalk", "Lives"])
def test_every_autoreset_mode_passes(kind: str, random_start: bool, mode: str) -> None:
    check_env(entry(kind, mode=mode, random_start=random_start), num_envs=(1, 2, 5), steps=100)


def test_an_environment_that_is_alike_with_two_seeds_passes() -> None:
    check_env(entry("TwoSides"), num_envs=(1,), steps=100)


def test_each_step_is_a_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow environment is not taken for one that hangs, even if a step takes seconds."""
    signs: list[None] = []
    monkeypatch.setattr(Findings, "give_sign", lambda self: signs.append(None))
    check_env(entry("Walk"), num_envs=(1,), steps=150)
    assert len(signs) >= 4 * 150  # several trajectories


def test_an_environment_whose_start_is_rarely_another_passes() -> None:
    check_env(entry("RareStart"), num_envs=(1, 3), steps=1000)


@pytest.mark.parametrize("mode", list(gymnasium.vector.AutoresetMode))
def test_gymnasiums_own_vector_environment_passes(mode: gymnasium.vector.AutoresetMode) -> None:
    check_env(EnvEntry("pole", "tests.test_conformance:make_poles", kwargs={"mode": mode}), steps=100)


def make_poles(num_envs: int, seed: int, mode: gymnasium.vector.AutoresetMode) -> Any:
    return gymnasium.vector.SyncVectorEnv([lambda: gymnasium.make("CartPole-v1")] * num_envs, autoreset_mode=mode)


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        ("NoMode", "does not say how it resets"),
        ("ForgottenBatch", "observation_space is Box(-3.0, 3.0, (1,), float32); batch_space("),
        ("Steering", "action space Box(0, 3, (1,), int64) is not supported"),
        ("Float64", "reset(seed=1) returned observations float64 [1, 1], where its spaces promise float32 [1, 1]"),
        ("UntoldLives", "episode_over() may only deny that a termination ended an episode"),
        ("Flat", "reset(seed=1) returned observations float32 [1], where its spaces promise float32 [1, 1]"),
        ("ListOfObservations", "reset(seed=1) returned observations list, where its spaces promise"),
        ("NotANumber", "step 1 returned observations that are not finite: [[nan]]"),
        ("OutOfBounds", "returned an observation outside of its space Box(-3.0, 3.0, (1,), float32): [4.]"),
        ("ColumnRewards", "step 0 returned rewards float32 [1, 1]; it must be an array of numbers, [1]"),
        ("InfiniteRewards", "returned rewards that are not finite: [inf]"),
        ("NumbersForFlags", "step 0 returned terminated int64 [1]; it must be an array of bool, [1]"),
        ("FourValues", "step() must return (observations, rewards, terminated, truncated, info)"),
        ("ObservationAlone", "reset(seed=1) must return (observations, info)"),
        ("Crash", "step() (step 0) raised RuntimeError: the floor gave way"),
        ("Endless", "no episode ended within 100 steps"),
        ("GlobalRandom", "take every random number from self.np_random"),
        ("LeftOver", "reset must forget everything"),
        ("SeedIgnored", "reset(seed=1) to reset(seed=11) give the same episodes: the seed is ignored"),
        ("OneStream", "num_envs=3: all environments play the same episodes"),
        ("ResetsAtOnce", "gave a reward, one step after the end of an episode: in autoreset mode NextStep"),
        ("ResetsAtOnceUnpaid", "the action after the end of an episode must be ignored"),
        ("StartsElsewhere", "where in autoreset mode NextStep a new episode begins, whose first observation is [0.]"),
        ("EndsTwice", "ended an episode, one step after another end: in autoreset mode NextStep this step only resets"),
        ("PaysForReset", "gave a reward, one step after the end of an episode"),
        ("HalfAState", "from the environment that get_state() was called on"),
        ("SharedState", "what get_state() returned changes while the environment goes on"),
        ("ArrayState", "get_state() must return a dict of tensors, numbers, strings and lists"),
        ("StateThatDraws", "get_state() changes what follows"),
        ("NoSetState", "it has get_state alone; an exact resume needs get_state and set_state"),
    ],
)
def test_a_broken_environment_is_caught(kind: str, fault: str) -> None:
    assert fault in fault_of(entry(kind), steps=100)


@pytest.mark.parametrize("mode", ["NextStep", "SameStep"])
def test_a_copy_that_starts_elsewhere_is_caught(mode: str) -> None:
    fault = fault_of(entry("StartsElsewhereButTheFirst", mode=mode), steps=100)
    assert "num_envs=3: an episode ended at step" in fault


@pytest.mark.parametrize("random_start", [False, True])
@pytest.mark.parametrize(
    ("kind", "mode", "fault"),
    [
        ("StaysAtTheEnd", "SameStep", "in autoreset mode SameStep"),
        ("NoFinals", "SameStep", "ended an episode in autoreset mode SameStep, but info['final_obs'] is None"),
        ("NoneForFinals", "SameStep", "info['final_obs'][0] is None, where an array [1] is expected"),
        ("WrongMask", "SameStep", "info['_final_obs'] is not terminated | truncated"),
        ("MaskIgnored", "Disabled", "changed environments outside of the mask"),
    ],
)
def test_a_broken_autoreset_is_caught(kind: str, mode: str, random_start: bool, fault: str) -> None:
    assert fault in fault_of(entry(kind, mode=mode, random_start=random_start), steps=100)


@pytest.mark.parametrize(
    ("broken", "fault"),
    [
        (EnvEntry("walk", "tests.walks:made"), "factory 'tests.walks:made' cannot be imported: PluginError"),
        (EnvEntry("walk", "no_such_module:make"), "cannot be imported: ModuleNotFoundError: No module named 'no_such"),
        (EnvEntry("walk", "tests.walks:__name__"), "factory 'tests.walks:__name__' is not callable"),
        (EnvEntry("walk", "tests.walks:make_too_many"), "must return a gymnasium.vector.VectorEnv of 1 environments"),
        (EnvEntry("walk"), "a3c-zoo refuses its entry: zoo_envs() offers 'walk' with neither of factory and env_id"),
        (EnvEntry("walk", env_id="NoSuchWalk-v0"), "NoSuchWalk"),
        (entry(config="tests.walks:NoConfig"), "config 'tests.walks:NoConfig' cannot be imported"),
        (entry(config="tests.walks:Walk"), "must be a subclass of a3c_zoo.config.EnvConfig"),
        (entry(config="tests.walks:UndescribedConfig"), "key 'random_start' of UndescribedConfig has no description"),
        (entry(config="tests.walks:RequiredConfig"), "key 'random_start' of RequiredConfig has no default"),
        (entry(config="tests.walks:WalkConfig", random_start=True), "kwargs has ['random_start'], which the config"),
        (entry(config="tests.walks:SeededConfig"), "its factory gets the argument 'seed' from a3c-zoo; rename the"),
        (entry(num_envs=3), "zoo_envs() offers 'walk' with 'num_envs' in kwargs, which a3c-zoo gives the factory"),
        (entry(config="tests.walks:WalkConfig", kind="NoMode"), "got an unexpected keyword argument 'random_start'"),
    ],
)
def test_a_broken_entry_is_caught(broken: EnvEntry, fault: str) -> None:
    assert fault in fault_of(broken)


def test_the_configuration_can_be_chosen() -> None:
    described = entry(config="tests.walks:WalkConfig")
    check_env(described, config=walks.WalkConfig(random_start=True), steps=100)
    assert "the config given is no WalkConfig" in fault_of(described, config=EnvConfig())


def test_a_short_run_has_all_that_an_agent_may_call() -> None:
    called = {name for name, member in vars(RunContext).items() if callable(member) and not name.startswith("_")}
    assert {"settle", "workers_ready"} <= called
    assert called <= set(dir(ShortRun))
