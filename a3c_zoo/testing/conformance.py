"""`check_env`: does an environment keep the contract that agents rely on?

It checks, in this order: the entry and its import strings; the configuration's own keys; the spaces; every
step against them; that the seed decides everything; the steps after the end of an episode, as the autoreset
mode says; that `get_state` and `set_state`, if there are any, restore the environment exactly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AsyncVectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from a3c_zoo.config import EnvConfig, Section
from a3c_zoo.config.settings import refuse_taken_keys
from a3c_zoo.errors import PluginError, ZooError, type_and_message
from a3c_zoo.learning.wrappers import time_limit_of
from a3c_zoo.plugins import offers
from a3c_zoo.plugins.entries import (
    AgentEntry,
    EngineEntry,
    EnvEntry,
    HookEntry,
    NetworkEntry,
    OptimizerEntry,
    load_object,
)
from a3c_zoo.testing.findings import Findings
from a3c_zoo.testing.tested_environment import Subject, Trajectory, equal_rows, one_by_one, shown

CURE_AUTORESET = "do what metadata['autoreset_mode'] says after the end of an episode"
#: So many ends of one copy are judged by themselves: a start that is rarely another one does not follow all
#: of them.
MANY_ENDS = 3
#: Seeds beside 1. An ignored seed gives the same episodes with each of them.
OTHER_SEEDS = range(2, 12)
CURE_RANDOM = "take every random number from self.np_random, which reset(seed) seeds"


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
    findings = Findings(f"environment '{entry.name}'", raises=True)
    config = check_env_entry(entry, config, findings)
    with findings.during("configuration", "give it another name"):
        refuse_taken_keys(entry, type(config))
    for n in num_envs:
        subject = Subject(entry, config, n, findings)
        subject.expect(
            check_contract(subject, steps),
            "episodes",
            f"no episode ended within {steps} steps of random actions",
            "let check_env play more `steps`, or give it a `config` with shorter episodes; or add a time limit",
        )


def check_contract(subject: Subject, steps: int) -> bool:
    """Returns whether an episode has ended. Raises CheckFailedError if a fault does not let the check go on."""
    with subject.made():
        _check_spaces(subject)
    actions = random_actions(subject, steps, seed=0)
    trajectory = subject.new_trajectory(actions, seed=1)
    _check_flags(subject, trajectory)
    is_repeatable = _check_seeding(subject, actions, trajectory)
    if subject.mode == "NextStep":
        _check_ignored_step(subject, actions, trajectory, is_repeatable)
    _check_new_episodes(subject, trajectory)
    if is_repeatable:
        _check_state(subject, trajectory)
    return bool(trajectory.ended.any())


def check_entry(
    entry: EnvEntry | AgentEntry | NetworkEntry | OptimizerEntry | HookEntry | EngineEntry,
    hook: str,
    base: type[Section],
    findings: Findings,
    **factories: str | None,
) -> Any:
    """Checks an entry, its import strings and its configuration's keys; returns the model of its section.

    Args:
        hook: offers the entry. base: of its configuration. factories: field → import string of something
            callable.

    Raises:
        CheckFailedError: the configuration's model cannot be used.
    """
    name = offers.name_of(entry)
    if ":" not in name:  # the registry checks the names that families resolve
        try:
            offers.check(hook, entry)
        except PluginError as error:
            findings.stop("entry", f"a3c-zoo refuses its entry: {error}", "correct the entry", error)
    for field, path in factories.items():
        if path is not None and not callable(_load(findings, field, path)):
            findings.problem("entry", f"{field} '{path}' is not callable", "name a class or a function")
    path = entry.config
    model: Any = _load(findings, "config", path)
    if not (isinstance(model, type) and issubclass(model, base)):
        message = f"config '{path}' must be a subclass of a3c_zoo.config.{base.__name__}"
        findings.stop("configuration", message, f"derive it from {base.__name__}")
    try:
        model.model_rebuild()  # which pydantic else does when the model is first used
    except Exception as error:
        message = f"config '{path}' cannot be used: {type_and_message(error)}"
        findings.stop("configuration", message, "correct the types of its keys", error)
    for key, field_info in model.model_fields.items():
        if key in base.model_fields:
            continue
        label = f"key '{key}' of {model.__name__}"
        cure = "Field(DEFAULT, description=...)"
        findings.expect(field_info.description, "configuration", f"{label} has no description", cure)
        findings.expect(
            not field_info.is_required(), "configuration", f"{label} has no default", f"give it one: {cure}"
        )
    return model


def check_env_entry(entry: EnvEntry, config: EnvConfig | None, findings: Findings) -> EnvConfig:
    """Checks the entry of an environment; returns its configuration. Raises as `check_entry`."""
    model = check_entry(entry, "zoo_envs", EnvConfig, findings, factory=entry.factory)
    both = sorted((model.model_fields.keys() - EnvConfig.model_fields.keys()) & entry.kwargs.keys())
    message = f"kwargs has {both}, which the configuration has too, and would override"
    findings.expect(not both, "configuration", message, "leave them out of EnvEntry.kwargs")
    if config is not None and not isinstance(config, model):
        findings.stop("configuration", f"the config given is no {model.__name__}", f"give a {model.__name__}")
    chosen: EnvConfig = model() if config is None else config
    return chosen


def _load(findings: Findings, field: str, path: str) -> Any:
    try:
        return load_object(path)
    except Exception as error:
        cure = "correct the import string, or the module that it names"
        findings.stop("entry", f"{field} '{path}' cannot be imported: {type_and_message(error)}", cure, error)


def random_actions(subject: Subject, steps: int, seed: int) -> NDArray[Any]:
    """Random actions `[T, N, ...]` for the environment that was made last.

    Of a Dict or a Tuple space they are dictionaries or tuples, `[T, N]`.
    """
    space: Any = subject.env.action_space
    space.seed(seed)
    return np.stack([one_by_one(space, space.sample()) for _ in range(steps)])


def _check_spaces(subject: Subject) -> None:
    from a3c_zoo.learning.actions import action_distribution
    from a3c_zoo.learning.spaces import observation_spec

    env = subject.env
    for name in ("observation_space", "action_space", "single_observation_space", "single_action_space"):
        if not hasattr(env, name):
            subject.fail("spaces", f"it has no {name}", "set all four spaces in __init__")
    for single, make_spec in (("observation_space", observation_spec), ("action_space", action_distribution)):
        space = getattr(env, f"single_{single}")
        try:
            make_spec(space)
        except ZooError as error:
            subject.fail("spaces", str(error), "wrap the environment: gymnasium.wrappers", error)
        batched = batch_space(space, subject.num_envs)
        given = getattr(env, single)
        cure = f"self.{single} = batch_space(self.single_{single}, num_envs)"
        message = f"{single} is {given}; batch_space(single_{single}, num_envs) is {batched}"
        subject.expect(given == batched, "spaces", message, cure)
    mode: Any = getattr(env, "autoreset_mode", None) or (env.metadata or {}).get("autoreset_mode")
    message = f"metadata['autoreset_mode'] is the string {mode!r}, which Gymnasium's wrappers refuse"
    cure = "use gymnasium.vector.AutoresetMode, such as AutoresetMode.NEXT_STEP"
    subject.expect(not isinstance(mode, str), "autoreset", message, cure)
    message = (
        "it is an AsyncVectorEnv, whose processes no worker may start: workers are the processes already"
    )
    cure = "use gymnasium.vector.SyncVectorEnv"
    subject.expect(not isinstance(env.unwrapped, AsyncVectorEnv), "workers", message, cure)
    subject.take_spaces()


def _check_flags(subject: Subject, trajectory: Trajectory) -> None:
    """Steps that report both flags: learning takes them for terminations."""
    terminated, truncated = (trajectory.steps[name] for name in ("terminated", "truncated"))
    both = terminated & truncated
    cure = "truncated = is_over_time and not terminated"
    limit = time_limit_of(subject.env)
    if both.any() and (terminated == truncated).all():
        if limit is not None and _shortest_episode(trajectory, subject.mode) == limit:
            message = f"episodes end by themselves in the step of their time limit, step {limit:,}"
            cure = (
                "if that is no end of the task, leave it to the limit; else register a longer limit, or none"
            )
            subject.warn("flags", f"{message}; learning takes it for a termination", cure)
            return
        message = "terminated and truncated are always equal; learning cannot tell a time limit from an end of the task"
        subject.problem("flags", message, cure)
    elif both.any() and limit is None:
        step = int(both.any(axis=1).argmax())
        message = f"step {step} is both terminated and truncated; learning takes it for a termination"
        subject.warn("flags", message, cure)


def _shortest_episode(trajectory: Trajectory, mode: str) -> int:
    """The steps of the shortest episode that has ended. With NEXT_STEP, the step that begins one does not count."""
    between = 1 if mode == "NextStep" else 0
    lengths: list[int] = []
    for ended in trajectory.ended.T:
        begins = 0
        for end in np.flatnonzero(ended).tolist():
            lengths.append(end + 1 - begins)
            begins = end + 1 + between
    return min(lengths)


def _check_seeding(subject: Subject, actions: NDArray[Any], trajectory: Trajectory) -> bool:
    """Returns whether a seed and actions always give the same trajectory."""
    check = "seeding"
    cure = _seeding_cure(subject)
    is_repeatable = subject.expect_equal(
        check,
        trajectory,
        subject.new_trajectory(actions, seed=1),
        "two new environments after reset(seed=1) and the same actions differ {where}",
        cure,
    )
    with subject.made():
        subject.trajectory(actions, subject.reset(2))
        is_repeatable &= subject.expect_equal(
            check,
            trajectory,
            subject.trajectory(actions, subject.reset(1)),
            "after reset(seed=1), an environment that was used before differs {where} from a new one",
            f"reset must forget everything; {cure}",
        )
        if subject.trajectory(actions, subject.reset(None)).first_difference(trajectory) is None:
            return is_repeatable  # nothing is random
    # One other seed may happen to give the same episode.
    others = (subject.new_trajectory(actions, seed) for seed in OTHER_SEEDS)
    differs = any(other.first_difference(trajectory) is not None for other in others)
    fault = f"reset(seed=1) to reset(seed={OTHER_SEEDS[-1]}) give the same episodes"
    subject.expect(differs, check, f"it is random, but {fault}: the seed is ignored", cure)
    num_agents = subject.entry.num_agents
    if subject.num_envs > num_agents:  # more than one game; the agents of a game may well see the same
        equal = np.repeat(actions[:, :1], subject.num_envs, axis=1)
        played = (subject.new_trajectory(equal, seed) for seed in (1, *OTHER_SEEDS))
        apart = any(
            _differ_by_game(array, num_agents)
            for episodes in played
            for array in (*episodes.observations, episodes.steps)
        )
        message = "all environments play the same episodes: each needs random numbers of its own"
        subject.expect(apart, check, message, "draw an array, [num_envs], from self.np_random")
    return is_repeatable


def _differ_by_game(array: NDArray[Any], num_agents: int) -> bool:
    """Whether something differs between games. array: `[T, N, ...]`, with the agents of a game side by side."""
    games = array.reshape(len(array), -1, num_agents, *array.shape[2:])
    return bool((games != games[:, :1]).any())


def _seeding_cure(subject: Subject) -> str:
    """What to do if the seed does not decide everything: `np_random` is a new object after each reset with a seed."""
    with subject.made() as env:
        subject.reset(1)
        before: Any = env.np_random  # a tuple where each environment has its own
        subject.reset(1)
        after: Any = env.np_random
        if isinstance(before, tuple):
            forgotten = after[0] is before[0]
        else:
            forgotten = after is before
    if forgotten:
        return f"call super().reset(seed=seed) first in reset(), and {CURE_RANDOM}"
    return CURE_RANDOM


def _check_ignored_step(
    subject: Subject, actions: NDArray[Any], trajectory: Trajectory, is_repeatable: bool
) -> None:
    """NEXT_STEP: checks that the step after an end only resets."""
    ignored = trajectory.ignored
    for fault, message in (
        (ignored & trajectory.ended, "ended an episode, one step after another end"),
        (ignored & (trajectory.steps["reward"] != 0), "gave a reward, one step after the end of an episode"),
    ):
        step = int(fault.any(axis=1).argmax())
        message = f"step {step} {message}: in autoreset mode NextStep this step only resets"
        subject.expect(not fault.any(), "autoreset", message, CURE_AUTORESET)
    if not is_repeatable:  # a difference would not tell of the action
        return
    space: Any = subject.env.single_action_space
    if isinstance(space, Discrete):
        others = (actions - space.start + 1) % space.n + space.start
    else:
        others = random_actions(subject, len(actions), seed=1)
    others = np.where(ignored.reshape(*ignored.shape, *[1] * (actions.ndim - 2)), others, actions)
    subject.expect_equal(
        "autoreset",
        trajectory,
        subject.new_trajectory(others, seed=1),
        "in autoreset mode NextStep the action after the end of an episode must be ignored; another one changes what "
        "follows {where}",
        CURE_AUTORESET,
    )


def _check_new_episodes(subject: Subject, trajectory: Trajectory) -> None:
    """Checks that an end is followed by the first observation of a new episode."""
    with subject.made():
        starts = [subject.reset(seed) for seed in (1, 2, 3, *[None] * 20)]
    always_the_same = all(equal_rows(start, starts[0]) for start in starts)
    rows = {(t, n): _next_start(subject, trajectory, t, n) for t, n in np.argwhere(trajectory.ended).tolist()}
    places = [place for place, row in rows.items() if row is not None]
    for ends in _ends_of_a_kind(places, trajectory) if always_the_same else ():
        pairs = [
            (trajectory.row(rows[t, n] or 0, n), tuple(array[n] for array in starts[0])) for t, n in ends
        ]
        if any(equal_rows(row, first) for row, first in pairs):
            continue  # an end that leads elsewhere may have met a rare start
        row, first = pairs[0]
        subject.problem(
            "autoreset",
            f"an episode ended at step {ends[0][0]}, but the observation of step {(rows[ends[0]] or 0) - 1} is "
            f"{shown(row)}, where in autoreset mode {subject.mode} a new episode begins, whose first observation is "
            f"{shown(first)}",
            CURE_AUTORESET,
        )
        break
    unchanged = [equal_rows(trajectory.row(t + 1, n), final) for (t, n), final in trajectory.finals.items()]
    subject.expect(
        always_the_same or not unchanged or not all(unchanged),
        "autoreset",
        f"after every end the observation is still the final one; in autoreset mode {subject.mode} it must be the "
        "first of the new episode",
        CURE_AUTORESET,
    )


def _next_start(subject: Subject, trajectory: Trajectory, t: int, n: int) -> int | None:
    """The row with which environment n begins the episode after that which ended with step t; None if none follows."""
    length = len(trajectory.steps)
    if subject.mode != "NextStep":
        return t + 1
    if subject.entry.num_agents == 1:
        return t + 2 if t + 2 <= length else None
    row = t + 1
    while row < length and trajectory.ignored[row, n]:
        row += 1
    return row if row < length else None


def _ends_of_a_kind(places: list[tuple[int, int]], trajectory: Trajectory) -> Iterator[list[tuple[int, int]]]:
    """Groups (t, n) of ends that an environment may treat alike: terminations, truncations, and many of one copy."""
    for flag in ("terminated", "truncated"):
        ends = [place for place in places if trajectory.steps[flag][place]]
        copies = ([place for place in ends if place[1] == n] for n in range(trajectory.ended.shape[1]))
        yield from filter(None, (ends, *(copy for copy in copies if len(copy) >= MANY_ENDS)))


def _check_state(subject: Subject, trajectory: Trajectory) -> None:
    """Checks `get_state` and `set_state`, in the middle and right after an end, when a reset may be pending."""
    check = "state"
    actions = trajectory.actions
    offered = [name for name in ("get_state", "set_state") if hasattr(subject.env, name)]
    message = f"it has {''.join(offered)} alone; an exact resume needs get_state and set_state"
    subject.expect(len(offered) != 1, check, message, "write both, or neither")
    if len(offered) != 2:
        return
    for cut in sorted({len(actions) // 2, int(trajectory.ended.any(axis=1).argmax()) + 1}):
        start = tuple(array[cut] for array in trajectory.observations)
        expected = trajectory.tail(cut)
        with subject.made() as env:
            subject.trajectory(actions[:cut], subject.reset(1))
            state = subject.call("get_state()", env.get_state)  # type: ignore[attr-defined]
            saved = _through_a_file(subject, state)
            rest = subject.trajectory(actions[cut:], start)
            cure = "let get_state only read, and draw no random number"
            subject.expect_equal(check, expected, rest, "get_state() changes what follows {where}", cure)
        for content, message in (
            (
                saved,
                "after set_state(), it differs {where} from the environment that get_state() was called on",
            ),
            (
                state,
                "what get_state() returned changes while the environment goes on (set_state() differs {where})",
            ),
        ):
            with subject.made() as env:
                subject.reset(2)
                subject.call("set_state()", partial(env.set_state, content))  # type: ignore[attr-defined]
                if subject.masks is not None:
                    subject.masks.allowed[:] = True  # those of the state are not known; its actions keep them
                rest = subject.trajectory(actions[cut:], start)
                subject.expect_equal(check, expected, rest, message, "it must return copies of all")


def _through_a_file(subject: Subject, state: Any) -> Any:
    """Returns the state as a checkpoint gives it back."""
    try:
        return through_a_file(state)
    except Exception as error:
        message = (
            "get_state() must return a dict of tensors, numbers, strings and lists; checkpoints hold no other"
        )
        subject.fail("state", message, "turn arrays into lists or tensors", error)


def through_a_file(state: Any) -> Any:
    """Returns a state as a checkpoint gives it back. Raises ValueError for what a checkpoint cannot hold."""
    from a3c_zoo.store.checkpoint_bytes import from_bytes, to_bytes  # torch

    return from_bytes(to_bytes({"state": state}))["state"]
