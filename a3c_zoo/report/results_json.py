"""The contents of results.json: every figure of a comparison with its unit, as plain data; and runs.csv, its runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from a3c_zoo.errors import cell
from a3c_zoo.figures import claims, decisions, statistics
from a3c_zoo.figures.figure_table import FIGURES
from a3c_zoo.figures.measures import values_of
from a3c_zoo.figures.results import NOISE_LIMIT, MethodResults, PairResults, Results

#: Rises when the meaning of a key changes.
RESULTS_FORMAT: Final = 3


def to_json(results: Results) -> dict[str, Any]:
    """The contents of results.json."""
    overall = results.overall
    noise = results.calibration
    return {
        "format": RESULTS_FORMAT,
        "units": {name: figure.unit for name, figure in FIGURES.items()},
        "interval": {
            "confidence": statistics.CONFIDENCE,
            "bootstrap_resamples": statistics.RESAMPLES,
            "unit": "seed",
        },
        "caution": results.caution,
        "claims": claims.to_plain(results.claims),
        "main_question": results.question or None,
        "not_asked": list(results.unasked),
        "earlier_reports": [
            {"env": env, "method": method, "other": other, "report": report}
            for (env, method, other), report in results.seen.items()
        ],
        "no_seconds": results.no_seconds or None,
        "environments": {
            name: {
                "threshold": env.threshold,
                "methods": {name: _method_to_json(method) for name, method in env.methods.items()},
                "against": [_pair_to_json(pair) for pair in env.pairs],
            }
            for name, env in results.environments.items()
        },
        "overall": overall
        and {
            "scale": overall.scale,
            "methods": _plain(overall.methods),
            "against": [_pair_to_json(pair) for pair in overall.pairs],
        },
        "runs": [asdict(run.measures) for run in results.shown_runs],
        **(asdict(results.making) if results.making else {}),
        **({"until_decided": decisions.to_plain(results.decided)} if results.decided else {}),
        "evaluation_episodes": results.episodes,
        "left_out": dict(results.left_out),
        **({"lost": by_env(results.lost)} if results.lost else {}),
        "machine_and_versions": dict(results.machine),
        "noise": noise
        and {
            "unit": "s",
            "runs": len(values_of(results.runs, "calibration_s")),
            **noise._asdict(),
            "max_over_min": noise.max / noise.min,
            "limit": NOISE_LIMIT,
        },
        "settings": {
            name: {row.key: {"values": dict(row.values), "differs": row.differs} for row in env.settings}
            for name, env in results.environments.items()
        },
        "commands": {run.measures.run: run.record.command_line for run in results.runs},
    }


def runs_csv(runs: Sequence[Mapping[str, Any]]) -> str:
    """The contents of runs.csv: a row for each of the `runs` of results.json, which has the units, too."""
    file = io.StringIO()
    writer = csv.DictWriter(file, runs[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: cell(value) for key, value in run.items()} for run in runs)
    return file.getvalue()


def by_env(numbers: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """(environment, method) → number, as environment → method → number."""
    in_envs: dict[str, dict[str, int]] = {}
    for (env, method), number in numbers.items():
        in_envs.setdefault(env, {})[method] = number
    return in_envs


def _method_to_json(method: MethodResults) -> dict[str, Any]:
    seeds = [run.measures.seed for run in method.runs]
    return {"seeds": seeds, **_plain(method.scores), **_plain(method.costs), **_plain(method.times)}


def _pair_to_json(pair: PairResults) -> dict[str, Any]:
    """Without p: `claims` has it, of what was asked."""
    plain: dict[str, Any] = _plain(pair.chances)
    for name in pair.chances:
        del plain[name]["p"]
        plain[name] |= _plain({"difference": pair.differences[name]})
    return {"method": pair.method, "other": pair.other, **plain}


def _plain(records: Mapping[str, Any]) -> dict[str, Any]:
    """Named tuples as dictionaries, in a mapping or in a mapping of such mappings."""
    return {
        name: _plain(record) if isinstance(record, Mapping) else record._asdict()
        for name, record in records.items()
    }
