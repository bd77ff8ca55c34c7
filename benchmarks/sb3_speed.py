"""Steps/s of stable-baselines3's A2C at its best, and of a3c beside it, in one sitting.

    python benchmarks/sb3_speed.py [--envs cartpole pong] [--seconds 20] [--rounds 3] [--csv docs/figures/sb3-speed.csv]
    python benchmarks/doc_tables.py

Run it on an idle machine. SB3 trains with DummyVecEnv, with SubprocVecEnv, and with the one that it takes itself. a3c
trains as it comes, with a worker for each core. On Pong it also trains with `a3c-plain`, one pass over a rollout, and
with SB3's network, frames and precision in that set. The methods take turns, each in a fresh process. Seconds are those
of training: what is measured before training does not count.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from a3c_zoo.hardware import available_cores, cpu_model
from a3c_zoo.store.run import Run

ROOT = Path(__file__).resolve().parent.parent
FILE = ROOT / "docs" / "figures" / "sb3-speed.csv"
FIELDS = ("env", "title", "agent", "network", "workers", "vec_env", "torch_threads", "round", "seconds", "steps")
FIELDS += ("steps_per_s", "cpu_s", "cpu", "cores", "day")
#: No run ends by its steps.
MANY_STEPS = 100_000_000
VEC_ENVS = {"dummy": "DummyVecEnv", "subproc": "SubprocVecEnv", "auto": "auto"}


@dataclass(frozen=True)
class Method:
    """What is measured. network: with frames and precision, for readers. options: of `train`."""

    env: str
    title: str
    agent: str
    network: str
    options: tuple[str, ...] = ()


def methods_of(env: str) -> list[Method]:
    """The methods on an environment."""
    sb3_network = {"cartpole": "64 and 64, float32", "pong": "Nature CNN, 84×84, float32"}[env]
    methods = [
        Method(env, f"sb3-a2c, {title}", "sb3-a2c", sb3_network, ("-o", f"agent.vec_env={name}"))
        for name, title in VEC_ENVS.items()
    ]
    workers = ("--workers", str(available_cores()))
    if env == "cartpole":
        return [*methods, Method(env, "a3c", "a3c", sb3_network, workers)]
    own = "nature-slim, 84×84, bfloat16 where it is faster"
    small = "conv42, 42×42, bfloat16 where it is faster"
    plain = (*workers, "--hyperparams", "a3c-plain")
    same = ("network.name=nature", "network.activation=null", "env.frame_size=84", "network.precision=float32")
    overrides = tuple(word for text in same for word in ("-o", text))
    return [
        *methods,
        Method(env, "a3c", "a3c", own, workers),
        Method(env, "a3c-plain", "a3c", small, plain),
        Method(env, "a3c-plain, the same network", "a3c", sb3_network, (*plain, *overrides)),
    ]


def measure(method: Method, number: int, seconds: float, folder: Path) -> dict[str, str]:
    """Trains once in a process of its own; returns the row of the file."""
    name = f"{method.env}-{len(list(folder.iterdir()))}"
    executable = str(Path(sys.executable).with_name("a3c-zoo"))
    command = [executable, "train", method.env, "--agent", method.agent, "--quiet", "--name", name]
    command += ["--runs-dir", str(folder), "--time-limit", f"{seconds:g}s", "--steps", str(MANY_STEPS)]
    command += ["--seed", str(number), "-o", "run.stop_when_solved=false", *method.options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    outcome = json.loads((folder / name / "outcome.json").read_text(encoding="utf-8"))
    run = Run(folder / name)
    return {
        "env": method.env,
        "title": method.title,
        "agent": method.agent,
        "network": method.network,
        "workers": str(run.settings["run.workers"] if method.agent == "a3c" else ""),
        "vec_env": run.vec_env or "",
        "torch_threads": str(run.torch_threads or ""),
        "round": str(number),
        "seconds": f"{seconds:g}",
        "steps": str(outcome["steps"]),
        "steps_per_s": f"{outcome['steps_per_s']:.1f}",
        "cpu_s": f"{outcome['cpu_s']:.2f}",
        "cpu": cpu_model(),
        "cores": str(available_cores()),
        "day": date.today().isoformat(),
    }


def write(rows: Sequence[dict[str, str]], file: Path) -> None:
    """Writes all rows."""
    with file.open("w", encoding="utf-8", newline="") as text:
        writer = csv.DictWriter(text, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    """Measures everything and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=["cartpole", "pong"], choices=["cartpole", "pong"])
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each training [20]")
    parser.add_argument("--rounds", type=int, default=3, help="how often all take turns [3]")
    parser.add_argument("--csv", type=Path, default=FILE, help="the file [docs/figures/sb3-speed.csv]")
    arguments = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(1, arguments.rounds + 1):
            for env in arguments.envs:
                for method in methods_of(env):
                    row = measure(method, number, arguments.seconds, Path(folder))
                    took = f"{row['vec_env']} {row['torch_threads']}".strip()
                    print(f"{env:10}{method.title:28}{float(row['steps_per_s']):>10,.0f} steps/s  {took}", flush=True)
                    rows.append(row)
    write(sorted(rows, key=lambda row: arguments.envs.index(row["env"])), arguments.csv)


if __name__ == "__main__":
    main()
