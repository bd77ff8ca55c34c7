"""Trained agents: `a3c-zoo list trained` shows them, `a3c-zoo play cartpole` plays one."""

from __future__ import annotations

from a3c_zoo import TrainedEntry, hookimpl


def _entry(name: str, env: str, agent: str, description: str, weaknesses: str) -> TrainedEntry:
    return TrainedEntry(name, env, agent, "a3c_zoo_trained", description, weaknesses, revision=1)


@hookimpl
def zoo_trained() -> list[TrainedEntry]:
    limit = "Without the limit of 500 steps it drops the pole or leaves the track after"
    return [
        _entry("cartpole-a3c", "cartpole", "a3c", "two small networks", f"{limit} 710 to 920 steps."),
        _entry("cartpole-nstep", "cartpole", "nstep", "the textbook's agent", f"{limit} 1,400 steps or more."),
        _entry(
            "cartpole-lstm",
            "cartpole",
            "a3c",
            "velocities are hidden; an LSTM remembers",
            f"{limit} 1,300 steps or more.",
        ),
        _entry(
            "acrobot-a3c",
            "gym:Acrobot-v1",
            "a3c",
            "swings up in about 95 steps",
            "The slowest of 200 episodes took 268 steps. Greedy actions are faster: -85.3.",
        ),
        _entry(
            "lunar-lander-a3c",
            "gym:LunarLander-v3",
            "a3c",
            "lands, but not always",
            "Not solved (200): it hovers, so that an episode takes 480 steps, and the worst of 100 gave -88.8.",
        ),
        _entry(
            "pendulum-a3c",
            "gym:Pendulum-v1",
            "a3c",
            "swings up and balances",
            "Starts at the bottom cost most: the worst of 100 episodes gave -436.6.",
        ),
        _entry(
            "pong-a3c",
            "pong",
            "a3c",
            "beats the game's own player by 18 points",
            "With greedy actions 16 games gave 14.7 ± 8.1 points, and the worst was lost by 2.",
        ),
        _entry(
            "space-invaders-a3c",
            "atari:space_invaders",
            "a3c",
            "after half a million steps",
            "Half a million steps are few: the first 100 games of its training gave 170 points.",
        ),
        _entry(
            "qbert-a3c",
            "atari:qbert",
            "a3c",
            "after half a million steps",
            "Half a million steps are few: the first 100 games of its training gave 153 points.",
        ),
        _entry(
            "seaquest-a3c",
            "atari:seaquest",
            "a3c",
            "after half a million steps",
            "Half a million steps are few: the first 100 games of its training gave 223 points.",
        ),
    ]
