"""Trained agents: `a3c-zoo list trained` shows them, `a3c-zoo play cartpole` plays one."""

from __future__ import annotations

from a3c_zoo import TrainedEntry, hookimpl

_LIMIT = "Without the limit of 500 steps it drops the pole or leaves the track after"
_SOLVED = (
    "Below RL Zoo's A2C (500.0): its training ended as soon as it was solved, with 475. The worst of 100 gave 461."
)
_HOPS = "Below RL Zoo's PPO (15,627), which had ten million steps. Uneven: the worst of 100 games gave 375."
_INVADED = "Below RL Zoo's A2C (627), which had ten million steps. The worst of 100 games gave 245."
_RUNS = "Below RL Zoo's A2C (31,672), which had ten million steps. The worst of 100 games gave 15,600."
_ROCKS = "Below RL Zoo's A2C (1,287). It is the best checkpoint, of step 339,618. The worst of 100 games gave 510."
_SECTOR = "Below RL Zoo's A2C (2,890): most games end in the first sector, which has 660 points. The worst gave 132."
_SLOW = "It still learned: RL Zoo's PPO has 996 points after ten million steps. The worst of 100 games gave 147."
_UNEVEN = "Just solved (400): five evaluations before gave 391.5 to 398.3. Of 100 games, the worst gave 236."
_GREEDY = "The game's player still makes one or two points. Greedy actions gave 20.2 ± 0.433 points in 16 games."
_WORST = "The worst of 100 episodes"
_FALLS = f"It often falls: an episode has 871 of 1,000 steps on average. {_WORST} gave 578.7."
_EARLY = f"Its episodes end early: after 417 of 1,000 steps on average. {_WORST} gave 4.1. RL Zoo's PPO: 1,327."
_STUMBLES = f"Below RL Zoo's A2C (299.8): it falls in some episodes. {_WORST} gave -127.8."
_BLUE = "9 of 100 episodes gave 0: it opened the blue door first. With seed 2 the same training learned nothing."
_AGAIN = "The most probable actions are worse: 0.911 ± 0.209."

#: Name, environment, agent, description, and where it is known to fail. What has a row in the table beside RL Zoo's
#: agents (docs/benchmarks-rl-zoo.md) comes from its runs: the description says from which of three seeds.
_AGENTS = (
    ("cartpole-a3c", "cartpole", "a3c", "two small networks", f"{_SOLVED} {_LIMIT} 470 to 730 steps."),
    ("cartpole-nstep", "cartpole", "nstep", "the textbook's agent", f"{_LIMIT} 1,400 steps or more."),
    ("cartpole-lstm", "cartpole", "a3c", "velocities hidden; an LSTM remembers", f"{_LIMIT} 1,300 steps or more."),
    ("acrobot-a3c", "gym:Acrobot-v1", "a3c", "lowest of 3 seeds", f"{_WORST} took 189 steps."),
    ("mountain-car-a3c", "gym:MountainCar-v0", "a3c", "median of 3 seeds", f"{_WORST} took 113 steps."),
    (
        "mountain-car-continuous-a3c",
        "gym:MountainCarContinuous-v0",
        "a3c",
        "repeats the median of 3 seeds",
        f"{_WORST} gave 93.6.",
    ),
    ("pendulum-a3c", "gym:Pendulum-v1", "a3c", "median of 3 seeds", f"{_WORST} gave -366.9."),
    ("lunar-lander-a3c", "gym:LunarLander-v3", "a3c", "lowest of 3 seeds; extra box2d", f"{_WORST} gave -31.5."),
    (
        "lunar-lander-continuous-a3c",
        "gym:LunarLanderContinuous-v3",
        "a3c",
        "median of 3 seeds; extra box2d",
        f"{_WORST} gave 169.6.",
    ),
    (
        "bipedal-walker-a3c",
        "gym:BipedalWalker-v3",
        "a3c",
        "highest of 3 seeds; extra box2d",
        _STUMBLES,
    ),
    ("hopper-a3c", "gym:Hopper-v5", "a3c", "median of 3 seeds; extra mujoco", f"{_WORST} gave 870.3."),
    ("half-cheetah-a3c", "gym:HalfCheetah-v5", "a3c", "median of 3 seeds; extra mujoco", f"{_WORST} gave 4,804.9."),
    ("walker2d-a3c", "gym:Walker2d-v5", "a3c", "median of 3 seeds; extra mujoco", _FALLS),
    ("ant-a3c", "gym:Ant-v5", "a3c", "median of 3 seeds; extra mujoco", _EARLY),
    ("swimmer-a3c", "gym:Swimmer-v5", "a3c", "median of 3 seeds; extra mujoco", f"{_WORST} gave 290.4."),
    (
        "door-key-a3c",
        "minigrid:DoorKey-5x5",
        "a3c",
        "median of 3 seeds; a3c-zoo-minigrid",
        f"{_WORST} took 14 steps.",
    ),
    (
        "key-corridor-a3c",
        "minigrid:KeyCorridorS3R1",
        "a3c",
        "median of 3 seeds; a3c-zoo-minigrid",
        f"{_WORST} took 15 steps.",
    ),
    (
        "unlock-a3c",
        "minigrid:Unlock",
        "a3c",
        "median of 3 seeds; a3c-zoo-minigrid",
        f"{_WORST} took 32 steps. {_AGAIN}",
    ),
    ("red-blue-doors-a3c", "minigrid:RedBlueDoors-6x6", "a3c", "median of 3 seeds; a3c-zoo-minigrid", _BLUE),
    ("pong-a3c", "pong", "a3c", "beats the game's player by 19 points", _GREEDY),
    ("breakout-a3c", "breakout", "a3c", "100 games gave 236 to 842 points", _UNEVEN),
    ("space-invaders-a3c", "atari:space_invaders", "a3c", "after 2.5 million steps", _INVADED),
    ("qbert-a3c", "atari:qbert", "a3c", "after 2.5 million steps", _HOPS),
    ("seaquest-a3c", "atari:seaquest", "a3c", "after 2.5 million steps", "The worst of 100 games gave 1,360."),
    ("beam-rider-a3c", "atari:beam_rider", "a3c", "after 2.5 million steps", _SECTOR),
    ("enduro-a3c", "atari:enduro", "a3c", "after 2.5 million steps", _SLOW),
    ("ms-pacman-a3c", "atari:ms_pacman", "a3c", "after 2.5 million steps", "The worst of 100 games gave 380."),
    ("road-runner-a3c", "atari:road_runner", "a3c", "after 2.5 million steps", _RUNS),
    ("asteroids-a3c", "atari:asteroids", "a3c", "best of 2.5 million steps", _ROCKS),
)
_PIXELS = "The set had pixels of 0.012 then. Today: add `-o network.scale=0.012`."
#: Name → how it went on after the command in its meta.json, by hand, or what the command means today.
_THEN = {
    "seaquest-a3c": _PIXELS,
    "enduro-a3c": "The set was called `a3c-ppo` then. Today: `-o network.scale=0.012` in place of "
    "`--hyperparams a3c-ppo`.",
    "ms-pacman-a3c": _PIXELS,
    "road-runner-a3c": _PIXELS,
    "asteroids-a3c": _PIXELS,
    "breakout-a3c": "After 9,991,007 steps it went on in copies whose config.yml had `stop_when_solved: true` and a "
    "longer `schedule_steps`, `a3c-zoo train --resume COPY --steps N` each with the same N: 12,000,000, 15,000,000, "
    "and 17,500,000.",
}


@hookimpl
def zoo_trained() -> list[TrainedEntry]:
    return [
        TrainedEntry(
            name, env, agent, "a3c_zoo_trained", description, weaknesses, continued=_THEN.get(name, ""), revision=1
        )
        for name, env, agent, description, weaknesses in _AGENTS
    ]
