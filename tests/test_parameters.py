"""Flat parameters: views of one tensor, pulled by one copy."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from a3c_zoo.learning.parameters import FlatParameters


class Line(nn.Module):
    """y = a·x + b, with a of shape [1, 2] and b of shape [1]."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.tensor([[1.0, 2.0]]))
        self.b = nn.Parameter(torch.tensor([3.0]))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.a.T + self.b


def assert_views(flat: FlatParameters, module: Line) -> None:
    """The module's tensors lie where the flat ones do: a at 0, b two float32 = 8 bytes further on."""
    assert module.a.grad is not None
    assert module.b.grad is not None
    assert module.a.data_ptr() == flat.values.data_ptr()
    assert module.b.data_ptr() == flat.values.data_ptr() + 8
    assert module.a.grad.data_ptr() == flat.gradients.data_ptr()
    assert module.b.grad.data_ptr() == flat.gradients.data_ptr() + 8


class TestFlatParameters:
    def test_order_and_values(self) -> None:
        module = Line()
        flat = FlatParameters(module)
        assert flat.values.tolist() == [1, 2, 3]
        assert flat.gradients.tolist() == [0, 0, 0]
        assert module.a.shape == (1, 2)
        assert_views(flat, module)

    def test_backward_writes_into_the_flat_gradient_again_and_again(self) -> None:
        module = Line()
        flat = FlatParameters(module)
        for x, expected in (([10.0, 20.0], [10, 20, 1]), ([-5.0, 7.0], [-5, 7, 1])):
            flat.zero_gradients()
            module(torch.tensor([x])).sum().backward()
            assert flat.gradients.tolist() == expected
            assert_views(flat, module)

    def test_backward_adds_until_zeroed(self) -> None:
        module = Line()
        flat = FlatParameters(module)
        for _ in range(3):
            module(torch.tensor([[1.0, 2.0]])).sum().backward()
        assert flat.gradients.tolist() == [3, 6, 3]
        flat.zero_gradients()
        assert flat.gradients.tolist() == [0, 0, 0]
        assert_views(flat, module)

    def test_pull_copies(self) -> None:
        module = Line()
        flat = FlatParameters(module)
        shared = torch.tensor([4.0, 5.0, 6.0])
        flat.pull(shared)
        assert module.a.tolist() == [[4, 5]]
        assert module(torch.tensor([[1.0, 1.0]])).item() == 15
        assert_views(flat, module)
        shared.zero_()
        assert module.b.tolist() == [6]

    def test_a_module_with_its_own_dtype_computes_in_float32(self) -> None:
        module = Line().double()
        flat = FlatParameters(module)
        assert flat.values.dtype == module.a.dtype == torch.float32
        assert_views(flat, module)

    def test_a_tensor_used_twice_lies_there_once(self) -> None:
        module = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False))
        module[1].weight = module[0].weight
        flat = FlatParameters(module)
        flat.pull(torch.tensor([3.0]))
        module(torch.tensor([[2.0]])).backward()
        assert flat.gradients.tolist() == [12]  # y = w²·x: dy/dw = 2·3·2
