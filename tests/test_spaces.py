"""Observation specs and the distribution over actions, by hand and by counting."""

from __future__ import annotations

from math import exp, log, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from a3c_zoo.errors import ObservationError, RunDirectoryError, UnsupportedSpaceError, ZooError
from a3c_zoo.learning.actions import Categorical, action_distribution
from a3c_zoo.learning.model import Spaces
from a3c_zoo.learning.spaces import ObservationSpec, observation_spec, row_of

BOX = spaces.Box(-1, 1, (4,), np.float32)
PICTURE = spaces.Box(0, 255, (4, 84, 84), np.uint8)


class TestObservations:
    def test_vector(self) -> None:
        spec = observation_spec(BOX)
        assert spec == ObservationSpec("vector", (4,), np.dtype(np.float32))
        assert spec.num_features == 4
        assert spec.encode(torch.tensor([[1.0, 2, 3, 4]])).tolist() == [[1, 2, 3, 4]]

    def test_float32_vectors_are_not_copied(self) -> None:
        observations = torch.zeros(2, 4)
        assert observation_spec(BOX).encode(observations).data_ptr() == observations.data_ptr()

    def test_matrix_is_laid_out_row_by_row(self) -> None:
        spec = observation_spec(spaces.Box(-1, 1, (2, 3), np.float64))
        assert spec == ObservationSpec("vector", (2, 3), np.dtype(np.float64))
        assert spec.num_features == 6
        encoded = spec.encode(torch.arange(12, dtype=torch.float64).view(2, 2, 3))
        assert encoded.dtype == torch.float32
        assert encoded.tolist() == [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]]

    def test_scalar(self) -> None:
        spec = observation_spec(spaces.Box(0, 1, (), np.float32))
        assert spec.num_features == 1
        assert spec.encode(torch.tensor([0.25, 0.5])).tolist() == [[0.25], [0.5]]

    @pytest.mark.parametrize(
        ("space", "kind"),
        [
            (PICTURE, "image"),
            (spaces.Box(0, 255, (128,), np.uint8), "vector"),  # Atari's memory
            (spaces.Box(0, 255, (84, 84), np.uint8), "vector"),
            (spaces.Box(0, 1, (4, 84, 84), np.float32), "vector"),
        ],
    )
    def test_only_bytes_in_three_axes_are_an_image(self, space: spaces.Box, kind: str) -> None:
        spec = observation_spec(space)
        assert (spec.kind, spec.shape, spec.dtype) == (kind, space.shape, space.dtype)

    def test_discrete_is_one_hot(self) -> None:
        spec = observation_spec(spaces.Discrete(3))
        assert spec == ObservationSpec("vector", (), np.dtype(np.int64), one_hot=3)
        assert spec.num_features == 3
        encoded = spec.encode(torch.tensor([2, 0]))
        assert encoded.dtype == torch.float32
        assert encoded.tolist() == [[0, 0, 1], [1, 0, 0]]

    @pytest.mark.parametrize("number", [-1, 3])
    def test_a_discrete_number_outside_of_its_space(self, number: int) -> None:
        spec = observation_spec(spaces.Discrete(3))
        with pytest.raises(ObservationError, match=f"an observation is {number}, outside of its space, 0 to 2. "):
            spec.encode(torch.tensor([number]))

    def test_discrete_of_another_integer_type_is_stored_as_such(self) -> None:
        # A vector environment's observations then have that type, and no other is accepted.
        spec = observation_spec(spaces.Discrete(3, dtype=np.int32))
        assert spec.dtype == np.int32
        assert spec.encode(torch.tensor([2], dtype=torch.int32)).tolist() == [[0, 0, 1]]


#: Spaces that become one vector, and the shape of it.
SEVERAL: list[Any] = [
    spaces.Tuple((spaces.Discrete(32), spaces.Discrete(11), spaces.Discrete(2))),  # Blackjack
    spaces.Dict({"b": BOX, "a": spaces.Dict({"x": spaces.MultiDiscrete([2, 3]), "y": spaces.Discrete(3, start=4)})}),
    spaces.Tuple((spaces.MultiBinary((2, 2)), spaces.Box(-1, 1, (), np.float64), spaces.Dict({"k": BOX}))),
    spaces.MultiDiscrete(np.array([[2, 3], [4, 5]]), start=np.array([[1, 0], [-3, 2]])),
    spaces.Discrete(3, start=-1),
]


class TestSeveralParts:
    @pytest.mark.parametrize("space", SEVERAL, ids=str)
    def test_the_vector_is_gymnasiums_own(self, space: Any) -> None:
        spec = observation_spec(space)
        space.seed(3)
        samples: list[Any] = [space.sample() for _ in range(5)]
        flat: list[Any] = [spaces.flatten(space, sample) for sample in samples]
        expected = np.stack(flat).astype(np.float32)
        assert (spec.kind, spec.shape, spec.dtype) == ("vector", expected.shape[1:], np.dtype(np.float32))
        empty: Any = create_empty_array(space, 5)
        batch: Any = concatenate(space, samples, empty)
        vectors, is_single = spec.flatten(batch)
        assert not is_single
        np.testing.assert_array_equal(vectors, expected)
        one, is_single = spec.flatten(samples[2])
        assert is_single
        np.testing.assert_array_equal(one, expected[2:3])
        np.testing.assert_array_equal(spec.flatten(row_of(batch, 4))[0], expected[4:])

    @pytest.mark.parametrize("space", SEVERAL, ids=str)
    def test_saved_and_loaded(self, space: Any) -> None:
        spec = observation_spec(space)
        assert ObservationSpec.from_state_dict(spec.state_dict()) == spec

    def test_by_hand(self) -> None:
        spec = observation_spec(spaces.Dict({"a": spaces.Discrete(2, start=5), "b": spaces.MultiBinary(2)}))
        both = {"a": np.array([6, 5]), "b": np.array([[1, 1], [0, 1]], np.int8)}
        assert spec.flatten(both)[0].tolist() == [[0, 1, 1, 1], [1, 0, 0, 1]]

    def test_binary_is_stored_as_it_is(self) -> None:
        spec = observation_spec(spaces.MultiBinary(4))
        assert spec == ObservationSpec("vector", (4,), np.dtype(np.int8))
        assert spec.encode(torch.tensor([[1, 0, 0, 1]], dtype=torch.int8)).tolist() == [[1, 0, 0, 1]]

    @pytest.mark.parametrize(
        ("space", "message"),
        [
            (spaces.Tuple((BOX, spaces.Text(3))), "its part '1', Text, is not supported"),
            (spaces.Text(3), "observation space Text.* is not supported; supported: Box"),
            (spaces.Dict({("a", 1): BOX}), r"has the key \('a', 1\); supported: strings and whole numbers"),  # type: ignore[dict-item]
            (spaces.Dict({}), "holds no numbers"),
            (spaces.Box(0, 1, (2,), np.longdouble), "which torch does not know"),
            (spaces.Box(0, 1, (2,), np.dtype(">f4")), "is of >f4, which torch does not know"),
        ],
    )
    def test_others_are_refused(self, space: Any, message: str) -> None:
        with pytest.raises(UnsupportedSpaceError, match=message):
            observation_spec(space)

    @pytest.mark.parametrize(
        ("observation", "message"),
        [
            ({"a": np.zeros(2, np.int64)}, "an observation has the parts a, b; got"),
            (
                {"a": np.zeros(2, np.int64), "b": np.zeros((3, 4), np.float32)},
                r"part b .* shape \[4\]; got float32",
            ),
            ({"a": np.array([0.5, 1]), "b": np.zeros((2, 4), np.float32)}, "part a .* got float64"),
            ({"a": np.array([0, 9]), "b": np.zeros((2, 4), np.float32)}, "a number outside of its space"),
            ({"a": np.array([0, 3]), "b": np.zeros((2, 4), np.float32)}, "a number outside of its space"),
            ({"a": np.array([-1, 0]), "b": np.zeros((2, 4), np.float32)}, "a number outside of its space"),
            ({"a": [[1], [1, 2]], "b": np.zeros((2, 4), np.float32)}, "an observation has the parts a, b; got"),
            (7, "an observation has the parts a, b; got 7"),
        ],
    )
    def test_wrong_observations(self, observation: Any, message: str) -> None:
        spec = observation_spec(spaces.Dict({"a": spaces.Discrete(3), "b": BOX}))
        with pytest.raises(ObservationError, match=message):
            spec.flatten(observation)

    def test_a_number_where_an_array_is_expected(self) -> None:
        with pytest.raises(ObservationError, match=r"part a .* has shape \[4\]; got int64 \[\] for 1"):
            observation_spec(spaces.Dict({"a": BOX})).flatten({"a": 7})

    def test_unsigned_numbers_by_hand(self) -> None:
        """Gymnasium's own `flatten` cannot take the first one."""
        both = observation_spec(spaces.MultiDiscrete([3, 2], dtype=np.uint64))
        assert both.flatten(np.array([[2, 0], [0, 1]], np.uint64))[0].tolist() == [[0, 0, 1, 1, 0], [1, 0, 0, 0, 1]]
        one = observation_spec(spaces.Discrete(3, start=5, dtype=np.uint64))
        assert one.flatten(np.array([7, 5], np.uint64))[0].tolist() == [[0, 0, 1], [1, 0, 0]]

    @pytest.mark.parametrize("start", [-1, 0, 1])
    @pytest.mark.parametrize("number", [4, 2**63 - 1, 2**63, 2**64 - 1])  # as int64 the last two are negative
    def test_unsigned_numbers_outside_of_their_space(self, number: int, start: int) -> None:
        spec = observation_spec(spaces.Dict({"a": spaces.Discrete(3, start=start), "b": BOX}))
        with pytest.raises(ObservationError, match="a number outside of its space"):
            spec.flatten({"a": np.array([number], np.uint64), "b": np.zeros((1, 4), np.float32)})


class TestActions:
    def test_discrete(self) -> None:
        assert action_distribution(spaces.Discrete(3)) == Categorical(3, 0)
        assert action_distribution(spaces.Discrete(3, start=-1)) == Categorical(3, -1)

    def test_others_are_refused(self) -> None:
        for space in (spaces.Text(3), spaces.Sequence(BOX), spaces.Box(0, 3, (2,), np.int64)):
            with pytest.raises(UnsupportedSpaceError, match=r"action space .* is not supported; supported: Disc"):
                action_distribution(space)
        with pytest.raises(UnsupportedSpaceError, match=r"^action space .* holds no number"):
            action_distribution(spaces.Box(-1, 1, (2, 0)))
        assert issubclass(UnsupportedSpaceError, ZooError)  # one line, not a traceback

    def test_shifted_into_the_space(self) -> None:
        assert Categorical(3, 5).to_env(np.array([0, 2])).tolist() == [5, 7]
        assert Categorical(3, -1).to_env(np.array([0, 2])).tolist() == [-1, 1]
        assert Categorical(3).to_env(np.array([0, 2])).tolist() == [0, 2]


class TestCategorical:
    def test_log_prob_and_entropy_by_hand(self) -> None:
        # uniform of 2: log ½, entropy log 2;  (log 3, 0): ¾, ¼, entropy −¾·log ¾ − ¼·log ¼ = log 4 − ¾·log 3
        logits = torch.tensor([[0.0, 0.0], [log(3), 0.0], [log(3), 0.0]])
        log_prob, entropy = Categorical(2).log_prob_and_entropy(logits, torch.tensor([1, 0, 1]))
        assert log_prob.tolist() == pytest.approx([-log(2), log(0.75), log(0.25)])
        skewed = log(4) - 0.75 * log(3)
        assert entropy.tolist() == pytest.approx([log(2), skewed, skewed])

    def test_four_equal(self) -> None:
        log_prob, entropy = Categorical(4).log_prob_and_entropy(torch.full((1, 4), 7.0), torch.tensor([3]))
        assert (log_prob.item(), entropy.item()) == pytest.approx((-log(4), log(4)))

    def test_large_logits(self) -> None:
        # what is added to all logits changes nothing; a hopeless action costs its distance
        log_prob, entropy = Categorical(2).log_prob_and_entropy(torch.tensor([[1e4, 1e4 - 100]]), torch.tensor([1]))
        assert log_prob.item() == pytest.approx(-100)
        assert entropy.item() == pytest.approx(0, abs=1e-6)

    def test_mode(self) -> None:
        assert Categorical(3).mode(torch.tensor([[0.0, 2, 1], [3, 2, 1]])).tolist() == [1, 0]

    def test_sampling_is_argmax_of_logits_and_noise(self) -> None:
        actions = torch.zeros(2, dtype=torch.int64)
        Categorical(2).sample(torch.tensor([[0.0, 1.0], [0.0, 1.0]]), torch.tensor([[0.0, 0.0], [1.5, 0.0]]), actions)
        assert actions.tolist() == [1, 0]

    def test_frequencies(self) -> None:
        # Each frequency of n draws has the standard deviation √(p(1 − p)/n). Five of them is a bound that one in
        # 1.7 million samples passes by chance; the seed is fixed besides.
        n, probabilities = 80_000, (1 / 8, 2 / 8, 5 / 8)
        distribution, generator = Categorical(3), torch.Generator().manual_seed(7)
        logits = torch.tensor([log(1), log(2), log(5)]).expand(n, 3)
        actions = torch.zeros(n, dtype=torch.int64)
        distribution.sample(logits, distribution.noise(torch.zeros(n, 3), generator), actions)
        for action, p in enumerate(probabilities):
            frequency = (actions == action).double().mean().item()
            assert abs(frequency - p) < 5 * sqrt(p * (1 - p) / n)

    def test_noise_is_gumbel(self) -> None:
        # P(G ≤ x) = exp(−exp(−x)): at 0 that is 1/e, at 1 exp(−1/e), at −1 exp(−e)
        n = 80_000
        noise = Categorical(1).noise(torch.zeros(n, 1), torch.Generator().manual_seed(3))
        assert torch.isfinite(noise).all()
        for x in (-1.0, 0.0, 1.0):
            p = exp(-exp(-x))
            assert abs((noise <= x).double().mean().item() - p) < 5 * sqrt(p * (1 - p) / n)

    def test_noise_comes_from_the_given_generator_alone(self) -> None:
        one, other = (Categorical(2).noise(torch.zeros(5, 2), torch.Generator().manual_seed(3)) for _ in range(2))
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("observations", "actions"),
    [(BOX, spaces.Discrete(2)), (PICTURE, spaces.Discrete(6, start=2)), (spaces.Discrete(5), spaces.Discrete(4))],
)
def test_saved_spaces_come_back(observations: Any, actions: Any) -> None:
    before = Spaces(observation_spec(observations), action_distribution(actions))
    state = before.state_dict()
    assert state["action"] == ["Discrete", int(actions.n), int(actions.start)]
    assert Spaces.from_state_dict(state) == before


@pytest.mark.parametrize(
    ("observation", "action"),
    [
        (["vector", [500_000], "<f4", 0], ["Discrete", -5, 0]),
        (["vector", [500_000], "<f4", 0], ["Discrete", 0, 0]),
        (["vector", [4], "<f4", 0], ["Discrete", 2.5, 0]),
        (["vector", [4], "<f4", 0], ["MultiDiscrete", [9, -5], [0, 0], [2]]),
        (["vector", [4], "<f4", 0], ["MultiBinary", [-2, -2]]),
        (["vector", [-4], "<f4", 0], ["Discrete", 2, 0]),
        (["vector", [4.0], "<f4", 0], ["Discrete", 2, 0]),
        (["vector", [], "<i8", -3], ["Discrete", 2, 0]),
        (["vector", [9], "<f4", 0, [[["a"], [], [9, True], [0, 0]]]], ["Discrete", 2, 0]),
        (["vector", [9], "<f4", 0, [[["a"], [-9], [], []]]], ["Discrete", 2, 0]),
    ],
)
def test_sizes_that_no_space_has_are_refused(observation: Any, action: Any) -> None:
    with pytest.raises(RunDirectoryError, match=r"the checkpoint's spaces cannot be read: ValueError: no space has"):
        Spaces.from_state_dict({"observation": observation, "action": action})
