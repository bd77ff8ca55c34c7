"""Writes the tables of README.md and of the pages of benchmarks whose figures are in files.

    python benchmarks/doc_tables.py

The figures are in docs/figures/ and in the reports of docs/reports/. A table stands between two comments with its name.
A test compares the pages with what this makes.

    docs/figures/cartpole.csv      python benchmarks/cartpole.py --csv docs/figures/cartpole.csv
    docs/figures/atari-speed.csv   python benchmarks/atari.py --csv docs/figures/atari-speed.csv
    docs/figures/sb3-speed.csv     python benchmarks/sb3_speed.py
    docs/reports/                  python benchmarks/reports.py
    docs/figures/zoo-times.csv     python benchmarks/zoo_times.py
    docs/figures/atari-ten-games.csv
                                   python benchmarks/atari_games.py --csv docs/figures/atari-ten-games.csv
    docs/figures/atari-games.csv   python benchmarks/atari_games.py, and others by hand from the output of the commands
                                   that docs/benchmarks-atari.md names: pong-workers, pong-devices, breakout-hour
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from statistics import median
from typing import Any

from a3c_zoo.words import return_text

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
from benchmarks.atari_games import GAMES, SUMMARIES, summarised  # noqa: E402

FIGURES = ROOT / "docs" / "figures"
REPORTS = ROOT / "docs" / "reports"
README = ROOT / "README.md"
BENCHMARKS = ROOT / "docs" / "benchmarks.md"
ATARI = ROOT / "docs" / "benchmarks-atari.md"
RL_ZOO = ROOT / "docs" / "benchmarks-rl-zoo.md"

OURS, THEIRS = "a3c", "sb3-a2c"
#: Rows of docs/figures/atari-speed.csv.
SET_OF_PONG = "a3c, its set"
PLAIN_SET_OF_PONG = "a3c-plain"
SAME_NETWORK = "nature, float32"

Row = Mapping[str, str]
Lines = list[str]


def rows_of(name: str) -> list[Row]:
    """The rows of a file in docs/figures/; none if there is no such file."""
    file = FIGURES / name
    if not file.exists():
        return []
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.DictReader(text))


def results_of(report: str) -> dict[str, Any]:
    """results.json of a committed report."""
    results: dict[str, Any] = json.loads((REPORTS / report / "results.json").read_text(encoding="utf-8"))
    return results


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Lines:
    """A table in Markdown."""
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def digits(value: float, count: int = 3) -> str:
    """A number with so many digits, and a whole one from 1,000 on."""
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{float(f'{value:.{count}g}'):g}"


def times(value: float) -> str:
    """A ratio with two digits: 1.9, 10."""
    return digits(value, 2)


# ----------------------------------------------------------------------------------------------------------------------
# CartPole-v1, from the start of the process


def cartpole_medians() -> dict[str, dict[str, float]]:
    """Figure → method → its median over seeds."""
    rows = rows_of("cartpole.csv")
    figures = ("seconds", "steps", "steps_per_s", "peak_memory_mib")
    return {
        figure: {
            method: median(float(row[figure]) for row in rows if row["method"] == method) for method in (OURS, THEIRS)
        }
        for figure in figures
    }


def cartpole_seeds() -> Lines:
    """A row for each run."""
    rows = [
        [
            row["method"],
            row["seed"],
            "yes" if row["solved"] == "True" else "no",
            f"{float(row['seconds']):.2f} s",
            f"{int(row['steps']):,}",
            f"{float(row['steps_per_s']):,.0f}",
            f"{float(row['peak_memory_mib']):,.0f}",
        ]
        for row in rows_of("cartpole.csv")
    ]
    return table(("method", "seed", "solved", "to 475", "steps", "steps/s", "MiB"), rows)


def cartpole_ratios() -> Lines:
    """Medians and their ratios."""
    medians = cartpole_medians()
    named = {
        "seconds": ("seconds from process start to 475", "sooner", 2),
        "steps": ("steps to 475", "fewer", 0),
        "steps_per_s": ("steps/s", "", 0),
        "peak_memory_mib": ("peak memory with that of the solved check, MiB", "less", 0),
    }
    rows = []
    for figure, (title, word, decimals) in named.items():
        ours, theirs = medians[figure][OURS], medians[figure][THEIRS]
        ratio = max(ours, theirs) / min(ours, theirs)
        rows.append([title, f"{ours:,.{decimals}f}", f"{theirs:,.{decimals}f}", f"{ratio:.1f} × {word}".strip()])
    solved = [
        [row["solved"] == "True" for row in rows_of("cartpole.csv") if row["method"] == method]
        for method in (OURS, THEIRS)
    ]
    rows.append(["solved", *(f"{sum(each)} of {len(each)}" for each in solved), ""])
    count = len(solved[0])
    return table((f"median of {count} seeds", OURS, THEIRS, "ratio"), rows)


# ----------------------------------------------------------------------------------------------------------------------
# Comparisons


def comparison_of_cartpole() -> Lines:
    """The figures of the report on CartPole."""
    methods = results_of("cartpole")["environments"]["cartpole"]["methods"]
    each = [methods[OURS], methods[THEIRS]]
    rows = [
        [
            "at 475 within 250,000 steps",
            *(f"{of['steps_to_threshold']['reached']} of {len(of['seeds'])}" for of in each),
        ],
        ["seconds of training to 475", *(_interval(of["seconds_to_threshold"], "median", digits) for of in each)],
        ["steps to 475", *(_interval(of["steps_to_threshold"], "median", _whole) for of in each)],
        [
            "final return, sampled actions (interquartile mean)",
            *(_interval(of["final_return"]["interquartile_mean"], "value", return_text) for of in each),
        ],
        ["steps/s", *(_whole(of["steps_per_s"]["median"]) for of in each)],
        ["CPU seconds", *(digits(of["cpu_s"]["median"]) for of in each)],
        ["peak memory while training, MiB", *(_whole(of["peak_memory_mib"]["median"]) for of in each)],
    ]
    return table(("", OURS, THEIRS), rows)


def chances_of_cartpole() -> Lines:
    """What the report on CartPole claims."""
    results = results_of("cartpole")
    (pair,) = results["environments"]["cartpole"]["against"]
    asked = {
        "seconds_to_threshold": "is at 475 in less time",
        "steps_to_threshold": "is at 475 after fewer steps",
        "final_return": "ends higher",
    }
    holds = {claim["measure"]: claim["holds"] for claim in results["claims"]}
    rows = [
        [words, _interval(pair[measure], "value", digits), "yes" if holds.get(measure) else "no"]
        for measure, words in asked.items()
    ]
    return table(("a run of a3c, against one of sb3-a2c", "probability", "shown?"), rows)


def _interval(figure: Mapping[str, float | None], name: str, show: Callable[[float], str]) -> str:
    value = figure[name]
    low, high = figure["low"], figure["high"]
    if value is None:
        return "–"
    if low is None or high is None:
        return f"{show(value)} (–)"
    return f"{show(value)} ({show(low)} to {show(high)})"


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _share(value: float) -> str:
    return f"{100 * value:.0f} %"


def pong_report() -> Lines:
    """The runs of the report on Pong."""
    results = results_of("pong")
    runs = {method: [run for run in results["runs"] if run["method"] == method] for method in (OURS, THEIRS)}
    rows = [
        ["final return of the runs, sampled actions", *(_returns(each, "final_return") for each in runs.values())],
        [
            "final return of the runs, greedy actions",
            *(_returns(each, "final_return_greedy") for each in runs.values()),
        ],
        [
            "at 18 points over 100 training games",
            *(f"{sum(run['steps_to_threshold'] is not None for run in each)} of {len(each)}" for each in runs.values()),
        ],
        [
            "CPU time of a run, median",
            *(f"{median(run['cpu_s'] for run in each) / 60:.1f} min" for each in runs.values()),
        ],
    ]
    return table(("after a million steps", OURS, THEIRS), rows)


def _returns(runs: Sequence[Mapping[str, Any]], figure: str) -> str:
    """A figure of each run, in the order of the sampled returns: those of one run stand below each other."""
    ordered = sorted(runs, key=lambda run: run["final_return"], reverse=True)
    values = [run[figure] for run in ordered]
    if min(values) == max(values):
        return f"{return_text(values[0])}, all {len(values)}"
    return ", ".join(map(return_text, values))


# ----------------------------------------------------------------------------------------------------------------------
# Steps/s on Pong


def atari_speeds() -> dict[str, Row]:
    """Method → its row."""
    return {row["method"]: row for row in rows_of("atari-speed.csv")}


def _title(method: str) -> str:
    if method.startswith("environments"):
        return method
    if method == THEIRS:
        return f"`{method}`, RL Zoo's settings, 84×84"
    if method == SET_OF_PONG:
        return "**`a3c` as `train pong` has it** (`nature-slim`, bfloat16, two passes)"
    if method == PLAIN_SET_OF_PONG:
        return "`a3c-plain` (`conv42` with ReLU, bfloat16)"
    network, precision = method.split(", ")
    return f"`{network}`, {precision}"


def pong_speeds() -> Lines:
    """Every network and precision, as many times as fast as SB3's A2C, and of its ceiling."""
    speeds = atari_speeds()
    sb3 = float(speeds[THEIRS]["median"])
    rows = []
    for method, row in speeds.items():
        value = float(row["median"])
        of_ceiling = ""
        if row["ceiling"]:
            of_ceiling = _share(value / float(speeds[row["ceiling"]]["median"]))
        cells = [_title(method), *(_whole(float(row[name])) for name in ("median", "lowest", "highest"))]
        rows.append([*cells, f"{value / sb3:.2f}", of_ceiling])
        if method == SET_OF_PONG:
            rows[-1][4:] = [f"**{cell}**" for cell in rows[-1][4:]]
    return table(("steps/s on Pong", "median", "lowest", "highest", "× SB3", "of ceiling"), rows)


def pong_workers() -> Lines:
    """Steps/s by the number of workers, beside environments alone."""
    measured = rows_of("pong-workers.csv")
    one = float(measured[0]["steps_per_s"])
    rows = []
    for row in measured:
        speed = float(row["steps_per_s"])
        ceiling = row["environments_alone_steps_per_s"]
        title = row["workers"] or f"`--agent {row['method']}`, its 16 environments, 12 s"
        cells = [title, _whole(speed), f"{speed / one:.3g}"]
        if ceiling:
            cells += [_whole(float(ceiling)), _share(speed / float(ceiling))]
        else:
            cells += ["", ""]
        rows.append(cells)
    return table(("workers", "steps/s", "× one worker", "environments alone", "of ceiling"), rows)


def pong_devices() -> Lines:
    """Steps/s with the networks on the CPU and on a GPU."""
    rows = []
    named = ""
    for row in rows_of("pong-devices.csv"):
        title = f"`{row['set']}`, `{row['network']}`"
        cpu, gpu = float(row["cpu_steps_per_s"]), float(row["gpu_steps_per_s"])
        shown = "" if title == named else title
        rows.append([shown, row["workers"], _whole(cpu), _whole(gpu), f"{gpu / cpu:.2f} ×"])
        named = title
    return table(("steps/s", "workers", "CPU", "GPU", "GPU / CPU"), rows)


# ----------------------------------------------------------------------------------------------------------------------
# Scores on Atari games


def breakout_hour() -> Lines:
    """Each run of an hour."""
    rows = []
    for row in rows_of("breakout-hour.csv"):
        minutes = ", ".join(row[f"after_{minute}_min"] for minute in (10, 20, 30, 40, 50))
        evaluation = f"{row['evaluation']} ± {row['deviation']}, from {row['lowest']} to {row['highest']}"
        speeds = [_whole(float(row["steps"])), _whole(float(row["steps_per_s"]))]
        rows.append([row["seed"], row["last_100"], minutes, evaluation, *speeds])
    head = ("seed", "last 100 training games", "after 10, 20, 30, 40 and 50 minutes")
    return table((*head, "100 evaluation games, sampled actions", "steps", "steps/s"), rows)


def atari_games() -> Lines:
    """Scores of each game after 2.5 million steps, and the medians of the normalised ones."""
    measured = rows_of("atari-games.csv")
    methods = list(dict.fromkeys(row["method"] for row in measured))
    cells = {
        (row["game"], row["method"]): f"{float(row['score']):,.1f} ({float(row['normalised']):.3f})" for row in measured
    }
    games = list(dict.fromkeys(row["game"] for row in measured))
    rows = [[game, *(cells[game, method] for method in methods)] for game in games]
    medians = []
    for method in methods:
        normalised = [Decimal(row["normalised"]) for row in measured if row["method"] == method]
        medians.append(str(median(normalised).quantize(Decimal("0.001"), ROUND_HALF_UP)))
    rows.append(["**median, normalised**", f"**{medians[0]}**", *medians[1:]])
    ours, *others = methods
    return table(("game", f"`{ours}`", *others), rows)


def ten_games() -> Lines:
    """Scores of each game after 2.5 and 10 million steps, and what sums up the normalised ones of all games."""
    measured = rows_of("atari-ten-games.csv")
    methods = list(dict.fromkeys(row["method"] for row in measured))
    found = {(row["game"], row["method"], int(row["steps"])): row for row in measured}
    have = {(method, steps) for _, method, steps in found}
    shown = [(method, steps) for method in methods for steps in (2_500_000, 10_000_000) if (method, steps) in have]
    games = [game for game in GAMES if any(game == known for known, *_ in found)]
    rows = []
    for game in games:
        scores = [found.get((game, method, steps)) for method, steps in shown]
        rows.append([game, *("–" if row is None else f"{float(row['score']):,.1f}" for row in scores)])
    for name in SUMMARIES:
        cells = []
        for method, steps in shown:
            known = [row for (_, *column), row in found.items() if column == [method, steps]]
            normalised = [float(row["normalised"]) for row in known]
            cells.append(f"{summarised(name, normalised):.3f}" if len(known) == len(games) else "–")
        rows.append([f"{name}, normalised", *cells])
    return table(("game", *(f"{method}, {steps / 1e6:g} M" for method, steps in shown)), rows)


# ----------------------------------------------------------------------------------------------------------------------
# Seconds to the level of RL Zoo's A2C


def zoo_times() -> Lines:
    """The seconds of each run, and how many times as long as ours the median of a baseline is."""
    timed = rows_of("zoo-times.csv")
    if not timed:
        return ["Not measured yet: `python benchmarks/zoo_times.py`."]
    baselines = list(dict.fromkeys(row["agent"] for row in timed if row["agent"] != OURS))
    rows = []
    for env in dict.fromkeys(row["env"] for row in timed):
        runs = [row for row in timed if row["env"] == env]
        ours_s, ours_reached, ours = _seconds_to_level(runs, OURS)
        cells = [f"`{env}`", f"{float(runs[0]['level']):g}", ours]
        for agent in baselines:
            median_s, reached, seconds = _seconds_to_level(runs, agent)
            more = "" if reached else "> "
            cells += [seconds, f"{more}{median_s / ours_s:.1f} ×" if ours_reached else "–"]
        rows.append(cells)
    heads = [head for agent in baselines for head in (f"`{agent}`", f"`{agent}` / `{OURS}`")]
    return table(("environment", "level", f"`{OURS}`, set of the kind", *heads), rows)


def _seconds_to_level(runs: Sequence[Row], agent: str) -> tuple[float, bool, str]:
    """The median of an agent's seconds, whether that run reached the level, and the seconds of all its runs."""
    own = [row for row in runs if row["agent"] == agent]
    # A run that did not reach the level would have taken longer than any that did.
    ordered = sorted(own, key=lambda row: (row["reached"] != "True", float(row["training_s"])))
    middle = ordered[len(ordered) // 2]
    cells = [f"{'' if row['reached'] == 'True' else '> '}{float(row['training_s']):.0f}" for row in own]
    return float(middle["training_s"]), middle["reached"] == "True", ", ".join(cells)


# ----------------------------------------------------------------------------------------------------------------------
# README: how fast


def how_fast() -> Lines:
    """Ours beside SB3's A2C: what is compared, and the ratio."""
    cartpole = cartpole_medians()
    speeds = atari_speeds()
    same = "two layers of 64 units, float32; the same"
    rows = [
        _beside("CartPole-v1: seconds from process start to a mean return of 475", cartpole["seconds"], same, "sooner"),
        _beside("CartPole-v1: steps/s", cartpole["steps_per_s"], same),
        _beside("CartPole-v1: CPU seconds of a run of 250,000 steps", _cpu_s("cartpole", 1), same, "less"),
        _beside(
            "Pong: steps/s, with `a3c-plain`",
            {OURS: float(speeds[PLAIN_SET_OF_PONG]["median"]), THEIRS: float(speeds[THEIRS]["median"])},
            "`conv42`, 42×42, bfloat16; Nature CNN, 84×84, float32",
        ),
        _beside(
            "Pong: steps/s, with `a3c-plain` and the same network",
            {OURS: float(speeds[SAME_NETWORK]["median"]), THEIRS: float(speeds[THEIRS]["median"])},
            "Nature CNN, 84×84, float32; the same",
        ),
        _beside(
            "Pong: CPU minutes of a run of 1,000,000 steps, with `a3c-plain`",
            _cpu_s("pong", 60),
            "`conv42`, 42×42, bfloat16; Nature CNN, 84×84, float32",
            "less",
        ),
    ]
    head = ("2 cores, medians", "a3c", "stable-baselines3's A2C", "ratio", "network, frames, precision of each")
    return [*table(head, rows), "", *against_the_best_of_sb3()]


def against_the_best_of_sb3() -> Lines:
    """A sentence with the ratios of docs/figures/sb3-speed.csv, a measurement of its own; none if there is no file."""
    rows = rows_of("sb3-speed.csv")
    if not rows:
        return []
    ratios = []
    for env, title, words in (
        ("cartpole", OURS, "on CartPole"),
        ("pong", PLAIN_SET_OF_PONG, "on Pong with `a3c-plain`"),
        ("pong", f"{PLAIN_SET_OF_PONG}, the same network", "on Pong with the same network"),
    ):
        here = [row for row in rows if row["env"] == env]
        ours = median(_speeds(here, title))
        ratios.append(f"{ours / best_of_sb3(here):.1f} {words}")
    first = rows[0]
    machine = f"{first['cpu']}, {first['cores']} cores, {first['day']}"
    return [
        "`a3c-plain` learns from each sample once, as SB3's A2C does. The default set passes twice over what it",
        "collects, and makes 0.6 times as many steps/s. SB3 steps DummyVecEnv in this table. Against the faster of its",
        f"vector environments, measured alone on another machine ({machine}), a3c makes so many times the steps/s:",
        f"{', '.join(ratios)} ([SB3 at its best](docs/benchmarks.md#stable-baselines3-at-its-best)).",
    ]


def best_of_sb3(rows: Sequence[Row]) -> float:
    """The steps/s of SB3's fastest way to step one environment: the greatest of the medians."""
    titles = {row["title"] for row in rows if row["agent"] == THEIRS}
    return max(median(_speeds(rows, title)) for title in titles)


def _beside(title: str, values: Mapping[str, float], what: str, word: str = "more") -> list[str]:
    ours, theirs = values[OURS], values[THEIRS]
    ratio = f"{times(max(ours, theirs) / min(ours, theirs))} × {word}"
    return [title, digits(ours), digits(theirs), ratio, what]


def _cpu_s(report: str, unit: float) -> dict[str, float]:
    (env,) = results_of(report)["environments"].values()
    return {method: env["methods"][method]["cpu_s"]["median"] / unit for method in (OURS, THEIRS)}


# ----------------------------------------------------------------------------------------------------------------------
# SB3 at its best


def sb3_speed() -> Lines:
    """Each way to step SB3's environments, beside ours; a line if nobody has measured it."""
    rows = rows_of("sb3-speed.csv")
    if not rows:
        return ["Not measured yet: `python benchmarks/sb3_speed.py`."]
    cells = []
    for env, title in dict.fromkeys((row["env"], row["title"]) for row in rows):
        here = [row for row in rows if row["env"] == env]
        speeds = {each: _speeds(here, each) for each in dict.fromkeys(row["title"] for row in here)}
        best = best_of_sb3(here)
        of_title = [row for row in here if row["title"] == title]
        values = speeds[title]
        chosen = ", ".join(sorted({row["vec_env"] for row in of_title} - {""}))
        threads = ", ".join(sorted({row["torch_threads"] for row in of_title} - {""}))
        cells.append(
            [
                env,
                title,
                of_title[0]["network"],
                chosen or "–",
                threads or "–",
                _whole(median(values)),
                f"{_whole(min(values))} to {_whole(max(values))}",
                f"{median(values) / best:.2f}",
            ]
        )
    first = rows[0]
    head = ("environment", "method", "network, frames, precision", "vec_env", "torch threads", "steps/s", "range")
    made = (
        f"{first['cpu']}, {first['cores']} cores, {first['day']}, {first['seconds']} s each, in turn, {_rounds(rows)}."
    )
    return [*table((*head, "× SB3's best"), cells), "", made]


def _speeds(rows: Sequence[Row], title: str) -> list[float]:
    return [float(row["steps_per_s"]) for row in rows if row["title"] == title]


def _rounds(rows: Sequence[Row]) -> str:
    count = len({row["round"] for row in rows})
    return f"{count} times round" if count > 1 else "once"


# ----------------------------------------------------------------------------------------------------------------------
# Pages

#: Page → name of a table → what makes it.
TABLES: dict[Path, dict[str, Callable[[], Lines]]] = {
    README: {"how fast": how_fast},
    BENCHMARKS: {
        "pong report": pong_report,
        "cartpole seeds": cartpole_seeds,
        "cartpole ratios": cartpole_ratios,
        "cartpole report": comparison_of_cartpole,
        "cartpole claims": chances_of_cartpole,
        "sb3 at its best": sb3_speed,
    },
    ATARI: {
        "pong speeds": pong_speeds,
        "pong workers": pong_workers,
        "pong devices": pong_devices,
        "breakout hour": breakout_hour,
        "atari games": atari_games,
        "ten games": ten_games,
    },
    RL_ZOO: {"zoo times": zoo_times},
}


def written(page: Path) -> str:
    """A page with its tables made anew."""
    text = page.read_text(encoding="utf-8")
    for name, lines in TABLES[page].items():
        begin = f"<!-- figures {name}: written by benchmarks/doc_tables.py -->\n"
        end = f"<!-- end of figures {name} -->\n"
        before, _, rest = text.partition(begin)
        _, found, behind = rest.partition(end)
        if not found:
            sys.exit(f"{page} has no table {name!r}")
        made = "\n".join(lines())
        text = f"{before}{begin}\n{made}\n\n{end}{behind}"
    return text


def main() -> None:
    """Writes all pages."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    for page in TABLES:
        page.write_text(written(page), encoding="utf-8")


if __name__ == "__main__":
    main()
