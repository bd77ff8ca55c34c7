"""`check_env`: does an environment keep the contract that agents rely on?

It checks, in this order: the entry and its import strings; the configuration's own keys; the spaces; every step against
them; that the seed decides everything; the steps after the end of an episode, as the autoreset mode says; that
`get_state` and `set_state`, if there are any, restore the environment exactly.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import PluginError, ZooError, type_and_message
from a3c_zoo.plugins import offers
from a3c_zoo.plugins.entries import EnvEntry, load_object
from a3c_zoo.testing.subject import Subject, Trajectory


def check_env(
    entry: EnvEntry, *, config: EnvConfig | None = None, num_envs: Sequence[int] = (1, 3), steps: int = 500
) -> None:
    """Makes the entry's environment as a run does and takes random actions in it, several times.

    Args:
        entry: the plugin's entry.
        config: the `env` section; by default the entry's model with its defaults. Its `num_envs` isn't used.
        num_envs: numbers of environments to try.
        steps: how many actions it takes; some episodes must end within them.

    Raises:
        AssertionError: with one line on the first fault.
    """
    config = _check_entry(entry, config)
    for n in num_envs:
        subject = Subject(entry, config, n)
        with subject.made():
            _check_spaces(subject)
        actions = _random_actions(subject, steps, seed=0)
        trajectory = subject.new_trajectory(actions, seed=1)
        subject.expect(
            trajectory.ended.any(),
            f"no episode ended within {steps} steps of random actions; let check_env play more `steps`, or a "
            "`config` with shorter episodes",
        )
        _check_seeding(subject, actions, trajectory)
        if subject.mode == "NextStep":
            _check_ignored_step(subject, actions, trajectory)
        _check_new_episodes(subject, trajectory)
        _check_state(subject, actions, trajectory)


def _check_entry(entry: EnvEntry, config: EnvConfig | None) -> EnvConfig:
    """Checks the entry; returns the configuration of the environment."""
    if ":" not in entry.name:  # the registry checks the names that families resolve
        try:
            offers.check("zoo_envs", entry)
        except PluginError as error:
            raise AssertionError(f"environment '{entry.name}': a3c-zoo refuses its entry: {error}") from error
    is_callable = entry.factory is None or callable(_load(entry, "factory", entry.factory))
    _expect(entry, is_callable, f"factory '{entry.factory}' is not callable")
    model: Any = _load(entry, "config", entry.config)
    _expect(
        entry,
        isinstance(model, type) and issubclass(model, EnvConfig),
        f"config '{entry.config}' must be a subclass of a3c_zoo.config.EnvConfig",
    )
    own = {key: field for key, field in model.model_fields.items() if key not in EnvConfig.model_fields}
    for key, field in own.items():
        _expect(entry, bool(field.description), f"key '{key}' of {model.__name__} has no description")
        _expect(entry, not field.is_required(), f"key '{key}' of {model.__name__} has no default")
    both = sorted(own.keys() & entry.kwargs.keys())
    _expect(entry, not both, f"kwargs has {both}, which the configuration has too, and would override")
    _expect(entry, config is None or isinstance(config, model), f"the config given is no {model.__name__}")
    chosen: EnvConfig = model() if config is None else config
    return chosen


def _expect(entry: EnvEntry, condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(f"environment '{entry.name}': {message}")


def _load(entry: EnvEntry, field: str, path: str) -> Any:
    try:
        return load_object(path)
    except Exception as error:
        place = f"environment '{entry.name}': {field} '{path}'"
        raise AssertionError(f"{place} cannot be imported: {type_and_message(error)}") from error


def _random_actions(subject: Subject, steps: int, seed: int) -> NDArray[Any]:
    """Random actions `[T, N, ...]`."""
    space: Any = subject.env.action_space
    space.seed(seed)
    return np.stack([space.sample() for _ in range(steps)])


def _check_spaces(subject: Subject) -> None:
    from a3c_zoo.learning.actions import action_distribution
    from a3c_zoo.learning.spaces import observation_spec

    env = subject.env
    for name in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
        subject.expect(hasattr(env, name), f"it has no {name}")
    for single, make_spec in (("observation_space", observation_spec), ("action_space", action_distribution)):
        space = getattr(env, f"single_{single}")
        try:
            make_spec(space)
        except ZooError as error:
            subject.fail(str(error), error)
        batched, found = batch_space(space, subject.num_envs), getattr(env, single)
        subject.expect(found == batched, f"{single} is {found}; batch_space(single_{single}, num_envs) is {batched}")


def _check_seeding(subject: Subject, actions: NDArray[Any], trajectory: Trajectory) -> None:
    subject.expect_equal(
        trajectory,
        subject.new_trajectory(actions, seed=1),
        "two new environments after reset(seed=1) and the same actions differ {where}: "
        "take every random number from self.np_random, which reset(seed) seeds",
    )
    with subject.made():
        subject.trajectory(actions, subject.reset(2))
        subject.expect_equal(
            trajectory,
            subject.trajectory(actions, subject.reset(1)),
            "after reset(seed=1), an environment that was used before differs {where} from a new one: "
            "reset must forget everything",
        )
        if subject.trajectory(actions, subject.reset(None)).first_difference(trajectory) is None:
            return  # nothing is random
    subject.expect(
        subject.new_trajectory(actions, seed=2).first_difference(trajectory) is not None,
        "it is random, but reset(seed=1) and reset(seed=2) give the same episodes: the seed is ignored",
    )
    if subject.num_envs > 1:
        same = subject.new_trajectory(np.repeat(actions[:, :1], subject.num_envs, axis=1), seed=1)
        alike = all((array == array[:, :1]).all() for array in (same.observations, same.steps))
        subject.expect(not alike, "all environments play the same episodes: each needs random numbers of its own")


def _check_ignored_step(subject: Subject, actions: NDArray[Any], trajectory: Trajectory) -> None:
    """NEXT_STEP: checks that the step after an end only resets."""
    ignored = np.zeros_like(trajectory.ended)
    ignored[1:] = trajectory.ended[:-1]
    for fault, message in (
        (ignored & trajectory.ended, "ended an episode, one step after another end"),
        (ignored & (trajectory.steps["reward"] != 0), "gave a reward, one step after the end of an episode"),
    ):
        step = int(fault.any(axis=1).argmax())
        subject.expect(not fault.any(), f"step {step} {message}: in autoreset mode NextStep this step only resets")
    space: Any = subject.env.single_action_space
    if isinstance(space, Discrete):
        others = (actions - space.start + 1) % space.n + space.start
    else:
        others = _random_actions(subject, len(actions), seed=1)
    others = np.where(ignored.reshape(*ignored.shape, *[1] * (actions.ndim - 2)), others, actions)
    subject.expect_equal(
        trajectory,
        subject.new_trajectory(others, seed=1),
        "in autoreset mode NextStep the action after the end of an episode must be ignored; another one changes what "
        "follows {where}",
    )


def _check_new_episodes(subject: Subject, trajectory: Trajectory) -> None:
    """Checks that an end is followed by the first observation of a new episode."""
    with subject.made():
        starts = np.stack([subject.reset(seed) for seed in (1, 2, 3, None, None)])
    delay = 2 if subject.mode == "NextStep" else 1
    always_the_same = (starts == starts[0]).all()
    places = [(t, n) for t, n in np.argwhere(trajectory.ended).tolist() if t + delay < len(trajectory.observations)]
    for t, n in places if always_the_same else []:
        found = trajectory.observations[t + delay, n]
        subject.expect(
            np.array_equal(found, starts[0, n]),
            f"an episode ended at step {t}, but the observation of step {t + delay - 1} is {found}, where in autoreset "
            f"mode {subject.mode} a new episode begins, whose first observation is {starts[0, n]}",
        )
    unchanged = [
        np.array_equal(trajectory.observations[t + 1, n], final) for (t, n), final in trajectory.finals.items()
    ]
    subject.expect(
        always_the_same or not unchanged or not all(unchanged),
        f"after every end the observation is still the final one; in autoreset mode {subject.mode} it must be the "
        "first of the new episode",
    )


def _check_state(subject: Subject, actions: NDArray[Any], trajectory: Trajectory) -> None:
    """Checks `get_state` and `set_state`, in the middle and right after an end, when a reset may be pending."""
    offered = [name for name in ("get_state", "set_state") if hasattr(subject.env, name)]
    subject.expect(len(offered) != 1, f"it has {''.join(offered)} alone; an exact resume needs get_state and set_state")
    if not offered:
        return
    for cut in sorted({len(actions) // 2, int(trajectory.ended.any(axis=1).argmax()) + 1}):
        start, expected = trajectory.observations[cut], trajectory.tail(cut)
        with subject.made() as env:
            subject.trajectory(actions[:cut], subject.reset(1))
            state = subject.call("get_state()", env.get_state)  # type: ignore[attr-defined]
            saved = _through_a_file(subject, state)
            rest = subject.trajectory(actions[cut:], start)
            subject.expect_equal(expected, rest, "get_state() changes what follows {where}")
        for content, message in (
            (saved, "after set_state(), it differs {where} from the environment that get_state() was called on"),
            (state, "what get_state() returned changes while the environment goes on (set_state() differs {where})"),
        ):
            with subject.made() as env:
                subject.reset(2)
                subject.call("set_state()", partial(env.set_state, content))  # type: ignore[attr-defined]
                rest = subject.trajectory(actions[cut:], start)
                subject.expect_equal(expected, rest, f"{message}; it must return copies of all")


def _through_a_file(subject: Subject, state: Any) -> Any:
    """Returns the state as a checkpoint gives it back."""
    import torch

    file = io.BytesIO()
    try:
        torch.save(state, file)
        file.seek(0)
        return torch.load(file, weights_only=True)
    except Exception as error:  # torch's message is a page long
        subject.fail(
            "get_state() must return a dict of tensors, numbers, strings and lists; checkpoints hold no other", error
        )
