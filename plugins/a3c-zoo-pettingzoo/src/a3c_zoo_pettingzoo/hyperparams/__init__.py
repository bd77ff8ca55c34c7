"""Hyperparameter sets of games of several agents."""
