"""Runs: their directories and what is recorded in them, training, and evaluation."""
