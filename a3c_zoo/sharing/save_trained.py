"""Writes a trained agent's folder from a run: `python -m a3c_zoo.sharing.save_trained RUN FOLDER`.

The folder gets the parameters that the run recommends, `config.yml`, `meta.json` with the digest of the parameters, and
`outcome.json` with an evaluation of 100 episodes. There is no optimizer and no pickle in it.

Parameters of a network that computes in bfloat16 are written in bfloat16: it acts with these, in half the size.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from statistics import fmean
from typing import Any

from a3c_zoo.errors import ZooError
from a3c_zoo.files import MAX_TEXT, read_bytes, replace_file
from a3c_zoo.plugins.next_command import next_command
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.records import Outcome
from a3c_zoo.runs.api import load_from
from a3c_zoo.store.checkpoint_bytes import PART, STATISTICS
from a3c_zoo.store.checkpoints import CHECKPOINT_FORMAT, FINAL, PolicyState, load_policy_state
from a3c_zoo.store.command_lines import without_folders
from a3c_zoo.store.directory import RunDirectory, disk_errors, run_argument
from a3c_zoo.store.recommended import RECOMMENDED, choose, return_of
from a3c_zoo.store.run import Run, find_run
from a3c_zoo.store.run_files import CONFIG_YML, META_JSON, PARAMETERS
from a3c_zoo.store.saved_state import to_plain
from a3c_zoo.store.trained import for_others


def save(run: str | Path, folder: Path, episodes: int = 100) -> None:
    """Writes a run's policy as the folder of a trained agent, which is called like the folder and must be new.

    Args:
        run: a run directory, or the name of one within `runs`.
        episodes: how many are played for `outcome.json`, as `a3c-zoo evaluate` plays them.

    Raises:
        ZooError: there is no such run, it has not ended, its agent keeps no model as the zoo's own agents do, or the
            folder exists already or cannot be written.
    """
    directory = find_run(run)
    choice = choose(directory, RECOMMENDED)
    save_folder(directory, folder, choice.which, episodes)
    choice.tell()


def save_folder(
    directory: Run,
    folder: Path,
    checkpoint: str,
    episodes: int = 100,
    place: str = "FOLDER",
    on_step: Callable[[int], None] = lambda played: None,
) -> None:
    """As `save`, for a run directory. What the folder says about the machine is fit for others to read.

    Args:
        checkpoint: "final" or "best".
        place: how a user names another place, if the folder cannot be written.
        on_step: called after each step with the number of episodes played so far.
    """
    if os.path.lexists(folder):
        raise ZooError(f"{folder} exists already; name a new folder")
    if directory.is_alive:
        raise ZooError(f"run {directory.path} is still running: wait for its end, or stop it first")
    if (outcome := directory.outcome) is None:
        again = next_command(f"train --resume {run_argument(directory.path)}")
        raise ZooError(f"run {directory.path} has not ended; go on with it: {again}")
    saved = load_policy_state(directory, checkpoint)
    session = to_plain(PolicyState(saved.state.steps, saved.state.seconds))
    network = directory.config(get_registry()).network
    is_narrow = network is not None and network.computes_in == "bfloat16"
    content = {"format": CHECKPOINT_FORMAT, "agent": saved.agent, "session": session}
    data = parameters_to_bytes(content, is_narrow)
    policy, to_play = load_from(directory, checkpoint, episodes)
    from a3c_zoo.runs.evaluation import evaluate_policy  # imports torch, as load_from does

    played = evaluate_policy(policy, to_play, on_step=on_step).evaluation()
    meta = for_others(directory.meta)
    meta["sha256"] = hashlib.sha256(data).hexdigest()
    if saved.state.best_return is not None:
        meta["checkpoint"] = f"the best of {outcome.steps:,} steps: {return_of(saved.state)}"
    outcome = _of_checkpoint(outcome, saved.state)
    config = read_bytes(directory.config_file, MAX_TEXT)
    texts = {CONFIG_YML: config, META_JSON: (json.dumps(meta, indent=2) + "\n").encode()}
    with disk_errors(folder, "make", place):
        folder.mkdir(parents=True)
    try:
        for name, file_content in {PARAMETERS: data, **texts}.items():
            with disk_errors(folder / name, "write", place):
                replace_file(folder / name, file_content)
        RunDirectory(folder).write_outcome(
            replace(_without_errors(outcome), evaluation=played, evaluation_step=outcome.steps)
        )
    except BaseException:  # half a folder would be a damaged agent
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _of_checkpoint(outcome: Outcome, state: PolicyState) -> Outcome:
    """The outcome of a run that ends with a checkpoint: it may have gone on after that. The folder has no other one."""
    outcome = replace(
        outcome, best_return=None, best_step=None, best_by=None, best_episodes=None, recommended=FINAL
    )
    if outcome.steps == state.steps:
        return outcome
    training_s = state.seconds.get("training", outcome.training_s)
    outcome = replace(
        outcome,
        steps=state.steps,
        training_s=training_s,
        steps_per_s=state.steps / max(training_s, 1e-9),
        solved=outcome.solved and (outcome.solved_step or 0) <= state.steps,
    )
    if state.run is None:
        return outcome
    returns = state.run.window.returns
    mean = fmean(returns) if returns else None
    return replace(outcome, episodes=state.run.episodes, updates=state.run.updates, mean_return_100=mean)


def _without_errors(outcome: Outcome) -> Outcome:
    """An outcome without the texts of errors, which may have any paths and addresses of the machine."""
    if outcome.reason in ("error", "interrupted"):
        detail = ""
    else:
        detail = without_folders(outcome.detail)
    return replace(outcome, detail=detail, evaluator_fault=outcome.evaluator_fault and "(left out)")


def parameters_to_bytes(content: Mapping[str, Any], is_narrow: bool = False) -> bytes:
    """The file that `a3c_zoo.store.checkpoint_bytes.read_parameters` reads, from what a checkpoint holds.

    Args:
        is_narrow: whether parameters are rounded to bfloat16, else they are float32.

    Raises:
        ZooError: the agent keeps no model as the zoo's own agents do.
    """
    import torch
    from safetensors.torch import save as to_safetensors

    dtype = torch.bfloat16 if is_narrow else torch.float32
    try:
        model = content["agent"]["model"]
        names, shapes = zip(*model["shapes"], strict=True)
        parts = model["parameters"].to(dtype).split([prod(shape) for shape in shapes])
        tensors = {
            PART + name: part.reshape(shape) for name, part, shape in zip(names, parts, shapes, strict=True)
        }
        tensors |= {name: buffer.contiguous() for name, buffer in model["buffers"].items()}
        tensors |= {} if model["statistics"] is None else {STATISTICS: model["statistics"].contiguous()}
        told = {
            "format": content["format"],
            "order": names,
            "spaces": model["spaces"],
            "session": content["session"],
        }
    except (AttributeError, KeyError, TypeError, ValueError):
        raise ZooError("only agents that keep a model as the zoo's own agents do can be saved") from None
    return to_safetensors(tensors, {"a3c_zoo": json.dumps(told)})


def main() -> None:
    """Saves the run that the command line names."""
    if len(sys.argv) != 3:
        sys.exit("usage: python -m a3c_zoo.sharing.save_trained RUN FOLDER")
    try:
        save(sys.argv[1], Path(sys.argv[2]))
    except (ZooError, OSError) as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
