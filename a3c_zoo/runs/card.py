"""The card of a trained agent: what it reaches, how it was trained and how to play it, as Markdown."""

from __future__ import annotations

import shlex
from typing import Any

from a3c_zoo.errors import RunDirectoryError, printable
from a3c_zoo.records import Evaluation, Outcome, score
from a3c_zoo.runs.directory import RunDirectory


def figures(directory: RunDirectory) -> tuple[dict[str, Any], Outcome, Evaluation]:
    """What meta.json and outcome.json hold, and the evaluation. Raises RunDirectoryError if one is missing."""
    meta, outcome = directory.meta(), directory.outcome()
    if outcome is None or outcome.evaluation is None:
        raise RunDirectoryError(f"{directory.path} has no evaluation in its outcome.json")
    return meta, outcome, outcome.evaluation


def card_text(directory: RunDirectory, name: str, repo: str = "", film: str | None = None) -> str:
    """The card of an agent that is called `name`. repo: from where `pull` gets it. film: a file beside the card."""
    meta, outcome, played = figures(directory)
    kind = "greedy" if played.deterministic else "sampled"
    rows = {
        "environment, agent": f"{meta['env']}, {meta['agent']}",
        "return": f"{score(played.mean_return)} ± {score(played.std_return)}",
        "evaluation": f"{played.episodes:,} episodes on fresh seeds, {kind} actions",
        "training": f"{outcome.steps:,} steps, {outcome.training_s:,.1f} s, seed {meta.get('seed')}",
        "versions": ", ".join(f"{key} {value}" for key, value in meta.get("versions", {}).items()),
        "machine": ", ".join(f"{key} {value}" for key, value in meta.get("host", {}).items()),
        "command": shlex.join(map(str, meta.get("command", []))),
    }
    table = "".join(f"| {key} | {_plain(value)} |\n" for key, value in rows.items())
    seen = f" [{film}]({film}) shows an episode." if film else ""
    how = f"with a3c-zoo and its extra `hub`:\n\n    a3c-zoo pull {repo}\n" if repo else "with a3c-zoo:\n\n"
    how += f"    a3c-zoo play {name}\n    a3c-zoo evaluate {name}\n"
    return f"# {name}\n\nAn agent of a3c-zoo.{seen}\n\n| | |\n| --- | --- |\n{table}\nTo watch and measure it, {how}"


def _plain(text: str) -> str:
    """A text for a cell: what a stranger wrote is no Markdown and no HTML."""
    return "".join(f"&#{ord(each)};" if each in "<>|`[]*\\&" else each for each in printable(text))
