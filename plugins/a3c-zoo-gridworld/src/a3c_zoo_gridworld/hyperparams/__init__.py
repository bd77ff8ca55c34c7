"""Hyperparameter sets, as files `<env>/<set>.yml` in this package."""
