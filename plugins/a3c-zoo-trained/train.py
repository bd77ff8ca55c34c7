"""Trains agents of this distribution anew, and writes their folders and the table in README.md: `make trained`.

    python plugins/a3c-zoo-trained/train.py [--folder DIR] [NAME …]

It needs a3c-zoo with the extras `box2d` and `mujoco`, and the package `minigrid`. Without names it trains those that
take a minute at most. The others take up to ten minutes on an idle machine, BipedalWalker up to an hour, Breakout over
three hours: name them, and give a folder for their `runs`.

A run that is there is used if the same command made it: one that is called like the agent, or one that
benchmarks/zoo_table.py has made in `runs/zoo`. Agents with a row in the table of docs/benchmarks-rl-zoo.md come from
its runs: of three seeds that with the median return.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "src"))
from a3c_zoo_trained import zoo_trained  # noqa: E402

FOLDER = HERE / "src" / "a3c_zoo_trained"
README = HERE / "README.md"
BEGIN, END = "<!-- written by train.py -->\n", "<!-- end -->\n"
#: How a meta.json names the plugin of MiniGrid.
MINIGRID = "plugin 'minigrid' (a3c-zoo-minigrid 1.0.0)"


def of_table(env: str, seed: int, steps: int, hyperparams: str = "") -> tuple[str, ...]:
    """The arguments of a run of benchmarks/zoo_table.py."""
    chosen = ("--hyperparams", hyperparams) if hyperparams else ()
    budget = ("--seed", str(seed), "--steps", str(steps))
    return ("train", env, "--agent", "a3c", *budget, *chosen, "-o", "run.stop_when_solved=false")


#: The options of the runs in the table of ten games in docs/benchmarks-atari.md.
OF_TEN_GAMES = ("-o", "optimizer.schedule_steps=10000000", "-o", "run.evaluation_every_s=null")


def of_ten_games(game: str) -> tuple[str, ...]:
    """The command of a run of that table, up to 2.5 million steps."""
    return ("train", f"atari:{game}", "--seed", "1", "--steps", "2500000", *OF_TEN_GAMES)


def of_ten_games_before(game: str, *of_set: str) -> tuple[str, ...]:
    """The same as the first runs of that table had it."""
    return ("train", f"atari:{game}", *of_set, "--seed", "1", *OF_TEN_GAMES, "--steps", "2500000")


#: Name → the arguments of its training. The runs of Acrobot and LunarLander with the median return, of seed 1, are
#: not kept: these two have the lowest return of the three.
TRAININGS = {
    "cartpole-a3c": ("train", "cartpole", "--seed", "1"),
    "cartpole-nstep": ("train", "cartpole", "--agent", "nstep", "--seed", "1"),
    "cartpole-lstm": ("train", "cartpole", "--hyperparams", "a3c-lstm", "--seed", "1"),
    "acrobot-a3c": of_table("gym:Acrobot-v1", 2, 1_000_000),
    "mountain-car-a3c": of_table("gym:MountainCar-v0", 2, 1_000_000),
    "mountain-car-continuous-a3c": of_table("gym:MountainCarContinuous-v0", 2, 100_000, "a3c"),
    "pendulum-a3c": of_table("gym:Pendulum-v1", 1, 1_000_000, "a3c-continuous"),
    "lunar-lander-a3c": of_table("gym:LunarLander-v3", 2, 1_000_000),
    "lunar-lander-continuous-a3c": of_table("gym:LunarLanderContinuous-v3", 3, 1_000_000, "a3c"),
    "bipedal-walker-a3c": of_table("gym:BipedalWalker-v3", 1, 5_000_000, "a3c-continuous"),
    "hopper-a3c": of_table("gym:Hopper-v5", 3, 1_000_000, "a3c-continuous"),
    "half-cheetah-a3c": of_table("gym:HalfCheetah-v5", 2, 1_000_000, "a3c-continuous"),
    "walker2d-a3c": of_table("gym:Walker2d-v5", 2, 1_000_000, "a3c"),
    "ant-a3c": of_table("gym:Ant-v5", 2, 1_000_000, "a3c-continuous"),
    "swimmer-a3c": of_table("gym:Swimmer-v5", 2, 1_000_000, "a3c"),
    "door-key-a3c": of_table("minigrid:DoorKey-5x5", 1, 100_000),
    "key-corridor-a3c": of_table("minigrid:KeyCorridorS3R1", 3, 500_000),
    "unlock-a3c": of_table("minigrid:Unlock", 2, 100_000),
    "red-blue-doors-a3c": of_table("minigrid:RedBlueDoors-6x6", 1, 1_000_000),
    "pong-a3c": ("train", "pong", "--seed", "1"),
    "breakout-a3c": (
        *("train", "breakout", "--hyperparams", "a3c-ppo", "-o", "run.stop_when_solved=false"),
        *("--seed", "61", "--steps", "10000000", "-o", "network.name=nature", "-o", "env.num_envs=8"),
        *("-o", "agent.n_steps=128", "-o", "optimizer.learning_rate=2.5e-4"),
        *("-o", "optimizer.schedule_steps=10000000", "-o", "optimizer.max_grad_norm=0.5", "-o", "agent.epochs=4"),
    ),
    "space-invaders-a3c": of_ten_games("space_invaders"),
    "qbert-a3c": of_ten_games("qbert"),
    "seaquest-a3c": of_ten_games("seaquest"),
    "beam-rider-a3c": of_ten_games("beam_rider"),
    "enduro-a3c": of_ten_games_before("enduro", "--hyperparams", "a3c-ppo"),
    "ms-pacman-a3c": of_ten_games("ms_pacman"),
    "road-runner-a3c": of_ten_games("road_runner"),
    "asteroids-a3c": of_ten_games("asteroids"),
}
#: Those of a minute at most.
SHORT = (
    *("cartpole-a3c", "cartpole-nstep", "cartpole-lstm", "mountain-car-continuous-a3c"),
    *("door-key-a3c", "unlock-a3c"),
)


def install_minigrid(folder: Path) -> Path:
    """Installs plugins/a3c-zoo-minigrid into a folder of its own."""
    sys.path.insert(0, str(HERE.parents[1]))
    from benchmarks.gallery import install

    return install(["a3c-zoo-minigrid"], folder)


def run(module: str, *arguments: str, folder: Path, site: Path) -> None:
    """Runs a program of a3c-zoo. site: a folder with the distribution a3c-zoo-minigrid."""
    known = filter(None, [os.environ.get("PYTHONPATH")])
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([*known, str(site)])}
    print("$", shlex.join(["python", "-m", module, *arguments]), flush=True)
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=folder, env=environ, check=True)


def without_places(words: list[str]) -> list[str]:
    """A command without what is of its machine alone: the directory of all runs, and how it printed."""
    words = [word for word in words if word not in ("--quiet", "--json")]
    if "--runs-dir" in words:
        place = words.index("--runs-dir")
        del words[place : place + 2]
    return words


def trained_by(meta: dict[str, Any]) -> tuple[str, ...]:
    """The arguments of the training that a meta.json tells of, without the run's name."""
    words = without_places(meta["command"][1:])
    place = words.index("--name")
    del words[place : place + 2]
    return tuple(words)


def read(file: Path) -> dict[str, Any]:
    """What a JSON file holds."""
    content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return content


def find(name: str, runs: Path) -> Path | None:
    """The run of an agent, if it is there."""
    if (runs / name).exists():
        return runs / name
    ended = (outcome.parent for outcome in sorted(runs.glob("zoo/*/outcome.json")))
    return next((path for path in ended if trained_by(read(path / "meta.json")) == TRAININGS[name]), None)


def make(name: str, folder: Path, site: Path) -> None:
    """Trains one agent, unless its run is there, and writes its folder. folder: where `runs` lies."""
    path = find(name, folder / "runs")
    if path is None:
        run("a3c_zoo", *TRAININGS[name], "--name", name, "--quiet", folder=folder, site=site)
        path = folder / "runs" / name
    meta = read(path / "meta.json")
    if trained_by(meta) != TRAININGS[name]:
        sys.exit(f"{path} was made by another command: {shlex.join(meta['command'])}")
    with tempfile.TemporaryDirectory() as temporary:
        inside = Path(temporary)
        saved = inside / "saved" / name
        copied = shutil.copytree(path, inside / "runs" / name)
        (copied / "meta.json").write_text(json.dumps(for_all(meta)), encoding="utf-8")
        run("a3c_zoo.sharing.save_trained", name, str(saved), folder=inside, site=site)
        run("a3c_zoo", "plot", name, "--out", "curve.csv", folder=inside, site=site)
        (saved / "curve.csv").write_text(curve(inside / "curve.csv"), encoding="utf-8")
        made = FOLDER / name
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(saved, made)


def for_all(meta: dict[str, Any]) -> dict[str, Any]:
    """A meta.json as it holds on every machine.

    benchmarks/zoo_table.py loads the plugin of plugins/a3c-zoo-minigrid from its file, for all environments. Those who
    play the agent have it as a distribution.
    """
    plugins = {
        kind: MINIGRID if title == "plugin 'plugin' (plugin.py)" else title for kind, title in meta["plugins"].items()
    }
    command = [meta["command"][0], *without_places(meta["command"][1:])]
    return {**meta, "plugins": plugins, "plugin_files": [], "command": command}


def curve(plotted: Path) -> str:
    """The file of `a3c-zoo plot` without the columns that name the run: steps, and the mean return of 100 episodes."""
    with plotted.open(encoding="utf-8", newline="") as file:
        rows = [(row["steps"], row["return"]) for row in csv.DictReader(file)]
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows([("steps", "return"), *rows])
    return written.getvalue()


def cards() -> dict[str, dict[str, Any]]:
    """Name → what meta.json and outcome.json hold, of all that have a folder."""
    return {
        name: {
            key: value for file in ("meta.json", "outcome.json") for key, value in read(FOLDER / name / file).items()
        }
        for name in TRAININGS
        if (FOLDER / name).exists()
    }


def return_text(value: float) -> str:
    """A return for people to read: one decimal, or three digits if it is small."""
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"


def table() -> str:
    """The part of README.md on the agents, from their folders."""
    rows = ["| name | environment | agent | return of 100 episodes | steps | seconds |", f"|{' --- |' * 6}"]
    commands: list[str] = []
    then: list[str] = []
    machines: dict[str, None] = {}
    continued = {entry.name: entry.continued for entry in zoo_trained()}
    for name, card in cards().items():
        played = card["evaluation"]
        returns = f"{return_text(played['mean_return'])} ± {return_text(played['std_return'])}"
        spent = f"{card['steps']:,} | {card['training_s']:,.1f}"
        rows.append(f"| `{name}` | `{card['env']}` | `{card['agent']}` | {returns} | {spent} |")
        commands.append(f"    {shlex.join(['a3c-zoo', *TRAININGS[name]])}")
        then += [f"`{name}`: {continued[name]}", ""] if continued[name] else []
        software = ", ".join(f"{key} {card['versions'][key]}" for key in ("a3c-zoo", "torch", "gymnasium", "ale-py"))
        machines[f"{software}; {card['host']['cpu']}, {card['host']['cores']} cores"] = None
    return "\n".join(
        [*rows, "", "The commands that trained them:", "", *commands, "", *then, f"{'. '.join(machines)}.", ""]
    )


def main() -> None:
    """Trains the agents that are named, or all that take a minute at most."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where `runs` lies [a folder that is removed]")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TRAININGS)}")
    given = parser.parse_args()
    if unknown := set(given.names) - TRAININGS.keys():
        parser.error(f"no such name: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as temporary:
        site = install_minigrid(Path(temporary))
        for name in given.names or SHORT:
            make(name, (given.folder or Path(temporary)).resolve(), site)
    before, begin, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    README.write_text(before + begin + "\n" + table() + "\n" + END + rest.partition(END)[2], encoding="utf-8")


def generated() -> str:
    """That part as it stands in the file."""
    return README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip("\n") + "\n"


if __name__ == "__main__":
    main()
