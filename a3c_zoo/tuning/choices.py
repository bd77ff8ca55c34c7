"""What a user of `tune` chooses among. The command line shows it, and so this module imports nothing."""

from __future__ import annotations

from typing import Final

#: Option → class of Optuna. The number of trials is its seed: the same scores give the same proposal.
SAMPLERS: Final = {"tpe": "TPESampler", "random": "RandomSampler", "gp": "GPSampler"}
#: Whether trials race, see `racing`.
PRUNERS: Final = ("halving", "none")
#: The most bytes in the name of a study. The names of its runs are this name and more.
MOST_BYTES: Final = 200
#: Runs of each method in the comparison of a finale.
FINAL_SEEDS: Final = 7
#: The most seeds of a trial and of a comparison; the most trials; and the most episodes of an evaluation.
MOST_SEEDS: Final = 1_000
MOST_TRIALS: Final = 10_000
MOST_EPISODES: Final = 10_000
