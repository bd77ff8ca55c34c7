"""A run's policy as an ONNX file, which acts without a3c-zoo and torch; always in float32."""

from __future__ import annotations

import io
import json
import logging
import warnings
from collections.abc import Mapping
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from a3c_zoo.errors import DifferentOutputError, ZooError, printable, type_and_message
from a3c_zoo.files import same_folder, write_out
from a3c_zoo.learning.actions import (
    ActionDistribution,
    Bernoulli,
    Categorical,
    Gaussian,
    Product,
    choices_of,
    mask_length,
    masked_logits,
)
from a3c_zoo.learning.model import ModelPolicy, core_state, one_torch_thread
from a3c_zoo.learning.space_check import check_policy
from a3c_zoo.learning.spaces import Leaf, ObservationSpec, as_batch
from a3c_zoo.library_settings import our_settings
from a3c_zoo.plugins.registry import get_registry
from a3c_zoo.runs.episodes import EpisodesToPlay, play_episodes
from a3c_zoo.runs.evaluation import load_policy
from a3c_zoo.runs.setup import RunSetup
from a3c_zoo.seeds import USER_EVALUATIONS
from a3c_zoo.store.run import Run
from a3c_zoo.store.trained import entry_of, facts, policy_state

#: How many observations the file is compared on, and in how many environments; more if they are no whole games.
OBSERVATIONS, NUM_ENVS = 1000, 4
#: Largest difference of an output x: this times max(1, |x|).
TOLERANCE = 1e-5


class Acting(nn.Module):
    """What the file computes: an environment's observations, a core's state and action masks in, `outputs` out."""

    def __init__(self, policy: ModelPolicy) -> None:
        super().__init__()
        self.spec = policy.spaces.observations
        self.actions = policy.spaces.actions
        self.network = policy.network

    def forward(self, inputs: tuple[Tensor, ...]) -> dict[str, Tensor]:
        num_parts = len(self.spec.leaves) or 1
        parts = inputs[:num_parts]
        others = inputs[num_parts:]
        if self.spec.leaves:
            rows = torch.cat(
                [numbers(leaf, part) for leaf, part in zip(self.spec.leaves, parts, strict=True)], dim=-1
            )
        else:
            if self.spec.is_turned:
                rows = parts[0].movedim(-1, -3)
            else:
                rows = parts[0]
        return self.outputs(rows, *others)

    def outputs(self, rows: Tensor, *others: Tensor) -> dict[str, Tensor]:
        """The outputs of the file by name (docs/how-to/export-an-agent.md), for stored observations `[N, ...]`.

        Args:
            others: the state of a recurrent core, and action masks `[N, A]`, bool, where there are any.
        """
        state = others[: len(others) - self.actions.has_masks]
        masks = others[-1] if self.actions.has_masks else None
        if state:
            logits, *after = self.network.step(rows, *state)
        else:
            logits, *after = (self.network.policy(rows),)
        acted = outputs_of(self.actions, masked_logits(self.actions, logits, masks))
        return {**acted, **({"next_state": after[0]} if after else {})}


def outputs_of(actions: ActionDistribution, logits: Tensor, path: str = "") -> dict[str, Tensor]:
    """The outputs for logits: the most probable action, and the parameters of the distribution.

    Args:
        path: follows each name; of a part, `/` and the keys and numbers that lead to it.
    """
    if isinstance(actions, Product):
        outputs: dict[str, Tensor] = {}
        for place, part, own in zip(
            actions.places, actions.parts, actions.logits_of_parts(logits), strict=True
        ):
            outputs |= outputs_of(part, own, path + step_to(place))
        return outputs
    mode = actions.mode(logits)
    if isinstance(actions, Gaussian):
        middle, half, low, high = map(torch.from_numpy, actions.bounds)
        mean, std = mode, logits.chunk(2, dim=-1)[1].exp()
        mode = (middle + half * (mean.tanh() if actions.squash else mean)).clamp(low, high)
        if not actions.squash:
            mean, std = middle + half * mean, half * std
        values = {"mean": mean.float(), "std": std.float()}
    elif isinstance(actions, Bernoulli):
        values = {"probabilities": logits.sigmoid()}
    else:
        choices = torch.split(logits, list(choices_of(actions)), dim=-1)
        values = {"probabilities": torch.cat([choice.softmax(dim=-1) for choice in choices], dim=-1)}
        mode = mode + torch.tensor(actions.start)
    if not isinstance(actions, Categorical):
        mode = mode.reshape(-1, *actions.space_shape).to(
            torch.from_numpy(np.empty(0, actions.space_dtype)).dtype
        )
    return {f"{name}{path}": output for name, output in {"action": mode, **values}.items()}


def by_name(actions: ActionDistribution, given: Any, path: str = "") -> dict[str, NDArray[Any]]:
    """Actions of the environment as the file's outputs: one array for each part, such as `action/steer`."""
    if not isinstance(actions, Product):
        return {f"action{path}": given}
    named: dict[str, NDArray[Any]] = {}
    for place, part in zip(actions.places, actions.parts, strict=True):
        named |= by_name(part, given[place], path + step_to(place))
    return named


def step_to(place: str | int) -> str:
    """A key or a number in the name of an input or output: `/` and the key, whose own `/` is `~1`, and `~` is `~0`.

    So the names of `{"a/b"}` and `{"a": {"b"}}` differ (JSON Pointer, RFC 6901).
    """
    return "/" + str(place).replace("~", "~0").replace("/", "~1")


def numbers(leaf: Leaf, part: Tensor) -> Tensor:
    """What `Leaf.write` writes for a part `[N, *leaf.shape]` of observations: `[N, leaf.num_features]`."""
    flat = part.reshape(part.shape[0], -1)
    if not leaf.sizes:
        return flat.float()
    classes = torch.split(flat.long() - torch.tensor(leaf.start), 1, dim=-1)
    return torch.cat(
        [chosen == torch.arange(size) for chosen, size in zip(classes, leaf.sizes, strict=True)], -1
    ).float()


def arrays_of(spec: ObservationSpec, observation: Any) -> dict[str, NDArray[Any]]:
    """The file's inputs for observations of an environment: one array for each part, such as `observation/image`."""
    if not spec.leaves:
        return {"observation": np.asarray(observation, spec.dtype)}
    return {"observation" + "".join(map(step_to, leaf.path)): leaf.of(observation) for leaf in spec.leaves}


class ComparedPolicy:
    """Acts like a policy, and compares the file with it at every observation. num_envs: of each batch of them."""

    def __init__(self, policy: ModelPolicy, program: bytes, num_envs: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        self.program = onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])
        self._policy = policy
        self._acting = Acting(policy)
        self._num_envs = num_envs
        self._start = policy.network.start(num_envs)
        self.spaces = policy.spaces
        self.observations = 0
        self.difference = 0.0

    @torch.no_grad()
    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        action_masks: Any = None,
    ) -> tuple[NDArray[Any], Any]:
        """As `ModelPolicy.predict`. Raises DifferentOutputError if an output of the file differs from the network's."""
        spec = self._policy.spaces.observations
        arguments = (observation, state, episode_start)
        feed = arrays_of(spec, observation)
        inputs = [torch.from_numpy(as_batch(spec, observation)[0])]
        if self._start is not None:
            # Both get the policy's state: rounding adds up over the steps of an episode.
            inputs.append(core_state(self._start, state, episode_start))
            feed["state"] = inputs[1].numpy()
        masks = {}
        if action_masks is not None:
            masks = {"action_masks": action_masks}
            inputs.append(torch.from_numpy(action_masks))
            feed["action_mask"] = action_masks
        wanted = {name: output.numpy() for name, output in self._acting.outputs(*inputs).items()}
        greedy = self._policy.predict(*arguments, deterministic=True, **masks)[0]
        wanted |= by_name(self._policy.spaces.actions, greedy)
        for (name, array), outputs in zip(wanted.items(), self.program.run(list(wanted), feed), strict=True):
            self._compare(name, array, outputs)
        self.observations += self._num_envs
        return self._policy.predict(*arguments, deterministic, **masks)

    def _compare(self, name: str, wanted: NDArray[Any], outputs: NDArray[Any]) -> None:
        scale = np.maximum(np.abs(wanted), 1) if wanted.dtype.kind == "f" else 1  # integers must be equal
        is_alike = (wanted.dtype, wanted.shape) == (outputs.dtype, outputs.shape)
        if is_alike:
            difference = np.max(np.abs(np.subtract(wanted, outputs, dtype=np.float64)) / scale)
        else:
            difference = np.inf
        if not difference <= TOLERANCE:
            raise DifferentOutputError(
                f"the exported network acts differently and is not written: its output '{name}' differs by "
                f"{difference:.2g} after {self.observations} observations; at most {TOLERANCE:g} is allowed"
            )
        self.difference = max(self.difference, float(difference))


def export(directory: Run, out: Path, checkpoint: str, force: bool = False) -> ComparedPolicy:
    """Writes the policy of a run's checkpoint as an ONNX file, after it was compared with the policy.

    Args:
        checkpoint: "final", "best" or a number of steps.

    Raises:
        ZooError: the agent cannot be exported, or the file cannot be written.
        DifferentOutputError: the file would act differently.
    """
    setup = RunSetup.of(registry := get_registry(), directory.config(registry), serial=True)
    config = setup.config
    saved = policy_state(directory, checkpoint)
    if config.network and config.network.computes_in != "float32":
        config = replace(config, network=config.network.model_copy(update={"precision": "float32"}))
    policy = load_policy(setup.agent.load, setup.entry, setup.network, config, saved.agent)
    if not isinstance(policy, ModelPolicy) or config.network is None:
        raise ZooError(
            f"agent '{config.agent_name}' cannot be exported: it acts without a network of a3c-zoo"
        )
    outcome = directory.outcome
    is_last = outcome is not None and outcome.steps == saved.state.steps
    if outcome and is_last:
        evaluation = outcome.last_evaluation
    else:
        evaluation = None
    to_play = EpisodesToPlay(
        setup.entry, config.env, OBSERVATIONS, config.run.seed, USER_EVALUATIONS, NUM_ENVS
    )
    with same_folder(), our_settings(), closing(to_play.make_env()) as env, one_torch_thread():
        check_policy(policy, env, setup.entry.name)
        told = {
            **{key: directory.meta[key] for key in ("env", "agent")},
            **facts(directory, entry_of(registry, directory)),
            **({} if is_last else {"training_s": saved.state.seconds.get("training")}),
            **{"evaluation": evaluation and asdict(evaluation)},
            **{"network": config.network.name, "run": directory.home.name, "steps": saved.state.steps},
            **{"checkpoint": checkpoint},
            **{"squash_actions": config.agent.squashes_actions},
            **{
                "observation_space": str(env.single_observation_space),
                "action_space": str(env.single_action_space),
            },
        }
        observations = arrays_of(policy.spaces.observations, env.reset(seed=to_play.env_seed)[0])
        try:
            program = onnx_program(policy, observations, told)
            compared = ComparedPolicy(policy, program, env.num_envs)
        except Exception as error:  # torch and onnxruntime raise many kinds
            cause = printable(type_and_message(error.__cause__ or error))[:300]
            raise ZooError(f"network '{config.network.name}' cannot be exported: {cause}") from error
        for _ in play_episodes(compared, env, to_play, deterministic=False):
            if compared.observations >= OBSERVATIONS:
                break
    write_out(out, program, force)
    return compared


def onnx_program(
    policy: ModelPolicy, observations: Mapping[str, NDArray[Any]], told: Mapping[str, Any]
) -> bytes:
    """The content of the file. observations: two or more, as in `arrays_of`. told: its metadata."""
    # torch takes a batch of one for a constant. A batch of two stands for any number.
    inputs = {name: torch.from_numpy(array[:2].copy()) for name, array in observations.items()}
    count = torch.export.Dim("N")
    shapes = [{0: count} for _ in inputs]
    if (state := policy.network.start(2)) is not None:
        inputs["state"] = state
        shapes.append({1: count})
    actions = policy.spaces.actions
    if actions.has_masks:
        inputs["action_mask"] = torch.ones(2, mask_length(actions), dtype=torch.bool)
        shapes.append({0: count})
    acting = Acting(policy).eval()
    arguments = (tuple(inputs.values()),)
    names: dict[str, Any] = {"input_names": list(inputs), "output_names": list(acting(*arguments))}
    before = logging.root.manager.disable
    silent = io.StringIO()
    # torch tells which packages it does not find, and prints what it cannot export.
    logging.disable(logging.WARNING)
    try:
        with (
            warnings.catch_warnings(action="ignore"),
            redirect_stdout(silent),
            redirect_stderr(silent),
            torch.no_grad(),
        ):
            program = torch.onnx.export(
                acting, arguments, dynamo=True, dynamic_shapes=(tuple(shapes),), verbose=False, **names
            )
    finally:
        logging.disable(before)
    assert program is not None
    for node in program.model.graph:
        node.metadata_props.clear()  # lines of code, with the paths of this machine
    program.model.metadata_props["a3c_zoo"] = json.dumps(told)
    return bytes(program.model_proto.SerializeToString())
