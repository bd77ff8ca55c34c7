"""Records that pass between an agent and its run, and the protocols that both follow.

They hold no tensors and know no processes, so every room, baseline and plugin can use them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from a3c_zoo.words import counted, return_text

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from a3c_zoo.config import Config
    from a3c_zoo.plugins.entries import EnvEntry, NetworkEntry, OptimizerEntry

#: Training episodes in a mean return: that of a run, of its threshold, and of drawn curves.
RETURN_WINDOW: Final = 100


@dataclass(frozen=True, slots=True)
class RunInfo:
    """What a run hook learns about its run.

    Attributes:
        path: the run directory. env_name, agent_name: the entries' names. config: the whole configuration.
    """

    path: Path
    env_name: str
    agent_name: str
    config: Config


class Episode(NamedTuple):
    """One finished training episode; a whole game, if several agents play it.

    Attributes:
        episode_return: undiscounted sum of the environment's own rewards, of all agents together.
        length: agent steps; of a game, how many steps it had for those who played longest.
        step: agent steps of the whole run, all workers together, when it ended.
        time_s: `time.monotonic()` when it ended (one clock for all processes of a machine).
        worker: rank of the worker that played it.
        agent_returns: the return of each agent of the game (`EnvEntry.agents`); empty for a single agent.
    """

    episode_return: float
    length: int
    step: int
    time_s: float
    worker: int
    agent_returns: tuple[float, ...] = ()


@dataclass(slots=True)
class Report:
    """The work of an agent since its last report.

    Attributes:
        worker: rank of the worker; -1 for the agent as a whole.
        steps: agent steps of the whole run so far, exact.
        updates: optimizer steps of the whole run so far, exact.
        episodes: episodes that ended since the last report.
        metrics: name (`loss_policy`, `entropy`, …) → its newest value.
        not_finite: names of metrics that were not finite since the last report, and are left out.
        skipped: updates since the last report that were not made, because their gradient was not finite.
        first_rollout: steps of a worker's environments in its first rollout, until the first rollout of any worker
            has ended.
        seconds: of collecting and learning since the last report: "environment", "acting" and "learning" → seconds. All
            waiting is in "learning", such as that for other workers in turn.
    """

    worker: int = -1
    steps: int = 0
    updates: int = 0
    episodes: list[Episode] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    skipped: int = 0
    first_rollout: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    not_finite: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class EvaluatorResult:
    """The newest result of the evaluator beside training.

    Attributes:
        step: agent steps of the run when the parameters were copied.
        greedy_return: mean return of episodes with the most probable actions. sampled_return: with sampled ones.
        best_return: the greatest mean return so far of episodes with sampled actions. best_step: its step.
    """

    step: int
    greedy_return: float
    sampled_return: float
    best_return: float
    best_step: int


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run stands.

    Attributes:
        steps: agent steps. episodes: finished episodes. updates: optimizer steps.
        training_s: seconds of training, without start-up, evaluations and checkpoints.
        steps_per_s: over the last few seconds.
        mean_return_100: mean return of the last 100 training episodes, None before the first episode.
        mean_length_100: mean length in steps of the same episodes.
        window: how many episodes that mean covers (100 when full).
        metrics: the newest metrics that the agent reported.
        evaluator: the newest result of the evaluator beside training, None without one.
        first_rollout: before any step counts: how many steps an environment has made in its first rollout, at least.
        best_return: the greatest mean return of 100 training episodes in this session; None before 20 episodes.
        best_training_s: `training_s` when it was reached.
        time_shares: where the time of workers goes: "environment", "acting" and "learning" → share, 0 to 1. Empty for
            agents that do not measure it.
        cores: how many cores the run has kept busy lately, on average. memory_mib: its memory; a shared page counts
            once. Both are of all its processes, and None where the system does not tell them.
        workers_ready: before training starts, how many of the `workers` are ready; None from then on.
        agent_returns_100: name of an agent → its mean return in the same episodes, if several agents play.
    """

    steps: int
    episodes: int
    updates: int
    training_s: float
    steps_per_s: float
    mean_return_100: float | None
    mean_length_100: float | None
    window: int
    metrics: Mapping[str, float]
    evaluator: EvaluatorResult | None = None
    first_rollout: int = 0
    best_return: float | None = None
    best_training_s: float = 0.0
    time_shares: Mapping[str, float] = field(default_factory=dict)
    cores: float | None = None
    memory_mib: float | None = None
    workers_ready: int | None = None
    workers: int = 0
    agent_returns_100: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Episodes played by a fixed policy on fresh seeds; returns are raw.

    Attributes:
        episodes: how many. deterministic: greedy rather than sampled actions. seconds: how long it took.
        agent_returns: name of an agent → its mean return, if several agents play. An episode is then a game, and its
            return is that of all agents together.
    """

    episodes: int
    mean_return: float
    std_return: float
    min_return: float
    max_return: float
    mean_length: float
    deterministic: bool
    seconds: float
    agent_returns: Mapping[str, float] = field(default_factory=dict)


Reason = Literal["solved", "stop-return", "steps", "episodes", "time-limit", "interrupted", "plugin", "error"]
"""Why a run ended."""


@dataclass(frozen=True, slots=True, repr=False)
class Outcome:
    """How a run ended; the contents of its `outcome.json`.

    Attributes:
        run: the run directory. solved: training window and evaluation both reached the threshold, in this session or
            in one that it resumed. solved_step: agent steps of the run when they first did, None if they did not.
        reason: why it ended. detail: more about the reason, may be empty.
        training_s: seconds of training in this session and in those that it resumed. `evaluation_s`, `checkpoint_s`,
            `startup_s` and `total_s` are those of the other parts and of all.
        evaluation: the last evaluation, None when none was due. evaluation_step: agent steps of the policy that it
            played, None if there is none, and in files of older versions.
        cpu_s: CPU seconds of all processes of these sessions together, also of those that have ended.
        peak_memory_mib: the most memory that they held in any sample since training began; a shared page counts
            once. Both are None if the system does not tell them.
        evaluator_fault: why the evaluator beside training failed, None if it did not.
        best_return: mean return of the best policy in `checkpoints/best.pt`; None if there is none.
        best_step: agent steps before its parameters were copied. best_by: "training" if its return is that of training
            episodes, "evaluation" if it is that of the evaluator. best_episodes: of how many episodes.
        recommended: the checkpoint that the run recommends: "final" for the newest, or "best".
        agent_returns_100: as in `Progress`, at the end.
    """

    run: Path
    solved: bool
    reason: Reason
    detail: str
    steps: int
    episodes: int
    updates: int
    training_s: float
    evaluation_s: float
    checkpoint_s: float
    startup_s: float
    total_s: float
    steps_per_s: float
    mean_return_100: float | None
    evaluation: Evaluation | None
    cpu_s: float | None = None
    peak_memory_mib: float | None = None
    evaluator_fault: str | None = None
    solved_step: int | None = None
    evaluation_step: int | None = None
    best_return: float | None = None
    best_step: int | None = None
    best_by: str | None = None
    best_episodes: int | None = None
    recommended: str = "final"
    agent_returns_100: Mapping[str, float] = field(default_factory=dict)

    @property
    def has_spent_its_budget(self) -> bool:
        """Whether it ended with its budget spent."""
        return self.reason in ("steps", "time-limit", "episodes")

    @property
    def last_evaluation(self) -> Evaluation | None:
        """The evaluation, if it played the policy of the end: not if training has gone on since."""
        return self.evaluation if self.evaluation_step in (None, self.steps) else None

    @property
    def returns(self) -> str:
        """The mean return of the last policy's evaluation or, without one, of training, in words."""
        if (played := self.last_evaluation) is not None:
            spread = f"{return_text(played.mean_return)} ± {return_text(played.std_return)}"
            return f"return {spread} over {counted(played.episodes, 'episodes')}"
        if self.mean_return_100 is None:
            return "no episode has ended"
        return f"return {return_text(self.mean_return_100)} at the end of training"

    def __repr__(self) -> str:
        why = f"{self.reason} ({self.detail})" if self.detail else self.reason
        seconds = f"{self.training_s:.1f} s of training"
        return f"<Outcome: {why}; {self.steps:,} steps, {seconds}, {self.returns}; {self.run}>"


class Policy(Protocol):
    """Acts. The signature and return value of stable-baselines3's `BaseAlgorithm.predict`."""

    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Returns the actions for a batch of observations (or one), and the next recurrent state."""


def takes_masks(policy: Policy) -> bool:
    """Whether the `predict` of a policy has the parameter `action_masks`, as sb3-contrib's: bools `[N, A]`."""
    return "action_masks" in inspect.signature(policy.predict).parameters


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Access to the agent as it is trained.

    Attributes:
        state: returns the agent's part of a checkpoint: tensors, numbers, strings, lists and dictionaries of them.
            Called at a standstill.
        acting: returns a copy of the part of `state` that `AgentEntry.load` needs. Called while workers work. None if
            the agent trains in one process, where `state` can be called at every report.
        counts: returns a report of the exact counts, also of work that was not reported before a failure. None if the
            agent reports all of its work.
    """

    state: Callable[[], dict[str, Any]]
    acting: Callable[[], dict[str, Any]] | None = None
    counts: Callable[[], Report] | None = None


class RunContext(Protocol):
    """The run, as its agent sees it (`AgentEntry.run`).

    The agent reports often. When `due()` is true, it brings its training to a standstill at the next rollout boundary
    and calls `settle`, which evaluates, saves, or ends the run, and returns whether training goes on.
    """

    entry: EnvEntry
    network: NetworkEntry | None
    optimizer: OptimizerEntry | None
    config: Config
    supported_spaces: Sequence[str]  # `AgentEntry.spaces`
    serial: bool
    episodes: int  # that were recorded until now, in all sessions
    checkpoint: Mapping[str, Any] | None  # the agent's state to go on from, None for a fresh run
    # The run's counts, if `checkpoint` is only what acting needs (`Snapshot.acting`).
    acting_counts: Report | None

    def record(self, reports: Sequence[Report]) -> None:
        """Takes in reports: monitor.csv, TensorBoard, hooks, the panel."""

    def due(self) -> bool:
        """Whether training must stand still for `settle`."""

    def cuts_rollouts(self) -> bool:
        """Whether the run ends now, not at the next rollout boundary: its time limit is over.

        An agent that trains in one process asks after each step: the run also watches its evaluator then.
        """

    def settle(self, snapshot: Snapshot) -> bool:
        """Evaluates, saves and decides at a standstill. Returns True to go on training, False to end."""

    def started(self, snapshot: Snapshot) -> None:
        """The first rollout begins now: the training clock starts."""

    def workers_ready(self, ready: int, workers: int) -> None:
        """Tells how many workers are ready. It is called before training starts."""

    def event(self, kind: str, text: str, **facts: object) -> None:
        """Something of note has happened, such as the death of a worker: a line on screen and in events.jsonl.

        Args:
            kind: words joined by `_`. text: one line for people. facts: for scripts, what JSON can hold.
        """

    def uncounted(self) -> AbstractContextManager[None]:
        """While the body runs, CPU seconds do not count as the run's: the agent measures how it computes fastest."""

    def rescue(self, snapshot: Snapshot, error: BaseException, reports: Sequence[Report] = ()) -> None:
        """Training has failed or was cut short: takes in the last reports, and saves a checkpoint of the agent."""
