"""Trains for a long time and looks for growth of memory, files, threads, CPU.

    python benchmarks/soak.py --minutes 60

The first and the last sixth of the samples are compared. The first minute, in which processes start, does not count.
"""

from __future__ import annotations

import math
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path

import click
import psutil

SAMPLE_EVERY_S = 10.0
WARM_UP_S = 60.0


@dataclass(frozen=True)
class Sample:
    """A run's processes at one moment. cpu_s: of all, since their start. steps: of the run so far."""

    processes: int
    memory_mib: float
    files: int
    threads: int
    cpu_s: float
    steps: int


def sample(command: psutil.Popen, monitor: Path) -> Sample:
    """Looks at the command and all its descendants."""
    memory = files = threads = count = 0
    cpu_s = 0.0
    for process in [command, *command.children(recursive=True)]:
        with suppress(psutil.Error, OSError):
            memory += own_memory(process)
            files += process.num_fds()
            threads += process.num_threads()
            cpu_s += sum(process.cpu_times()[:2])
            count += 1
    rows = monitor.read_text().splitlines() if monitor.exists() else []
    steps = int(rows[-1].split(",")[3]) if len(rows) > 2 else 0
    return Sample(count, memory / 2**20, files, threads, cpu_s, steps)


def own_memory(process: psutil.Process) -> int:
    """Bytes of a process that no file backs, shared ones by shares.

    The pages of libraries are left out: their share depends on the other programs of the machine that use them.
    """
    sizes = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()[1:])
    return sum(int(sizes[name].split()[0]) * 1024 for name in ("Pss_Anon", "Pss_Shmem"))


def cpu_per_step(samples: list[Sample]) -> float:
    """Microseconds of all processes for each step. A sample without some of them lacks their time, and is left out."""
    most = max(each.processes for each in samples)
    whole = [each for each in samples if each.processes == most]
    steps = whole[-1].steps - whole[0].steps
    return (whole[-1].cpu_s - whole[0].cpu_s) / steps * 1e6 if steps else math.nan


@click.command(help=__doc__)
@click.option("--minutes", type=click.FloatRange(2, 6000), default=60.0, show_default=True)
@click.option("--env", default="cartpole", show_default=True)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
def main(minutes: float, env: str, seed: int) -> None:
    samples = []
    with tempfile.TemporaryDirectory(prefix="a3c-zoo-soak-") as folder:
        keys = [
            "run.stop_when_solved=false",
            "run.evaluation_every_s=60",
            "run.checkpoint_every_s=60",
            "run.steps=null",
        ]
        options = [part for key in keys for part in ("-o", key)]
        options += ["--seed", str(seed), "--time-limit", f"{minutes}m", "--name", "x"]
        command = psutil.Popen(
            [sys.executable, "-m", "a3c_zoo", "train", env, *options],
            cwd=folder,
        )
        deadline_s = time.monotonic() + WARM_UP_S
        while command.poll() is None:
            time.sleep(SAMPLE_EVERY_S)
            if time.monotonic() >= deadline_s and command.poll() is None:
                samples.append(sample(command, Path(folder) / "runs/x/monitor.csv"))
    part = max(2, len(samples) // 6)
    first, last = samples[:part], samples[-part:]
    click.echo(f"\n{'':12} {'first sixth':>14} {'last sixth':>14} {'ratio':>8}")
    for number, each in enumerate(fields(Sample)[:4]):
        before, after = (statistics.fmean(astuple(one)[number] for one in some) for some in (first, last))
        click.echo(f"{each.name:12} {before:14.2f} {after:14.2f} {after / before:8.3f}")
    before, after = cpu_per_step(first), cpu_per_step(last)
    click.echo(f"{'CPU µs/step':12} {before:14.2f} {after:14.2f} {after / before:8.3f}")
    click.echo(f"{samples[-1].steps:,} steps, status {command.returncode}")


if __name__ == "__main__":
    main()
