"""Hyperparameter sets: `<environment>/ppo.yml`."""
