"""The card of a trained agent: what it reaches, how it was trained and how to play it, as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from a3c_zoo.errors import RunDirectoryError, printable
from a3c_zoo.files import MAX_TEXT, read_bytes
from a3c_zoo.plugins.entries import TrainedEntry
from a3c_zoo.plugins.registry import module_named_by
from a3c_zoo.records import Evaluation, Outcome
from a3c_zoo.store.run import Run
from a3c_zoo.store.trained import facts
from a3c_zoo.words import counted, listed, return_text

#: The learning curve of a trained agent, and how many of its points a card shows.
CURVE: Final = "curve.csv"
POINTS: Final = 8


def figures(run: Run) -> tuple[dict[str, Any], Outcome, Evaluation]:
    """What meta.json and outcome.json hold, and the evaluation. Raises RunDirectoryError if one is missing."""
    meta = run.meta
    outcome = run.outcome
    if outcome is None or outcome.evaluation is None:
        raise RunDirectoryError(f"{run.path} has no evaluation in its outcome.json")
    return meta, outcome, outcome.evaluation


def curve(path: Path) -> list[tuple[float, float]]:
    """Points of a curve.csv, steps and mean return, at equal distances; none if the file is missing or is none."""
    try:
        lines = read_bytes(path, MAX_TEXT).decode().splitlines()
        rows = [(float(steps), float(mean)) for steps, mean in (line.split(",") for line in lines[1:])]
    except (OSError, ValueError):
        return []
    if len(rows) >= POINTS:
        return [rows[number * (len(rows) - 1) // (POINTS - 1)] for number in range(POINTS)]
    return rows


def card_text(
    run: Run,
    entry: TrainedEntry | None,
    points: Sequence[tuple[float, float]],
    name: str,
    repo: str,
    film: str | None = None,
    is_pulled: bool = False,
) -> str:
    """The card of an agent that is called `name`.

    Args:
        entry: as in `facts`. points: as `curve` returns them. repo: from where `pull` gets it.
        film: a file beside the card. is_pulled: somebody else measured the return, and nobody has checked it.
    """
    meta, outcome, played = figures(run)
    told = facts(run, entry)
    kind = "greedy" if played.deterministic else "sampled"
    whose = ", as its author says; not played again" if is_pulled else ""
    rows = {
        "environment, agent": f"{meta['env']}, {meta['agent']}",
        "return": f"{return_text(played.mean_return)} ± {return_text(played.std_return)}",
        "evaluation": f"{counted(played.episodes, 'episodes')} on fresh seeds, {kind} actions{whose}",
        "training": f"{outcome.steps:,} steps, {outcome.training_s:,.1f} s, seed {meta.get('seed')}",
        "parameters": meta.get("checkpoint", ""),
        "versions": ", ".join(f"{key} {value}" for key, value in meta.get("versions", {}).items()),
        "machine": ", ".join(f"{key} {value}" for key, value in meta.get("host", {}).items()),
        "command": told["command"],
        "then": told["continued"],
        "weaknesses": told["weaknesses"],
    }
    table = "".join(f"| {key} | {_plain(value)} |\n" for key, value in rows.items() if value)
    if points:
        head, line, means = zip(
            *((f"{steps:,.0f}", "---", return_text(mean)) for steps, mean in points), strict=True
        )
        table += "\nThe mean return of 100 training episodes after so many steps:\n\n"
        table += "".join(f"| {' | '.join(cells)} |\n" for cells in (head, line, means))
    seen = film_told(film) if film else ""
    modules = modules_of(run)
    trust = " --trust" if modules else ""
    how = f"with a3c-zoo and its extra `hub`:\n\n    a3c-zoo pull {repo}{trust}\n"
    how += f"    a3c-zoo play runs/{name}{trust}\n    a3c-zoo evaluate runs/{name}{trust}\n"
    if modules:
        how += f"\n`--trust` lets it import {_plain(listed(modules))}, which must be on that machine, too.\n"
    return f"# {name}\n\nAn agent of a3c-zoo.{seen}\n\n| | |\n| --- | --- |\n{table}\nTo watch and measure it, {how}"


def modules_of(run: Run) -> list[str]:
    """The modules that its environment and its wrappers name. Another machine imports them with `--trust`."""
    wrappers = run.settings.get("env.wrappers") or ()
    paths = [next(iter(each)) if isinstance(each, dict) else each for each in wrappers]
    given = str(run.meta.get("given_env", ""))  # by a program, as a class or a function
    named = [module_named_by(run.meta["env"]), *(path.partition(":")[0] for path in (given, *paths))]
    return list(dict.fromkeys(filter(None, named)))


def film_told(film: str) -> str:
    """The sentence of a card about a file beside it."""
    return f" [{film}]({film}) shows an episode."


def _plain(text: str) -> str:
    """A text for a cell: what a stranger wrote is no Markdown and no HTML."""
    return "".join(
        f"&#{ord(character)};" if character in "<>|`[]*\\&" else character for character in printable(text)
    )
