"""Trained agents: `a3c-zoo list trained` shows them, `a3c-zoo play cartpole` plays one."""

from __future__ import annotations

from a3c_zoo import TrainedEntry, hookimpl


def _entry(name: str, env: str, agent: str, description: str) -> TrainedEntry:
    return TrainedEntry(name, env, agent, "a3c_zoo_trained", description, revision=1)


@hookimpl
def zoo_trained() -> list[TrainedEntry]:
    return [
        _entry("cartpole-a3c", "cartpole", "a3c", "two small networks"),
        _entry("cartpole-nstep", "cartpole", "nstep", "the textbook's agent"),
        _entry("cartpole-lstm", "cartpole", "a3c", "velocities are hidden; an LSTM remembers"),
        _entry("acrobot-a3c", "gym:Acrobot-v1", "a3c", "swings up in about 90 steps"),
    ]
