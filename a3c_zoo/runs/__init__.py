"""Trainings and evaluations: session, recorder, progress, evaluator, solved check."""
