"""`compare --until-decided`: the rule for a plan, and the runs that its next look needs."""

from __future__ import annotations

import itertools
from dataclasses import replace

from a3c_zoo.comparison.plan import Plan
from a3c_zoo.errors import ZooError
from a3c_zoo.figures.decisions import methods_of
from a3c_zoo.figures.sequential import Pair, SequentialRule, SequentialTest
from a3c_zoo.figures.statistics import MIN_SEEDS


def rule_of(plan: Plan, block: int) -> SequentialRule:
    """The rule for a plan of the most seeds: all pairs of methods on each environment, a look after each block.

    Raises:
        ZooError: the number of seeds is not a multiple of the block, or a block is too small.
    """
    seeds = len({run.seed for run in plan.runs})
    if block < MIN_SEEDS:
        raise ZooError(f"--seeds {block}: with --until-decided a block has {MIN_SEEDS} seeds or more")
    if seeds % block:
        raise ZooError(f"--max-seeds {seeds}: must be a multiple of the {block} seeds of a block (--seeds)")
    methods = dict.fromkeys((run.env, run.method) for run in plan.runs)
    pairs = (Pair(a[0], a[1], b[1]) for a, b in itertools.combinations(methods, 2) if a[0] == b[0])
    rule = SequentialRule(tuple(pairs), block, seeds // block)
    if not any(rule.parts):
        raise ZooError(
            f"--max-seeds {seeds}: so few seeds can decide nothing about {len(rule.pairs)} pairs of methods; give "
            f"more, such as --max-seeds {4 * block}"
        )
    return rule


def block_of(plan: Plan, test: SequentialTest) -> Plan:
    """The runs that the next look needs: the next seeds, of the methods in open pairs."""
    seeds = list(dict.fromkeys(run.seed for run in plan.runs))
    done = len(test.looks) * test.rule.block
    wanted = set(seeds[done : done + test.rule.block])
    methods = methods_of(test.open)
    return replace(
        plan, runs=tuple(run for run in plan.runs if run.seed in wanted and (run.env, run.method) in methods)
    )
