"""Dict and Tuple actions: numbers by hand, gradients, sampling, every agent, masks, files, and what is refused."""

from __future__ import annotations

import json
from math import e, log, pi, sqrt
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
from a3c_zoo.baselines.random import UniformNetwork
from a3c_zoo.cli.main import cli
from a3c_zoo.config import EnvConfig
from a3c_zoo.errors import (
    ConfigError,
    EnvironmentContractError,
    ObservationError,
    RunDirectoryError,
    UnsupportedSpaceError,
)
from a3c_zoo.learning.action_masks import ActionMasks, masks_to_follow
from a3c_zoo.learning.actions import (
    Bernoulli,
    Categorical,
    Gaussian,
    Product,
    action_distribution,
    distribution_from,
    distribution_state,
    masked_logits,
)
from a3c_zoo.learning.collector import ActionNoise
from a3c_zoo.learning.model import ModelPolicy, Spaces
from a3c_zoo.learning.objective import Objective, descend, policy_gain
from a3c_zoo.learning.observed_masks import holds_masks
from a3c_zoo.learning.space_check import check_spaces, in_words
from a3c_zoo.learning.spaces import check_supported, observation_spec
from a3c_zoo.plugins.variants import variant_of
from a3c_zoo.testing import check_env
from tests.test_every_space import LSTM, SMALL, TRANSITIONS, with_one_thread  # noqa: F401
from tests.toys_parts import GEAR, LENGTH, SPACES, STEER, Parts, best_gear, env_name

HYBRID = action_distribution(spaces.Tuple((spaces.Discrete(3), STEER)))
#: p = 1/6, 2/6, 3/6; μ = (1, 0), σ = (2, ½).
LOGITS = [log(1), log(2), log(3), 1.0, 0.0, log(2), log(1 / 2)]
KEPT = {"agent.clip_ratio": 0.2, "agent.epochs": 2, "agent.update_samples": 5}
KINDS = ("tuple", "dict", "nested", "finite")


def draw(distribution: Any, logits: torch.Tensor, seed: int = 0) -> torch.Tensor:
    out = torch.zeros((len(logits), *distribution.shape), dtype=distribution.dtype)
    noise = torch.zeros(len(logits), distribution.num_logits)
    distribution.sample(logits, distribution.noise(noise, torch.Generator().manual_seed(seed)), out)
    return out


def parameters(distribution: Any, rows: int) -> torch.Tensor:
    width = distribution.num_logits + distribution.num_deviations
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(1))


# --- arithmetic


def test_a_choice_and_two_numbers_by_hand() -> None:
    """The action (1, (3, 1)): log 2/6; one deviation from the mean of the first number, two from that of the second.

    log π = log ⅓ − ½ − log 2 − ½ log 2π − 2 + log 2 − ½ log 2π = log ⅓ − 2½ − log 2π
    H = log 6 − (2 log 2 + 3 log 3)/6 + (log 2 + ½ log 2πe) + (−log 2 + ½ log 2πe)
    """
    assert Product((Categorical(3), Gaussian((-1.0, -1.0), (1.0, 1.0), (2,)))) == HYBRID
    assert (HYBRID.num_logits, HYBRID.num_deviations, HYBRID.shape) == (5, 2, (3,))
    logits = torch.tensor([LOGITS])
    log_prob, entropy = HYBRID.log_prob_and_entropy(logits, torch.tensor([[1.0, 3.0, 1.0]]))
    assert log_prob.tolist() == pytest.approx([log(1 / 3) - 2.5 - log(2 * pi)])
    assert entropy.tolist() == pytest.approx([log(6) - (2 * log(2) + 3 * log(3)) / 6 + log(2 * pi * e)])
    assert HYBRID.mode(logits).tolist() == [[2, 1, 0]]


def test_gradients_by_hand() -> None:
    """∂ log π/∂z = 1_a − p; ∂/∂μ = (u − μ)/σ² = ½ and 4; ∂/∂ log σ = d² − 1 = 0 and 3.

    ∂H/∂z = −p (log p + H of the choice); none for μ; 1 for each log σ.
    """
    logits = torch.tensor([LOGITS], dtype=torch.float64, requires_grad=True)
    log_prob, entropy = HYBRID.log_prob_and_entropy(logits, torch.tensor([[1.0, 3.0, 1.0]], dtype=torch.float64))
    (of_log_prob,) = torch.autograd.grad(log_prob.sum(), logits, retain_graph=True)
    assert of_log_prob[0].tolist() == pytest.approx([-1 / 6, 2 / 3, -1 / 2, 1 / 2, 4, 0, 3])
    (of_entropy,) = torch.autograd.grad(entropy.sum(), logits)
    h = log(6) - (2 * log(2) + 3 * log(3)) / 6
    expected = [-p * (log(p) + h) for p in (1 / 6, 2 / 6, 3 / 6)]
    assert of_entropy[0].tolist() == pytest.approx([*expected, 0, 0, 1, 1])


def test_a_dictionary_by_hand() -> None:
    """Coins with p = ¾ and ½, and a choice between two with p = ¼ and ¾, in the order of the keys.

    The action {coins: (0, 1), door: 1}: ¼ · ½ · ¾ = 3/32
    H = (log 4 − ¾ log 3) + log 2 + (log 4 − ¾ log 3)
    """
    space = spaces.Dict({"door": spaces.Discrete(2, start=5), "coins": spaces.MultiBinary(2)})
    distribution = action_distribution(space)
    assert distribution == Product((Bernoulli((2,)), Categorical(2, 5)), ("coins", "door"))
    logits = torch.tensor([[log(3), 0.0, 0.0, log(3)]])
    log_prob, entropy = distribution.log_prob_and_entropy(logits, torch.tensor([[0.0, 1.0, 1.0]]))
    assert log_prob.tolist() == pytest.approx([log(3 / 32)])
    assert entropy.tolist() == pytest.approx([2 * (log(4) - 0.75 * log(3)) + log(2)])
    (action,) = zip(*distribution.to_env(distribution.mode(logits).numpy()).values(), strict=True)
    assert [part.tolist() for part in action] == [[1, 0], 6]


def formula(logits: np.ndarray[Any, Any], actions: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """Of `SPACES["nested"]`, in NumPy: log π `[B]`, H `[B]`, and their gradients by the logits `[B, 9]`.

    Logits: a choice of 3, one of 2, two bits, one mean, one log σ. Actions: two indices, two bits, one number.
    """
    log_prob = np.zeros(len(logits))
    entropy = np.zeros(len(logits))
    slope = np.zeros_like(logits)
    of_entropy = np.zeros_like(logits)
    rows = np.arange(len(logits))
    for k, columns in enumerate((slice(0, 3), slice(3, 5))):
        p = np.exp(logits[:, columns])
        p /= p.sum(axis=1, keepdims=True)
        chosen = actions[:, k].astype(int)
        h = -(p * np.log(p)).sum(axis=1)
        log_prob += np.log(p[rows, chosen])
        entropy += h
        slope[:, columns] = np.eye(p.shape[1])[chosen] - p
        of_entropy[:, columns] = -p * (np.log(p) + h[:, None])
    for k in (0, 1):
        z = logits[:, 5 + k]
        p = 1 / (1 + np.exp(-z))
        bit = actions[:, 2 + k]
        log_prob += np.log(np.where(bit == 1, p, 1 - p))
        entropy += -p * np.log(p) - (1 - p) * np.log(1 - p)
        slope[:, 5 + k] = bit - p
        of_entropy[:, 5 + k] = -z * p * (1 - p)
    mean, log_std, u = logits[:, 7], logits[:, 8], actions[:, 4]
    d = (u - mean) / np.exp(log_std)
    log_prob += -0.5 * d**2 - log_std - 0.5 * np.log(2 * np.pi)
    entropy += log_std + 0.5 * np.log(2 * np.pi * np.e)
    slope[:, 7] = d / np.exp(log_std)
    slope[:, 8] = d**2 - 1
    of_entropy[:, 8] = 1
    return log_prob, entropy, slope, of_entropy


@pytest.mark.parametrize("clip_ratio", [None, 0.2])
def test_gradients_of_the_loss_against_the_formulas(clip_ratio: float | None) -> None:
    """−gain − c H, averaged: A · ∇log π, or r · A · ∇log π where the ratio r is not clipped. In float64."""
    distribution = action_distribution(SPACES["nested"])
    logits = parameters(distribution, 40).double().requires_grad_()
    actions = draw(distribution, logits.detach().float()).double()
    numbers = np.random.default_rng(0)
    advantages = numbers.normal(size=40)
    log_prob, entropy, slope, of_entropy = formula(logits.detach().numpy(), actions.numpy())
    acted = log_prob + numbers.normal(size=40) * 0.2
    mine, entropies = distribution.log_prob_and_entropy(logits, actions)
    np.testing.assert_allclose(mine.detach().numpy(), log_prob, rtol=1e-12)
    np.testing.assert_allclose(entropies.detach().numpy(), entropy, rtol=1e-12)
    factor = advantages
    if clip_ratio is not None:
        ratio = np.exp(log_prob - acted)
        is_clipped = ((advantages > 0) & (ratio > 1.2)) | ((advantages < 0) & (ratio < 0.8))
        assert is_clipped.any()
        factor = np.where(is_clipped, 0, ratio * advantages)
    expected = -(factor[:, None] * slope + 0.01 * of_entropy) / 40
    gain = policy_gain(mine, torch.from_numpy(acted), torch.from_numpy(advantages), clip_ratio)
    (-gain - 0.01 * entropies).mean().backward()
    assert logits.grad is not None
    np.testing.assert_allclose(logits.grad.numpy(), expected, rtol=1e-9, atol=1e-12)
    single = logits.detach().float().requires_grad_()  # and what training calls, in float32
    descend(
        distribution,
        single,
        torch.zeros(40, requires_grad=True),
        actions.float(),
        advantages.astype(np.float32),
        np.zeros(40, np.float32),
        np.ones(40, np.bool_),
        Objective(0.9, 1.0, 0.01, 0.5, clip_ratio=clip_ratio),
        acted=torch.from_numpy(acted).float(),
    )
    assert single.grad is not None
    np.testing.assert_allclose(single.grad.numpy(), expected, rtol=1e-3, atol=1e-6)


def test_divergences_add_up() -> None:
    """KL(p, q) of a product is the sum over its parts: the mean of log p(a) − log q(a) over many samples of p."""
    before, after = (torch.tensor([values]).expand(100_000, 7) for values in (LOGITS, [0.0, 0, 0, 0.5, 0, 0, 0]))
    actions = draw(HYBRID, before)
    difference = HYBRID.log_prob_and_entropy(before, actions)[0] - HYBRID.log_prob_and_entropy(after, actions)[0]
    of_choice = log(3) - (log(6) - (2 * log(2) + 3 * log(3)) / 6)
    of_numbers = (4 + 0.25 - 1) / 2 - log(2) + (0.25 - 1) / 2 + log(2)
    deviation = difference.double().std().item() / sqrt(len(difference))
    assert abs(difference.double().mean().item() - of_choice - of_numbers) < 5 * deviation


# --- sampling


@pytest.mark.parametrize("kind", KINDS)
def test_samples_are_those_of_the_parts(kind: str) -> None:
    """From the same noise; they are in the space, and so are the greedy actions."""
    space = SPACES[kind]
    distribution: Any = action_distribution(space)
    logits = parameters(distribution, 40)
    noise = distribution.noise(torch.zeros(40, distribution.num_logits), torch.Generator().manual_seed(0))
    out = torch.zeros(40, *distribution.shape)
    distribution.sample(logits, noise, out)
    generator = torch.Generator().manual_seed(0)
    first = 0
    stored = []
    for part, own_logits in zip(distribution.parts, distribution.logits_of_parts(logits), strict=True):
        own_noise = part.noise(torch.zeros(40, part.num_logits), generator)
        np.testing.assert_array_equal(own_noise, noise[:, first : first + part.num_logits])
        first += part.num_logits
        own = torch.zeros((40, *part.shape), dtype=part.dtype)
        part.sample(own_logits, own_noise, own)
        stored.append(own.reshape(40, -1).float())
    np.testing.assert_array_equal(out, torch.cat(stored, dim=1))
    env = SyncVectorEnv([lambda: Parts(kind)] * 40)
    for actions in (out, distribution.mode(logits)):
        given = distribution.to_env(actions.numpy())
        assert env.action_space.contains(given)
        env.reset(seed=0)
        env.step(given)  # each environment looks whether its action is in the space


def test_frequencies() -> None:
    """Within five standard deviations, and the parts are independent."""
    n = 80_000
    actions = draw(HYBRID, torch.tensor(LOGITS).expand(n, 7)).double()
    for choice, p in enumerate((1 / 6, 2 / 6, 3 / 6)):
        is_chosen = actions[:, 0] == choice
        assert abs(is_chosen.double().mean().item() - p) < 5 * sqrt(p * (1 - p) / n)
        assert abs(actions[is_chosen, 1].mean().item() - 1) < 5 * 2 / sqrt(is_chosen.sum().item())
    assert abs(actions[:, 2].std().item() - 0.5) < 5 * 0.5 / sqrt(2 * n)


def test_the_environment_gets_actions_of_its_own() -> None:
    distribution = action_distribution(SPACES["nested"])
    stored = draw(distribution, parameters(distribution, 4)).numpy()
    given = distribution.to_env(stored)
    arms: Any = given["arm"]
    assert not any(np.shares_memory(stored, part) for part in (*arms, given["pull"]))


def test_only_the_noise_of_numbers_is_correlated() -> None:
    alone, correlated = (
        ActionNoise(HYBRID, 4, 2, torch.Generator().manual_seed(0), correlation) for correlation in (0.0, 0.9)
    )
    rows = [(alone.row(t).clone(), correlated.row(t).clone()) for t in range(4)]
    assert all(torch.equal(one[:, :3], other[:, :3]) for one, other in rows)
    expected = rows[0][0][:, 3:]
    for one, other in rows[1:]:
        expected = 0.9 * expected + sqrt(1 - 0.81) * one[:, 3:]
        torch.testing.assert_close(other[:, 3:], expected)


# --- saved, and in words


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"squash": True}, {"uniform": True}])
def test_it_is_saved_as_plain_data_and_comes_back(kind: str, options: Any) -> None:
    before = action_distribution(SPACES[kind], **options)
    assert distribution_from(json.loads(json.dumps(distribution_state(before)))) == before


def test_masks_are_saved() -> None:
    before = action_distribution(SPACES["finite"], has_masks=True)
    after = distribution_from(json.loads(json.dumps(distribution_state(before))))
    assert after.has_masks
    assert not action_distribution(SPACES["finite"]).has_masks


@pytest.mark.parametrize(
    "state",
    [
        ["Dict", [["Discrete", 3, 0]], []],
        ["Dict", [["Discrete", 3, 0], ["Discrete", 3, 0]], ["a", "a"]],
        ["Dict", [["Discrete", 3, 0]], [None]],
        ["Dict", [["Discrete", 3, 0]]],
        ["Tuple", []],
        ["Tuple", [["Discrete", 0, 0]]],
        ["Tuple", [["Discrete", -2, 0], ["Discrete", 5, 0]]],
        ["Tuple", [["MultiDiscrete", [2.5], [0], [1]]]],
        ["Tuple", 3],
    ],
)
def test_damaged_spaces_are_one_line(state: Any) -> None:
    whole = {"observation": observation_spec(STEER).state_dict(), "action": state}
    with pytest.raises(RunDirectoryError, match=r"^the checkpoint's spaces cannot be read: [^\n]*$"):
        Spaces.from_state_dict(whole)


def test_spaces_nested_without_end_are_one_line() -> None:
    state: Any = ["Discrete", 3, 0]
    for _ in range(5000):
        state = ["Tuple", [state]]
    with pytest.raises(RunDirectoryError, match="cannot be read"):
        Spaces.from_state_dict({"observation": observation_spec(STEER).state_dict(), "action": state})


def test_in_words() -> None:
    words = {kind: in_words(action_distribution(SPACES[kind])) for kind in KINDS}
    assert words == {
        "tuple": "0 one of 3, 1 vector [2] from -1 to 1",
        "dict": "gear one of 3, steer vector [2] from -1 to 1",
        "nested": "arm/0 one of 3 and one of 2, arm/1 bits [2], pull vector [1] from 0 to 4",
        "finite": "0 one of 3, 1/doors one of 2 and one of 3",
    }
    seen = observation_spec(STEER)
    there, here = (Spaces(seen, action_distribution(SPACES[kind])) for kind in ("tuple", "dict"))
    check_spaces(there, there, "parts")
    message = r"other actions than environment 'parts': 0 one of 3, 1 vector .*, not gear one of 3, steer"
    with pytest.raises(RunDirectoryError, match=message):
        check_spaces(there, here, "parts")


def test_an_environment_with_numbers_among_its_actions_is_continuous() -> None:
    variants = {kind: variant_of(STEER, SPACES[kind]) for kind in KINDS}
    assert variants == {"tuple": "continuous", "dict": "continuous", "nested": "continuous", "finite": ""}


# --- what is refused


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Dict({}), r"^action space Dict\(\) has no parts: there is nothing to learn$"),
        (spaces.Tuple((GEAR, spaces.Tuple(()))), r"its part '1', Tuple, has no parts"),
        (spaces.Dict({"a": spaces.Box(0, 1, (0,))}), r"its part 'a', Box, holds no number"),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Text(3)})}), r"its part 'a/b', Text, is not supported; supported"),
        (spaces.Tuple((GEAR, spaces.Sequence(GEAR))), r"its part '1', Sequence, is not supported"),
        (spaces.Dict({"g": spaces.Graph(STEER, None)}), r"its part 'g', Graph, is not supported"),
        (spaces.Dict({"n": spaces.Box(0, 9, (2,), np.int64)}), r"its part 'n', Box, is not supported"),
        (spaces.Dict({(1, 2): GEAR}), r"has the key \(1, 2\); supported: strings and whole numbers"),  # type: ignore[dict-item]
    ],
    ids=str,
)
def test_a_part_that_is_not_supported(space: Any, message: str) -> None:
    with pytest.raises(UnsupportedSpaceError, match=message) as caught:
        action_distribution(space)
    assert "\n" not in str(caught.value)


def test_bounds_that_a_part_does_not_have() -> None:
    space = spaces.Dict({"far": spaces.Box(-np.inf, np.inf, (1,)), "gear": GEAR})
    with pytest.raises(ConfigError, match=r"needs finite bounds.* \(part 'far' of Dict\("):
        action_distribution(space, squash=True)
    with pytest.raises(ConfigError, match=r"uniformly random actions need bounds.* \(part 'far' of Dict\("):
        action_distribution(space, uniform=True)


def test_an_agent_that_takes_no_tuple_refuses_one_in_a_dictionary() -> None:
    space = spaces.Dict({"arm": spaces.Tuple((GEAR, STEER))})
    check_supported(space, ("Discrete", "Box", "Dict", "Tuple"), "mine", "parts")
    for supported, part in ((("Discrete", "Box", "Dict"), "'arm'"), (("Discrete", "Dict", "Tuple"), "'arm/1'")):
        with pytest.raises(ConfigError, match=f"as the part {part} of its actions"):
            check_supported(space, supported, "mine", "parts")


def test_a_part_has_no_more_choices_than_float32_holds() -> None:
    """The index 2²⁴ + 1 would become 2²⁴."""
    assert int(np.float32(2**24)) == 2**24 == int(np.float32(2**24 + 1))
    action_distribution(spaces.Tuple((spaces.Discrete(2**24), STEER)))
    with pytest.raises(UnsupportedSpaceError, match="has a choice among more than 16,777,216 actions"):
        action_distribution(spaces.Tuple((spaces.Discrete(2**24 + 2), STEER)))


class Unsupported(Parts):
    def __init__(self, space: str = "text") -> None:
        super().__init__()
        inner = {"text": spaces.Text(3), "empty": spaces.Dict({}), "sequence": spaces.Sequence(GEAR)}[space]
        self.action_space = spaces.Dict({"gear": GEAR, "note": inner})


gymnasium.register("UnsupportedParts-v0", f"{__name__}:Unsupported", disable_env_checker=True)


@pytest.mark.parametrize(
    ("space", "words"), [("text", "Text("), ("empty", "'note', Dict, has no parts"), ("sequence", "Sequence(")]
)
def test_the_command_line_names_the_part(space: str, words: str, tmp_path: Path) -> None:
    options = ["-o", f"env.kwargs.space={space}", "--runs-dir", str(tmp_path)]
    result = CliRunner().invoke(cli, ["train", "gym:tests.test_action_parts:UnsupportedParts-v0", *options])
    assert result.exit_code == 2, result.output
    assert words in result.output
    assert "note" in result.output
    assert "Traceback" not in result.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("agent", ["sb3-a2c", "sb3-ppo", "sb3-dqn", "recurrent-ppo"])
def test_methods_of_stable_baselines3_refuse_them(agent: str, tmp_path: Path) -> None:
    options = ["--agent", agent, "--steps", "100", "--runs-dir", str(tmp_path)]
    result = CliRunner().invoke(cli, ["train", env_name("dict"), *options])
    assert result.exit_code == 2, result.output
    (line,) = [line for line in result.output.splitlines() if line.startswith("Error")]
    assert f"agent '{agent}' acts in Discrete" in line
    assert "has Dict('gear': Discrete(3, start=1), 'steer': Box(" in line
    assert not list(tmp_path.iterdir())


# --- every agent


def train(kind: str, folder: Path, overrides: dict[str, Any], agent: str = "a3c", **options: Any) -> Any:
    network = {} if agent == "random" else {"network.hidden_sizes": [8]}
    return a3c_zoo.train(
        env_name(kind),
        agent=agent,
        seed=3,
        steps=options.pop("steps", 200),
        overrides={**network, **overrides},
        runs_dir=folder,
        **options,
    )


def assert_plays(run: Path, kind: str) -> None:
    """Loaded twice it acts the same, one by one and several at a time, and a single environment takes its actions."""
    policy, again = a3c_zoo.load_agent(run), a3c_zoo.load_agent(run)
    env = Parts(kind)
    state = state_again = None
    for number in range(2):
        observation, _ = env.reset(seed=number)
        for _ in range(LENGTH):
            action, state = policy.predict(observation, state)
            same, state_again = again.predict(observation[None], state_again)
            assert repr(SyncVectorEnv([lambda: env]).action_space.contains(same)) == "True"
            np.testing.assert_array_equal(numbers_of(action), numbers_of(same))
            observation, *_ = env.step(action)
    assert a3c_zoo.evaluate(run, episodes=4).mean_length == LENGTH


def numbers_of(action: Any) -> Any:
    """All numbers of an action, or of several, in a row."""
    if isinstance(action, dict):
        action = tuple(action.values())
    if isinstance(action, tuple):
        return np.concatenate([numbers_of(part) for part in action])
    return np.ravel(action)


@pytest.mark.parametrize(
    ("agent", "kind", "overrides"),
    [
        ("a3c", "tuple", SMALL["a3c"]),
        ("a3c", "nested", SMALL["a3c"] | KEPT | {"agent.noise_correlation": 0.5, "agent.squash_actions": True}),
        ("a3c", "dict", SMALL["a3c"] | KEPT | LSTM | {"agent.segment_steps": 5}),
        ("a3c-data", "dict", SMALL["a3c-data"]),
        ("a3c-data", "nested", TRANSITIONS),
        ("a3c-data", "finite", SMALL["a3c-data"] | LSTM),
        ("a3c-grad", "nested", SMALL["a3c-grad"]),
        ("a3c-grad", "tuple", SMALL["a3c-grad"] | LSTM),
        ("nstep", "finite", SMALL["nstep"]),
        ("monte-carlo", "dict", SMALL["monte-carlo"]),
        ("random", "nested", {}),
    ],
)
def test_every_agent(agent: str, kind: str, overrides: Any, tmp_path: Path) -> None:
    outcome = train(kind, tmp_path, overrides, agent, serial=True)
    assert outcome.steps >= 200
    assert outcome.updates > 0 or agent == "random"
    assert_plays(outcome.run, kind)


@pytest.mark.parametrize(
    ("agent", "kind", "overrides"),
    [
        ("a3c", "dict", SMALL["a3c"]),
        ("a3c-data", "nested", SMALL["a3c-data"]),
        ("a3c-grad", "tuple", SMALL["a3c-grad"]),
    ],
)
def test_in_two_processes(agent: str, kind: str, overrides: Any, tmp_path: Path) -> None:
    outcome = train(kind, tmp_path, overrides | {"run.workers": 2}, agent)
    assert outcome.updates > 0
    assert_plays(outcome.run, kind)
    again = a3c_zoo.train(resume=outcome.run, steps=outcome.steps + 100)
    assert again.steps > outcome.steps


def test_in_teams(tmp_path: Path) -> None:
    teams = {"agent.teams": 1, "run.workers": 2, "env.num_envs": 4, "agent.n_steps": 10, "agent.update_samples": 20}
    outcome = train("tuple", tmp_path, {**SMALL["a3c"], **KEPT, **teams})
    assert outcome.updates > 0
    assert_plays(outcome.run, "tuple")


class Exact(SyncVectorEnv):
    """Vector environments of the kind "nested" that give their state."""

    def __init__(self, num_envs: int, seed: int) -> None:
        super().__init__([lambda: Parts("nested")] * num_envs)

    def get_state(self) -> dict[str, Any]:
        singles: Any = [env.unwrapped for env in self.envs]
        return {
            "numbers": [json.dumps(env.np_random.bit_generator.state) for env in singles],
            "steps": [env._steps for env in singles],
            "targets": [env._target.tolist() for env in singles],
            "over": self._autoreset_envs.tolist(),
        }

    def set_state(self, state: dict[str, Any]) -> None:
        self.reset(seed=0)
        for n, env in enumerate(env.unwrapped for env in self.envs):
            env.np_random.bit_generator.state = json.loads(state["numbers"][n])
            env._steps = state["steps"][n]  # type: ignore[attr-defined]
            env._target = np.array(state["targets"][n], np.float32)  # type: ignore[attr-defined]
        self._autoreset_envs = np.array(state["over"])


def test_a_resume_is_exact(tmp_path: Path) -> None:
    """With the correlated noise of the numbers, which goes on from a checkpoint."""
    overrides = {"network.hidden_sizes": [8], **SMALL["a3c"], "agent.noise_correlation": 0.5, "run.workers": 1}
    options: dict[str, Any] = {"seed": 3, "overrides": overrides, "runs_dir": tmp_path, "serial": True}
    entry = a3c_zoo.EnvEntry("exact", factory=f"{__name__}:Exact", default_agent="a3c")
    whole = a3c_zoo.train(entry, steps=400, name="whole", **options)
    half = a3c_zoo.train(entry, steps=200, name="half", **options)
    assert half.steps < whole.steps
    resumed = a3c_zoo.train(entry, resume=half.run, steps=400)
    first, second = (a3c_zoo.load_agent(outcome.run) for outcome in (whole, resumed))
    assert whole.steps == resumed.steps
    mine: Any = first.policy
    other: Any = second.policy
    for name, parameter in mine.network.named_parameters():
        assert torch.equal(parameter, dict(other.network.named_parameters())[name]), name
    assert mine.network.log_std.shape == (1,)


def test_serial_runs_are_equal(tmp_path: Path) -> None:
    overrides = SMALL["a3c"] | KEPT | {"run.workers": 2}
    runs = [train("tuple", tmp_path, overrides, serial=True, name=name).run for name in ("one", "other")]
    one, other = (a3c_zoo.load_agent(run).policy for run in runs)
    for name, parameter in one.network.named_parameters():  # type: ignore[attr-defined]
        assert torch.equal(parameter, dict(other.network.named_parameters())[name])  # type: ignore[attr-defined]


def test_an_environment_whose_parts_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = train("tuple", tmp_path, SMALL["a3c"], serial=True).run
    monkeypatch.setitem(SPACES, "tuple", SPACES["dict"])
    for play in (
        lambda: a3c_zoo.evaluate(run, episodes=1),
        lambda: a3c_zoo.train(resume=run, steps=400),
    ):
        with pytest.raises(RunDirectoryError, match=r"0 one of 3, 1 vector .*, not gear one of 3"):
            play()


def test_a_film(tmp_path: Path) -> None:
    run = train("dict", tmp_path, SMALL["a3c"], serial=True).run
    result = CliRunner().invoke(cli, ["play", str(run), "--episodes", "1", "--video", str(tmp_path / "x.gif")])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "x.gif").stat().st_size > 100


def test_parameters_that_are_no_numbers_never_reach_the_shared_ones(tmp_path: Path) -> None:
    """A sample of NaN has no gradient that is a number."""
    logits = torch.tensor([LOGITS], requires_grad=True)
    log_prob, entropy = HYBRID.log_prob_and_entropy(logits, torch.tensor([[1.0, float("nan"), 1.0]]))
    (log_prob + entropy).sum().backward()
    assert logits.grad is not None
    assert not torch.isfinite(logits.grad).all()


@pytest.mark.parametrize("deterministic", [False, True])
def test_no_observations_have_no_actions(deterministic: bool) -> None:
    distribution = action_distribution(SPACES["nested"], uniform=True)
    there = Spaces(observation_spec(Parts().observation_space), distribution)
    policy = ModelPolicy(there, UniformNetwork(distribution.num_logits))
    actions: Any = policy.predict(np.zeros((0, 3), np.float32), deterministic=deterministic)[0]
    assert [actions["arm"][0].shape, actions["arm"][1].shape, actions["pull"].shape] == [(0, 2), (0, 2), (0, 1)]


# --- masks


def rooms(
    masks: str, mode: AutoresetMode = AutoresetMode.NEXT_STEP, fault: str = "", kind: str = "finite"
) -> SyncVectorEnv:
    return SyncVectorEnv([lambda: Parts(kind, masks, fault)] * 3, autoreset_mode=mode)


@pytest.mark.parametrize("kind", ["finite", "tuple", "dict"])
@pytest.mark.parametrize("masks", ["info", "method", "flat"])
@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_masks_of_parts_are_followed(masks: str, mode: AutoresetMode, kind: str) -> None:
    """Random actions within them, and the next allowed ones for any: a forbidden one raises."""
    env = rooms(masks, mode, kind=kind)
    observation, info = env.reset(seed=0)
    followed: Any = masks_to_follow(env, EnvConfig(), "parts", info)
    from a3c_zoo.learning.autoreset import autoreset_of

    autoreset = autoreset_of(env)
    env.action_space.seed(0)
    random = np.random.default_rng(0)
    for t in range(30):
        expected = np.ones((3, 8 if kind == "finite" else 3), np.bool_)
        expected[:, 3::2] = np.arange(expected[:, 3::2].shape[1]) == 2
        for n, target in enumerate(observation):
            expected[n, best_gear(target) % 3] = False
        ignored = followed.allowed.all(axis=1)
        np.testing.assert_array_equal(followed.allowed[~ignored], expected[~ignored])
        assert mode == AutoresetMode.NEXT_STEP or not ignored.any()
        actions = followed.within(env.action_space.sample()) if t % 2 else followed.random_actions(random)
        assert env.action_space.contains(actions)
        observation, _, terminated, truncated, info = env.step(actions)
        ended = terminated | truncated
        followed.step(info, ended)
        if ended.any():
            observation, info = autoreset.restart(observation, info, ended)
            followed.restart(info, ended)


def test_masks_by_key_from_a_vector_environment() -> None:
    space = spaces.Dict({"gear": GEAR, "door": spaces.Discrete(2)})
    env = SyncVectorEnv([lambda: Parts("finite")] * 2)
    masks = ActionMasks(env, action_distribution(space, has_masks=True), "rooms")
    out = np.zeros((2, 5), np.bool_)
    given = {"gear": np.array([[1, 0, 1], [0, 1, 1]]), "door": np.array([[1, 0], [1, 1]])}
    masks.take({"action_mask": given}, out)
    assert out.astype(int).tolist() == [[1, 0, 1, 0, 1], [1, 1, 0, 1, 1]]  # the order of the keys: door, gear
    with pytest.raises(EnvironmentContractError, match="KeyError: 'gear'"):
        masks.take({"action_mask": {"door": given["door"]}}, out)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("missing", r"wrong action mask: .*'doors'.*with 8 elements"),
        ("length", r"wrong action mask: .*part 'doors' has shape \[2\].*with 8 elements"),
        ("empty", r"forbids every action of choice 0 \(environment 0 of 3\)"),
    ],
)
@pytest.mark.parametrize("way", ["info", "method"])
def test_a_wrong_mask_of_parts_is_one_line(way: str, fault: str, message: str) -> None:
    env = rooms(way, fault=fault)
    _, info = env.reset(seed=0)
    followed: Any = masks_to_follow(env, EnvConfig(), "parts", info)
    *_, terminated, truncated, info = env.step(followed.random_actions(np.random.default_rng(0)))
    with pytest.raises(EnvironmentContractError, match=message) as caught:
        followed.step(info, terminated | truncated)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("masks", ["info", "method"])
@pytest.mark.parametrize(
    ("agent", "overrides"), [("a3c", SMALL["a3c"] | KEPT), ("a3c-data", TRANSITIONS), ("a3c", SMALL["a3c"] | LSTM)]
)
def test_agents_act_within_masks_of_parts(agent: str, overrides: Any, masks: str, tmp_path: Path) -> None:
    outcome = train("finite", tmp_path, {**overrides, "env.kwargs": {"masks": masks}}, agent, serial=True)
    assert outcome.updates > 0
    assert a3c_zoo.evaluate(outcome.run, episodes=4).episodes == 4
    policy = a3c_zoo.load_agent(outcome.run)
    gear = np.array([[1, 0, 0], [0, 1, 1]], np.bool_)
    doors = np.array([[0, 1, 0, 1, 0], [1, 1, 1, 1, 1]], np.bool_)
    observations = np.zeros((2, 3), np.float32)
    by_part: Any = (gear, {"doors": doors})
    for action_masks in (by_part, np.concatenate((gear, doors), axis=1)):
        actions: Any = policy.predict(observations, action_masks=action_masks)[0]
        assert actions[0][0] == 1
        assert actions[0][1] > 1
        assert actions[1]["doors"][0].tolist() == [1, 1]
    one: Any = policy.predict(observations[0], action_masks=(gear[0], {"doors": doors[0]}))[0]
    assert one[0] == 1
    wrong: tuple[tuple[Any, str], ...] = (
        ((gear,), "IndexError"),
        ((gear, {}), "KeyError: 'doors'"),
        ((gear, {"doors": doors[:, :4]}), r"part 'doors' has shape \[2, 4\]"),
        ((gear & False, {"doors": doors}), "forbid every action"),
        (None, r"give action_masks, bools of shape \[2, 8\]"),
    )
    for action_masks, message in wrong:
        with pytest.raises(ObservationError, match=message):
            policy.predict(observations, action_masks=action_masks)


def test_masks_of_a_choice_beside_numbers_by_hand() -> None:
    """p = 1/4, 0, 3/4 if the second action is forbidden; the numbers are those of no mask.

    log π = log ¾ − 2½ − log 2π, H = log 4 − ¾ log 3 + log 2πe
    """
    distribution = action_distribution(spaces.Tuple((spaces.Discrete(3), STEER)), has_masks=True)
    logits = torch.tensor([LOGITS], requires_grad=True)
    masked = masked_logits(distribution, logits, torch.tensor([[True, False, True]]))
    assert torch.equal(masked[0, [0, 2, 3, 4, 5, 6]], logits[0, [0, 2, 3, 4, 5, 6]])
    log_prob, entropy = distribution.log_prob_and_entropy(masked, torch.tensor([[2.0, 3.0, 1.0]]))
    assert log_prob.tolist() == pytest.approx([log(3 / 4) - 2.5 - log(2 * pi)])
    assert entropy.tolist() == pytest.approx([log(4) - 0.75 * log(3) + log(2 * pi * e)])
    (slope,) = torch.autograd.grad(log_prob.sum(), logits)
    assert slope[0].tolist() == pytest.approx([-1 / 4, 0, 1 / 4, 1 / 2, 4, 0, 3])
    samples = draw(distribution, masked.detach().expand(1000, 7))
    assert not (samples[:, 0] == 1).any()
    plain = draw(HYBRID, torch.tensor([LOGITS]).expand(1000, 7))
    assert torch.equal(samples[:, 1:], plain[:, 1:])


def test_masks_of_a_choice_between_others() -> None:
    """Each mask finds its own logits; bits and numbers before and after them have none."""
    space = spaces.Tuple(
        (spaces.MultiBinary(2), spaces.Discrete(2), STEER, spaces.Dict({"a": STEER, "b": spaces.MultiDiscrete([2, 3])}))
    )
    distribution = action_distribution(space, has_masks=True)
    masks = torch.tensor([[False, True, True, False, True, False, True]])
    forbidden = masked_logits(distribution, torch.zeros(1, 17), masks)[0] != 0
    assert forbidden.nonzero().flatten().tolist() == [2, 9, 11]


@pytest.mark.parametrize(
    ("agent", "kind", "masks", "overrides"),
    [
        ("a3c", "tuple", "info", SMALL["a3c"] | KEPT),
        ("a3c", "dict", "method", SMALL["a3c"] | LSTM),
        ("a3c-data", "dict", "flat", SMALL["a3c-data"]),
        ("random", "tuple", "info", {}),
    ],
)
def test_agents_act_within_masks_beside_numbers(
    agent: str, kind: str, masks: str, overrides: Any, tmp_path: Path
) -> None:
    outcome = train(kind, tmp_path, {**overrides, "env.kwargs": {"masks": masks}}, agent, serial=True)
    assert a3c_zoo.evaluate(outcome.run, episodes=4).episodes == 4
    policy = a3c_zoo.load_agent(outcome.run)
    gear = np.array([[1, 0, 0], [0, 0, 1]], np.bool_)
    by_part: Any = (gear, None) if kind == "tuple" else {"gear": gear}
    place: Any = 0 if kind == "tuple" else "gear"
    for action_masks in (gear, by_part):
        actions: Any = policy.predict(np.zeros((2, 3), np.float32), action_masks=action_masks)[0]
        assert actions[place].tolist() == [1, 3]
    with_number: Any = (gear, gear) if kind == "tuple" else {"gear": gear, "steer": gear}
    with pytest.raises(ObservationError, match=r"part '(1|steer)' .* takes no mask"):
        policy.predict(np.zeros((2, 3), np.float32), action_masks=with_number)


def test_a_vector_environment_gives_none_beside_a_mask() -> None:
    env = SyncVectorEnv([lambda: Parts("tuple")] * 2)
    masks = ActionMasks(env, action_distribution(SPACES["tuple"], has_masks=True), "rooms")
    out = np.zeros((2, 3), np.bool_)
    masks.take({"action_mask": (np.array([[1, 0, 1], [0, 1, 1]]), None)}, out)
    assert out.astype(int).tolist() == [[1, 0, 1], [0, 1, 1]]


def test_masks_in_observations_are_those_of_the_choices() -> None:
    seen = spaces.Dict({"place": STEER, "action_mask": spaces.MultiBinary(3)})
    held = [holds_masks(seen, space) for space in (SPACES["dict"], GEAR, SPACES["finite"], STEER)]
    assert held == [True, True, False, False]


def test_a_space_without_choices_has_no_masks(tmp_path: Path) -> None:
    class Masked(Parts):
        def __init__(self) -> None:
            super().__init__()
            self.action_space = spaces.Tuple((STEER, spaces.MultiBinary(2)))

        def _info(self) -> dict[str, Any]:
            return {"action_mask": np.ones(3, np.int8)}

    with pytest.raises(ConfigError, match=r"the action space is Tuple\(.*env\.action_masks=false"):
        a3c_zoo.train(Masked, steps=100, serial=True, runs_dir=tmp_path)


# --- files


@pytest.mark.parametrize(
    ("kind", "overrides", "wanted"),
    [
        (
            "dict",
            LSTM,
            {
                "action/gear": ("int64", ["N"]),
                "probabilities/gear": ("float", ["N", 3]),
                "action/steer": ("float", ["N", 2]),
                "mean/steer": ("float", ["N", 2]),
                "std/steer": ("float", ["N", 2]),
                "next_state": ("float", [2, "N", 8]),
            },
        ),
        (
            "nested",
            {"agent.squash_actions": True},
            {
                "action/arm/0": ("int64", ["N", 2]),
                "probabilities/arm/0": ("float", ["N", 5]),
                "action/arm/1": ("int8", ["N", 2]),
                "probabilities/arm/1": ("float", ["N", 2]),
                "action/pull": ("float", ["N", 1]),
                "mean/pull": ("float", ["N", 1]),
                "std/pull": ("float", ["N", 1]),
            },
        ),
    ],
)
def test_the_onnx_file_has_outputs_for_each_part(kind: str, overrides: Any, wanted: Any, tmp_path: Path) -> None:
    import onnxruntime

    run = train(kind, tmp_path, SMALL["a3c"] | overrides, serial=True).run
    out = tmp_path / "x.onnx"
    result = CliRunner().invoke(cli, ["export", str(run), "--out", str(out)])
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    found = {each.name: (each.type, each.shape) for each in session.get_outputs()}
    assert found == {name: (f"tensor({dtype})", shape) for name, (dtype, shape) in wanted.items()}
    observations = np.random.default_rng(0).uniform(-1, 1, (5, 3)).astype(np.float32)
    feed = {"observation": observations}
    if overrides is LSTM:
        feed["state"] = np.zeros((2, 5, 8), np.float32)
    outputs = dict(zip(wanted, session.run(list(wanted), feed), strict=True))
    actions: Any = a3c_zoo.load_agent(run).predict(observations, deterministic=True)[0]
    for name, output in outputs.items():
        if name.startswith("action/"):
            part = actions
            for key in name.split("/")[1:]:
                part = part[int(key) if key.isdigit() else key]
            np.testing.assert_allclose(output, part, rtol=1e-5, atol=1e-6)


def test_the_onnx_file_takes_masks_of_parts(tmp_path: Path) -> None:
    import onnxruntime

    run = train("finite", tmp_path, {**SMALL["a3c"], "env.kwargs": {"masks": "info"}}, serial=True).run
    out = tmp_path / "x.onnx"
    result = CliRunner().invoke(cli, ["export", str(run), "--out", str(out)])
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    masks = np.zeros((2, 8), np.bool_)
    masks[:, [1, 4, 7]] = True
    feed = {"observation": np.zeros((2, 3), np.float32), "action_mask": masks}
    gear, doors = session.run(["action/0", "action/1/doors"], feed)
    assert gear.tolist() == [2, 2]
    assert doors.tolist() == [[1, 2], [1, 2]]


def test_the_onnx_file_takes_masks_beside_numbers(tmp_path: Path) -> None:
    import onnxruntime

    run = train("dict", tmp_path, {**SMALL["a3c"], "env.kwargs": {"masks": "info"}}, serial=True).run
    out = tmp_path / "x.onnx"
    result = CliRunner().invoke(cli, ["export", str(run), "--out", str(out)])
    assert result.exit_code == 0, result.output
    session = onnxruntime.InferenceSession(out, providers=["CPUExecutionProvider"])
    assert [each.shape for each in session.get_inputs()] == [["N", 3], ["N", 3]]
    masks = np.array([[0, 1, 0], [0, 0, 1]], np.bool_)
    feed = {"observation": np.zeros((2, 3), np.float32), "action_mask": masks}
    (gear,) = session.run(["action/gear"], feed)
    assert gear.tolist() == [2, 3]


# --- checks


@pytest.mark.parametrize("kind", ["nested", "finite"])
@pytest.mark.parametrize("num_envs", [1, 3])
def test_the_contract_is_checked(kind: str, num_envs: int) -> None:
    masks = {"masks": "info"} if kind == "finite" else {}
    check_env(
        a3c_zoo.EnvEntry("parts", env_id=f"tests.toys_parts:Parts-{kind}-v0", kwargs=masks),
        num_envs=(num_envs,),
        steps=60,
    )


class Changing(Parts):
    """Changes the part of the action that it gets."""

    def __init__(self) -> None:
        super().__init__("dict")

    def step(self, action: Any) -> Any:
        result = super().step(action)
        action["steer"][:] = 0
        return result


gymnasium.register("ChangingParts-v0", f"{__name__}:Changing")


def test_an_action_that_is_changed_is_found() -> None:
    entry = a3c_zoo.EnvEntry("changing", env_id=f"{__name__}:ChangingParts-v0")
    with pytest.raises(AssertionError, match="changes the array of actions"):
        check_env(entry, num_envs=(1,), steps=60)


@pytest.mark.usefixtures("checked_here")
@pytest.mark.parametrize("kind", ["tuple", "finite"])
def test_the_check_of_the_command_line(kind: str) -> None:
    arguments = ["-o", "env.kwargs.masks=info"] if kind == "finite" else []
    result = CliRunner().invoke(cli, ["check", env_name(kind), *arguments])
    assert result.exit_code == 0, result.output
    assert "keep it" in result.output


# --- learning


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tuple", "dict"])
def test_a_hybrid_space_is_learned_with_the_default_set(kind: str, tmp_path: Path) -> None:
    """Random actions are worth −2⅔ an episode; an untrained policy, whose steering stays in the middle, −1⅓."""
    outcome = a3c_zoo.train(env_name(kind), seed=1, steps=40_000, runs_dir=tmp_path, serial=True)
    assert a3c_zoo.evaluate(outcome.run, episodes=100).mean_return > 5
