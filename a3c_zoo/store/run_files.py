"""The names of the files that lie in a run directory itself, for those who write, read and remove them."""

from __future__ import annotations

from typing import Final

CONFIG_YML: Final = "config.yml"
META_JSON: Final = "meta.json"
OUTCOME_JSON: Final = "outcome.json"
#: outcome.json of the session that solved the run.
SOLVED_JSON: Final = "solved.json"
MONITOR_CSV: Final = "monitor.csv"
EVALUATIONS_CSV: Final = "evaluations.csv"
#: The same as evaluations.csv, in the format of stable-baselines3.
EVALUATIONS_NPZ: Final = "evaluations.npz"
#: What a comparison has played with the checkpoints.
EVALUATIONS_JSON: Final = "evaluations.json"
EVALUATIONS_LOCK: Final = ".evaluations.lock"
EVALUATOR_LOG: Final = "evaluator.log"
EVENTS_JSONL: Final = "events.jsonl"
#: Which reports have looked at the run.
LOOKS_JSONL: Final = "looks.jsonl"
#: Written when a comparison has trained a run: it is reused as it is. A run that goes on loses it.
TIMING_JSON: Final = "timing.json"
#: The one file with numbers in a trained agent's folder, in place of checkpoints.
PARAMETERS: Final = "parameters.safetensors"
#: Written by `a3c-zoo pull`: from where an agent comes. It is never one's own run.
PULLED_JSON: Final = "pulled.json"
RUN_LOCK: Final = "run.lock"

#: All of them. What else lies there is somebody's own.
RUN_FILES: Final = frozenset(
    {
        CONFIG_YML,
        META_JSON,
        OUTCOME_JSON,
        SOLVED_JSON,
        MONITOR_CSV,
        EVALUATIONS_CSV,
        EVALUATIONS_NPZ,
        EVALUATIONS_JSON,
        EVALUATIONS_LOCK,
        EVALUATOR_LOG,
        EVENTS_JSONL,
        LOOKS_JSONL,
        TIMING_JSON,
        PARAMETERS,
        PULLED_JSON,
        RUN_LOCK,
    }
)
