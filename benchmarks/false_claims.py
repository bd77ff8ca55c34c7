"""How often a comparison claims a difference that is not there, and how often its intervals hold the truth.

Simulated comparisons whose truth is known go through the functions of `a3c-zoo compare`: results, verdict, and the rule
of --until-decided. A claim is false if the methods do not differ in what it says, or differ the other way. Prints
tables in Markdown, and ends with status 1 if false claims, intervals or words are not as they should be.

    python benchmarks/false_claims.py --comparisons 1000 --seeds 5 10 20 0
    python benchmarks/false_claims.py --laws --comparisons 20000

With --laws, the p of claims are simulated without reports, for distributions that differ in spread and shape: `LAWS`.
Tied returns and several environments cost more time: a twentieth of the comparisons, with 1,000 random orders.
"""

from __future__ import annotations

import argparse
import itertools
import math
import multiprocessing
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import NormalDist

import numpy as np

from a3c_zoo.figures import improvement as improvement_module
from a3c_zoo.figures import statistics
from a3c_zoo.figures.claims import ERROR, Claim, holm
from a3c_zoo.figures.durations import MeanDifference
from a3c_zoo.figures.figure_table import FIGURES, TIMES
from a3c_zoo.figures.improvement import Chance, EarlierChance, improvement
from a3c_zoo.figures.measures import MeasuredRun, Measures
from a3c_zoo.figures.power import CHANCES, p_values
from a3c_zoo.figures.results import Results, results_of
from a3c_zoo.figures.sequential import Pair, SequentialRule
from a3c_zoo.figures.statistics import Estimate
from a3c_zoo.report.verdict import verdict
from a3c_zoo.store.run_records import RunRecord
from a3c_zoo.store.tables import Curve

ENV = "cartpole"
#: Draws of the bootstrap. They are for the intervals of tables alone; no claim rests on them.
RESAMPLES = 2_000
#: Values from which the true means and interquartile means are computed.
MANY = 400_000
#: Blocks of seeds and looks of --until-decided, as its defaults are.
BLOCK, LOOKS = 5, 4
#: Intervals must hold the truth in this part of comparisons, from `ENOUGH` seeds on.
COVERS, ENOUGH = (0.93, 0.97), 10

Draw = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Method:
    """What a run of a method gives: its final return, the seconds to the threshold, and its speed.

    Its budget is 100,000 steps, so it ends after 100,000 / `steps_per_s` seconds.
    """

    returns: Draw
    seconds: Draw
    steps_per_s: float = 1000.0

    def runs(self, name: str, rng: np.random.Generator, seeds: int) -> list[MeasuredRun]:
        """Simulated runs, as `measure` would measure them."""
        budget = 100_000
        end_s = budget / self.steps_per_s
        found = []
        for seed, (final, at_s) in enumerate(zip(self.returns(rng, seeds), self.seconds(rng, seeds), strict=True), 1):
            is_there = at_s <= end_s
            measures = Measures(
                run=f"{name}-{seed}", env=ENV, method=name, seed=seed, final_return=float(final),
                final_return_greedy=None, mean_return=None,
                steps_to_threshold=round(at_s * self.steps_per_s) if is_there else None,
                seconds_to_threshold=float(at_s) if is_there else None, cpu_s_to_threshold=None, steps=budget,
                training_s=end_s, total_s=None, steps_per_s=self.steps_per_s, cpu_s=None, peak_memory_mib=None,
                calibration_s=0.2,
            )  # fmt: skip
            nothing = np.empty(0)
            curve = Curve(nothing.astype(np.int64), nothing, nothing, nothing.astype(np.int64))
            record = RunRecord(Path(measures.run), name, ENV, seed, curve, settings={"run.steps": budget})  # ours
            found.append(MeasuredRun(record, measures))
        return found


def normal(centre: float = 0.0, spread: float = 1.0) -> Draw:
    return lambda rng, size: rng.normal(centre, spread, size)


def lognormal(centre_s: float, spread: float) -> Draw:
    return lambda rng, size: centre_s * np.exp(rng.normal(0, spread, size))


SAME = Method(normal(), lognormal(40, 0.5))
#: Name → methods. Truths are computed from the methods.
SCENARIOS: Mapping[str, tuple[Method, ...]] = {
    "no difference": (SAME, SAME),
    "no difference, three methods": (SAME, SAME, SAME),
    "heavy tails": (Method(lambda rng, size: rng.standard_t(2, size), lognormal(60, 1.5)),) * 2,
    "crossing curves": (Method(normal(), lognormal(40, 0.3)), Method(normal(0, 3), lognormal(40, 0.9))),
    "censoring": tuple(
        Method(normal(), lambda rng, size: rng.exponential(60, size), speed) for speed in (3000.0, 1000.0)
    ),
    "half a standard deviation": (Method(normal(0.5), lognormal(40 * math.exp(-0.25), 0.5)), SAME),
    "two standard deviations": (Method(normal(2.0), lognormal(40 * math.exp(-1.0), 0.5)), SAME),
}


@dataclass
class Found:
    """What the simulated comparisons of a scenario gave, as numbers of comparisons or intervals."""

    counts: Counter[str] = field(default_factory=Counter)
    contradictions: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.counts += other.counts
        self.contradictions += other.contradictions

    def share(self, part: str, whole: str) -> float:
        return self.counts[part] / self.counts[whole] if self.counts[whole] else math.nan


@dataclass(frozen=True)
class Truth:
    """The true differences between the first two methods."""

    ahead: Mapping[str, float]  # the probability that the first is better, by measure
    samples: Sequence[Mapping[str, np.ndarray]]

    @classmethod
    def of(cls, methods: Sequence[Method]) -> Truth:
        rng = np.random.default_rng(0)
        samples = []
        for method in methods[:2]:
            seconds = method.seconds(rng, MANY)
            steps = seconds * method.steps_per_s
            samples.append({"final_return": method.returns(rng, MANY), "seconds_to_threshold": seconds,
                            "steps_to_threshold": steps})  # fmt: skip
        one, other = samples
        claimed = [each.name for each in TIMES if each.question]
        ahead = {name: float((one[name] < other[name]).mean()) for name in claimed}
        ahead["final_return"] = float((one["final_return"] > other["final_return"]).mean())
        return cls({name: 0.5 if abs(p - 0.5) < 0.005 else p for name, p in ahead.items()}, samples)

    def mean_difference(self, name: str, until: float) -> float:
        one, other = (np.minimum(sample[name], until).mean() for sample in self.samples)
        return float(one - other)

    def middle(self, number: int) -> float:
        return float(statistics.interquartile_mean(self.samples[number]["final_return"][:, None]))


def simulate(name: str, seeds: int, comparisons: int, first: int) -> Found:
    """Comparisons of a scenario; each has random numbers of its own."""
    methods, found = SCENARIOS[name], Found()
    truth = Truth.of(methods)
    middles = [truth.middle(number) for number in (0, 1)]
    for number in range(first, first + comparisons):
        rng = np.random.default_rng((number, seeds, [*SCENARIOS].index(name)))
        runs = [run for index, method in enumerate(methods) for run in method.runs(f"m{index}", rng, seeds)]
        results = results_of(runs, {})
        found.counts["comparisons"] += 1
        false = [claim for claim in results.claims if claim.holds and is_false(claim, truth)]
        found.counts["with a false claim"] += bool(false)
        returns = next(claim for claim in results.claims if claim.question.measure == "final_return")
        found.counts["return shown"] += returns.holds
        found.counts["return alone"] += returns.question.p <= ERROR
        found.contradictions += contradictions(results)
        (pair, *_) = results.environments[ENV].pairs
        intervals: dict[str, tuple[Chance | Estimate | MeanDifference, float]] = {
            "P": (pair.scores["final_return"], truth.ahead["final_return"]),
            "IQM": (results.environments[ENV].methods["m0"].scores["final_return"]["interquartile_mean"], middles[0]),
            "IQM difference": (pair.differences["final_return"], middles[0] - middles[1]),
        }
        gap = pair.differences["seconds_to_threshold"]
        if isinstance(gap, MeanDifference):
            intervals["mean time"] = (gap, truth.mean_difference("seconds_to_threshold", gap.until))
        for what, (figure, true) in intervals.items():
            if figure.low is not None and figure.high is not None:
                found.counts[f"{what} known"] += 1
                found.counts[f"{what} holds"] += figure.low <= true <= figure.high
    return found


def is_false(claim: Claim, truth: Truth) -> bool:
    """Whether the methods do not differ so. Of three methods, all are alike."""
    true = truth.ahead[claim.question.measure]
    return true == 0.5 or (claim.question.chance.value > 0.5) != (true > 0.5)


def contradictions(results: Results) -> list[str]:
    """Sentences of the verdict on claims that do not follow from the figures."""
    lines, wrong = verdict(results), []
    for claim in results.claims:
        question, chance = claim.question, claim.question.chance
        if isinstance(chance, EarlierChance) and chance.unknown == 1:
            wrong += ["a claim of unknown orders"] if claim.holds else []
            continue
        kind = FIGURES[question.measure].better if isinstance(chance, EarlierChance) else "higher return"
        names = (question.method, question.other)
        winner, loser = names if chance.value >= 0.5 else names[::-1]
        mine = [line for line in lines if f"a run of {winner} " in line and f"than a run of {loser} " in line]
        (line,) = (line for line in mine if kind in line)
        is_out = chance.low is not None and chance.high is not None and not chance.low <= 0.5 <= chance.high
        says = "; shown (" in line
        told = re.search(r"with probability ([\d.]+)", line)
        right = [
            says == claim.holds == ("not shown" not in line),
            told is not None and abs(float(told[1]) - max(chance.value, 1 - chance.value)) < 0.0006,
            is_out or not says,
            not is_out or says or "not shown after correction" in line or "loses all these pairs; not shown" in line,
        ]
        if not all(right):
            wrong.append(line)
    return wrong


def decide(name: str, comparisons: int, first: int) -> Found:
    """Comparisons of a scenario with --until-decided, all at once: their final returns have no ties."""
    methods, found = SCENARIOS[name], Found()
    rng = np.random.default_rng((first, 0, [*SCENARIOS].index(name)))
    drawn = [method.returns(rng, comparisons * BLOCK * LOOKS).reshape(comparisons, -1) for method in methods]
    pairs = [*itertools.combinations(drawn, 2)]
    true = Truth.of(methods).ahead["final_return"]
    rule = SequentialRule(tuple(Pair(ENV, str(number), "") for number in range(len(pairs))), BLOCK, LOOKS)
    is_open = np.ones((comparisons, len(pairs)), np.bool_)
    is_false = np.zeros(comparisons, np.bool_)
    seeds = np.full(comparisons, BLOCK * LOOKS)
    for number, part in enumerate(rule.parts, start=1):
        if not part:
            continue
        seen = number * BLOCK
        p = np.array([p_values(one[:, :seen], other[:, :seen]) for one, other in pairs]).T
        is_ahead = np.array([wins(one[:, :seen], other[:, :seen]) > 0.5 for one, other in pairs]).T
        for each in np.flatnonzero(is_open.any(axis=1)):
            places = np.flatnonzero(is_open[each])
            decided = places[np.array(holm(list(p[each, places]))) <= part]
            is_open[each, decided] = False
            is_false[each] |= any(true == 0.5 or is_ahead[each, place] != (true > 0.5) for place in decided)
            if not is_open[each].any():
                seeds[each] = seen
    found.counts["decisions"] = comparisons
    found.counts["false decision"] = int(is_false.sum())
    found.counts["decided"] = int((~is_open).all(axis=1).sum())
    found.counts["seeds of decisions"] = int(seeds.sum())
    return found


def wins(scores: np.ndarray, others: np.ndarray) -> np.ndarray:
    """The share of pairs that the first method wins, `[comparisons]`."""
    return np.asarray((scores[:, :, None] > others[:, None, :]).mean(axis=(1, 2)))


# Laws


def steady_and_half(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Half of all runs 20 above a steady method, and half 21 below; none exactly as good as another."""
    return np.asarray(np.where(rng.random(shape) < 0.5, 20.0, -21.0) + rng.normal(0, 0.01, shape))


def seldom_better(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """A fifth of the runs solve it, and the others stay between the two kinds of `two_kinds`."""
    return np.asarray(np.where(rng.random(shape) < 0.2, 3.0, 0.0) + rng.normal(0, 0.05, shape))


def two_kinds(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Better than `seldom_better` with probability 0.625 · 0.8 = 1/2."""
    return np.asarray(np.where(rng.random(shape) < 0.375, -1.0, 1.0) + rng.normal(0, 0.05, shape))


Law = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
#: Name → the distributions of two methods, neither of which is better: P = 1/2.
LAWS: Mapping[str, tuple[Law, Law]] = {
    "equal": (lambda rng, shape: rng.normal(0, 1, shape),) * 2,
    "spread × 3": (lambda rng, shape: rng.normal(0, 1, shape), lambda rng, shape: rng.normal(0, 3, shape)),
    "spread × 10": (lambda rng, shape: rng.normal(0, 1, shape), lambda rng, shape: rng.normal(0, 10, shape)),
    "steady, and half +20 and half −21": (lambda rng, shape: rng.normal(0, 0.01, shape), steady_and_half),
    "heavy tails": (lambda rng, shape: rng.standard_t(2, shape),) * 2,
    "heavy tails, spread × 10": (
        lambda rng, shape: rng.standard_t(2, shape),
        lambda rng, shape: 10 * rng.standard_t(2, shape),
    ),
    "skewed, against its median": (
        lambda rng, shape: rng.exponential(1, shape),
        lambda rng, shape: rng.normal(math.log(2), 0.001, shape),
    ),
    "two kinds of runs each": (seldom_better, two_kinds),
}
#: How many claims a report has of which none depends on another, which is the worst case; and how many environments.
INDEPENDENT, ENVIRONMENTS = (3, 5, 10), (2, 3)
#: What independent claims of few seeds may exceed 5 % by, beside the error of simulation.
SURPLUS = 0.01
LAW_SEEDS = (6, 7, 8, 10, 15, 20)
#: Laws with ties: returns of whole numbers, which end at 500; and of three values, against a single one.
TIED: Mapping[str, tuple[Law, Law]] = {
    "capped at 500": (lambda rng, shape: np.minimum(500, rng.normal(480, 30, shape).round()),) * 2,
    "capped at 500, spread × 10": (
        lambda rng, shape: np.minimum(500, rng.normal(470, 10, shape).round()),
        lambda rng, shape: np.minimum(500, rng.normal(470, 100, shape).round()),
    ),
    "steady, and half +20 and half −21": (
        lambda rng, shape: np.zeros(shape),
        lambda rng, shape: np.where(rng.random(shape) < 0.5, 20.0, -21.0),
    ),
    "three values, against the middle": (
        lambda rng, shape: np.zeros(shape),
        lambda rng, shape: rng.integers(-1, 2, shape).astype(float),
    ),
}


def claimed(every: np.ndarray, claims: int, independent: int) -> float:
    """The share of comparisons that make a claim. Of so many claims, `independent` ones do not depend on others.

    every: p of independent claims, `[claims, comparisons]`.
    """
    return float((every[:independent].min(axis=0) * claims <= ERROR).mean())  # Holm's first step: else nothing holds


def p_of_laws(laws: tuple[Law, Law], seeds: int, claims: int, comparisons: int) -> np.ndarray:
    """The p of independent claims, `[claims, comparisons]`."""
    rng = np.random.default_rng(seeds)
    return np.array([p_values(*(law(rng, (comparisons, seeds)) for law in laws)) for _ in range(claims)])


def claimed_in_environments(laws: tuple[Law, Law], seeds: int, environments: int, comparisons: int) -> float:
    """The share of comparisons that claim something on one of the environments, or on all together."""
    rng, wrong = np.random.default_rng((seeds, environments)), 0
    for _ in range(comparisons):
        one, other = (law(rng, (seeds, environments)) for law in laws)
        p = [improvement(one[:, [env]], other[:, [env]]).p for env in range(environments)]
        if environments > 1:
            p.append(improvement(one, other).p)
        wrong += min(holm(p)) <= ERROR
    return wrong / comparisons


def decided(laws: tuple[Law, Law], pairs: int, comparisons: int) -> float:
    """The share of comparisons with --until-decided that decide one of so many independent pairs."""
    rng = np.random.default_rng(pairs)
    rule = SequentialRule(tuple(Pair(ENV, str(number), "") for number in range(pairs)), BLOCK, LOOKS)
    drawn = [tuple(law(rng, (comparisons, BLOCK * LOOKS)) for law in laws) for _ in range(pairs)]
    is_decided = np.zeros(comparisons, np.bool_)
    for number, part in enumerate(rule.parts, start=1):
        seen = number * BLOCK
        if part:
            least = np.min([p_values(one[:, :seen], other[:, :seen]) for one, other in drawn], axis=0)
            is_decided |= least * pairs <= part
    return float(is_decided.mean())


def print_laws(comparisons: int) -> list[str]:
    """Prints the tables of `--laws`. Returns where false claims are more than 5 % and two standard errors."""
    faults: list[str] = []

    def cell(where: str, share: float, of: int, surplus: float = 0.0) -> str:
        if share > ERROR + surplus + 2 * math.sqrt(ERROR * (1 - ERROR) / of):
            faults.append(f"{where}: a claim is false in {shown(share)} of {of:,} comparisons")
        return shown(share)

    improvement_module.RANDOM_ORDERS = 100_000  # type: ignore[misc]  # they are the same ones in all comparisons here
    heads = ["1 claim", "3 claims of a pair", *(f"{count} independent" for count in INDEPENDENT)]
    print_row("no difference in P", "seeds", *heads)
    print_row(":---", *["---:"] * 6)
    for name, laws in LAWS.items():
        for seeds in LAW_SEEDS:
            where, every = f"{name}, {seeds} seeds", p_of_laws(laws, seeds, max(INDEPENDENT), comparisons)
            # A pair has three claims: returns, steps and seconds. Steps and seconds to the threshold go together.
            cells = [cell(where, claimed(every, *of), comparisons) for of in ((1, 1), (3, 2))]
            cells += [cell(where, claimed(every, count, count), comparisons, SURPLUS) for count in INDEPENDENT]
            print_row(name, str(seeds), *cells)
    print()
    print_row("--until-decided", "1 pair", "3 pairs")
    print_row(":---", "---:", "---:")
    for name, laws in LAWS.items():
        shares = [decided(laws, pairs, comparisons) for pairs in (1, 3)]
        print_row(name, *(cell(f"{name}, until decided", share, comparisons) for share in shares))
    print()
    counts = (1, *INDEPENDENT)
    print_row("what is found", "seeds", "alone", *(f"as the first of {count}" for count in INDEPENDENT))
    print_row(":---", *["---:"] * 5)
    for chance in CHANCES:
        apart = NormalDist().inv_cdf(chance) * math.sqrt(2)
        for seeds in (6, 10, 20):
            rng = np.random.default_rng(seeds)
            p = p_values(*(rng.normal(centre, 1, (comparisons, seeds)) for centre in (apart, 0)))
            print_row(f"P = {chance:g}", str(seeds), *(shown(float((p * count <= ERROR).mean())) for count in counts))
    print()
    few = max(1, comparisons // 20)
    improvement_module.MOST_ORDERS = improvement_module.RANDOM_ORDERS = 1_000  # type: ignore[misc]
    improvement_module.orders.cache_clear()
    print_row("ties, and environments", "seeds", "1 environment", *(f"{count} environments" for count in ENVIRONMENTS))
    print_row(":---", *["---:"] * 4)
    for name, laws in {**TIED, "spread × 10, no ties": LAWS["spread × 10"]}.items():
        for seeds in (5, 6, 8):
            shares = [claimed_in_environments(laws, seeds, count, few) for count in (1, *ENVIRONMENTS)]
            print_row(name, str(seeds), *(cell(f"{name}, {seeds} seeds", share, few) for share in shares))
    return faults


def print_row(*cells: str) -> None:
    print(f"| {' | '.join(cells)} |", flush=True)


def task(job: tuple[str, int, int, int]) -> tuple[str, int, Found]:
    """seeds 0: --until-decided."""
    name, seeds, comparisons, first = job
    statistics.RESAMPLES = RESAMPLES  # type: ignore[misc]
    return name, seeds, simulate(name, seeds, comparisons, first) if seeds else decide(name, comparisons, first)


def measure(
    names: Sequence[str], seeds: Sequence[int], comparisons: int, processes: int
) -> dict[tuple[str, int], Found]:
    """All scenarios; seeds 0 stands for --until-decided."""
    part = max(1, min(100, comparisons // processes))
    parts = [(first, min(part, comparisons - first)) for first in range(0, comparisons, part)]
    jobs = [(name, count, size, first) for count in seeds for name in names for first, size in parts]
    found: dict[tuple[str, int], Found] = {}
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for name, count, each in pool.imap_unordered(task, jobs):
            found.setdefault((name, count), Found()).add(each)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return found


def tables(found: Mapping[tuple[str, int], Found], names: Sequence[str], seeds: Sequence[int]) -> str:
    """Both tables, in Markdown."""
    counts = [count for count in seeds if count]
    intervals = ("P", "IQM", "IQM difference", "mean time")
    lines = ["| what is true | seeds | with a false claim | return: alone | return: shown | " +
             " | ".join(f"{each} in its interval" for each in intervals) + " |",
             "| :--- | ---: | ---: | ---: | ---: |" + " ---: |" * len(intervals)]  # fmt: skip
    for name in names:
        for count in counts:
            each = found[name, count]
            figures = [each.share("with a false claim", "comparisons"), each.share("return alone", "comparisons"),
                       each.share("return shown", "comparisons"),
                       *(each.share(f"{kind} holds", f"{kind} known") for kind in intervals)]  # fmt: skip
            lines.append(f"| {name} | {count} | " + " | ".join(shown(figure) for figure in figures) + " |")
    if 0 in seeds:
        lines += [
            "",
            "| what is true | with a false decision | all pairs decided | seeds, mean |",
            "| :--- | ---: | ---: | ---: |",
        ]
        for name in names:
            each = found[name, 0]
            figures = [each.share("false decision", "decisions"), each.share("decided", "decisions")]
            mean = each.share("seeds of decisions", "decisions")
            lines.append(f"| {name} | " + " | ".join(map(shown, figures)) + f" | {mean:.1f} |")
    return "\n".join(lines)


def shown(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.1f} %"


def faults(found: Mapping[tuple[str, int], Found], comparisons: int) -> list[str]:
    """Where the figures are not as they should be, beyond what the number of comparisons can tell."""
    noise = 3 * math.sqrt(ERROR * (1 - ERROR) / comparisons)  # three standard errors
    wrong = []
    for (name, seeds), each in found.items():
        wrong += [f"{name}, {seeds} seeds: the words do not follow: {line}" for line in each.contradictions[:3]]
        for part, whole in (("with a false claim", "comparisons"), ("false decision", "decisions")):
            if each.share(part, whole) > ERROR + noise:
                wrong.append(f"{name}, {seeds} seeds: {part} {shown(each.share(part, whole))}")
        for kind in ("P", "IQM", "IQM difference", "mean time") if seeds >= ENOUGH else ():
            share = each.share(f"{kind} holds", f"{kind} known")
            if not (math.isnan(share) or COVERS[0] - noise <= share <= COVERS[1] + noise):
                wrong.append(f"{name}, {seeds} seeds: {kind} is in its interval in {shown(share)}")
    return wrong


def main() -> int:
    """Runs the scenarios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=1000, help="of each scenario and number of seeds")
    seeds = "of each method; 0: --until-decided"
    parser.add_argument("--seeds", type=int, nargs="+", default=[5, 10, 20, 0], help=seeds)
    parser.add_argument("--scenarios", nargs="+", choices=SCENARIOS, default=list(SCENARIOS))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--laws", action="store_true", help="distributions that differ in spread and shape, see above")
    options = parser.parse_args()
    if options.laws:
        wrong = print_laws(options.comparisons)
        print(*wrong, sep="\n", file=sys.stderr)
        return 1 if wrong else 0
    found = measure(options.scenarios, options.seeds, options.comparisons, options.processes)
    print(tables(found, options.scenarios, options.seeds))
    wrong = faults(found, options.comparisons)
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
