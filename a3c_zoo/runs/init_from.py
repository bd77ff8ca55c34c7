"""`train --init-from`: a new run that begins with the parameters of a policy. Its own first checkpoint holds them."""

from __future__ import annotations

import hashlib
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from a3c_zoo.config import NetworkConfig
from a3c_zoo.config.yaml import display
from a3c_zoo.errors import ConfigError, ZooError, printable
from a3c_zoo.runs.setup import Initial, RunSetup
from a3c_zoo.store.recommended import RECOMMENDED, choose
from a3c_zoo.store.saved_state import NOT_INITIAL, from_plain, loading
from a3c_zoo.store.trained import find_policy, policy_state

if TYPE_CHECKING:
    from a3c_zoo.learning.model import Spaces


def with_initial(setup: RunSetup, name: str | Path | None, runs_dir: Path, trust: bool) -> RunSetup:
    """The setup of a run that begins with the parameters of a policy; None changes nothing.

    Args:
        name: of a policy, as `find_policy` takes it.

    Raises:
        ZooError: there is no such policy, it is damaged, or its network or its spaces are others.
    """
    if name is None:
        return setup
    if setup.agent.kind != "agent":
        raise ZooError(
            f"--init-from: '{setup.agent.name}' is a baseline, which begins by itself: choose an --agent"
        )
    directory = find_policy(name, None, runs_dir, trust)
    config = directory.config(setup.registry, in_its_env=False)
    _compare(str(name), config.network, setup.config.network)
    setup.warm_up()
    import torch

    from a3c_zoo.learning.model import SavedModel, Spaces
    from a3c_zoo.learning.space_check import check_spaces
    from a3c_zoo.processes.probe import read_spaces

    choice = choose(directory, RECOMMENDED)
    saved = policy_state(directory, choice.which)
    model = from_plain(SavedModel, saved.agent.get("model"), f"--init-from {name}: agent.model")
    spaces = read_spaces(setup.entry, setup.network, setup.config, setup.agent.spaces, setup.serial)
    with loading(NOT_INITIAL):
        theirs = Spaces.from_state_dict(model.spaces)
    _compare_squashing(str(name), theirs, spaces)
    with loading(NOT_INITIAL):
        check_spaces(theirs, spaces, setup.entry.name)
    numbers = model.parameters.flatten().contiguous().view(torch.uint8).numpy().tobytes()
    choice.tell()
    told = {"name": directory.home.name, "env": directory.meta["env"], "steps": saved.state.steps}
    told["parameters_sha256"] = hashlib.sha256(numbers).hexdigest()
    return replace(setup, initial=Initial({"model": saved.agent["model"]}, told))


def _compare(name: str, theirs: NetworkConfig | None, ours: NetworkConfig | None) -> None:
    """Raises ConfigError unless both networks compute the same; the number type depends on the machine."""
    if theirs is None or ours is None:
        raise ConfigError(f"--init-from {printable(name)}: it has no network as agents with workers have")
    there, here = (network.model_dump(mode="json") for network in (theirs, ours))
    for key in there:
        if key != "precision" and there[key] != here.get(key):
            value = display(there[key], 0)
            ours_here = display(here[key], 0) if key in here else "no key"
            raise ConfigError(
                f"--init-from {printable(name)}: network.{key} is {value} there, {ours_here} here. "
                f"For the network there: -o {shlex.quote(f'network.{key}={value}')}"
            )


def _compare_squashing(name: str, theirs: Spaces, ours: Spaces) -> None:
    """Raises ConfigError if nothing but `agent.squash_actions` tells the actions apart."""
    from a3c_zoo.learning.space_check import in_words, squashes

    squashed = squashes(theirs.actions)
    if squashed == squashes(ours.actions) or in_words(theirs.actions) != in_words(ours.actions):
        return
    there = display(squashed)
    raise ConfigError(
        f"--init-from {printable(name)}: agent.squash_actions is {there} there, {display(not squashed)} here: "
        f"-o agent.squash_actions={there}"
    )
