"""The child process of `rehearsal`: trains one method after the other for a few seconds, and lets each one act.

`python -m a3c_zoo.comparison.rehearsal_process FILE`, whose JSON is a list of `RehearsalJob`. It ends with the first
method that has a fault.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from a3c_zoo.baselines.baseline_configs import SB3DQNConfig
from a3c_zoo.comparison.rehearsal import EPISODE_STEPS, LIMIT_S, PROCESS_S, RehearsalJob
from a3c_zoo.config import Config
from a3c_zoo.config.sets import load_config
from a3c_zoo.errors import WorkerError, ZooError, first_line, one_line
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.plugins.typed_names import env_name
from a3c_zoo.records import Progress
from a3c_zoo.runs.api import load_from
from a3c_zoo.runs.setup import Observer, RunSetup
from a3c_zoo.runs.signals import StopEvaluationError
from a3c_zoo.runs.train import train_new
from a3c_zoo.store.directory import write_json
from a3c_zoo.store.run import Run

#: How many steps a policy acts at least, if no episode ends before, and how long it goes on with them, in seconds.
ACTS, ACT_S = 3, 0.3
#: In so many environments at most. An evaluation has more, but each game takes a fifth of a second to be made.
ACT_ENVS = 4
#: `sb3-dqn` begins to learn after so many agent steps here. Without learning it would seem faster than it is.
LEARNING_STARTS = 100


class Stopwatch(Observer):
    """Ends the run at its next rollout boundary when it has trained for some seconds, and for one rollout."""

    def __init__(self, job: RehearsalJob) -> None:
        self._job = job
        self.is_over = False

    def progress(self, progress: Progress) -> None:
        """Called several times a second."""
        if self.is_over or progress.steps < self._job.least or progress.training_s < self._job.seconds:
            return
        self.is_over = True
        signal.raise_signal(signal.SIGTERM)  # as a user ends a run


def shortened(config: Config) -> Config:
    """The configuration without run hooks, which may tell others of the run, and with which a fault ends it at once."""
    run = config.run
    agent = config.agent
    none = dict.fromkeys(("worker_restarts", "restarts"), 0)
    limits = {
        "time_limit_s": min(run.time_limit_s or LIMIT_S, LIMIT_S),
        "keep_checkpoints": 1,
        "disk_patience_s": 0.0,
    }
    if isinstance(agent, SB3DQNConfig):
        agent = agent.model_copy(update={"learning_starts": min(agent.learning_starts, LEARNING_STARTS)})
    return replace(config, run=run.model_copy(update=none | limits), agent=agent, plugins={})


def rehearse_one(job: RehearsalJob) -> dict[str, Any]:
    """Trains, and acts with the last checkpoint. Returns the fields of `Rehearsal`."""
    registry = get_registry()
    path = Path(job.config)
    env_name(registry, job.env)  # the user has typed it: its module can be imported
    whole = load_config(path, registry)
    RunSetup.of(registry, whole, serial=False).run_hooks()  # raises if some cannot be made
    setup = RunSetup.of(registry, shortened(whole), serial=False)
    watch = Stopwatch(job)
    outcome = train_new(setup, path.parent, "run", watch)
    if outcome.reason == "interrupted" and not watch.is_over:
        raise KeyboardInterrupt  # the parent has ended, or wants this process to end
    run = Run(outcome.run, is_trusted=True)
    evaluation_step_s = act(run, job.episodes)
    sizes = [file.stat().st_size for file in run.checkpoints.iterdir()]
    return {
        "steps_per_s": outcome.steps_per_s if outcome.steps else None,
        "other_s": outcome.total_s - outcome.training_s + PROCESS_S,
        "checkpoint_bytes": max(sizes, default=0),
        "evaluation_step_s": evaluation_step_s,
        "episode_steps": min(
            whole.env.factory_kwargs().get("max_episode_steps") or EPISODE_STEPS, EPISODE_STEPS
        ),
    }


def act(run: Run, episodes: int) -> float:
    """Plays a few steps on the zoo's environments, as an evaluation of a comparison does, and closes them.

    Returns how long a step of one of them takes, in seconds.
    """
    from a3c_zoo.runs.evaluation import evaluate_policy

    policy, to_play = load_from(run)
    num_envs = min(episodes, ACT_ENVS)
    to_play = replace(to_play, count=episodes, num_envs=num_envs)
    moments_s: list[float] = []

    def stop(played: int) -> None:
        moments_s.append(time.monotonic())
        if len(moments_s) >= ACTS and moments_s[-1] - moments_s[0] >= ACT_S:
            raise StopEvaluationError

    with suppress(StopEvaluationError):
        evaluate_policy(policy, to_play, on_step=stop)
    return (moments_s[-1] - moments_s[0]) / max(len(moments_s) - 1, 1) / num_envs


def main(jobs_file: Path) -> int:
    """Returns the exit status."""
    for fields in json.loads(jobs_file.read_text(encoding="utf-8")):
        job = RehearsalJob(**fields)
        try:
            result = rehearse_one(job)
        except (Exception, SystemExit) as error:
            is_users = isinstance(error, ZooError) and not isinstance(error, WorkerError)
            if isinstance(error, ZooError):
                fault = first_line(error)
            else:
                fault = one_line(error)
            result = {"fault": " ".join([fault, *getattr(error, "__notes__", ())]), "is_users": is_users}
        write_json(Path(job.result), result)
        if "fault" in result:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
