"""Figures of runs: arrays in, records out. Statistics, claims, durations, results."""
