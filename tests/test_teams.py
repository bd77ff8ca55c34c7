"""Teams of workers (`agent.teams`).

The parts of an update add up to the whole; members wait for each other and for nobody else; a run of teams is saved,
cut short, resumed and ended like any other.
"""

from __future__ import annotations

import json
import math
import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import a3c_zoo
from a3c_zoo import hardware, system
from a3c_zoo.agents.a3c import A3CWorker
from a3c_zoo.agents.configs import A3CConfig
from a3c_zoo.agents.context import WorkerContext
from a3c_zoo.agents.teams import TeamWorker, config_of_member, decay_beside, team_memory
from a3c_zoo.agents.with_workers import check_processes
from a3c_zoo.config import Config, EnvConfig, OptimizerConfig, RunConfig
from a3c_zoo.config import settings as settings_module
from a3c_zoo.config.sets import dump_config, load_config, resolve_config
from a3c_zoo.config.settings import why_workers
from a3c_zoo.errors import ConfigError, CrewLostError
from a3c_zoo.learning.actions import Categorical
from a3c_zoo.learning.counters import STEPS, UPDATES, Counters
from a3c_zoo.learning.model import Model, probe_spaces
from a3c_zoo.learning.network_configs import MLPConfig
from a3c_zoo.learning.objective import Objective, normalize
from a3c_zoo.learning.observation_statistics import ObservationStatistics
from a3c_zoo.learning.optimizers import Adam, clip_by_global_norm
from a3c_zoo.learning.parameters import FlatParameters, share
from a3c_zoo.learning.samples import Samples, differentiate_samples
from a3c_zoo.learning.update_parts import WholeUpdate, merged_moments, moments_of_updates, whole_updates
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.processes.faults import Fault, Replacements
from a3c_zoo.processes.pool import WorkerPool
from a3c_zoo.records import Progress
from a3c_zoo.runs.notices import many_workers
from a3c_zoo.runs.setup import RunSetup
from tests.test_learner_agents import CARTPOLE, MLP
from tests.test_supervision import worker_pids
from tests.toys import ADAM, TinyNetwork
from tests.toys_runs import Listener, checkpoint, command_line, episodes
from tests.toys_teams import NUM_STEPS, NUM_UPDATES, Member, gradient_of, memory_of
from tests.waits import LIMIT_S, wait_until

PPO = Objective(
    gamma=0.5, gae_lambda=1.0, entropy_coefficient=0.1, value_coefficient=0.5, clip_ratio=0.2, normalize_advantages=True
)
#: Two teams of two workers with two environments each; 64 samples of a rollout, 8 in each update, two passes.
SMALL = {
    "run.workers": 4,
    "env.num_envs": 4,
    "agent.n_steps": 16,
    "agent.update_samples": 8,
    "agent.clip_ratio": 0.2,
    "agent.epochs": 2,
    "agent.normalize_advantages": True,
    "agent.teams": 2,
    "run.stop_when_solved": False,
    "optimizer.schedule": "constant",
}


# ----------------------------------------------------------------------------------------------------------------------
# The parts of an update


def test_the_moments_of_an_update_by_hand() -> None:
    """Update 0 has the valid advantages 1 and 3: 2, mean 2, squares 1 + 1. Update 1 has 5 alone."""
    advantages = torch.tensor([3.0, 9.0, 5.0, 1.0])
    valid = torch.tensor([True, False, True, True])
    result = moments_of_updates(advantages, valid, (torch.tensor([0, 3]), torch.tensor([1, 2])))
    assert result.tolist() == [[2, 2, 2], [1, 5, 0]]


def test_the_moments_of_an_update_of_segments() -> None:
    """Segments are columns: update 0 has the second, 2 and 4; update 1 the first, 1 and 3."""
    advantages = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    valid = torch.ones(2, 2, dtype=torch.bool)
    result = moments_of_updates(advantages, valid, (torch.tensor([1]), torch.tensor([0])))
    assert result.tolist() == [[2, 3, 2], [2, 2, 2]]


def test_moments_are_merged_by_hand() -> None:
    """1 and 3, and 5, 7 and 9: five numbers with the mean 5, and squares 16 + 4 + 0 + 4 + 16. A part may be empty."""
    parts = np.array([[[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]], [[3.0, 7.0, 8.0], [1.0, 4.0, 0.0]]])
    whole = merged_moments(parts)
    assert whole.tolist() == [[5, 5, 40], [1, 4, 0]]
    assert merged_moments(np.zeros((2, 1, 3))).tolist() == [[0, 0, 0]]


def test_updates_are_normalised_over_the_rollouts_of_the_team() -> None:
    """Members with 1 and 3; with 5, 7 and 9; with 4: mean 29 / 6, squares 181 − 29² / 6. Two passes of two updates.

    The second pass has the same samples in another order, and does not count twice.
    """
    members = np.array(
        [
            [[1.0, 1.0, 0.0], [1.0, 3.0, 0.0], [1.0, 3.0, 0.0], [1.0, 1.0, 0.0]],
            [[2.0, 6.0, 2.0], [1.0, 9.0, 0.0], [1.0, 5.0, 0.0], [2.0, 8.0, 2.0]],
            [[0.0, 0.0, 0.0], [1.0, 4.0, 0.0], [1.0, 4.0, 0.0], [0.0, 0.0, 0.0]],
        ]
    )
    deviation = sqrt((181 - 29**2 / 6) / 6)
    result = whole_updates(members, slice(0, 2), 2)
    assert [each.num_valid for each in result] == [3, 2, 2, 3]
    assert [each.mean for each in result] == pytest.approx([29 / 6] * 4)
    assert [each.deviation for each in result] == pytest.approx([deviation] * 4)
    assert [each.num_valid for each in whole_updates(members, slice(2, 3), 2)] == [0, 1, 1, 0]


def test_updates_of_all_members_are_normalised_alone() -> None:
    """1 and 3 with 5: mean 3, squares 8. And 5 alone."""
    members = np.array([[[2.0, 2.0, 2.0], [0.0, 0.0, 0.0]], [[1.0, 5.0, 0.0], [1.0, 5.0, 0.0]]])
    assert whole_updates(members, slice(0, 2), 1) == [WholeUpdate(3, 3.0, sqrt(8 / 3)), WholeUpdate(1, 5.0, 0.0)]


@pytest.mark.parametrize(
    ("beta1", "beside", "expected"),
    [
        (0.9, 2, 0.9),  # 9 updates old
        (0.9, 4, 7 / 8),  # two updates more of others: 7
        (0.9, 8, 3 / 4),  # 9 − 6 = 3
        (0.9, 16, 1 / 2),  # 9 − 14 < 1
        (0.3, 16, 0.3),
        (0.0, 8, 0.0),
    ],
)
def test_the_first_moment_of_many_beside_each_other(beta1: float, beside: int, expected: float) -> None:
    """Gradients in Adam's first moment are β₁ / (1 − β₁) updates old on average, and those of two one update more."""
    assert decay_beside(beta1, 2, beside) == pytest.approx(expected)


def test_advantages_are_normalised_by_numbers_of_the_whole() -> None:
    """1 and 3 with the mean 5 and the deviation √8 of the whole, not their own."""
    part = np.array([1.0, 3.0], np.float32)
    result = normalize(part, np.array([True, True]), WholeUpdate(5, 5.0, sqrt(8)))
    assert result == pytest.approx(np.array([-4, -2]) / sqrt(8), rel=1e-6)
    assert normalize(part, np.array([True, False]), WholeUpdate(1, 1.0, 0.0)) is part


def test_the_gradients_of_the_parts_add_up_to_that_of_the_whole() -> None:
    """Parts of different sizes, with ignored steps, moved ratios, an entropy bonus and a value loss."""
    generator = torch.Generator().manual_seed(0)
    size = 12
    whole = Samples(
        observations=torch.randn(size, 1, generator=generator),
        actions=torch.randint(2, (size,), generator=generator),
        log_probs=torch.full((size,), log(0.45)),
        advantages=torch.randn(size, generator=generator),
        returns=torch.randn(size, generator=generator),
        valid=torch.arange(size) % 5 != 0,
    )
    parts = [whole.chosen(torch.arange(0, 4)), whole.chosen(torch.arange(4, size))]
    moments = [moments_of_updates(part.advantages, part.valid, (torch.arange(len(part.valid)),)) for part in parts]
    [of_all] = whole_updates(np.array(moments), slice(0, 2), 1)

    def gradient(samples: Samples, update: WholeUpdate | None) -> torch.Tensor:
        network = TinyNetwork()
        flat = FlatParameters(network)
        differentiate_samples(network, Categorical(2), samples, PPO, whole=update)
        return flat.gradients

    expected = gradient(whole, None)
    assert expected.abs().min() > 1e-3
    total = sum(gradient(part, of_all) for part in parts)
    assert torch.allclose(torch.as_tensor(total), expected, rtol=1e-5, atol=1e-7)


# ----------------------------------------------------------------------------------------------------------------------
# Members in processes


@contextmanager
def running(
    teams: int,
    members: int,
    slow: dict[int, float] | None = None,
    group_size: int | None = None,
    timeout_s: float = 300.0,
) -> Iterator[tuple[WorkerPool, Any]]:
    """A pool of members, and the parameters that they share. slow: seconds of a step, by rank."""
    workers = teams * members
    counters = Counters.zeros(workers)
    parameters = torch.zeros(workers, 7, dtype=torch.float64)
    share(counters, parameters)
    step_s = [(slow or {}).get(rank, 0.0) for rank in range(workers)]
    plan = (memory_of(teams, members, group_size or members), counters, parameters, step_s)
    pool = WorkerPool(
        Member,
        plan,
        Counters(counters),
        timeout_s=timeout_s,
        num_followers=workers - teams,
        rollout_steps=NUM_STEPS,
    )
    try:
        pool.start()
        yield pool, parameters
    finally:
        pool.stop()


def rollouts_until(pool: WorkerPool, steps: int) -> None:
    deadline_s = time.monotonic() + LIMIT_S
    while pool._counters.steps < steps:
        assert time.monotonic() < deadline_s
        pool.poll()


@pytest.mark.parametrize("group_size", [1, 2, 4])
def test_groups_add_up_their_gradients_and_teams_stand_still_together(group_size: int) -> None:
    """Rank r is member r // 2 of team r % 2, so team 0 has ranks 0, 2, 4 and 6. Ten times they stand still.

    With groups of two, ranks 0 and 2 make their updates together, and rank 0 applies them. The first group of each team
    makes one update more than the others.
    """
    with running(teams=2, members=4, group_size=group_size) as (pool, parameters):
        for _ in range(10):
            steps = pool._counters.steps
            pool.resume()
            rollouts_until(pool, steps + 1)
            pool.park()
            states = pool.states()
            for team in range(2):
                members = states[team::2]
                ranks = list(range(team, 8, 2))
                rollouts = members[0]["rollouts"]
                assert [member["rollouts"] for member in members] == [rollouts] * 4
                if rollouts:
                    moments = members[0]["moments"]
                    assert moments.tolist() == [[[float(rank)] * 3] * NUM_UPDATES for rank in ranks]
                for first in range(0, 4, group_size):
                    group = ranks[first : first + group_size]
                    expected = sum(
                        gradient_of(rank, rollout, update).double()
                        for rank in group
                        for rollout in range(rollouts)
                        for update in range(NUM_UPDATES)
                        if not first or update != rollout % NUM_UPDATES
                    )
                    assert torch.equal(parameters[group[0]], torch.zeros(7) + expected)
                    if rollouts:
                        assert all(torch.equal(states[rank]["seen"], parameters[group[0]]) for rank in group)
        applying = range(0, 8) if group_size == 1 else [*range(0, 8, 2 * group_size), *range(1, 8, 2 * group_size)]
        per_rollout = [(NUM_UPDATES - (rank >= 2 * group_size)) * (rank in applying) for rank in range(8)]
        made = [each * state["rollouts"] for each, state in zip(per_rollout, states, strict=True)]
        assert pool._counters.tensor[:, UPDATES].tolist() == made
        assert pool._counters.tensor[:, STEPS].tolist() == [NUM_STEPS * s["rollouts"] for s in states]
        assert all(state["cut"] == 0 for state in states)


@pytest.mark.parametrize("slow", [{0: 1.0}, {1: 1.0}, {0: 1.0, 1: 1.0}])
def test_a_rollout_that_a_member_leaves_is_lost_to_all(slow: dict[int, float]) -> None:
    """When the time is over, nobody finishes a rollout, and nobody waits for one who does not. Then all go on."""
    with running(teams=1, members=2, slow=slow) as (pool, parameters):
        for turn in range(1, 4):
            pool.resume()
            time.sleep(0.2)
            pool.park(lambda: True)
            states = pool.states()
            assert len(states) == 2
            assert not parameters.any()
            assert {state["rollouts"] for state in states} == {0}
            assert max(state["cut"] for state in states) <= turn


def test_a_follower_that_waits_for_its_leader_does_not_hang() -> None:
    """The leader of team 0 stands still at once. Its follower waits for it while team 1 finishes a rollout of 5 s."""
    with running(teams=2, members=2, slow={1: 1.0, 3: 1.0}, timeout_s=3.0) as (pool, _):
        pool.resume()
        pool.poll()
        pool.park()
        assert pool._counters.tensor[1, STEPS] == NUM_STEPS


def test_waits_are_no_steps_of_the_first_rollout() -> None:
    """The leader ticks about once in a millisecond while it waits for a follower with steps of a second."""
    with running(teams=1, members=2, slow={1: 1.0}) as (pool, _):
        pool.resume()
        wait_until(lambda: pool._counters.ticks[0] > 10 * NUM_STEPS)
        assert pool.poll()[-1].first_rollout == NUM_STEPS


def test_a_member_that_dies_ends_the_crew() -> None:
    """The others are in the middle of an update with it."""
    told: list[str] = []
    fault = Fault(3, "worker 3", RuntimeError("boom"), "was ended by signal SIGKILL")
    with pytest.raises(CrewLostError, match=r"^boom$"):
        Replacements(lambda *words, **facts: told.append(str(words)), 3, in_teams=True).judge(fault)
    Replacements(lambda *words, **facts: told.append(str(words)), 3).judge(fault)
    assert len(told) == 1


def test_a_team_makes_the_updates_of_one_worker() -> None:
    """Two members collect and learn; then one process makes the same updates, of the samples of both, in order."""
    agent = A3CConfig(
        n_steps=16, clip_ratio=0.2, update_samples=16, epochs=3, normalize_advantages=True, teams=1, gae_lambda=0.9
    )
    optimizer = OptimizerConfig(name="adam", learning_rate=1e-2, max_grad_norm=0.5)
    whole = Config(
        "cartpole",
        "a3c",
        RunConfig(workers=2, seed=5),
        EnvConfig(num_envs=4),
        agent,
        MLPConfig(hidden_sizes=(16,), normalize_observations=True),
        optimizer,
    )
    spaces = probe_spaces(CARTPOLE, None, whole, ("Discrete",))
    model = Model.create(spaces, MLP, whole)
    parameters = model.flat.initial.clone()
    moments = Adam.moments(parameters, optimizer)
    counters = Counters.zeros(2)
    statistics = ObservationStatistics.zeros(2, spaces.observations.num_features)
    exchange = (team_memory(whole, len(parameters)), None)
    context = WorkerContext(
        CARTPOLE, MLP, ADAM, config_of_member(whole), spaces, parameters, moments, counters, statistics, 0, exchange
    )
    members = [TeamWorker(context, rank, None, lambda: None) for rank in range(2)]
    seen: list[tuple[Samples, list[torch.Tensor]]] = [None, None]  # type: ignore[list-item]

    def work(rank: int) -> None:
        member = members[rank]

        def samples(rollout: Any) -> Any:
            generator = torch.Generator()
            generator.set_state(member.collector.generator.get_state())
            found = A3CWorker.samples(member, rollout)
            assert isinstance(found, Samples)
            seen[rank] = (found, [each for _ in range(3) for each in found.shuffled(8, generator)])
            return found

        member.samples = samples  # type: ignore[method-assign]
        while not member.row[STEPS]:
            member.work()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(work, range(2)))
    assert counters[:, UPDATES].tolist() == [12, 0]

    both = Samples(
        *(
            torch.cat([getattr(part, field.name) for part, _ in seen])
            for field in fields(Samples)
            if field.name != "masks"
        )
    )
    assert len(both.valid) == 64
    alone = model.flat.initial.clone()
    adam = Adam(alone, Adam.moments(alone, optimizer), optimizer)
    objective = members[0].objective()
    model.pull_statistics(statistics)  # members learn with those of both rollouts
    for first, second in zip(seen[0][1], seen[1][1], strict=True):
        model.flat.pull(alone)
        model.flat.zero_gradients()
        chosen = both.chosen(torch.cat((first, second + 32)))
        differentiate_samples(model.network, spaces.actions, chosen, objective)
        clip_by_global_norm(model.flat.wide_gradients(), 0.5)
        adam.apply(model.flat.wide_gradients(), 1e-2)
    assert (alone - model.flat.initial).abs().max() > 0.05
    assert torch.allclose(parameters, alone, rtol=1e-4, atol=1e-5)


# ----------------------------------------------------------------------------------------------------------------------
# Configuration


def resolve(*overrides: str, env: str = "cartpole", set_name: str | None = None) -> Any:
    registry = get_registry()
    return resolve_config(registry, registry.env(env), registry.agent("a3c"), hyperparams=set_name, overrides=overrides)


@pytest.mark.parametrize(
    ("cores", "workers"), [(1, 1), (2, 2), (3, 2), (4, 4), (7, 4), (8, 8), (12, 8), (16, 16), (64, 16)]
)
def test_auto_takes_the_cores_that_teams_can_use(cores: int, workers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gym/a3c` has two teams with eight environments; `pong/a3c-ppo` has auto itself."""
    monkeypatch.setattr(settings_module, "available_cores", lambda: cores)
    config = resolve("run.workers=auto", env="gym:LunarLander-v3")
    assert config.run.workers == workers
    assert resolve(env="gym:LunarLander-v3").run.workers == 2
    assert resolve(env="pong", set_name="a3c-ppo").run.workers == min(32, 2 ** int(math.log2(cores)))
    assert config.to_dict()["run"]["workers"] == workers
    # A set that names a number keeps it; without teams auto takes two at most.
    assert resolve().run.workers == 2
    assert resolve("run.workers=auto").run.workers == min(cores, 2)
    assert resolve("run.workers=auto", "agent.teams=null", env="gym:LunarLander-v3").run.workers == min(cores, 2)


@pytest.mark.parametrize(
    ("workers", "cores", "shared_out", "why"),
    [
        (1, 1, [1, 2, 4], "this process may use one core"),  # such as in a cgroup of half a core
        (4, 4, [1, 2, 4], "one for each of 4 cores"),
        (4, 7, [1, 2, 4], "there are 7 cores, and the environments can be shared out among 1, 2, 4 workers"),
        (2, 16, [], "there are 16 cores, but without agent.teams more workers need more steps"),
    ],
)
def test_why_auto_took_so_many(workers: int, cores: int, shared_out: list[int], why: str) -> None:
    assert why_workers(workers, cores, shared_out) == f"auto: {why}"


def test_auto_in_half_a_core(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any) -> None:
    """The quota of a cgroup is rounded up; `train --dry-run` and `show` say why there is one worker."""
    monkeypatch.setattr(settings_module, "available_cores", lambda: hardware.cores_of_quota("50000 100000"))
    assert resolve("run.workers=auto", env="gym:LunarLander-v3").run.workers == 1
    assert command_line("train", "gym:LunarLander-v3", "--workers", "auto", "--dry-run") == 0
    assert "workers       1, auto: this process may use one core\n" in capsys.readouterr().out
    assert command_line("show", "hyperparams", "gym:LunarLander-v3", "-o", "run.workers=auto", "--json") == 0
    [row] = [row for row in json.loads(capsys.readouterr().out) if row["key"] == "run.workers"]
    assert (row["value"], row["source"]) == (1, "-o; auto: this process may use one core")


def test_the_start_tells_of_teams_and_does_not_doubt_the_rate() -> None:
    def told(*overrides: str) -> tuple[str, int]:
        config = resolve("run.workers=16", *overrides, env="gym:LunarLander-v3")
        assert config.sets_workers == 2
        setup = RunSetup.of(get_registry(), config, False)
        return setup.title, len(many_workers(setup.config))

    assert told() == ("a3c on gym:LunarLander-v3, seed 0, 16 workers in 2 teams", 0)
    assert told("agent.teams=null") == ("a3c on gym:LunarLander-v3, seed 0, 16 workers", 1)


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ([], ""),
        (["agent.n_steps=125", "agent.update_samples=50"], "made by 2 of the 8 workers of a team: its samples"),
        (["network.recurrent=lstm"], "made by 4 of the 8 workers of a team: its segments"),
        (["network.recurrent=lstm", "agent.team_updates=beside"], ""),
        (["agent.teams=null"], ""),
    ],
)
def test_the_start_tells_of_updates_that_fewer_members_make(overrides: list[str], told: str) -> None:
    config = resolve(
        "run.workers=16", "agent.n_steps=128", "agent.update_samples=64", *overrides, env="gym:LunarLander-v3"
    )
    line = f"each update is {told} cannot be split equally among more" if told else ""
    assert RunSetup.of(get_registry(), config, False).teams_told == line
    assert RunSetup.of(get_registry(), config, True).teams_told == ""


def test_a_number_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        resolve("run.workers=1000", env="gym:LunarLander-v3")
    assert str(refused.value) == (
        "-o run.workers: 1000 — agent.teams: 2 shares out env.num_envs: 8 among 1, 2, 4, 8, 16 workers. "
        "-o agent.teams=null lets each worker learn by itself"
    )


@pytest.mark.parametrize(
    ("set_name", "given", "cures"),
    [
        ("a3c", ["agent.teams=2"], ["agent.clip_ratio=0.2", "agent.teams=null"]),
        (
            "a3c",
            ["agent.team_updates=beside"],
            ["agent.teams=2 agent.clip_ratio=0.2", "agent.team_updates=together"],
        ),
        (
            "a3c-ppo",
            ["agent.team_updates=beside", "run.workers=3"],
            ["agent.teams=null agent.team_updates=together"],
        ),
        ("a3c-ppo", ["agent.clip_ratio=null"], ["agent.clip_ratio=0.2", "agent.epochs=1 agent.teams=null"]),
        (
            "a3c-ppo",
            ["agent.teams=null", "agent.team_updates=beside"],
            ["agent.teams=2", "agent.team_updates=together"],
        ),
        (
            "a3c-ppo",
            [
                *("agent.clip_ratio=null", "agent.team_updates=beside", "agent.update_samples=16"),
                *("agent.segment_steps=8", "network.recurrent=lstm"),
            ],
            [
                "agent.clip_ratio=0.2",
                "agent.epochs=1 agent.segment_steps=null agent.teams=null agent.team_updates=together "
                "agent.update_samples=null",
            ],
        ),
    ],
)
def test_keys_that_depend_on_each_other_name_a_cure_that_works(
    set_name: str, given: list[str], cures: list[str]
) -> None:
    with pytest.raises(ConfigError) as refused:
        resolve(*given, set_name=set_name)
    for cure in cures:
        assert " ".join(f"-o {override}" for override in cure.split()) in str(refused.value)
        resolve(*given, *cure.split(), set_name=set_name)


def test_a_resume_with_a_number_that_does_not_fit_names_the_next_one(tmp_path: Path) -> None:
    """A resume has no `-o`: agent.teams stays what it is."""
    (tmp_path / "config.yml").write_text(dump_config(resolve(set_name="a3c-ppo")))
    with pytest.raises(ConfigError) as refused:
        load_config(tmp_path / "config.yml", get_registry(), {"run.workers": (3, "--workers")})
    assert str(refused.value) == (
        "--workers run.workers: 3 — agent.teams: 2 shares out env.num_envs: 16 among 1, 2, 4 workers"
    )


@pytest.mark.parametrize(("workers", "fits"), [(1, True), (3, False), (4, True), (6, False), (16, True), (32, False)])
def test_which_numbers_of_workers_fit(workers: int, fits: bool) -> None:
    """Two teams with 8 environments."""
    agent = A3CConfig(n_steps=128, clip_ratio=0.2, update_samples=64, teams=2)
    assert agent.takes_workers(workers, 8) == fits


@pytest.mark.parametrize(
    ("workers", "n_steps", "update_samples", "has_core", "size"),
    [
        (4, 128, 64, False, 1),  # a member has 512 samples, 8 updates
        (16, 128, 64, False, 1),  # 128 samples, 2 updates
        (16, 128, 128, False, 2),  # 128 samples are one update alone
        (16, 128, 256, False, 4),
        (16, 128, 512, False, 8),
        (16, 128, 1024, False, 8),  # a rollout of the team is one update
        (8, 128, 1024, False, 4),
        (16, 48, 32, False, 2),  # 48 samples of each: two give 16 each to every update, and three updates take them all
        (16, 5, 5, False, 1),  # an update of 5 has no equal parts of two members
        (16, 128, 64, True, 1),  # 8 segments of 16 steps, and an update has 4
        (16, 16, 16, True, 1),  # an update is one segment
        (16, 16, 32, True, 2),  # an update has two segments, for two members at most
    ],
)
def test_how_many_members_make_an_update(
    workers: int, n_steps: int, update_samples: int, has_core: bool, size: int
) -> None:
    """Two teams with 8 environments; as few members as have the samples of two updates."""
    agent = A3CConfig(n_steps=n_steps, clip_ratio=0.2, update_samples=update_samples, teams=2, team_updates="beside")
    assert agent.members_of_update(workers, 8, has_core) == size


@pytest.mark.parametrize(
    ("workers", "n_steps", "update_samples", "has_core", "size"),
    [
        (4, 128, 64, False, 2),
        (16, 128, 64, False, 8),
        (16, 128, 64, True, 4),  # an update has 4 segments of 16 steps
        (16, 5, 5, False, 1),  # an update of 5 has no equal parts of two members
        (16, 125, 50, False, 2),  # nor has one of 50 for four
    ],
)
def test_how_many_members_make_an_update_together(
    workers: int, n_steps: int, update_samples: int, has_core: bool, size: int
) -> None:
    """Two teams with 8 environments; all members of a team, if the update has parts for them."""
    agent = A3CConfig(n_steps=n_steps, clip_ratio=0.2, update_samples=update_samples, teams=2)
    assert agent.members_of_update(workers, 8, has_core) == size


@pytest.mark.parametrize(
    ("files", "memory", "text"),
    [
        (1024, 10**12, "this process may open 1,024 files, which is enough for 250 workers. More: ulimit -n 4040"),
        (
            10**6,
            10**9,
            "1.0 GB of memory are free, enough for 40 workers at most. As many as there are cores: --workers auto",
        ),
    ],
)
def test_a_thousand_workers_that_do_not_fit_are_refused_at_once(
    files: int, memory: int, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """(1,024 − 24) / 4 = 250 workers by files; 1 GB / 25 MB = 40 by memory."""
    monkeypatch.setattr(system, "most_open_files", lambda: files)
    monkeypatch.setattr(hardware, "available_memory", lambda: memory)
    with pytest.raises(ConfigError) as refused:
        check_processes(1000)
    assert str(refused.value) == f"run.workers: 1,000 — {text}"


# ----------------------------------------------------------------------------------------------------------------------
# Runs


def train(folder: Path, **options: Any) -> Any:
    overrides = SMALL | options.pop("overrides", {})
    return a3c_zoo.train("cartpole", seed=3, overrides=overrides, runs_dir=folder, **options)


TOGETHER = {"agent.team_updates": "together"}


@pytest.mark.parametrize(
    ("overrides", "of_member"),
    [
        ({"agent.team_updates": "beside"}, [8, 8, 8, 8]),
        (TOGETHER, [16, 16, 0, 0]),
        (TOGETHER | {"agent.locking": "apply"}, [16, 16, 0, 0]),
        (TOGETHER | {"optimizer.shared_statistics": False}, [16, 16, 0, 0]),
    ],
    ids=["beside", "together", "with a lock", "with moments of their own"],
)
def test_a_run_of_teams_counts_exactly_and_goes_on(
    overrides: dict[str, Any], of_member: list[int], tmp_path: Path
) -> None:
    """A rollout of a team has 64 steps, of which some are ignored. Its two passes have 16 updates.

    of_member: the updates that each worker applies in a rollout.
    """
    outcome = train(tmp_path, steps=1500, overrides=overrides)
    for steps in (1500, 2500):
        if steps > 1500:
            outcome = a3c_zoo.train(resume=outcome.run, steps=steps)
        saved = checkpoint(outcome.run)
        counters = saved["agent"]["counters"]
        assert outcome.reason == "steps"
        assert steps <= outcome.steps == int(counters[:, STEPS].sum()) < steps + 2 * 64
        assert len(episodes(outcome.run)) == saved["session"]["episodes"]
        assert outcome.updates == int(counters[:, UPDATES].sum())
        rollouts = [int(updates) / each for updates, each in zip(counters[:2, UPDATES], of_member[:2], strict=True)]
        expected = [each * rollouts[rank % 2] for rank, each in enumerate(of_member)]
        assert counters[:, UPDATES].tolist() == expected
        assert sum(rollouts) * 64 * 0.85 < outcome.steps <= sum(rollouts) * 64
        assert counters[:, STEPS].min() > 0
        has_own_moments = [bool(state.get("optimizer")) for state in saved["agent"]["workers"]]
        applies = [bool(each) for each in of_member]
        assert has_own_moments == (applies if "optimizer.shared_statistics" in overrides else [False] * 4)


def test_in_turn_a_team_is_one_worker(tmp_path: Path) -> None:
    """Workers in turn cannot wait for each other. What a team would learn, one worker learns."""
    listener = Listener()
    outcome = train(tmp_path, steps=500, serial=True, observer=listener)
    assert len(checkpoint(outcome.run)["agent"]["counters"]) == 2
    line = "2 workers in place of 4: in turn, each learns what a team would"
    assert line in listener.messages
    other = Listener()
    alone = train(tmp_path, steps=500, serial=True, overrides={"run.workers": 2}, observer=other)
    assert line not in other.messages
    first, second = (checkpoint(each.run)["agent"]["model"]["parameters"] for each in (outcome, alone))
    assert torch.equal(first, second)


def test_a_time_limit_ends_teams(tmp_path: Path) -> None:
    outcome = train(tmp_path, time_limit_s=1.0)
    assert outcome.reason == "time-limit"
    assert len(checkpoint(outcome.run)["agent"]["workers"]) == 4


class Killer(Listener):
    """Kills one member of a team, once."""

    killed: int | None = None

    def progress(self, progress: Progress) -> None:
        super().progress(progress)
        if self.killed is None and progress.steps > 500:
            self.killed = wait_until(lambda: worker_pids().get("a3c-zoo worker 3"))
            os.kill(self.killed, signal.SIGKILL)


def test_a_run_goes_on_from_its_checkpoint_after_the_death_of_a_member(tmp_path: Path) -> None:
    killer = Killer()
    outcome = train(tmp_path, steps=2000, overrides={"run.checkpoint_every_steps": 300}, observer=killer)
    assert killer.killed is not None
    assert outcome.reason == "steps"
    assert outcome.steps >= 2000
    events = [json.loads(line)["kind"] for line in (outcome.run / "events.jsonl").read_text().splitlines()]
    assert "worker_replaced" not in events


def test_a_core_learns_in_teams(tmp_path: Path) -> None:
    """With segments of 8 steps, of which an update has two: one for each member."""
    core = {"network.recurrent": "gru", "network.recurrent_size": 8, "network.separate": False}
    overrides = core | {"agent.segment_steps": 8, "agent.update_samples": 16}
    outcome = train(tmp_path, steps=600, overrides=overrides)
    assert outcome.updates >= outcome.steps // 64 * 8
    assert torch.isfinite(checkpoint(outcome.run)["agent"]["model"]["parameters"]).all()
