"""All random numbers of a run descend from `run.seed`, each kind on a branch of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import a3c_zoo
from a3c_zoo import seeds
from a3c_zoo.agents.a3c import A3CWorker
from a3c_zoo.agents.configs import NStepConfig
from a3c_zoo.learning.counters import REPLACED
from tests.test_textbook_agents import make_context
from tests.toys_runs import toy_installed


def test_branches_keep_their_numbers() -> None:
    """A branch with another number would change the results of every seed."""
    branches = (seeds.SEED_NETWORK, seeds.SEED_ENV, seeds.SEED_SAMPLING, seeds.SEED_EVALUATION)
    assert (*branches, seeds.SEED_CHECK) == (0, 1, 2, 3, 4)
    kinds = (seeds.CHECK_EVALUATIONS, seeds.USER_EVALUATIONS, seeds.EVALUATOR_EVALUATIONS, seeds.COMPARED_EVALUATIONS)
    assert kinds == (0, 1_000_000, 2_000_000, 3_000_000)
    sequence = np.random.SeedSequence(5, spawn_key=(3, 1_000_000))
    assert seeds.seed_for(5, seeds.SEED_EVALUATION, seeds.USER_EVALUATIONS) == sequence.generate_state(1)[0] // 2


def test_a_solved_check_samples_its_actions_from_the_runs_seed(tmp_path: Path) -> None:
    """A sampled action of `coin` is worth 0 or 1, so the mean return of a check tells which actions were drawn."""

    def mean_of_check(seed: int, folder: str) -> float:
        outcome = a3c_zoo.train(
            "coin", agent="random", seed=seed, stop_return=0.1, serial=True, runs_dir=tmp_path / folder
        )
        assert outcome.evaluation is not None
        return outcome.evaluation.mean_return

    with toy_installed(tmp_path / "toy"):
        first = mean_of_check(1, "a")
        assert mean_of_check(1, "b") == first
        assert mean_of_check(2, "c") != first


def test_a_resumed_and_a_replaced_worker_begin_with_other_seeds() -> None:
    """Else they would play the episodes once more that the run has learned from, or in which a worker failed."""

    def begin(resumes: int, replaced: int) -> tuple[int, tuple[float, ...]]:
        context = replace(make_context(NStepConfig()), resumes=resumes)
        context.counters[0, REPLACED] = replaced
        worker = A3CWorker(context, 0, None, lambda: None)
        sampling, first = worker.collector.generator.initial_seed(), worker.collector.rollout.observations[-1]
        worker.close()
        return sampling, tuple(first.flatten().tolist())

    sessions = [(0, 0), (1, 0), (0, 1), (1, 1)]
    begun = [begin(*each) for each in sessions]
    assert begun == [begin(*each) for each in sessions]
    sampling, first = map(set, zip(*begun, strict=True))
    assert len(sampling) == len(first) == len(sessions)
