"""Trains the agents of this distribution anew, and writes their folders and the table in README.md: `make trained`.

    python plugins/a3c-zoo-trained/train.py [NAME …]

It needs a3c-zoo and this distribution's `src` on PYTHONPATH. Each training takes a minute at most.
"""

from __future__ import annotations

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
FOLDER = HERE / "src" / "a3c_zoo_trained"
README = HERE / "README.md"
BEGIN, END = "<!-- written by train.py -->\n", "<!-- end -->\n"

#: Name → the arguments of its training.
TRAININGS = {
    "cartpole-a3c": ("train", "cartpole", "--seed", "1"),
    "cartpole-nstep": ("train", "cartpole", "--agent", "nstep", "--seed", "1"),
    "cartpole-lstm": ("train", "cartpole", "--hyperparams", "a3c-lstm", "--seed", "1"),
    "acrobot-a3c": ("train", "gym:Acrobot-v1", "--seed", "1"),
}


def make(name: str) -> None:
    """Trains one agent in a folder of its own, and writes its folder."""
    environ = {**os.environ, "PYTHONPATH": str(HERE / "src")}
    made = FOLDER / name
    with tempfile.TemporaryDirectory() as folder:
        for module, arguments in (
            ("a3c_zoo", (*TRAININGS[name], "--name", name, "--quiet")),
            ("a3c_zoo.runs.save_trained", (name, str(Path(folder) / "saved" / name))),
        ):
            print("$", shlex.join(["python", "-m", module, *arguments]), flush=True)
            subprocess.run([sys.executable, "-m", module, *arguments], cwd=folder, env=environ, check=True)
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(Path(folder) / "saved" / name, made)


def cards() -> dict[str, dict[str, Any]]:
    """Name → what meta.json and outcome.json hold."""
    return {
        name: {
            key: value
            for file in ("meta.json", "outcome.json")
            for key, value in json.loads((FOLDER / name / file).read_text(encoding="utf-8")).items()
        }
        for name in TRAININGS
    }


def table() -> str:
    """The part of README.md on the agents, from their folders."""
    rows = ["| name | environment | agent | return of 100 episodes | steps | seconds |", f"|{' --- |' * 6}"]
    commands = []
    for name, card in cards().items():
        played = card["evaluation"]
        figures = (
            f"{played['mean_return']:.1f} ± {played['std_return']:.1f} | {card['steps']:,} | {card['training_s']:.1f}"
        )
        rows.append(f"| `{name}` | `{card['env']}` | `{card['agent']}` | {figures} |")
        commands.append(f"    {shlex.join(['a3c-zoo', *TRAININGS[name]])}")
    versions, host = (next(iter(cards().values()))[key] for key in ("versions", "host"))
    software = ", ".join(f"{key} {versions[key]}" for key in ("a3c-zoo", "torch", "gymnasium"))
    machine = f"{software}; {host['cpu']}, {host['cores']} cores.\n"
    return "\n".join([*rows, "", "The commands that trained them:", "", *commands, "", machine])


def main() -> None:
    """Trains the agents that are named, or all."""
    for name in sys.argv[1:] or TRAININGS:
        make(name)
    before, begin, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    README.write_text(before + begin + "\n" + table() + "\n" + END + rest.partition(END)[2], encoding="utf-8")


def generated() -> str:
    """That part as it stands in the file."""
    return README.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0].strip("\n") + "\n"


if __name__ == "__main__":
    main()
