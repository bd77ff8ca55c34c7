"""The seeds of a run: one `numpy.random.SeedSequence` tree with `run.seed` at its root.

All branches are named here. A seed's path is the number of its branch and what the branch lists.

| branch | path below it | what it seeds |
| --- | --- | --- |
| `SEED_NETWORK` | | initial parameters |
| `SEED_ENV` | worker's rank | environments of a worker |
| `SEED_ENV` | worker's rank, how often the run was resumed, the worker replaced | their first reset |
| `SEED_SAMPLING` | worker's rank, how often the run was resumed, the worker replaced | its sampled actions |
| `SEED_EVALUATION` | evaluation's number | environments of an evaluation |
| `SEED_CHECK` | number of the check, number of the part | a tree of its own for a part of a solved check |
| `SEED_PROCESS` | evaluation's number | the global generators of a process that plays an evaluation |
| `SEED_PASSES` | how many updates there have been | what Dropout draws for the next update of a learner |

The path of a worker that was never replaced has no last number. The root itself seeds the sampled actions of
evaluations and of `play`; there the root is their `--seed`, if one is given.
"""

from __future__ import annotations

SEED_NETWORK, SEED_ENV, SEED_SAMPLING, SEED_EVALUATION, SEED_CHECK, SEED_PROCESS, SEED_PASSES = range(7)

#: The number of a run's k-th evaluation of a kind (k = 0, 1, …) is k + the first number of this kind. The four kinds
#: are evaluations that decide whether the run is solved, those that a user asks for, those of the evaluator beside
#: training, and those of a comparison. Each part of a solved check is evaluation 0 of a tree of its own.
CHECK_EVALUATIONS, USER_EVALUATIONS, EVALUATOR_EVALUATIONS, COMPARED_EVALUATIONS = range(
    0, 4_000_000, 1_000_000
)


def seed_for(root: int, *path: int) -> int:
    """Returns the seed, an independent 31-bit number, at a path below the root."""
    import numpy as np  # late: the names of branches are needed before the fork server starts

    return int(np.random.SeedSequence(root, spawn_key=path).generate_state(1)[0] >> 1)
