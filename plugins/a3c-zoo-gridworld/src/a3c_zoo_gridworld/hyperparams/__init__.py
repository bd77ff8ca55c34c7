"""Hyperparameter sets: `<env>/<set>.yml` beside this file."""
