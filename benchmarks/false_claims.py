"""How often a comparison claims a difference that is not there, and how often its intervals hold the truth.

Simulated comparisons whose truth is known go through the functions of `a3c-zoo compare`: results, verdict, and the rule
of --until-decided. A claim is false if the methods do not differ in what it says, or differ the other way. Prints two
tables in Markdown, and ends with status 1 if false claims, intervals or words are not as they should be.

    python benchmarks/false_claims.py --comparisons 1000 --seeds 5 10 20 0
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

import numpy as np

from a3c_zoo.comparison import statistics
from a3c_zoo.comparison.claims import ERROR, Claim
from a3c_zoo.comparison.curves import Curve
from a3c_zoo.comparison.durations import MeanDifference
from a3c_zoo.comparison.improvement import Chance, EarlierChance
from a3c_zoo.comparison.measures import MeasuredRun, Measures
from a3c_zoo.comparison.reading import RunRecord
from a3c_zoo.comparison.results import DURATIONS, Results, results_of
from a3c_zoo.comparison.sequential import Decision, Pair, SequentialRule, SequentialTest
from a3c_zoo.comparison.statistics import Estimate
from a3c_zoo.comparison.verdict import verdict

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
        ahead = {name: float((one[name] < other[name]).mean()) for name in DURATIONS}
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
        kind = DURATIONS[question.measure][1] if isinstance(chance, EarlierChance) else "higher return"
        mine = [
            line
            for line in lines
            if f"a run of {question.method} " in line and f"than a run of {question.other} " in line
        ]
        (line,) = (line for line in mine if kind in line)
        is_out = chance.low is not None and chance.high is not None and not chance.low <= 0.5 <= chance.high
        says = "; shown (" in line
        told = re.search(r"with probability ([\d.]+)", line)
        right = [
            says == claim.holds == ("no difference" not in line),
            told is not None and abs(float(told[1]) - chance.value) < 0.0006,
            is_out or not says,
            not is_out
            or says
            or "alone this would count" in line
            or "p must be at most" in line
            or "because it depends on these pairs" in line,
        ]
        if not all(right):
            wrong.append(line)
    return wrong


def decide(name: str, comparisons: int, first: int) -> Found:
    """Comparisons of a scenario with --until-decided: the rule looks at the means of final returns."""
    methods, found = SCENARIOS[name], Found()
    pairs = tuple(Pair(ENV, *two) for two in itertools.combinations([f"m{n}" for n in range(len(methods))], 2))
    true = Truth.of(methods).ahead["final_return"]
    for number in range(first, first + comparisons):
        rng = np.random.default_rng((number, 0, [*SCENARIOS].index(name)))
        values = {(ENV, f"m{n}"): method.returns(rng, BLOCK * LOOKS) for n, method in enumerate(methods)}
        test = SequentialTest(SequentialRule(pairs, BLOCK, LOOKS))
        decided: dict[Pair, Decision] = {}
        while not test.is_over:
            seen = BLOCK * (len(test.looks) + 1)
            decided |= test.look({key: each[:seen] for key, each in values.items()}).decided
        found.counts["decisions"] += 1
        found.counts["false decision"] += any(
            true == 0.5 or (way == "higher") != (true > 0.5) for way in decided.values()
        )
        found.counts["decided"] += len(decided) == len(pairs)
        found.counts["seeds of decisions"] += BLOCK * len(test.looks)
    return found


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
    options = parser.parse_args()
    found = measure(options.scenarios, options.seeds, options.comparisons, options.processes)
    print(tables(found, options.scenarios, options.seeds))
    wrong = faults(found, options.comparisons)
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
