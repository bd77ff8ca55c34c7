"""Trains agents of this distribution anew, and writes their folders and the table in README.md: `make trained`.

    python plugins/a3c-zoo-trained/train.py [--folder DIR] [NAME …]

It needs a3c-zoo with the extra `box2d`. Without names it trains those that take two minutes at most. A game of
Atari takes up to ten minutes on an idle machine, Breakout over three hours: name it, and give a folder for its
`runs`. A run that is there is used if the same command made it.
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

#: Name → the arguments of its training.
SHORT = {
    "cartpole-a3c": ("train", "cartpole", "--seed", "1"),
    "cartpole-nstep": ("train", "cartpole", "--agent", "nstep", "--seed", "1"),
    "cartpole-lstm": ("train", "cartpole", "--hyperparams", "a3c-lstm", "--seed", "1"),
    "acrobot-a3c": ("train", "gym:Acrobot-v1", "--seed", "1"),
    "lunar-lander-a3c": ("train", "gym:LunarLander-v3", "--seed", "1", "--steps", "3000000"),
    "pendulum-a3c": ("train", "gym:Pendulum-v1", "--seed", "101", "--steps", "2000000"),
}
LONG = {
    "pong-a3c": ("train", "pong", "--seed", "1"),
    "breakout-a3c": (
        *("train", "breakout", "--hyperparams", "a3c-ppo", "-o", "run.stop_when_solved=false"),
        *("--seed", "61", "--steps", "10000000", "-o", "network.name=nature", "-o", "env.num_envs=8"),
        *("-o", "agent.n_steps=128", "-o", "optimizer.learning_rate=2.5e-4"),
        *("-o", "optimizer.schedule_steps=10000000", "-o", "optimizer.max_grad_norm=0.5", "-o", "agent.epochs=4"),
    ),
    **{
        f"{game.replace('_', '-')}-a3c": ("train", f"atari:{game}", "--seed", "1", "--steps", "500000")
        for game in ("space_invaders", "qbert", "seaquest", "beam_rider", "enduro", "ms_pacman")
    },
}
TRAININGS = SHORT | LONG


def run(module: str, *arguments: str, folder: Path) -> None:
    """Runs a program of a3c-zoo."""
    environ = {**os.environ, "PYTHONPATH": str(HERE / "src")}
    print("$", shlex.join(["python", "-m", module, *arguments]), flush=True)
    subprocess.run([sys.executable, "-m", module, *arguments], cwd=folder, env=environ, check=True)


def trained_by(meta: dict[str, Any]) -> tuple[str, ...]:
    """The arguments of the training that a meta.json tells of, without the run's name and `--quiet`."""
    words = [word for word in meta["command"][1:] if word != "--quiet"]
    del words[(place := words.index("--name")) : place + 2]
    return tuple(words)


def make(name: str, folder: Path) -> None:
    """Trains one agent, unless its run is there, and writes its folder. folder: where `runs` lies."""
    made, path = FOLDER / name, folder / "runs" / name
    if not path.exists():
        run("a3c_zoo", *TRAININGS[name], "--name", name, "--quiet", folder=folder)
    meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
    if trained_by(meta) != TRAININGS[name]:
        sys.exit(f"{path} was made by another command: {shlex.join(meta['command'])}")
    with tempfile.TemporaryDirectory() as temporary:
        saved, plotted = Path(temporary) / name, Path(temporary) / "curve.csv"
        run("a3c_zoo.sharing.save_trained", name, str(saved), folder=folder)
        run("a3c_zoo", "plot", name, "--out", str(plotted), folder=folder)
        (saved / "curve.csv").write_text(curve(plotted), encoding="utf-8")
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(saved, made)


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
            key: value
            for file in ("meta.json", "outcome.json")
            for key, value in json.loads((FOLDER / name / file).read_text(encoding="utf-8")).items()
        }
        for name in TRAININGS
        if (FOLDER / name).exists()
    }


def table() -> str:
    """The part of README.md on the agents, from their folders."""
    rows = ["| name | environment | agent | return of 100 episodes | steps | seconds |", f"|{' --- |' * 6}"]
    commands: list[str] = []
    then: list[str] = []
    machines: dict[str, None] = {}
    continued = {entry.name: entry.continued for entry in zoo_trained()}
    for name, card in cards().items():
        played = card["evaluation"]
        numbers = (card["steps"], card["training_s"], played["mean_return"], played["std_return"])
        figures = "{2:,.1f} ± {3:,.1f} | {0:,} | {1:,.1f}".format(*numbers)
        rows.append(f"| `{name}` | `{card['env']}` | `{card['agent']}` | {figures} |")
        commands.append(f"    {shlex.join(['a3c-zoo', *TRAININGS[name]])}")
        then += [f"`{name}`: {continued[name]}", ""] if continued[name] else []
        software = ", ".join(f"{key} {card['versions'][key]}" for key in ("a3c-zoo", "torch", "gymnasium", "ale-py"))
        machines[f"{software}; {card['host']['cpu']}, {card['host']['cores']} cores"] = None
    return "\n".join(
        [*rows, "", "The commands that trained them:", "", *commands, "", *then, f"{'. '.join(machines)}.", ""]
    )


def main() -> None:
    """Trains the agents that are named, or all that take two minutes at most."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where `runs` lies [a folder that is removed]")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(TRAININGS)}")
    given = parser.parse_args()
    if unknown := set(given.names) - TRAININGS.keys():
        parser.error(f"no such name: {', '.join(sorted(unknown))}")
    with tempfile.TemporaryDirectory() as temporary:
        for name in given.names or SHORT:
            make(name, (given.folder or Path(temporary)).resolve())
    before, begin, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    README.write_text(before + begin + "\n" + table() + "\n" + END + rest.partition(END)[2], encoding="utf-8")


def generated() -> str:
    """That part as it stands in the file."""
    return README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip("\n") + "\n"


if __name__ == "__main__":
    main()
