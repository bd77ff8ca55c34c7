"""Comparisons: plan, training, evaluation, statistics and report of several methods."""
