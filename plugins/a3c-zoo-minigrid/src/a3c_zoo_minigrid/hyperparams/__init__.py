"""Hyperparameter sets of MiniGrid."""
