"""Trained agents: `a3c-zoo list trained` shows them, `a3c-zoo play cartpole` plays one."""

from __future__ import annotations

from a3c_zoo import TrainedEntry, hookimpl

_LIMIT = "Without the limit of 500 steps it drops the pole or leaves the track after"
_FEW = "Half a million steps are few: the first 100 games of its training gave"
_NO_CAR = "It overtakes no car: 0 points in all games. Half a million steps are far too few."
_UNEVEN = "Just solved (400): five evaluations before gave 391.5 to 398.3. Of 100 games, the worst gave 236."
_GREEDY = "With greedy actions 16 games gave 14.7 ± 8.1 points, and the worst was lost by 2."
_HOVERS = "Not solved (200): it hovers, so that an episode takes 480 steps, and the worst of 100 gave -88.8."
_BOTTOM = "The worst of 100 episodes gave -436.6."
_WORST = "The worst of 200 episodes gave -268. Greedy actions are faster: -85.3."

#: Name, environment, agent, description, and where it is known to fail.
_AGENTS = (
    ("cartpole-a3c", "cartpole", "a3c", "two small networks", f"{_LIMIT} 470 to 730 steps."),
    ("cartpole-nstep", "cartpole", "nstep", "the textbook's agent", f"{_LIMIT} 1,400 steps or more."),
    ("cartpole-lstm", "cartpole", "a3c", "velocities are hidden; an LSTM remembers", f"{_LIMIT} 1,300 steps or more."),
    ("acrobot-a3c", "gym:Acrobot-v1", "a3c", "swings up in about 95 steps", _WORST),
    ("lunar-lander-a3c", "gym:LunarLander-v3", "a3c", "lands, but not always", _HOVERS),
    ("pendulum-a3c", "gym:Pendulum-v1", "a3c", "swings up and balances", _BOTTOM),
    ("pong-a3c", "pong", "a3c", "beats the game's own player by 18 points", _GREEDY),
    ("breakout-a3c", "breakout", "a3c", "100 games gave 236 to 842 points", _UNEVEN),
    ("space-invaders-a3c", "atari:space_invaders", "a3c", "after half a million steps", f"{_FEW} 170 points."),
    ("qbert-a3c", "atari:qbert", "a3c", "after half a million steps", f"{_FEW} 153 points."),
    ("seaquest-a3c", "atari:seaquest", "a3c", "after half a million steps", f"{_FEW} 223 points."),
    ("beam-rider-a3c", "atari:beam_rider", "a3c", "after half a million steps", f"{_FEW} 426 points, as many."),
    ("enduro-a3c", "atari:enduro", "a3c", "after half a million steps", _NO_CAR),
    ("ms-pacman-a3c", "atari:ms_pacman", "a3c", "after half a million steps", f"{_FEW} 384 points."),
)
#: Name → how it went on after the command in its meta.json, by hand.
_THEN = {
    "breakout-a3c": "After 9,991,007 steps it went on in copies whose config.yml had `stop_when_solved: true` and a "
    "longer `schedule_steps`, `a3c-zoo train --resume COPY --steps N` each with the same N: 12,000,000, 15,000,000, "
    "and 17,500,000."
}


@hookimpl
def zoo_trained() -> list[TrainedEntry]:
    return [
        TrainedEntry(
            name, env, agent, "a3c_zoo_trained", description, weaknesses, continued=_THEN.get(name, ""), revision=1
        )
        for name, env, agent, description, weaknesses in _AGENTS
    ]
