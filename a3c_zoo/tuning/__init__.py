"""Tuning: studies of trials that race against each other, the choice among the best, and its evidence."""
