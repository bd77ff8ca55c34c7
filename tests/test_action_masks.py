"""Action masks: their arithmetic, their way through every stage and every agent, and masks that are wrong."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from click.testing import CliRunner
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import a3c_zoo
from a3c_zoo import EnvEntry
from a3c_zoo.cli.main import cli
from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import ConfigError, EnvironmentContractError, ObservationError, PluginError
from a3c_zoo.learning.action_masks import ActionMasks, FollowedMasks, gives_masks, random_action
from a3c_zoo.learning.actions import (
    FORBIDDEN,
    Categorical,
    MultiCategorical,
    Product,
    action_distribution,
    distribution_from,
    distribution_state,
    masked_logits,
)
from a3c_zoo.learning.background import background_of
from a3c_zoo.learning.collector import Collector
from a3c_zoo.learning.contract import CheckedEnvironment
from a3c_zoo.learning.environments import make_vector_env
from a3c_zoo.learning.networks import ActorCritic
from a3c_zoo.learning.objective import Objective, differentiate
from a3c_zoo.learning.observed_masks import with_observed_masks
from a3c_zoo.learning.samples import samples_of
from a3c_zoo.learning.segments import segments_of
from a3c_zoo.learning.spaces import observation_spec
from a3c_zoo.learning.windows import Windows
from a3c_zoo.testing import check_env
from tests.test_every_space import LSTM, SMALL, TRANSITIONS, with_one_thread  # noqa: F401
from tests.toys_masks import ACTIONS, MASKS, ROOMS, MaskedPictures, Rooms, rooms

ROOMS_ENV = "gym:tests.toys_masks:Rooms-v0"
ONE = Categorical(3, has_masks=True)
TWO = MultiCategorical((2, 3), (0, 0), (2,), has_masks=True)
OBJECTIVE = Objective(0.9, 1.0, 0.01, 0.5)


# --- arithmetic


def test_numbers_by_hand() -> None:
    """Logits 1, 2, 3 of which the second is forbidden: p = e¹ / (e¹ + e³) = 0.1192 and 0.8808."""
    logits = masked_logits(ONE, torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[True, False, True]]))
    log_prob, entropy = ONE.log_prob_and_entropy(logits, torch.tensor([2]))
    assert log_prob.item() == pytest.approx(math.log(0.8807970779778823), abs=1e-6)
    assert entropy.item() == pytest.approx(0.36533385, abs=1e-6)
    assert ONE.mode(logits).item() == 2
    hidden = masked_logits(ONE, torch.tensor([[1.0, 9.0, 3.0]]), torch.tensor([[True, False, True]]))
    assert torch.equal(hidden, logits)  # a forbidden logit has no influence


def test_one_allowed_action_is_certain() -> None:
    raw = torch.tensor([[5.0, -80.0, 7.0]], requires_grad=True)
    logits = masked_logits(ONE, raw, torch.tensor([[False, True, False]]))
    log_prob, entropy = ONE.log_prob_and_entropy(logits, torch.tensor([1]))
    (log_prob + entropy).sum().backward()
    assert log_prob.item() == 0
    assert entropy.item() == 0
    assert raw.grad is not None
    assert torch.equal(raw.grad, torch.zeros(1, 3))


def test_choices_by_hand() -> None:
    """The first choice is certain, the second is even between two: log p = −log 2, H = log 2."""
    mask = torch.tensor([[True, False, True, False, True]])
    logits = masked_logits(TWO, torch.tensor([[0.0, 4.0, 1.0, 8.0, 1.0]]), mask)
    log_prob, entropy = TWO.log_prob_and_entropy(logits, torch.tensor([[0, 2]]))
    assert log_prob.item() == pytest.approx(-math.log(2), abs=1e-6)
    assert entropy.item() == pytest.approx(math.log(2), abs=1e-6)


def test_gradients_against_the_formulas() -> None:
    """∂ log p(a) / ∂z = 1_a − p, and ∂H / ∂z = −p (log p + H), for allowed actions; 0 for the others."""
    generator = torch.Generator().manual_seed(0)
    raw = torch.randn(20, 5, generator=generator, dtype=torch.float64).requires_grad_()
    masks = torch.rand(20, 5, generator=generator) < 0.6
    masks[:, 0] = True
    actions = torch.tensor([int(np.flatnonzero(row)[-1]) for row in masks.numpy()])
    distribution = Categorical(5, has_masks=True)
    log_prob, entropy = distribution.log_prob_and_entropy(masked_logits(distribution, raw, masks), actions)
    (given,) = torch.autograd.grad((2 * log_prob + 3 * entropy).sum(), raw)
    for row in range(20):
        allowed = masks[row].numpy()
        z = raw[row].detach().numpy()[allowed]
        p = np.exp(z) / np.exp(z).sum()
        h = -(p * np.log(p)).sum()
        chosen = (np.flatnonzero(allowed) == actions[row].item()).astype(float)
        expected = np.zeros(5)
        expected[allowed] = 2 * (chosen - p) + 3 * -p * (np.log(p) + h)
        np.testing.assert_allclose(given[row].numpy(), expected, atol=1e-6)


def test_samples_are_allowed_and_as_often_as_their_probabilities() -> None:
    mask = torch.tensor([True, False, True]).expand(4000, 3)
    logits = masked_logits(ONE, torch.tensor([1.0, 2.0, 3.0]).expand(4000, 3), mask)
    actions = torch.empty(4000, dtype=torch.int64)
    ONE.sample(logits, ONE.noise(torch.empty(4000, 3), torch.Generator().manual_seed(1)), actions)
    counts = torch.bincount(actions, minlength=3)
    assert counts[1] == 0
    assert counts[0].item() / 4000 == pytest.approx(0.1192, abs=0.02)


def test_infinite_noise_chooses_no_forbidden_action() -> None:
    logits = masked_logits(ONE, torch.zeros(1, 3), torch.tensor([[True, False, True]]))
    actions = torch.empty(1, dtype=torch.int64)
    ONE.sample(logits, torch.tensor([[0.0, torch.inf, 1.0]]), actions)
    assert actions.item() == 2
    logits = masked_logits(TWO, torch.zeros(1, 5), torch.tensor([[True, False, True, False, True]]))
    choices = torch.empty(1, 2, dtype=torch.int64)
    TWO.sample(logits, torch.tensor([[0.0, torch.inf, 0.0, torch.inf, 1.0]]), choices)
    assert choices.tolist() == [[0, 2]]


def test_masks_are_never_left_out_silently() -> None:
    with pytest.raises(PluginError, match="does not hand over"):
        masked_logits(ONE, torch.zeros(1, 3), None)
    logits = torch.zeros(1, 3)
    assert masked_logits(Categorical(3), logits, None) is logits


@pytest.mark.parametrize("distribution", [ONE, TWO, replace(ONE, has_masks=False), replace(TWO, has_masks=False)])
def test_checkpoints_know_them(distribution: Any) -> None:
    state = distribution_state(distribution)
    again = distribution_from(state)
    assert again == distribution
    assert again.has_masks == distribution.has_masks
    assert (True in state) == distribution.has_masks  # without masks the state is what it was before


def test_only_choices_have_masks() -> None:
    from gymnasium.spaces import Box

    with pytest.raises(ConfigError, match=r"env\.action_masks=false ignores them"):
        action_distribution(Box(-1, 1, (2,)), has_masks=True)


# --- from the environment into the rollout


def collector(env: Any, num_steps: int, cut_at_end: bool = False, core: Any = None, keeps: bool = False) -> Collector:
    checked = CheckedEnvironment(env, "rooms", observation_spec(env.single_observation_space))
    distribution = action_distribution(env.single_action_space, has_masks=True)
    generator = torch.Generator().manual_seed(0)
    return Collector(checked, distribution, num_steps, 0, generator, lambda: None, cut_at_end, core, keeps)


class Even(ActorCritic):
    """All logits are 0, and so are the values; `logits` has a gradient."""

    def __init__(self, num_logits: int) -> None:
        super().__init__()
        self.logits = torch.nn.Parameter(torch.zeros(num_logits))

    def policy(self, observations: torch.Tensor) -> torch.Tensor:
        return self.logits.expand(*observations.shape[:-1], -1)

    def value(self, observations: torch.Tensor) -> torch.Tensor:
        return torch.zeros(observations.shape[:-1])


def masks_of(observations: Any) -> Any:
    """What the masks must be, by the observations `[..., ROOMS + 1]`."""
    return MASKS[np.argmax(np.asarray(observations), axis=-1)]


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("way", ["info", "method"])
@pytest.mark.parametrize("limit", [3, 100])
def test_every_row_has_the_mask_of_its_observation(mode: AutoresetMode, way: str, limit: int) -> None:
    source = collector(rooms(3, mode, way=way, limit=limit), 5)
    network = Even(ACTIONS)
    for _ in range(6):
        source.collect(network)
        rollout = source.rollout
        assert rollout.masks is not None
        expected = masks_of(rollout.observations)
        expected[:-1][~rollout.valid] = True  # the action is ignored
        last = np.argmax(rollout.observations[-1].numpy(), axis=-1)
        if mode == AutoresetMode.NEXT_STEP:
            expected[-1][source.ended] = True
        assert (last < ROOMS).all() or mode == AutoresetMode.NEXT_STEP
        np.testing.assert_array_equal(rollout.masks.numpy(), expected)
        chosen = np.take_along_axis(expected[:-1], rollout.actions.numpy()[..., None], -1)
        assert chosen.all()


def test_an_episode_for_each_rollout() -> None:
    source = collector(rooms(1), 20, cut_at_end=True)
    for _ in range(5):
        source.collect(Even(ACTIONS))
        rollout = source.rollout
        assert rollout.masks is not None
        assert len(rollout.masks) == len(rollout.rewards) + 1
        expected = masks_of(rollout.observations[:-1])
        expected[~rollout.valid] = True
        np.testing.assert_array_equal(rollout.masks[:-1].numpy(), expected)


def test_tuples_of_choices() -> None:
    source = collector(rooms(2, choices=True), 6)
    source.collect(Even(2 * ACTIONS))
    masks = source.rollout.masks
    assert masks is not None
    assert masks.shape == (7, 2, 2 * ACTIONS)
    is_valid = torch.from_numpy(source.rollout.valid)
    np.testing.assert_array_equal(
        masks[:-1, :, :ACTIONS][is_valid], masks_of(source.rollout.observations[:-1][is_valid])
    )


def test_windows_and_samples_and_segments_take_them_along() -> None:
    source = collector(rooms(2, AutoresetMode.SAME_STEP), 4, keeps=True)
    network = Even(ACTIONS)
    windows = Windows(source.rollout, 3, OBJECTIVE)
    for _ in range(4):
        source.collect(network)
        windows.push(source.rollout)
        samples = samples_of(source.rollout, network, source._distribution, OBJECTIVE)
        chosen = samples.chosen(torch.tensor([5, 2]))
        np.testing.assert_array_equal(chosen.masks, masks_of(chosen.observations))
        allowed = torch.from_numpy(masks_of(samples.observations)).sum(-1)
        torch.testing.assert_close(samples.log_probs, -torch.log(allowed.float()))  # even among the allowed
    assert windows.masks is not None
    np.testing.assert_array_equal(windows.masks, masks_of(windows.rollout.observations[:4].flatten(0, 1)))
    state = windows.state_dict()
    again = Windows(source.rollout, 3, OBJECTIVE)
    again.load_state_dict(state)
    again.push(source.rollout)
    windows.push(source.rollout)
    assert again.masks is not None
    assert torch.equal(again.masks, windows.masks)


def test_segments_take_them_along() -> None:
    source = collector(rooms(2, AutoresetMode.SAME_STEP), 4, core=torch.zeros(1, 2, 3))
    network = EvenWithCore(ACTIONS)
    source.collect(network)
    segments = segments_of(source.rollout, network, source._distribution, OBJECTIVE, 2)
    chosen = segments.chosen(torch.tensor([3, 0]))
    np.testing.assert_array_equal(chosen.masks, masks_of(chosen.observations))


class EvenWithCore(Even):
    """With a state that nothing reads."""

    def start(self, num_envs: int) -> torch.Tensor:
        return torch.zeros(1, num_envs, 3)

    def step(self, observations: torch.Tensor, state: torch.Tensor) -> Any:
        return self.policy(observations), state

    def unroll(self, observations: Any, state: Any, resets: Any, places: Any) -> Any:
        logits = self.policy(observations[:-1].flatten(0, 1))
        return logits, self.value(observations.flatten(0, 1)), torch.zeros(1, len(places), 3)


def test_no_gradient_of_an_action_that_was_always_forbidden() -> None:
    source = collector(rooms(2), 8)
    network = Even(ACTIONS)
    source.collect(network)
    metrics = differentiate(network, source._distribution, source.rollout, slice(None), OBJECTIVE, want_metrics=True)
    valid = source.rollout.valid
    counts = masks_of(source.rollout.observations[:-1]).sum(-1)[valid]
    assert metrics["entropy"] == pytest.approx(np.log(counts).mean(), abs=1e-6)


# --- masks that are wrong


@pytest.mark.parametrize("way", ["info", "method"])
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("length", r"(another form than before: int8 \[5\]|wrong action mask: int8 \[5\]; .* with 6 elements)"),
        ("empty", r"forbids every action \(environment 0 of 2\)"),
        ("numbers", "with other numbers than 0 and 1"),
        ("missing", r"no action mask in info\['action_mask'\]"),
    ],
)
def test_a_wrong_mask_is_one_line(way: str, fault: str, message: str) -> None:
    if (way, fault) == ("method", "missing"):
        return
    source = collector(rooms(2, way=way, fault=fault), 5)
    with pytest.raises(EnvironmentContractError, match=message) as caught:
        source.collect(Even(ACTIONS))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("given", [[[0, 0, 0]], [[1, 2, 0]], [[1, 1]]])
def test_the_line_says_how_masks_are_ignored(given: Any) -> None:
    """A part of the observations may be called `action_mask`, and mean something else."""
    masks = ActionMasks(rooms(1), ONE, "rooms")
    with pytest.raises(EnvironmentContractError, match=r"env\.action_masks=false ignores masks$"):
        masks.take({"action_mask": np.array(given)}, np.ones((1, 3), np.bool_))


def test_a_mask_of_another_dtype() -> None:
    with pytest.raises(EnvironmentContractError, match=r"wrong action mask: float32 \[6\]"):
        collector(rooms(2, dtype="float32"), 5)


def test_arrays_of_a_vector_environment() -> None:
    env = rooms(2)
    masks = ActionMasks(env, Categorical(3), "rooms")
    out = np.zeros((2, 3), np.bool_)
    masks.take({"action_mask": np.array([[1, 0, 1], [0, 1, 0]])}, out)  # without the key _action_mask
    assert out.tolist() == [[True, False, True], [False, True, False]]
    choices = ActionMasks(env, TWO, "rooms")
    out = np.zeros((2, 5), np.bool_)
    choices.take({"action_mask": (np.ones((2, 2), np.bool_), np.eye(3, dtype=np.bool_)[:2])}, out)
    assert out.tolist() == [[True, True, True, False, False], [True, True, False, True, False]]
    with pytest.raises(EnvironmentContractError, match="forbids every action of choice 1"):
        choices.take({"action_mask": np.array([[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]])}, out)


@pytest.mark.parametrize("keys", [("a", "b"), (0, 1), (5, 9)])
def test_masks_of_a_dictionary_of_actions(keys: tuple[Any, Any]) -> None:
    """Its keys may be whole numbers, and are not those of environments."""
    distribution = Product((Categorical(2), Categorical(3)), keys)
    out = np.zeros((2, 5), np.bool_)
    given = {keys[0]: np.array([[1, 0], [0, 1]]), keys[1]: np.array([[1, 1, 0], [0, 0, 1]])}
    ActionMasks(rooms(2), distribution, "rooms").take({"action_mask": given}, out)
    assert out.astype(int).tolist() == [[1, 0, 1, 1, 0], [0, 1, 0, 0, 1]]


@pytest.mark.parametrize(
    ("given", "form"),
    [
        ([[[1, 0], [1, 1, 1]]] * 2, None),
        ([[1, 0, 1, 1, 1]] * 2, None),
        ({"first": np.ones((2, 2))}, r"dict \(KeyError: 0\)"),
        ([np.ones(5, np.int8)], r"list \(IndexError: .*\)"),
        (3, r"int \(TypeError: .*\)"),
        ([[[1, 0], [[1], 1, 1]]] * 2, r"list \(ValueError: .*\)"),
        (["01111"] * 2, r"<U5 \[\]"),
    ],
)
def test_masks_in_python(given: Any, form: str | None) -> None:
    """Lists are masks, too. What has another form is one line."""
    masks = ActionMasks(rooms(2), TWO, "rooms")
    out = np.zeros((2, 5), np.bool_)
    if form is None:
        masks.take({"action_mask": given}, out)
        assert out[:, 0].all()
        return
    with pytest.raises(EnvironmentContractError, match=f"wrong action mask: {form}; it must be"):
        masks.take({"action_mask": given}, out)


def test_an_attribute_of_that_name_is_no_method() -> None:
    env = rooms(1, way="none")
    env.envs[0].unwrapped.action_masks = np.ones(ACTIONS)  # type: ignore[attr-defined]
    assert not gives_masks(env, env.reset()[1])


def test_random_actions_are_allowed() -> None:
    generator = np.random.default_rng(0)
    masks = np.repeat([[True, False, False, True, True]], 50, axis=0)
    actions = random_action(TWO, np.zeros((50, 2), np.int64), masks, generator)
    assert set(actions[:, 0].tolist()) == {0}
    assert set(actions[:, 1].tolist()) == {1, 2}


def test_environments_without_masks() -> None:
    env = rooms(1, way="none")
    assert not gives_masks(env, env.reset()[1])


# --- whole runs: `Rooms` raises for a forbidden action


def train(agent: str, folder: Path, overrides: dict[str, Any], **options: Any) -> Any:
    network = {} if agent == "random" else {"network.hidden_sizes": [8]}
    return a3c_zoo.train(
        ROOMS_ENV,
        agent=agent,
        seed=3,
        steps=options.pop("steps", 200),
        overrides={**network, **overrides},
        runs_dir=folder,
        **options,
    )


def noting_smallest(log_prob_and_entropy: Any, smallest: list[float]) -> Any:
    def noting(self: Any, logits: torch.Tensor, actions: torch.Tensor) -> Any:
        log_probs, entropies = log_prob_and_entropy(self, logits, actions)
        smallest.append(log_probs.min().item())
        return log_probs, entropies

    return noting


KEPT = {"agent.clip_ratio": 0.2, "agent.epochs": 2, "agent.update_samples": 5}


@pytest.mark.parametrize("kwargs", [{}, {"way": "method"}, {"choices": True, "limit": 4}])
@pytest.mark.parametrize(
    ("agent", "overrides"),
    [
        *SMALL.items(),
        ("a3c-data", TRANSITIONS),
        ("a3c", SMALL["a3c"] | KEPT),
        *((agent, SMALL[agent] | LSTM) for agent in ("a3c", "a3c-grad", "a3c-data", "nstep", "monte-carlo")),
        ("a3c", SMALL["a3c"] | KEPT | LSTM | {"agent.segment_steps": 5}),
        ("random", {}),
    ],
)
def test_every_agent_acts_within_masks(
    agent: str, overrides: Any, kwargs: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And learns within them: log π of an action is far above −1e8, which the mask of another step would give."""
    smallest: list[float] = []
    for kind in (Categorical, MultiCategorical):
        monkeypatch.setattr(kind, "log_prob_and_entropy", noting_smallest(kind.log_prob_and_entropy, smallest))
    outcome = train(agent, tmp_path, {**overrides, "env.kwargs": kwargs}, serial=True)
    assert outcome.steps >= 200
    assert agent == "random" or min(smallest) > -1e3
    played = a3c_zoo.evaluate(outcome.run, episodes=6)
    assert played.episodes == 6


@pytest.mark.parametrize("agent", ["a3c", "a3c-grad", "a3c-data"])
def test_in_two_processes(agent: str, tmp_path: Path) -> None:
    outcome = train(agent, tmp_path, SMALL[agent] | {"run.workers": 2})
    assert outcome.updates > 0
    again = a3c_zoo.train(resume=outcome.run, steps=outcome.steps + 100)
    assert again.steps > outcome.steps


def test_in_teams(tmp_path: Path) -> None:
    teams = {"agent.teams": 1, "run.workers": 2, "env.num_envs": 4, "agent.n_steps": 10, "agent.update_samples": 20}
    outcome = train("a3c", tmp_path, {**SMALL["a3c"], **KEPT, **teams})
    assert outcome.updates > 0


def test_predict_takes_masks(tmp_path: Path) -> None:
    agent = a3c_zoo.load_agent(train("a3c", tmp_path, SMALL["a3c"], serial=True).run)
    observations = np.eye(ROOMS + 1, dtype=np.float32)[:4]
    for _ in range(5):
        actions, _ = agent.predict(observations, action_masks=MASKS[:4])
        assert MASKS[np.arange(4), actions - 1].all()
    one = np.zeros(ACTIONS, np.int8)
    one[4] = 1
    assert agent.predict(observations[0], action_masks=one, deterministic=True)[0] == 5
    for wrong, message in (
        (None, r"give action_masks, bools of shape \[4, 6\]"),
        (MASKS[:3], r"got bool \[3, 6\]"),
        (MASKS[:4].astype(float), "got float64"),
        (np.zeros((4, ACTIONS), bool), "forbid every action"),
        ([[True], [True, False]], "do not fit the action space"),
    ):
        with pytest.raises(ObservationError, match=message):
            agent.predict(observations, action_masks=wrong)


def test_an_agent_without_masks_takes_them_if_they_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kwargs = {"env.kwargs": {"strict": False}, "env.action_masks": False}
    outcome = train("a3c", tmp_path, {**SMALL["a3c"], **kwargs}, serial=True)
    agent = a3c_zoo.load_agent(outcome.run)
    observations = np.eye(ROOMS + 1, dtype=np.float32)[:4]
    assert agent.predict(observations)[0].shape == (4,)
    actions, _ = agent.predict(observations, action_masks=MASKS[:4])
    assert MASKS[np.arange(4), actions - 1].all()
    infinite = torch.where(torch.from_numpy(MASKS[:4]), 0.0, torch.inf)
    monkeypatch.setattr(Categorical, "noise", staticmethod(lambda out, generator: out.copy_(infinite)))
    actions, _ = agent.predict(observations, action_masks=MASKS[:4])
    assert MASKS[np.arange(4), actions - 1].all()


@pytest.mark.parametrize("agent", ["a3c", "sb3-a2c"])
def test_a_run_of_before_there_were_masks_goes_on_without(agent: str, tmp_path: Path) -> None:
    overrides: dict[str, Any] = {"env.action_masks": False, "env.kwargs": {"strict": False, "first": 0}}
    if agent == "a3c":
        run = train(agent, tmp_path, SMALL["a3c"] | overrides, serial=True).run
    else:
        overrides |= {"agent.vec_env": "dummy", "agent.torch_threads": 1}
        run = a3c_zoo.train(ROOMS_ENV, agent=agent, steps=50, overrides=overrides, runs_dir=tmp_path).run
    file = run / "config.yml"
    text = file.read_text()
    assert text.count("  action_masks: false\n") == 1
    file.write_text(text.replace("  action_masks: false\n", ""))
    assert a3c_zoo.evaluate(run, episodes=2).episodes == 2
    again = a3c_zoo.train(resume=run, steps=400)
    assert a3c_zoo.load_agent(again.run).predict(np.eye(ROOMS + 1, dtype=np.float32)[0])[0] in range(ACTIONS)


@pytest.mark.parametrize("stack", ["own", "zoo"])
@pytest.mark.parametrize("way", ["info", "method"])
def test_stable_baselines3_refuses_masks(stack: str, way: str, tmp_path: Path) -> None:
    overrides = {
        "env.stack": stack,
        "env.kwargs": {"way": way, "first": 0},
        "agent.vec_env": "dummy",
        "agent.torch_threads": 1,
    }
    with pytest.raises(ConfigError, match=r"agent 'sb3-a2c' takes none\. -o env\.action_masks=false"):
        a3c_zoo.train(ROOMS_ENV, agent="sb3-a2c", steps=50, overrides=overrides, runs_dir=tmp_path)


def test_stable_baselines3_ignores_masks_if_asked_to(tmp_path: Path) -> None:
    overrides = {"env.action_masks": False, "env.kwargs": {"strict": False, "first": 0}}
    overrides |= {"agent.vec_env": "dummy", "agent.torch_threads": 1}
    outcome = a3c_zoo.train(ROOMS_ENV, agent="sb3-a2c", steps=50, overrides=overrides, runs_dir=tmp_path)
    assert a3c_zoo.evaluate(outcome.run, episodes=2).episodes == 2


@pytest.mark.parametrize("core", [{}, LSTM])
@pytest.mark.parametrize("kwargs", [{}, {"choices": True}])
def test_the_onnx_file_takes_masks(core: Any, kwargs: Any, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    run = train("a3c", tmp_path, {**SMALL["a3c"], **core, "env.kwargs": kwargs}, serial=True).run
    result = CliRunner().invoke(cli, ["export", str(run), "--out", str(tmp_path / "rooms.onnx")])
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(str(tmp_path / "rooms.onnx"))
    masks = np.concatenate([MASKS[:2]] * (2 if kwargs else 1), axis=1)
    feed = {"observation": np.eye(ROOMS + 1, dtype=np.float32)[:2], "action_mask": masks}
    if core:
        feed["state"] = np.zeros((2, 2, 8), np.float32)
    action, probabilities = session.run(["action", "probabilities"], feed)
    assert (probabilities[~masks] == 0).all()
    first = action[:, 0] if kwargs else action - 1
    assert MASKS[[0, 1], first].all()


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_the_contract_is_checked_within_masks(mode: str) -> None:
    """In all autoreset modes, and after `set_state`; a forbidden step raises."""
    check_env(EnvEntry("walk", "tests.toys_masks:make_walk", kwargs={"mode": mode}), steps=120)
    with pytest.raises(AssertionError, match="forbidden"):
        check_env(
            EnvEntry("walk", "tests.toys_masks:make_walk", kwargs={"mode": mode}),
            config=EnvConfig(action_masks=False),
            steps=120,
        )


def test_the_next_allowed_action_stands_for_a_forbidden_one() -> None:
    masks = FollowedMasks(rooms(2), Categorical(6, start=1), "rooms", {"action_mask": MASKS[[0, 1]]})
    masks.allowed[:] = [[1, 0, 0, 1, 0, 0], [0, 1, 0, 0, 0, 0]]
    assert masks.within(np.array([1, 1])).tolist() == [1, 2]
    assert masks.within(np.array([5, 3])).tolist() == [1, 2]
    two = FollowedMasks(rooms(1), TWO, "rooms", {"action_mask": np.ones((1, 5), np.int8)})
    two.allowed[:] = [[0, 1, 1, 0, 1]]
    assert two.within(np.array([[0, 1]])).tolist() == [[1, 2]]


def test_the_background_is_measured_within_masks() -> None:
    env = SyncVectorEnv([MaskedPictures])
    spec = observation_spec(env.single_observation_space)
    assert background_of(env, EnvConfig(), "pictures", spec) == 0
    with pytest.raises(AssertionError, match="forbidden"):
        background_of(env, EnvConfig(action_masks=False), "pictures", spec)


@pytest.mark.usefixtures("checked_here")
@pytest.mark.parametrize("kwargs", ["{}", "{way: method}", "{choices: true, limit: 4}"])
def test_check_takes_no_forbidden_action(kwargs: str) -> None:
    """`Rooms` raises for one. Only the checkers of Gymnasium and stable-baselines3 know no masks."""
    result = CliRunner().invoke(cli, ["check", ROOMS_ENV, "-o", f"env.kwargs={kwargs}", "--json"])
    findings = json.loads(result.stdout)
    assert [each for each in findings if each["status"] == "problem"] == []
    assert "masks allow" in result.output, result.output
    assert "in a worker" in result.output
    assert result.exit_code == 0


@pytest.mark.usefixtures("checked_here")
def test_check_knows_masks_in_observations() -> None:
    """Gymnasium's checker takes a forbidden action: a warning, not a problem."""
    result = CliRunner().invoke(cli, ["check", "gym:tests.test_action_masks:Shown-v0", "--json"])
    findings = json.loads(result.stdout)
    assert [each for each in findings if each["status"] == "problem"] == []
    assert [each["status"] for each in findings if each["check"] == "gymnasium"] == ["warning"]
    assert "unless it took an action that a mask forbids" in result.output
    assert result.exit_code == 0


@pytest.mark.usefixtures("checked_here")
def test_check_says_what_is_wrong_with_masks() -> None:
    result = CliRunner().invoke(cli, ["check", ROOMS_ENV, "-o", "env.kwargs={strict: false, way: step}"])
    assert "step() gives info['action_mask'], but reset() does not" in result.output, result.output
    result = CliRunner().invoke(cli, ["check", ROOMS_ENV, "-o", "env.kwargs={strict: false, fault: empty}"])
    assert "forbids every action" in result.output, result.output
    assert result.exit_code == 1


def test_forbidden_logits_are_far_below_all_others() -> None:
    assert math.exp(FORBIDDEN) == 0


@pytest.mark.slow  # what masks are good for
def test_a_masked_task_is_learned_in_less_than_half_of_the_steps(tmp_path: Path) -> None:
    steps = {}
    for takes_masks in (True, False):
        outcome = a3c_zoo.train(
            "gym:tests.toys_masks:Corridor-v0",
            seed=1,
            steps=60_000,
            overrides={"env.action_masks": takes_masks, "run.stop_return": 0.8},
            runs_dir=tmp_path,
            serial=True,
        )
        steps[takes_masks] = outcome.steps
    assert steps[True] < 60_000
    assert steps[True] < steps[False] / 2


# --- masks in observations


class Shown(gymnasium.Env[Any, Any]):
    """Rooms whose masks are a part of the observations, as PettingZoo's environments give them."""

    def __init__(self, dtype: str = "int8", size: int = ACTIONS) -> None:
        self._rooms = Rooms(way="", first=0)
        self._size = size
        self._dtype = dtype
        self.action_space = self._rooms.action_space
        self.observation_space = spaces.Dict(
            {
                "observation": self._rooms.observation_space,
                "action_mask": spaces.Box(0, 1, (size,), np.dtype(dtype).type),
            }
        )

    def _shown(self, observation: Any) -> dict[str, Any]:
        mask = MASKS[self._rooms.room][: self._size]
        return {"observation": observation, "action_mask": mask.astype(self._dtype)}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        observation, info = self._rooms.reset(seed=seed)
        return self._shown(observation), info

    def step(self, action: Any) -> Any:
        observation, *result = self._rooms.step(action)
        return self._shown(observation), *result


gymnasium.register("Shown-v0", f"{__name__}:Shown")


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_masks_in_observations_are_read(mode: AutoresetMode) -> None:
    """A forbidden action raises."""
    env = with_observed_masks(SyncVectorEnv([Shown] * 3, autoreset_mode=mode))
    source = collector(env, 5)
    for _ in range(6):
        source.collect(Even(ACTIONS))
        rollout = source.rollout
        assert rollout.masks is not None
        masks, seen = rollout.masks[:-1].numpy(), rollout.observations[:-1, :, :ACTIONS].numpy()
        np.testing.assert_array_equal(masks[rollout.valid], seen[rollout.valid] == 1)


@pytest.mark.parametrize("agent", ["a3c", "random"])
def test_agents_act_within_masks_of_observations(agent: str, tmp_path: Path) -> None:
    small = {**SMALL["a3c"], "network.hidden_sizes": [8]} if agent == "a3c" else {}
    outcome = a3c_zoo.train(
        "gym:tests.test_action_masks:Shown-v0",
        agent=agent,
        steps=200,
        seed=3,
        overrides=small,
        runs_dir=tmp_path,
        serial=True,
    )
    assert a3c_zoo.evaluate(outcome.run, episodes=4).episodes == 4


@pytest.mark.parametrize(("dtype", "size"), [("float32", ACTIONS), ("int8", ACTIONS - 1)])
def test_what_only_has_their_name_is_an_observation(dtype: str, size: int) -> None:
    env = SyncVectorEnv([lambda: Shown(dtype, size)])
    assert with_observed_masks(env) is env
    assert with_observed_masks(rooms(1)).reset()[1].keys() == {"action_mask", "_action_mask"}


def test_a_mask_in_observations_can_be_left_out() -> None:
    entry = EnvEntry("shown", env_id="tests.test_action_masks:Shown-v0")
    for takes, keys in ((True, {"action_mask"}), (False, set())):
        env = make_vector_env(entry, EnvConfig(action_masks=takes), 2, seed=0)
        assert env.reset(seed=0)[1].keys() == keys
        env.close()


@pytest.mark.parametrize("stack", ["own", "zoo"])
def test_stable_baselines3_refuses_masks_in_observations(stack: str, tmp_path: Path) -> None:
    options = ["--agent", "sb3-a2c", "-o", f"env.stack={stack}", "--steps", "50", "--runs-dir", str(tmp_path)]
    result = CliRunner().invoke(cli, ["train", "gym:tests.test_action_masks:Shown-v0", *options])
    assert result.exit_code == 2, result.output
    assert "gives action masks, and agent 'sb3-a2c' takes none" in result.output
