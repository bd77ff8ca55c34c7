"""Clipping, optimizers and schedules against numbers worked out by hand."""

from __future__ import annotations

from math import isfinite, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from a3c_zoo.config import OptimizerConfig
from a3c_zoo.learning.optimizers import (
    clip_by_global_norm,
    learning_rate_at,
    optimizer_class,
    schedule_left,
    without_denormals,
)
from a3c_zoo.learning.parameters import share
from a3c_zoo.plugins.builtins import zoo_optimizers


def approx(*expected: float) -> Any:
    return pytest.approx(expected, rel=1e-6)


class TestClip:
    def test_by_hand(self) -> None:
        # |(3, 4)| = 5; to norm ½: a tenth
        gradient = torch.tensor([3.0, 4.0])
        assert clip_by_global_norm(gradient, 0.5) == 5
        assert gradient.tolist() == pytest.approx([0.3, 0.4], rel=1e-5)

    @pytest.mark.parametrize("limit", [5.0, 5.1, None])
    def test_within_the_limit_nothing_changes(self, limit: float | None) -> None:
        gradient = torch.tensor([3.0, 4.0])
        assert clip_by_global_norm(gradient, limit) == 5
        assert gradient.tolist() == [3, 4]

    def test_zero(self) -> None:
        gradient = torch.zeros(2)
        assert clip_by_global_norm(gradient, 0.5) == 0
        assert gradient.tolist() == [0, 0]

    @pytest.mark.parametrize("limit", [0.5, None])
    @pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
    def test_a_gradient_that_is_not_finite_has_such_a_norm(self, bad: float, limit: float | None) -> None:
        assert not isfinite(clip_by_global_norm(torch.tensor([1.0, bad]), limit))


CLASSES = {entry.name: optimizer_class(entry) for entry in zoo_optimizers()}


def optimizer(config: OptimizerConfig, parameters: Tensor) -> tuple[Any, dict[str, Tensor]]:
    kind = CLASSES[config.name]
    moments = kind.moments(parameters, config)
    return kind(parameters, moments, config), moments


class TestAdam:
    # β1 = ½, β2 = ¾, ε = 1, learning rate 1; one parameter, 0 at first; gradients 2, then −4.
    # step 1: m = ½·2 = 1,  v = ¼·4 = 1;   m̂ = 1/(1 − ½) = 2,  v̂ = 1/(1 − ¾) = 4
    #         θ = −2/(√4 + 1) = −2/3
    # step 2: m = ½·1 + ½·(−4) = −1.5,  v = ¾·1 + ¼·16 = 4.75
    #         m̂ = −1.5/(1 − ¼) = −2,  v̂ = 4.75/(1 − 9/16) = 4.75·16/7 = 76/7
    #         θ = −2/3 + 2/(√(76/7) + 1)
    CONFIG = OptimizerConfig(name="adam", beta1=0.5, beta2=0.75, epsilon=1.0)
    AFTER_1 = -2 / 3
    AFTER_2 = -2 / 3 + 2 / (sqrt(76 / 7) + 1)

    def test_two_steps_by_hand(self) -> None:
        parameters = torch.zeros(1)
        adam, state = optimizer(self.CONFIG, parameters)
        adam.apply(torch.tensor([2.0]), 1.0)
        assert parameters.item() == pytest.approx(self.AFTER_1)
        assert (state["step"], state["exp_avg"], state["exp_avg_sq"]) == approx(1, 1, 1)
        adam.apply(torch.tensor([-4.0]), 1.0)
        assert parameters.item() == pytest.approx(self.AFTER_2)
        assert (state["step"], state["exp_avg"], state["exp_avg_sq"]) == approx(2, -1.5, 4.75)

    def test_the_learning_rate_of_each_step(self) -> None:
        parameters = torch.zeros(1)
        adam, _ = optimizer(self.CONFIG, parameters)
        adam.apply(torch.tensor([2.0]), 0.5)
        assert parameters.item() == pytest.approx(self.AFTER_1 / 2)
        adam.apply(torch.tensor([-4.0]), 0.0)
        assert parameters.item() == pytest.approx(self.AFTER_1 / 2)

    def test_the_gradient_is_left_alone(self) -> None:
        gradient = torch.tensor([2.0])
        optimizer(self.CONFIG, torch.zeros(1))[0].apply(gradient, 1.0)
        assert gradient.tolist() == [2]

    def test_equals_torchs_plain_adam(self) -> None:
        config = OptimizerConfig(name="adam", epsilon=1e-5)
        start = torch.randn(100, generator=torch.Generator().manual_seed(0))
        ours, theirs = start.clone(), nn.Parameter(start.clone())
        adam, _ = optimizer(config, ours)
        reference = torch.optim.Adam([theirs], eps=1e-5, fused=False, foreach=False)
        generator = torch.Generator().manual_seed(1)
        for step in range(50):
            gradient = torch.randn(100, generator=generator)
            rate = 1e-2 / (step + 1)
            adam.apply(gradient, rate)
            reference.param_groups[0]["lr"] = rate
            theirs.grad = gradient.clone()
            reference.step()
        assert not torch.allclose(ours, start, atol=1e-3)
        torch.testing.assert_close(ours, theirs.detach(), rtol=1e-5, atol=1e-6)

    def test_shared_state_is_one_optimizer_with_two_handles(self) -> None:
        parameters = torch.zeros(1)
        state = CLASSES[self.CONFIG.name].moments(parameters, self.CONFIG)
        one, other = (CLASSES[self.CONFIG.name](parameters, state, self.CONFIG) for _ in range(2))
        one.apply(torch.tensor([2.0]), 1.0)
        other.apply(torch.tensor([-4.0]), 1.0)
        assert parameters.item() == pytest.approx(self.AFTER_2)
        assert state["step"].item() == 2

    def test_private_state_knows_nothing_of_the_others_steps(self) -> None:
        parameters = torch.zeros(1)
        (one, _), (other, _) = (optimizer(self.CONFIG, parameters) for _ in range(2))
        one.apply(torch.tensor([2.0]), 1.0)
        other.apply(torch.tensor([-4.0]), 1.0)
        # the other's first step: m̂ = −4, v̂ = 16: θ = −2/3 + 4/(4 + 1)
        assert parameters.item() == pytest.approx(-2 / 3 + 4 / 5)

    def test_a_saved_state_goes_on(self) -> None:
        parameters = torch.zeros(1)
        adam, state = optimizer(self.CONFIG, parameters)
        adam.apply(torch.tensor([2.0]), 1.0)
        saved = {name: tensor.clone() for name, tensor in state.items()}
        other = torch.tensor([self.AFTER_1])
        CLASSES[self.CONFIG.name](other, saved, self.CONFIG).apply(torch.tensor([-4.0]), 1.0)
        assert other.item() == pytest.approx(self.AFTER_2)


class TestRMSprop:
    # α = ½, ε = 7, learning rate 1; gradients 6, then −2.
    # step 1: g = ½·36 = 18,             θ = −6/√(18 + 7) = −1.2
    # step 2: g = ½·18 + ½·4 = 11,       θ = −1.2 + 2/√(11 + 7) = −1.2 + 2/√18
    # With ε outside the root step 1 would be −6/(√18 + 7) = −0.53.
    CONFIG = OptimizerConfig(name="rmsprop", alpha=0.5, epsilon=7.0)

    def test_two_steps_by_hand(self) -> None:
        parameters = torch.zeros(1)
        rmsprop, state = optimizer(self.CONFIG, parameters)
        rmsprop.apply(torch.tensor([6.0]), 1.0)
        assert parameters.item() == pytest.approx(-1.2)
        assert state["square_avg"].tolist() == [18]
        gradient = torch.tensor([-2.0])
        rmsprop.apply(gradient, 1.0)
        assert parameters.item() == pytest.approx(-1.2 + 2 / sqrt(18))
        assert state["square_avg"].tolist() == [11]
        assert gradient.tolist() == [-2]

    def test_the_learning_rate_of_each_step(self) -> None:
        parameters = torch.zeros(1)
        rmsprop, _ = optimizer(self.CONFIG, parameters)
        rmsprop.apply(torch.tensor([6.0]), 0.5)
        assert parameters.item() == pytest.approx(-0.6)

    def test_shared_and_private_state(self) -> None:
        shared, private = torch.zeros(1), torch.zeros(1)
        state = CLASSES[self.CONFIG.name].moments(shared, self.CONFIG)
        for gradient in (6.0, -2.0):
            CLASSES[self.CONFIG.name](shared, state, self.CONFIG).apply(torch.tensor([gradient]), 1.0)
            optimizer(self.CONFIG, private)[0].apply(torch.tensor([gradient]), 1.0)
        assert shared.item() == pytest.approx(-1.2 + 2 / sqrt(18))
        # the second worker's first step: g = ½·4 = 2: θ = −1.2 + 2/√9
        assert private.item() == pytest.approx(-1.2 + 2 / 3)


def test_optimizers_reach_shared_memory() -> None:
    """The module that is learning and the optimizer's parameters are two tensors; the shared one is what is updated."""
    for config in (TestAdam.CONFIG, TestRMSprop.CONFIG):
        parameters = torch.zeros(2)
        state = CLASSES[config.name].moments(parameters, config)
        share(parameters, *state.values())
        assert parameters.is_shared()
        assert all(tensor.is_shared() for tensor in state.values())
        address = parameters.data_ptr()
        CLASSES[config.name](parameters, state, config).apply(torch.tensor([1.0, 0.0]), 1.0)
        assert parameters.data_ptr() == address
        assert parameters.is_shared()
        assert parameters[0] < 0
        assert parameters[1] == 0
        assert all(tensor.is_shared() for tensor in state.values())


class TestWithoutDenormals:
    HALF_OF_2E38 = 1e-38  # below 1.18e-38, float32's smallest normal number

    def halved(self) -> float:
        return float(torch.tensor([2e-38]).mul(0.5))

    def test_only_within(self) -> None:
        assert self.halved() == pytest.approx(self.HALF_OF_2E38)
        with without_denormals():
            assert self.halved() == 0
        assert self.halved() == pytest.approx(self.HALF_OF_2E38)

    def test_an_error_leaves_nothing_behind(self) -> None:
        with pytest.raises(FloatingPointError), without_denormals():
            raise FloatingPointError
        assert self.halved() > 0

    def test_within_another(self) -> None:
        with without_denormals():
            with without_denormals():
                pass
            assert self.halved() == 0


class TestLearningRate:
    def test_constant(self) -> None:
        config = OptimizerConfig(learning_rate=0.5, schedule_steps=10)
        assert [learning_rate_at(config, steps, 100) for steps in (0, 5, 1000)] == [0.5, 0.5, 0.5]

    def test_what_is_left_of_a_schedule(self) -> None:
        own, none = OptimizerConfig(schedule_steps=50), OptimizerConfig()
        assert [schedule_left(own, steps, 1000) for steps in (0, 10, 50, 60)] == [1.0, 0.8, 0.0, 0.0]
        assert [schedule_left(none, steps, 100) for steps in (0, 75, 200)] == [1.0, 0.25, 0.0]
        assert schedule_left(none, 10**9, None) == 1.0

    def test_linear_over_the_budget(self) -> None:
        config = OptimizerConfig(learning_rate=0.5, schedule="linear")
        # a quarter of the way: ¾ of 0.5
        rates = [learning_rate_at(config, steps, 100) for steps in (0, 25, 50, 100, 101, 10**9)]
        assert rates == approx(0.5, 0.375, 0.25, 0, 0, 0)

    def test_linear_over_steps_of_its_own(self) -> None:
        config = OptimizerConfig(learning_rate=0.5, schedule="linear", schedule_steps=50)
        for budget in (100, None):
            rates = [learning_rate_at(config, steps, budget) for steps in (0, 25, 50, 75)]
            assert rates == approx(0.5, 0.25, 0, 0)

    def test_final_learning_rate(self) -> None:
        config = OptimizerConfig(learning_rate=0.5, schedule="linear", final_learning_rate=0.1)
        # halfway: 0.1 + ½·0.4 = 0.3
        assert [learning_rate_at(config, steps, 100) for steps in (0, 50, 100, 200)] == approx(0.5, 0.3, 0.1, 0.1)

    def test_it_may_rise(self) -> None:
        config = OptimizerConfig(learning_rate=0.1, schedule="linear", final_learning_rate=0.5)
        assert [learning_rate_at(config, steps, 100) for steps in (0, 50, 200)] == approx(0.1, 0.3, 0.5)
