"""Hyperparameter sets: those of `a3c`."""
