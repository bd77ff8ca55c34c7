"""`a3c_zoo.train(EnvEntry(...))` and `train(function)`: from scripts, in processes, and in another program."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.spaces import Box, Discrete

import a3c_zoo
from a3c_zoo import EnvEntry
from a3c_zoo.errors import PluginError, ZooError
from a3c_zoo.learning.function_env import entry_of, make
from a3c_zoo.plugins.registry import get_registry
from tests.toys_runs import environ, episodes
from tests.waits import LIMIT_S

QUICK = {"run.stop_when_solved": False, "run.evaluation_episodes": 1}


class Open(CartPoleEnv):
    """Counts those that are open."""

    open = 0
    made = 0
    fails_at = 0
    fails_in_reset = False
    fails_to_close = False

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.is_open = True
        Open.made += 1
        if Open.made == Open.fails_at:
            raise RuntimeError("no port is free")
        Open.open += 1

    def reset(self, **kwargs: Any) -> Any:
        if Open.fails_in_reset:
            raise RuntimeError("no port is free")
        return super().reset(**kwargs)

    def step(self, action: Any) -> Any:
        if not self.is_open:
            raise RuntimeError("step() after close()")
        return super().step(action)

    def close(self) -> None:
        self.is_open = False
        Open.open -= 1
        if Open.fails_to_close:
            raise RuntimeError("the window is gone")


@pytest.mark.parametrize("fault", [{}, {"fails_in_reset": True}, {"fails_at": 5}, {"fails_to_close": True}])
def test_every_environment_that_is_made_is_closed(
    fault: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A simulator keeps its port, and its memory, until it is closed. In a notebook the process lives on."""
    for name, value in ({"open": 0, "made": 0} | fault).items():
        monkeypatch.setattr(Open, name, value)
    train = partial(a3c_zoo.train, Open, serial=True, steps=100, runs_dir=tmp_path, overrides=QUICK | {"num_envs": 4})
    if not fault or Open.fails_to_close:
        assert train().reason == "steps"
    else:
        with pytest.raises(Exception, match="no port is free"):
            train()
    assert Open.made > 2
    if not Open.fails_to_close:  # Gymnasium closes no more of its single environments then
        assert Open.open == 0


ENVIRONMENT = '''
import gymnasium
import numpy as np

class Coin(gymnasium.Env):
    """Episodes of one step, whose reward is the number of the action."""
    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, worth=1.0):
        self.worth = worth

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        return np.zeros(1, np.float32), self.worth * float(action), True, False, {}

def make_coin():
    return Coin(worth=2.0)

def make_many(num_envs, seed):
    return gymnasium.vector.SyncVectorEnv([Coin] * num_envs)
'''
PROGRAM = """
import sys
import a3c_zoo
START

if __name__ == "__main__":
    quick = {"run.stop_when_solved": False, "run.evaluation_every_s": 0.1, "run.evaluator_episodes": 1}
    outcome = a3c_zoo.train(ENV, steps=2000, workers=2, name="one", overrides=quick)
    action, _ = a3c_zoo.load_agent(outcome.run).predict([0.0], deterministic=True)
    print(outcome.reason, outcome.evaluator_fault, action)
"""
ANOTHER = """
import a3c_zoo, coins

if __name__ == "__main__":
    print(a3c_zoo.load_agent("one").env_name)
    try:
        a3c_zoo.load_agent("two")
    except a3c_zoo.ZooError as error:
        print(error)
    a3c_zoo.load_agent("two", env=coins.make_coin)
    print(a3c_zoo.train(coins.make_coin, resume="two", steps=3000).steps >= 3000)
"""


def run(
    folder: Path, *command: str, variables: Mapping[str, str] = MappingProxyType({}), **options: Any
) -> subprocess.CompletedProcess[str]:
    environment = environ()
    if "PYTHONPATH" in environment and "PYTHONPATH" in variables:
        variables = {**variables, "PYTHONPATH": f"{variables['PYTHONPATH']}:{environment['PYTHONPATH']}"}
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        **options,
    )


@pytest.mark.parametrize(
    ("start", "env"),
    [
        (ENVIRONMENT, "make_coin"),
        pytest.param("import coins", "coins.Coin", marks=pytest.mark.slow),
        pytest.param(ENVIRONMENT, "a3c_zoo.EnvEntry('coin', factory='__main__:make_many')", marks=pytest.mark.slow),
        pytest.param("", "a3c_zoo.EnvEntry('coin', factory='coins:make_many')", marks=pytest.mark.slow),
    ],
)
def test_a_program_trains_what_it_gives(start: str, env: str, tmp_path: Path) -> None:
    (tmp_path / "coins.py").write_text(ENVIRONMENT)
    (tmp_path / "program.py").write_text(PROGRAM.replace("START", start).replace("ENV", env))
    ended = run(tmp_path, "program.py")
    assert (ended.returncode, ended.stdout) == (0, "steps None 1\n"), ended.stderr


@pytest.mark.slow
def test_another_program_finds_it_by_its_module_or_gives_it_again(tmp_path: Path) -> None:
    (tmp_path / "coins.py").write_text(ENVIRONMENT)
    for name, start, env in (("one", "import coins", "coins.make_coin"), ("two", ENVIRONMENT, "make_coin")):
        program = PROGRAM.replace("START", start).replace("ENV", env).replace('"one"', f'"{name}"')
        (tmp_path / "program.py").write_text(program)
        ended = run(tmp_path, "program.py")
        assert ended.returncode == 0, ended.stderr
    (tmp_path / "another.py").write_text(ANOTHER)
    ended = run(tmp_path, "another.py")
    line = (
        "run {} trains 'make_coin', which a program gave to a3c_zoo.train. {} it again, from Python: "
        "train(env, resume=…) or load_agent(…, env=env); or offer it in a plugin file: --plugin FILE\n"
    )
    assert (ended.returncode, ended.stdout) == (0, f"make_coin\n{line.format('two', 'Give')}True\n"), ended.stderr
    evaluates = ("-P", "-m", "a3c_zoo", "evaluate", "--episodes", "3", "--deterministic", "--json")
    ended = run(tmp_path, *evaluates, "one")
    cure = "Name the folder of its module: PYTHONPATH=. a3c-zoo …. Or give"
    assert (ended.returncode, ended.stderr) == (2, f"Error: {line.format('one', cure)}")
    ended = run(tmp_path, *evaluates, "one", variables={"PYTHONPATH": "."})
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["mean_return"] == 2.0
    # A stranger's run names no module to import.
    meta = tmp_path / "runs/one/meta.json"
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "given_env": "evil:make"}))
    (tmp_path / "evil.py").write_text("print('imported')")
    (tmp_path / "runs").rename(tmp_path / "inbox")
    ended = run(tmp_path, *evaluates, "inbox/one", variables={"PYTHONPATH": "."})
    assert ended.returncode == 2
    assert "imported" not in ended.stdout + ended.stderr


#: A program that is no file, so that workers cannot import it: what it gives travels with its code.
NO_FILE = f"""{ENVIRONMENT}
import a3c_zoo

def trained(env, name, **how):
    quick = {{"run.stop_when_solved": False, "run.evaluation_every_s": 0.1, "run.evaluator_episodes": 1, **how}}
    outcome = a3c_zoo.train(env, steps=2000, workers=1, name=name, overrides=quick)
    figures = a3c_zoo.evaluate(outcome.run, episodes=3, deterministic=True)
    print(outcome.reason, outcome.evaluator_fault, figures.mean_return)
"""


def test_a_program_of_the_command_line_gives_an_environment(tmp_path: Path) -> None:
    ended = run(tmp_path, "-c", f"{NO_FILE}\ntrained(make_coin, 'one', **{{'run.start_method': 'spawn'}})")
    assert (ended.returncode, ended.stdout) == (0, "steps None 2.0\n"), ended.stderr


def test_a_program_from_standard_input_gives_an_environment_and_gives_it_anew(tmp_path: Path) -> None:
    """The second class of the name takes the place of the first, as if a notebook's cell had run again."""
    anew = "class Coin(Coin):\n    def __init__(self):\n        super().__init__(worth=5.0)\n"
    resumed = "print(a3c_zoo.train(Coin, resume='one', steps=3000).steps >= 3000)"
    lines = ["trained(Coin, 'one')", anew, "trained(Coin, 'two')", resumed, "trained(lambda: Coin(), 'three')"]
    ended = run(tmp_path, "-", input="\n".join([NO_FILE, *lines]))
    assert (ended.returncode, ended.stdout) == (
        0,
        "steps None 1.0\nsteps None 5.0\nTrue\nsteps None 5.0\n",
    ), ended.stderr
    assert "env_name: coin" in (tmp_path / "runs/two/config.yml").read_text()
    assert "env_name: lambda" in (tmp_path / "runs/three/config.yml").read_text()


def make_cart() -> CartPoleEnv:
    """An environment of these tests, which processes can import."""
    return CartPoleEnv()


def make_registered() -> Any:
    """One with a threshold."""
    return gymnasium.make("CartPole-v1")


def make_without_end() -> Any:
    """One whose threshold no return reaches."""
    env = make_registered()
    env.unwrapped.spec.reward_threshold = float("inf")
    return env


class Pictures(gymnasium.Env[Any, Any]):
    """Images as observations, and Box actions."""

    observation_space = Box(0, 255, (3, 40, 40), np.uint8)
    action_space = Box(-1, 1, (2,), np.float32)


class Arm(Pictures):
    """Box actions."""

    observation_space = Box(-1, 1, (3,), np.float32)


class Holder:
    """A class that holds another."""

    class Inner(Arm):
        """One level down; its name is that of the environment."""

        action_space = Discrete(2)  # type: ignore[assignment]


def test_the_entry_of_a_function() -> None:
    cart, registered = entry_of(make_cart), entry_of(make_registered)
    assert (cart.name, cart.family, cart.variant, cart.threshold) == ("make_cart", "gym", "", None)
    assert registered.threshold == 475.0
    assert entry_of(make_without_end).threshold is None
    assert [entry_of(each).variant for each in (Pictures, Arm, Holder.Inner)] == ["image", "continuous", ""]
    assert entry_of(Holder.Inner).name == "inner"
    assert [entry_of(type(name, (Arm,), {})).name for name in ("_Own", "Größe", "迷路")] == [
        "own",
        "gre",
        "environment",
    ]


def test_the_sets_of_gym_apply_and_the_registry_knows_it(tmp_path: Path) -> None:
    outcome = a3c_zoo.train(make_cart, serial=True, steps=200, overrides=QUICK, runs_dir=tmp_path)
    assert "reward_scale: auto" in (outcome.run / "config.yml").read_text()
    assert get_registry().envs["make_cart"].kwargs == {"function": f"{__name__}:make_cart"}
    again = a3c_zoo.train(make_cart, resume=outcome.run, steps=4000, runs_dir=tmp_path)
    assert again.steps >= 4000
    with pytest.raises(ZooError, match="trains 'make_cart', not 'cartpole'"):
        a3c_zoo.train("cartpole", resume=outcome.run, runs_dir=tmp_path)


def test_another_environment_than_the_runs_is_refused(tmp_path: Path) -> None:
    run = a3c_zoo.train("cartpole", serial=True, steps=50, overrides=QUICK, runs_dir=tmp_path).run
    for load in (a3c_zoo.load_agent, a3c_zoo.evaluate):
        with pytest.raises(ZooError, match=f"^run {run.name} trains 'cartpole', not 'make_cart'$"):
            load(run, env=make_cart)
    assert a3c_zoo.load_agent(run, env=get_registry().envs["cartpole"]).env_name == "cartpole"
    named = a3c_zoo.train(f"{__name__}:make_cart", serial=True, steps=50, overrides=QUICK, runs_dir=tmp_path).run
    assert a3c_zoo.load_agent(named, env=make_cart, trust=True).env_name == f"python:{__name__}:make_cart"
    with pytest.raises(ZooError, match="not 'make_cart'"):
        a3c_zoo.load_agent(named, env=partial(make_cart), trust=True)


def broken() -> Any:
    raise ValueError("no")


def leaves() -> Any:
    sys.exit(3)


def nothing() -> Any:
    return None


class NoSpaces(gymnasium.Env[Any, Any]):
    def reset(self, **kwargs: Any) -> Any:
        return 0, {}


class Sized(Arm):
    """A class that needs arguments."""

    def __init__(self, size: int, *parts: int, colour: str, shape: str = "round") -> None:
        pass


def unsendable() -> Any:
    """A function whose code holds what no other process can get."""
    lock = threading.Lock()

    def make() -> CartPoleEnv:
        with lock:
            return CartPoleEnv()

    return make


def cartpole() -> CartPoleEnv:
    return CartPoleEnv()


#: In the process that trains it works; the first solved check, in another, would fail. Its agent has no workers.
UNSENDABLE = EnvEntry(
    "maze", env_id="CartPole-v1", kwargs={"sutton_barto_reward": lambda: 1}, threshold=9.0, default_agent="random"
)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (UNSENDABLE, "a part of a plugin cannot be sent to a process: Can't pickle <function <lambda> at 0x"),
        (unsendable(), f"'{__name__}:unsendable.<locals>.make' cannot be sent to worker processes: TypeError: "),
        (CartPoleEnv().reset, f"'{CartPoleEnv.__module__}:CartPoleEnv.reset' must return a gymnasium.Env, not <class"),
        (5, "5 is no environment: give a name, an EnvEntry, or a function or class that makes a gymnasium.Env"),
        (Sized, "Sized needs arguments: give a function that makes it, such as lambda: Sized(size=…, colour=…)"),
        (Arm(), "<Arm instance> is a made environment, and each worker makes its own: give the class Arm, or a func"),
        (broken, f"the environment that '{__name__}:broken' makes cannot be made: ValueError: no (in test_given_"),
        (leaves, f"the environment that '{__name__}:leaves' makes cannot be made: SystemExit: 3 (in test_given_"),
        (NoSpaces, f"the spaces of '{__name__}:NoSpaces' cannot be read: AttributeError: 'NoSpaces' object has no "),
        (nothing, f"'{__name__}:nothing' must return a gymnasium.Env, not <class 'NoneType'>; for a VectorEnv: Env"),
        (cartpole, "plugin 'envs' (a3c-zoo "),
        (EnvEntry("cartpole", "m:f"), "plugin 'envs' (a3c-zoo "),
        (EnvEntry("a:b", "m:f"), "a3c_zoo.train was given the name 'a:b'; it may have a-z, 0-9,"),
        (EnvEntry("maze"), "a3c_zoo.train was given 'maze' with neither of factory and env_id; give exactly one"),
        (EnvEntry("maze", "m:f", revision=9), "a3c_zoo.train was given an EnvEntry of revision 9, but"),
        (EnvEntry("maze", 3), "a3c_zoo.train was given EnvEntry 'maze' with factory=3, which must be an"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_given(env: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ZooError) as caught:
        a3c_zoo.train(env, steps=100, runs_dir=tmp_path / "runs")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "runs").exists()


def make_with_length(length: float) -> CartPoleEnv:
    env = CartPoleEnv()
    env.length = length
    return env


@pytest.mark.parametrize("env", [lambda: CartPoleEnv(), partial(make_with_length, 0.7), unsendable()])
def test_in_turn_any_function_does(env: Any, tmp_path: Path) -> None:
    outcome = a3c_zoo.train(env, serial=True, steps=200, overrides=QUICK, runs_dir=tmp_path)
    agent = a3c_zoo.load_agent(outcome)
    assert agent.env_name in ("lambda", "make_with_length", "make")
    assert a3c_zoo.evaluate(agent, episodes=2).episodes == 2


class Pays(Arm):
    """Episodes of one step, with a reward that is given."""

    def __init__(self, reward: float = 1.0) -> None:
        self.reward = reward

    def reset(self, **kwargs: Any) -> Any:
        return np.zeros(3, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(3, np.float32), self.reward, True, False, {}


def mean_return(run: Path, runs_dir: Path, **options: Any) -> float | None:
    return a3c_zoo.evaluate(run, episodes=2, runs_dir=runs_dir, **options).mean_return


@pytest.fixture
def two_runs(tmp_path: Path) -> list[Path]:
    """Runs of two environments of one name. Neither can be imported."""
    quick: dict[str, Any] = {"serial": True, "steps": 20, "overrides": QUICK, "runs_dir": tmp_path}
    return [a3c_zoo.train(partial(Pays, reward), name=f"of{reward}", **quick).run for reward in (1, 100)]


def test_each_run_has_the_environment_that_it_was_given(two_runs: list[Path], tmp_path: Path) -> None:
    assert [mean_return(run, tmp_path) for run in two_runs] == [1, 100]
    assert a3c_zoo.evaluate(a3c_zoo.load_agent(two_runs[0]), episodes=2).mean_return == 1
    more = a3c_zoo.train(resume=two_runs[0], steps=2000, runs_dir=tmp_path)
    assert more.mean_return_100 == 1
    assert mean_return(two_runs[0], tmp_path, env=partial(Pays, 7)) == 7
    assert [mean_return(run, tmp_path) for run in two_runs] == [7, 100]


def test_a_run_whose_environment_is_not_known_is_refused(two_runs: list[Path], tmp_path: Path) -> None:
    """Another program has trained it. That this one has given another of the name does not help it."""
    of_another = two_runs[0].rename(tmp_path / "moved")
    cure = r"^run moved trains 'pays', which a program gave to a3c_zoo\.train\. Give it again, from Python: "
    for call in (a3c_zoo.load_agent, a3c_zoo.evaluate, lambda run, **how: a3c_zoo.train(resume=run, steps=200, **how)):
        with pytest.raises(PluginError, match=cure):
            call(of_another, runs_dir=tmp_path)
    assert mean_return(two_runs[1], tmp_path) == 100
    begun = a3c_zoo.train(
        partial(Pays, 5), init_from=of_another, serial=True, steps=20, overrides=QUICK, runs_dir=tmp_path
    )
    assert (begun.mean_return_100, mean_return(begun.run, tmp_path)) == (5, 5)
    assert mean_return(of_another, tmp_path, env=partial(Pays, 1)) == 1
    assert mean_return(of_another, tmp_path) == 1


def test_a_run_finds_its_class_by_the_module_whatever_else_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    code = "from tests.test_given_environments import Pays\nclass Twin(Pays):\n"
    code += "    def __init__(self):\n        super().__init__({})\n"
    runs = []
    for reward in (3, 4):
        (tmp_path / f"twins_{reward}.py").write_text(code.format(reward))
        twin = importlib.import_module(f"twins_{reward}").Twin
        outcome = a3c_zoo.train(twin, serial=True, steps=20, overrides=QUICK, runs_dir=tmp_path, name=f"twin{reward}")
        runs.append(outcome.run.rename(tmp_path / f"moved{reward}"))  # as if another program had trained it
    assert [mean_return(run, tmp_path) for run in runs] == [3, 4]


def test_a_run_outside_of_the_folder_of_runs_says_what_trusts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its class could be imported, but another folder may be a stranger's."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "twins_away.py").write_text(
        "from tests.test_given_environments import Pays\nclass Twin(Pays):\n    pass\n"
    )
    twin = importlib.import_module("twins_away").Twin
    quick: dict[str, Any] = {"serial": True, "steps": 20, "overrides": QUICK, "runs_dir": tmp_path}
    moved = a3c_zoo.train(twin, name="twin", **quick).run.rename(tmp_path / "moved")  # as if another had trained it
    why = rf"is not imported, because the run is not your own: {moved} lies outside of .*: --trust, or trust=True"
    with pytest.raises(PluginError, match=why):
        a3c_zoo.load_agent(moved, runs_dir=tmp_path / "elsewhere")
    a3c_zoo.load_agent(moved, runs_dir=tmp_path / "elsewhere", trust=True)


@pytest.mark.parametrize("options", [{"serial": True}, {"overrides": QUICK}])
def test_what_no_process_gets_need_not_be_sent(options: dict[str, Any], tmp_path: Path) -> None:
    assert a3c_zoo.train(UNSENDABLE, steps=1, runs_dir=tmp_path, **options).reason == "steps"


def test_an_entry_that_is_known_is_used_as_it_is(tmp_path: Path) -> None:
    entry = get_registry().envs["cartpole"]
    outcome = a3c_zoo.train(entry, serial=True, steps=100, overrides=QUICK, runs_dir=tmp_path)
    assert outcome.run.name.startswith("cartpole-")
    assert get_registry().owner(entry).name == "envs"
    with pytest.raises(PluginError, match=r"another environment 'pong'.*rename one"):
        a3c_zoo.load_agent(outcome.run, env=EnvEntry("pong", "m:f"), runs_dir=tmp_path)


class Grows(CartPoleEnv):
    """Pays the number of its steps: it keeps the list that it was given."""

    def __init__(self, taken: list[int]) -> None:
        super().__init__()
        self.taken = taken

    def step(self, action: Any) -> Any:
        observation, _, terminated, truncated, info = super().step(action)
        self.taken.append(1)
        return observation, float(len(self.taken)), terminated, truncated, info


def test_each_environment_has_arguments_of_its_own() -> None:
    env = make(3, 0, "tests.test_given_environments:Grows", taken=[])
    env.reset(seed=0)
    assert [env.step(np.zeros(3, np.int64))[1].tolist() for _ in range(2)] == [[1, 1, 1], [2, 2, 2]]
    env.close()


def test_wrappers_of_single_environments_fit(tmp_path: Path) -> None:
    wrappers = [{"gymnasium.wrappers:TimeLimit": {"max_episode_steps": 7}}]
    outcome = a3c_zoo.train(
        CartPoleEnv, serial=True, steps=200, runs_dir=tmp_path, overrides={"env.wrappers": wrappers}
    )
    assert max(row["l"] for row in episodes(outcome.run)) == 7
