"""Writes the runs that every later version must read, of the version that runs.

    python -m tests.frozen_runs

A release that changes a format writes a folder of its own, `tests/data/frozen_runs/VERSION`, and leaves the others as
they are. tests/test_frozen_runs.py reads them all.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import a3c_zoo

FOLDER = Path(__file__).parent / "data" / "frozen_runs"
SMALL = ("-o", "network.hidden_sizes=[16]", "-o", "run.keep_checkpoints=1", "-o", "run.evaluation_episodes=3")
#: Every agent, both kinds of actions, statistics of observations and rewards, a core, masks, and a baseline.
COMMANDS: dict[str, list[str]] = {
    "a3c": ["train", "cartpole", "--steps", "4000", "-o", "run.evaluation_every_steps=2000", *SMALL],
    "a3c-data": ["train", "cartpole", "--agent", "a3c-data", "--steps", "1000", *SMALL],
    "a3c-grad": ["train", "cartpole", "--agent", "a3c-grad", "--steps", "1000", *SMALL],
    "nstep": ["train", "cartpole", "--agent", "nstep", "--steps", "500", *SMALL],
    "monte-carlo": ["train", "cartpole", "--agent", "monte-carlo", "--steps", "500", *SMALL],
    "lstm": [
        "train",
        "cartpole",
        "--hyperparams",
        "a3c-lstm",
        "--steps",
        "1000",
        "-o",
        "network.recurrent_size=16",
        *SMALL,
    ],
    "box": ["train", "gym:Pendulum-v1", "--steps", "4096", *SMALL],
    "masks": ["train", "gym:Taxi-v4", "--steps", "1000", *SMALL],
    "sb3-a2c": ["train", "cartpole", "--agent", "sb3-a2c", "--steps", "1000", "-o", "run.evaluation_episodes=3"],
}
NOT_READ = ("tensorboard", "run.lock", "step-000000000000.pt")
SERIAL = frozenset(COMMANDS) - {"sb3-a2c"}


def main() -> int:
    """Trains the runs and copies what is read of them."""
    target = FOLDER / a3c_zoo.__version__
    shutil.rmtree(target, ignore_errors=True)
    for name, words in COMMANDS.items():
        command = [*words, "--seed", "1", "--name", name, "--quiet"]
        if name in SERIAL:
            command.append("--serial")
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, "-m", "a3c_zoo", *command], cwd=folder, check=True)
            run = Path(folder) / "runs" / name
            shutil.copytree(run, target / name, ignore=shutil.ignore_patterns(*NOT_READ))
        meta = json.loads((target / name / "meta.json").read_text())
        meta["command"] = ["a3c-zoo", *command]
        (target / name / "meta.json").write_text(json.dumps(meta, indent=2) + "\n")
        print(f"{name:12} {sum(path.stat().st_size for path in (target / name).rglob('*')):9,} bytes")
    return os.EX_OK


if __name__ == "__main__":
    sys.exit(main())
