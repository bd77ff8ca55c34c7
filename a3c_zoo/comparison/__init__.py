"""Comparisons: what is trained, how it is evaluated, and what can be said about it."""
