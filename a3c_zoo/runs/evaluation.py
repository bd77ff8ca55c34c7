"""Evaluations: checkpoints whose policy plays episodes, in this process or in one of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

from a3c_zoo.config import Config
from a3c_zoo.files import same_folder
from a3c_zoo.learning.environments import closed
from a3c_zoo.learning.generators import lent_generator, seed_process
from a3c_zoo.learning.model import one_torch_thread
from a3c_zoo.library_settings import our_settings
from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry, load_factory
from a3c_zoo.records import Policy
from a3c_zoo.runs.episodes import EpisodesToPlay, PlayedEpisode, PlayedEpisodes, play_episodes
from a3c_zoo.runs.pictures import fps_of, picture_of, without_devices
from a3c_zoo.runs.setup import RunSetup
from a3c_zoo.runs.videos import RUN_FILM, EpisodeFilm, FilmLimits
from a3c_zoo.seeds import SEED_PROCESS, seed_for
from a3c_zoo.store.checkpoints import read_policy
from a3c_zoo.store.saved_state import loading

#: Greedy: the most probable action. Sampled: an action drawn from the policy's distribution.
Mode = Literal["greedy", "sampled"]
MODES: tuple[Mode, ...] = ("greedy", "sampled")


@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """One evaluation of one checkpoint: all that a process needs to play it.

    Attributes:
        load: the agent's `AgentEntry.load`. checkpoint: the file that holds the agent's state.
        number: which evaluation this is; it selects the seeds (`a3c_zoo.seeds`).
        episodes: how many each mode plays. num_envs: environments side by side. modes: in the order of playing.
        film: the file to film the first episode with sampled actions in; None for no film. film_limits: how.
    """

    entry: EnvEntry
    network: NetworkEntry | None
    config: Config
    load: str
    checkpoint: Path
    number: int
    episodes: int
    num_envs: int
    modes: tuple[Mode, ...] = MODES
    film: Path | None = None
    film_limits: FilmLimits = RUN_FILM

    @classmethod
    def of(cls, setup: RunSetup, checkpoint: Path, number: int, episodes: int) -> EvaluationTask:
        """An evaluation of a run, with as many environments as its configuration says."""
        config = setup.config
        load = setup.agent.load
        num_envs = config.run.evaluation_envs
        return cls(setup.entry, setup.network, config, load, checkpoint, number, episodes, num_envs)


@dataclass(frozen=True, slots=True)
class PlayedTask:
    """What became of an evaluation task.

    Attributes:
        by_mode: mode → what was played. training_s: seconds of training before the checkpoint; None if it does not say.
        cpu_s: CPU seconds that the task took a process of its own, with all around it; 0 where the parent played.
        film_fault: why the film that the task asks for was not made; None if it was.
    """

    by_mode: Mapping[Mode, PlayedEpisodes]
    training_s: float | None
    cpu_s: float = 0.0
    film_fault: str | None = None


def play_task(task: EvaluationTask, on_step: Callable[[int], None], owns_process: bool = False) -> PlayedTask:
    """Plays a task; all modes play the same seeds.

    Args:
        on_step: see `evaluate_policy`. owns_process: whether to seed the process's global generators, too.

    Raises:
        StopEvaluationError: `on_step` raised it.
    """
    saved = read_policy(task.checkpoint)
    policy = load_policy(task.load, task.entry, task.network, task.config, saved.agent)
    run = task.config.run
    env = task.config.env
    patience_s = run.evaluation_patience_s
    to_play = EpisodesToPlay(task.entry, env, task.episodes, run.seed, task.number, task.num_envs, patience_s)
    if task.film:
        film = EpisodeFilm(task.film, task.film_limits)
    else:
        film = None
    of_mode = {"greedy": (True, on_step, None), "sampled": (False, on_step, film)}
    by_mode = {}
    for mode in task.modes:
        if owns_process:
            seed_process(seed_for(run.seed, SEED_PROCESS, task.number))
        by_mode[mode] = evaluate_policy(policy, to_play, *of_mode[mode])
    return PlayedTask(by_mode, saved.state.seconds.get("training"), film_fault=film.fault if film else None)


def load_policy(
    load: str, entry: EnvEntry, network: NetworkEntry | None, config: Config, agent_state: Mapping[str, Any]
) -> Policy:
    """Rebuilds a policy from the agent's part of a checkpoint.

    Args:
        load: the agent's `AgentEntry.load`.

    Raises:
        RunDirectoryError: the checkpoint does not fit the run's configuration.
    """
    with our_settings(), lent_generator():  # a network draws initial weights before it gets the saved ones
        factory = load_factory("the agent's policy", load)
        with loading(), same_folder():  # a baseline makes an environment
            policy: Policy = factory(entry, network, config, agent_state)
    return policy


def evaluate_policy(
    policy: Policy,
    to_play: EpisodesToPlay,
    deterministic: bool = False,
    on_step: Callable[[int], None] = lambda played: None,
    film: EpisodeFilm | None = None,
) -> PlayedEpisodes:
    """Plays episodes with a policy.

    Args:
        on_step: called after each step with the number of episodes played so far; may raise StopEvaluationError.
        film: gets the first episode of the first environment. The episodes are the same as without it.
    """
    start_s = time.monotonic()
    played: list[PlayedEpisode] = []
    mode = "rgb_array" if film else None
    with (
        same_folder(),
        our_settings(),
        without_devices(),
        closing(film or ExitStack()),
        one_torch_thread(),
        closed(to_play.make_env(mode)) as env,
    ):
        for episodes, ended, _ in play_episodes(policy, env, to_play, deterministic):
            played += episodes
            on_step(len(played))
            if film:
                film.show(partial(picture_of, env, to_play.entry.name), fps_of(env), is_last=bool(ended[0]))
    return PlayedEpisodes(played, deterministic, time.monotonic() - start_s, to_play.entry.agents)
