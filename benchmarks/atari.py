"""Steps/s on Atari: `a3c`, also with each network and precision, SB3's A2C, the environments alone, and time by stage.

    python benchmarks/atari.py [--env pong] [--seconds 20] [--repeats 3] [--workers 2] [--json FILE] [--csv FILE]

Run it on an idle machine. The program measures one method after the other, each in fresh processes, and repeats this
`--repeats` times. Networks and precisions are those of `a3c-plain`, which makes one pass over a rollout, as SB3's A2C
does. At the end the program measures once how long a worker of the default set spends in each stage. "Of ceiling"
divides by the steps/s of the environments alone with frames of the same size.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from a3c_zoo.config.sets import resolve_config
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.processes.start import WORKER_ENVIRONMENT

#: Network → the frame size that it is made for, in pixels.
NETWORKS = {"conv42": 42, "a3c-ff": 84, "nature-slim": 84, "nature": 84, "nature-dual": 84}
PRECISIONS = ("float32", "bfloat16")
OURS = "a3c, its set"
PLAIN = "a3c-plain"
SB3 = "sb3-a2c"
CEILING = "environments alone, {}×{}"
#: Size of the frames that stable-baselines3 trains on, in pixels.
SB3_SIZE = 84

#: Steps the environments of one worker with random actions, with the settings of its set; prints steps/s.
RANDOM_ACTIONS = """
import sys, time
import numpy as np
from a3c_zoo.config.sets import resolve_config
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.plugins.registry import get_registry

registry, seconds, frame_size = get_registry(), float(sys.argv[2]), sys.argv[3]
entry = registry.env(sys.argv[1])
config = resolve_config(registry, entry, registry.agent("a3c"), overrides=[f"env.frame_size={frame_size}"])
env = make_vector_env(entry, config.env, config.env.num_envs, 0)
env.reset(seed=0)
actions = np.random.default_rng(0).integers(0, env.single_action_space.n, (64, config.env.num_envs))
calls, start_s = 0, time.monotonic()
while time.monotonic() - start_s < seconds:
    for row in actions:
        env.step(row)
    calls += len(actions)
print(calls * config.env.num_envs / (time.monotonic() - start_s))
"""

#: Trains with one worker in this process and times its stages; prints stage → seconds as JSON. Arguments: the
#: environment, seconds, a folder, and values of the set, such as a shorter rollout.
SPLIT = """
import functools, json, sys, tempfile, time
import a3c_zoo
from a3c_zoo.learning import collector, objective, optimizers, parameters, samples
from a3c_zoo_envs import _atari

seconds = dict.fromkeys(("environment", "collect", "differentiating", "applying"), 0.0)

def timed(function, stage):
    @functools.wraps(function)
    def call(*arguments, **options):
        start_s = time.perf_counter()
        try:
            return function(*arguments, **options)
        finally:
            seconds[stage] += time.perf_counter() - start_s
    return call

_atari.AtariGames.step = timed(_atari.AtariGames.step, "environment")
collector.Collector.collect = timed(collector.Collector.collect, "collect")
objective.differentiate = timed(objective.differentiate, "differentiating")
samples.differentiate_samples = timed(samples.differentiate_samples, "differentiating")
for owner, name in (
    (parameters.FlatParameters, "pull"),
    (parameters.FlatParameters, "wide_gradients"),
    (optimizers, "clip_by_global_norm"),
    (optimizers.Adam, "apply"),
    (optimizers.RMSprop, "apply"),
):
    setattr(owner, name, timed(getattr(owner, name), "applying"))

env, limit_s, folder, *overrides = sys.argv[1:]
outcome = a3c_zoo.train(
    env, serial=True, workers=1, time_limit_s=float(limit_s), overrides=overrides, runs_dir=folder
)
seconds["acting"] = seconds.pop("collect") - seconds["environment"]
seconds["the rest"] = outcome.training_s - sum(seconds.values())
print(json.dumps(seconds))
"""


def side_by_side(program: str, processes: int, *arguments: str) -> list[str]:
    """Runs a program in several processes at once, with the settings of workers; returns their last lines."""
    command = [sys.executable, "-c", program, *arguments]
    variables = os.environ | WORKER_ENVIRONMENT
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=variables) for _ in range(processes)]
    answers = [process.communicate(timeout=600)[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit("a measured program failed; its message is above")
    return [answer.splitlines()[-1] for answer in answers]


def train(env: str, seconds: float, folder: Path, *options: str) -> float:
    """Steps/s of one training in a process of its own."""
    name = f"run-{len(list(folder.iterdir()))}"
    executable = str(Path(sys.executable).with_name("a3c-zoo"))
    command = [executable, "train", env, "--quiet", "--name", name, "--runs-dir", str(folder), *options]
    done = subprocess.run([*command, "--time-limit", f"{seconds:g}s"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return float(json.loads((folder / name / "outcome.json").read_text(encoding="utf-8"))["steps_per_s"])


def ceiling(env: str, seconds: float, workers: int, frame_size: int) -> float:
    """Steps/s of the environments alone, random actions, all processes together."""
    return sum(float(line) for line in side_by_side(RANDOM_ACTIONS, workers, env, str(seconds), str(frame_size)))


def ceiling_of(method: str, env: str) -> str:
    """Name of the ceiling that a method is compared with: the one with frames of the method's size."""
    if method == SB3:
        size = SB3_SIZE
    elif method in (OURS, PLAIN):
        size = frame_size_of(env, None if method == OURS else PLAIN)
    else:
        size = NETWORKS[method.split(",")[0]]
    return CEILING.format(size, size)


def frame_size_of(env: str, hyperparams: str | None) -> int:
    """The frame size of a set of `a3c`, the default one without a name."""
    registry = get_registry()
    config = resolve_config(registry, registry.env(env), registry.agent("a3c"), hyperparams=hyperparams)
    size = config.env.model_dump()["frame_size"]
    assert isinstance(size, int)
    return size


def split(env: str, seconds: float, workers: int, folder: Path) -> dict[str, float]:
    """Stage → its share of a worker's time in [0, 1], the mean over workers that train at once."""
    lines = side_by_side(SPLIT, workers, env, str(seconds), str(folder))
    parts = [json.loads(line) for line in lines]
    total = sum(sum(part.values()) for part in parts)
    return {stage: sum(part[stage] for part in parts) / total for stage in parts[0]}


def measure(env: str, seconds: float, workers: int, folder: Path) -> dict[str, float]:
    """Steps/s of every method, one after the other."""
    as_many = ("--workers", str(workers))
    sizes = sorted(set(NETWORKS.values()))
    speeds = {CEILING.format(size, size): ceiling(env, seconds / 4, workers, size) for size in sizes}
    speeds[SB3] = train(env, seconds, folder, "--agent", "sb3-a2c")
    speeds[OURS] = train(env, seconds, folder, *as_many)
    plain = (*as_many, "--hyperparams", PLAIN)
    speeds[PLAIN] = train(env, seconds, folder, *plain)
    for network, size in NETWORKS.items():
        for precision in PRECISIONS:
            known_as = (f"network.name={network}", "network.activation=null", f"env.frame_size={size}")
            options = (*known_as, f"network.precision={precision}")
            overrides = [part for option in options for part in ("-o", option)]
            speeds[f"{network}, {precision}"] = train(env, seconds, folder, *plain, *overrides)
    return speeds


def show(speeds: Sequence[dict[str, float]], shares: dict[str, float], env: str) -> None:
    """Prints medians and their ratios to SB3 and to the ceiling."""
    medians = {method: statistics.median(each[method] for each in speeds) for method in speeds[0]}
    print(f"{'steps/s':28}{'median':>8}{'lowest':>8}{'highest':>9}{'× SB3':>8}{'of ceiling':>12}")
    for method, value in medians.items():
        values = [each[method] for each in speeds]
        highest = value if method.startswith("environments") else medians[ceiling_of(method, env)]
        print(
            f"{method:28}{value:>8,.0f}{min(values):>8,.0f}{max(values):>9,.0f}{value / medians[SB3]:>8.2f}"
            f"{value / highest:>11.0%}"
        )
    print("\na worker's time: " + ", ".join(f"{stage} {share:.0%}" for stage, share in shares.items()))


def write_csv(speeds: Sequence[dict[str, float]], env: str, file: Path) -> None:
    """Writes a row for each method: its ceiling, and the median and the range of its steps/s."""
    with file.open("w", encoding="utf-8", newline="") as text:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("method", "ceiling", "median", "lowest", "highest"))
        for method in speeds[0]:
            values = [round(each[method]) for each in speeds]
            highest = "" if method.startswith("environments") else ceiling_of(method, env)
            writer.writerow((method, highest, round(statistics.median(values)), min(values), max(values)))


def main() -> None:
    """Measures everything and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="pong", help="environment [pong]")
    parser.add_argument("--seconds", type=float, default=20.0, help="seconds of each training [20]")
    parser.add_argument("--repeats", type=int, default=3, help="repetitions of all measurements [3]")
    parser.add_argument("--workers", type=int, default=2, help="workers of a3c, and processes of the ceiling [2]")
    parser.add_argument("--json", type=Path, help="write every figure to this file")
    parser.add_argument("--csv", type=Path, help="write medians and ranges to this file")
    arguments = parser.parse_args()
    speeds = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(1, arguments.repeats + 1):
            speeds.append(measure(arguments.env, arguments.seconds, arguments.workers, folder))
            print(f"round {number} of {arguments.repeats}", flush=True)
        shares = split(arguments.env, arguments.seconds, arguments.workers, folder)
    print()
    show(speeds, shares, arguments.env)
    if arguments.csv:
        write_csv(speeds, arguments.env, arguments.csv)
    if arguments.json:
        content = {
            "machine": platform.platform(),
            "env": arguments.env,
            "steps_per_s": speeds,
            "share_of_worker_time": shares,
        }
        arguments.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
