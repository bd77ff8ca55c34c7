"""From entries to vector environments, their seeds, and factories that break the contract."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import SyncVectorEnv

from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.config import EnvConfig, OptimizerConfig
from a3c_zoo.cures import install_extra
from a3c_zoo.errors import ConfigError, EnvironmentContractError, PluginError, ZooError
from a3c_zoo.learning.actions import Categorical
from a3c_zoo.learning.autoreset import autoreset_mode
from a3c_zoo.learning.environments import make_vector_env, missing_package
from a3c_zoo.learning.model import probe_spaces
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry
from a3c_zoo.seeds import SEED_ENV, SEED_SAMPLING, seed_for
from tests.toys import TINY, ToyVectorEnv, toy_config, toy_entry

BOX2D, MUJOCO = install_extra("box2d"), install_extra("mujoco")


class LeftRight(EnvConfig):
    """The `env` section of an environment with keys of its own."""

    action_start: int = 0
    mode: str = "NextStep"


class Draws(gymnasium.Wrapper[Any, Any, Any, Any]):
    def render(self) -> Any:
        return np.zeros((2, 2, 3), np.uint8)


class TestFactory:
    def test_arguments(self) -> None:
        env = make_vector_env(toy_entry(action_start=3), EnvConfig(), 4, 0)
        assert isinstance(env, ToyVectorEnv)
        assert env.num_envs == 4
        assert env.single_action_space.start == 3  # type: ignore[attr-defined]

    def test_the_configurations_keys_win_over_the_entrys(self) -> None:
        config = LeftRight(num_envs=99, action_start=7, mode="SameStep")
        env = make_vector_env(toy_entry(action_start=3), config, 2, 0)
        assert env.num_envs == 2  # num_envs is nobody's keyword argument
        assert env.single_action_space.start == 7  # type: ignore[attr-defined]
        assert autoreset_mode(env) == "SameStep"

    @pytest.mark.parametrize(
        ("factory", "found"),
        [("make_wrong_type", r"not <class 'tests\.toys\.ToyEnv'>"), ("make_too_many", "not 3 environments")],
    )
    def test_a_wrong_result_is_told(self, factory: str, found: str) -> None:
        expected = r"factory of environment 'toy' must return a gymnasium\.vector\.VectorEnv of 2 environments, "
        with pytest.raises(EnvironmentContractError, match=expected + found):
            make_vector_env(toy_entry(factory), EnvConfig(), 2, 0)

    def test_what_it_raises_is_told_in_one_line(self) -> None:
        expected = r"^environment 'toy' cannot be made: RuntimeError: the toy factory broke \(in toys\.py, line \d+\)"
        with pytest.raises(PluginError, match=expected) as caught:
            make_vector_env(toy_entry("make_raising"), EnvConfig(), 2, 0)
        assert isinstance(caught.value.__cause__, RuntimeError)  # for the traceback

    def test_an_import_string_that_leads_nowhere(self) -> None:
        with pytest.raises(PluginError, match="has no attribute 'make_nothing'") as caught:
            make_vector_env(toy_entry("make_nothing"), EnvConfig(), 2, 0)
        assert caught.value.__notes__ == ["(raised while environment 'toy' was made)"]


class TestRegisteredId:
    def test_the_module_before_the_colon_registers(self) -> None:
        env = make_vector_env(EnvEntry("toy", env_id="tests.toys:ToyScript-v0"), EnvConfig(), 3, 0)
        assert isinstance(env, SyncVectorEnv)
        assert env.num_envs == 3
        observation, _ = env.reset(seed=0)
        assert observation.tolist() == [[0, 0]] * 3
        # the script's first episode pays 1, then 2
        assert env.step(np.array([0, 1, 0]))[1].tolist() == [1, 1, 1]
        assert env.step(np.array([0, 1, 0]))[1].tolist() == [2, 2, 2]

    def test_keyword_arguments_reach_every_one(self) -> None:
        entry = EnvEntry("toy", env_id="tests.toys:ToyScript-v0", kwargs={"action_start": 3})
        env = make_vector_env(entry, EnvConfig(), 2, 0)
        assert env.single_action_space == gymnasium.spaces.Discrete(2, start=3)

    @pytest.mark.parametrize(("limit", "expected"), [(None, 500), (7, 7)])
    def test_a_native_vector_environment_keeps_the_registered_limit(self, limit: int | None, expected: int) -> None:
        entry = EnvEntry("poles", env_id="CartPole-v1", kwargs={"max_episode_steps": limit})
        env = make_vector_env(entry, EnvConfig(), 2, 0)
        assert isinstance(env, CartPoleVectorEnv)
        assert env.max_episode_steps == expected

    def test_ale_pys_own_vector_environment_is_another_task(self) -> None:
        """It scales frames to 84×84, and clips rewards to their sign."""
        env: Any = make_vector_env(EnvEntry("game", env_id="ale_py:ALE/MsPacman-v5"), EnvConfig(), 1, 0)
        assert isinstance(env, SyncVectorEnv)
        assert env.single_observation_space.shape == (210, 160, 3)
        env.reset(seed=0)
        assert max(env.step(env.action_space.sample())[1][0] for _ in range(200)) == 10  # points of a pill

    @pytest.mark.parametrize(("words", "cure"), [("Box2D is not", BOX2D), ("MuJoCo", MUJOCO)])
    def test_a_missing_package_is_one_line_with_its_cure(self, words: str, cure: str) -> None:
        error = missing_package(gymnasium.error.DependencyNotInstalled(f"{words} installed"))
        assert error == cure
        assert missing_package(RuntimeError(words)) is None

    @pytest.mark.parametrize(
        ("module", "cure"),
        [("mujoco", MUJOCO), ("Box2D.b2", BOX2D), ("mujoco_py", None), ("mujoco_reach", None)],
    )
    def test_another_module_that_is_missing_is_named(self, module: str, cure: str | None) -> None:
        found = missing_package(ModuleNotFoundError(f"No module named '{module}'", name=module))
        assert found == cure
        old = "No module named 'mujoco_py'. (HINT: install mujoco_py)"
        assert missing_package(gymnasium.error.DependencyNotInstalled(old)) == old

    @pytest.mark.filterwarnings("ignore:.*not in the possible render_modes")
    @pytest.mark.parametrize(
        ("house", "why"),
        [
            ("House", "it has no parameter render_mode"),
            ("DrawnHouse", r"its metadata\['render_modes'\] has no 'rgb_array'"),
            ("ShyHouse", r"its metadata\['render_modes'\] has no 'rgb_array'"),
            ("ShyHouseByClass", r"its metadata\['render_modes'\] has no 'rgb_array'"),
        ],
    )
    def test_one_that_cannot_be_drawn(self, house: str, why: str) -> None:
        entry = EnvEntry("toy", env_id=f"tests.toys_checks:{house}-v0")
        with pytest.raises(ZooError, match=rf"^environment 'toy' cannot be drawn: {why}") as caught:
            make_vector_env(entry, EnvConfig(), 1, 0, "rgb_array")
        assert type(caught.value) is ZooError  # and no fault of the plugin
        make_vector_env(entry, EnvConfig(), 1, 0).close()

    @pytest.mark.filterwarnings("ignore:.*not in the possible render_modes")
    def test_without_gymnasiums_checker_the_render_modes_do_not_matter(self) -> None:
        entry = EnvEntry("toy", env_id="tests.toys_checks:UncheckedHouse-v0")
        env: Any = make_vector_env(entry, EnvConfig(), 1, 0, "rgb_array")
        env.reset(seed=0)
        assert env.envs[0].render().shape == (4, 4, 3)

    @pytest.mark.filterwarnings("ignore:.*not in the possible render_modes")
    def test_a_wrapper_may_draw_what_the_environment_does_not(self) -> None:
        entry = EnvEntry("toy", env_id="tests.toys_checks:DrawnHouse-v0")
        config = EnvConfig(wrappers=[f"{__name__}:Draws"])
        env: Any = make_vector_env(entry, config, 1, 0, "rgb_array")
        assert env.envs[0].render().shape == (2, 2, 3)

    def test_an_unknown_id_names_the_environment(self) -> None:
        with pytest.raises(PluginError, match=r"^environment 'toy' cannot be made: .*NoSuchThing") as caught:
            make_vector_env(EnvEntry("toy", env_id="NoSuchThing-v7"), EnvConfig(), 1, 0)
        assert str(caught.value).endswith(
            '. If a module registers it: EnvEntry(env_id="MODULE:NoSuchThing-v7"). Its traceback: --debug'
        )
        for named in (
            "tests.toys_checks:NoSuchThing-v7",
            "CartPole-v99",
        ):  # the module is named, or the version is not there
            with pytest.raises(PluginError) as caught:
                make_vector_env(EnvEntry("toy", env_id=named), EnvConfig(), 1, 0)
            assert "MODULE" not in str(caught.value)

    def test_a_module_that_is_missing(self) -> None:
        with pytest.raises(PluginError, match=r"^environment 'toy' cannot be made: .*no_such_module_here"):
            make_vector_env(EnvEntry("toy", env_id="no_such_module_here:X-v0"), EnvConfig(), 1, 0)


class TestSeeds:
    def test_paths_and_roots_differ(self) -> None:
        paths: list[tuple[int, ...]] = [
            path for length in (1, 2, 3) for path in itertools.product(range(4), repeat=length)
        ]
        seeds = [seed_for(root, *path) for root in (0, 1, 2, 2**32, 2**62) for path in paths]
        assert len(set(seeds)) == len(seeds)

    def test_the_same_every_time_and_within_what_environments_take(self) -> None:
        assert seed_for(3, SEED_ENV, 1) == seed_for(3, SEED_ENV, 1)
        assert all(0 <= seed_for(root, SEED_SAMPLING) < 2**31 for root in range(200))

    def test_workers_see_other_episodes(self) -> None:
        entry = EnvEntry("cartpole", env_id="CartPole-v1")
        starts = []
        for rank in range(2):
            seed = seed_for(0, SEED_ENV, rank)
            starts += make_vector_env(entry, EnvConfig(), 2, seed).reset(seed=seed)[0].tolist()
        assert len({tuple(start) for start in starts}) == 4


class TestProbe:
    def probe(self, entry: EnvEntry, network: NetworkEntry = TINY, supported: tuple[str, ...] = ("Discrete",)) -> Any:
        return probe_spaces(entry, network, toy_config(A3CConfig(), OptimizerConfig()), supported)

    def test_spaces(self) -> None:
        spaces = self.probe(toy_entry(action_start=3))
        assert (spaces.observations.kind, spaces.observations.shape) == ("vector", (2,))
        assert spaces.actions == Categorical(2, 3)

    def test_an_action_space_that_the_agent_cannot_act_in(self) -> None:
        with pytest.raises(ConfigError, match=r"'a3c' acts in Discrete .*'pendulum' has Box"):
            self.probe(EnvEntry("pendulum", env_id="Pendulum-v1"))

    def test_observations_that_the_network_does_not_take(self) -> None:
        network = NetworkEntry("atari", "tests.toys:build_tiny", inputs=("image",))
        with pytest.raises(ConfigError, match=r"'atari' takes image .*'toy' offers Box"):
            self.probe(toy_entry(), network)

    def test_the_probe_is_closed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        closed: list[ToyVectorEnv] = []
        monkeypatch.setattr(ToyVectorEnv, "close_extras", lambda self, **kwargs: closed.append(self))
        self.probe(toy_entry())
        with pytest.raises(ConfigError):
            self.probe(toy_entry(), supported=("Box",))
        assert [env.num_envs for env in closed] == [1, 1]
