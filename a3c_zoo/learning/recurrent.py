"""The recurrent core between the body of a network and its heads (`network.recurrent`).

The state of N environments is one tensor `[K, N, H]`, float32: K = 2 for an LSTM (output and cell), 1 for a
GRU. Acting advances it by one step. Learning passes over a whole rollout, from the state at its beginning:

    row            0          1     …     t                  t+1      …     T
    state before   kept       h_1         h_t                h_t+1          h_T      (the next rollout's row 0)
                                          ends an episode    0              values alone

The state becomes 0 before the first observation of an episode and nowhere else. The final observation of a
truncated episode is valued with the state after the truncated step.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from a3c_zoo.learning.network_configs import CoreConfig
from a3c_zoo.learning.networks import ActorCritic, Split


class Core(nn.Module):
    """One layer of LSTM (Hochreiter & Schmidhuber 1997, with forget gates) or GRU (Cho et al. 2014), torch's kernels.

    Weights are orthogonal for each gate, biases 0.

    Args:
        kind: "lstm" or "gru". inputs: length of the features. size: H, units.
    """

    def __init__(self, kind: str, inputs: int, size: int) -> None:
        super().__init__()
        self.is_lstm = kind == "lstm"
        self.size = size
        gates = 4 if self.is_lstm else 3
        for name, width in (("input", inputs), ("hidden", size)):
            weight = torch.empty(gates * size, width)
            for block in weight.chunk(gates):
                nn.init.orthogonal_(block)
            self.register_parameter(f"{name}_weight", nn.Parameter(weight))
        for name in ("input", "hidden"):
            self.register_parameter(f"{name}_bias", nn.Parameter(torch.zeros(gates * size)))
        self._weights = tuple(self.parameters())  # in the order of the arguments of torch's kernels

    def start(self, num_envs: int) -> Tensor:
        """The state at the start of an episode, `[K, N, H]`."""
        return torch.zeros(2 if self.is_lstm else 1, num_envs, self.size)

    def forward(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Output `[N, H]` for features `[N, F]`, in their precision, and the state after them."""
        state = state.to(x.dtype)
        if self.is_lstm:
            output, cell = torch.lstm_cell(x, (state[0], state[1]), *self._weights)
            return output, torch.stack((output, cell)).float()
        output = torch.gru_cell(x, state[0], *self._weights)
        return output, output.unsqueeze(0).float()

    def run(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Outputs `[T, N, H]` for features `[T, N, F]`, and the state after them."""
        # with biases, one layer, no dropout, training, one direction, time first
        options = (self._weights, True, 1, 0.0, True, False, False)
        state = state.to(x.dtype).contiguous()
        if self.is_lstm:
            outputs, *after = torch.lstm(x, (state[:1], state[1:]), *options)
            return outputs, torch.cat(after).float()
        outputs, hidden = torch.gru(x, state, *options)
        return outputs, hidden.float()


class Recurrent(ActorCritic):
    """A network with a core between its body and its heads.

    Args:
        network: body and heads; the heads take `config.recurrent_size` inputs. config: kind and size of the
            core.
    """

    def __init__(self, network: Split, config: CoreConfig) -> None:
        super().__init__()
        self.network = network
        self.core = Core(config.recurrent, network.num_features, config.recurrent_size)
        self.normalizes = network.normalizes

    def take_statistics(self, mean: Tensor, scale: Tensor) -> None:
        self.network.take_statistics(mean, scale)

    def start(self, num_envs: int) -> Tensor:
        return self.core.start(num_envs)

    def step(self, observations: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        output, state = self.core(self.network.features(observations), state)
        return self.network.logits(output), state

    def value_after(self, observations: Tensor, state: Tensor) -> Tensor:
        output, _ = self.core(self.network.features(observations), state)
        return self.network.values(output)

    def unroll(
        self,
        observations: Tensor,
        state: Tensor,
        resets: NDArray[np.bool_],
        places: Sequence[tuple[int, int]],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One call of the kernel for each stretch of rows between two resets of any environment."""
        features = self.network.features(observations.flatten(0, 1)).view(*observations.shape[:2], -1)
        # Without resets one call of the kernel takes all rows; each row with a reset needs one more call.
        cuts = [0, *(np.flatnonzero(resets[1:].any(axis=1)) + 1).tolist(), len(resets)]
        outputs = []
        after = {}
        for begin, end in itertools.pairwise(cuts):
            if resets[begin].any():
                state = kept(state, resets[begin])
            output, state = self.core.run(features[begin:end], state)
            outputs.append(output)
            after[end - 1] = state.detach()
        rows = torch.cat(outputs).flatten(0, 1)
        states = state[:, :0].detach()
        if places:
            states = torch.stack([after[t][:, n] for t, n in places], dim=1)
        return self.network.logits(rows[: -observations.shape[1]]), self.network.values(rows), states


def with_core(network: Split, config: CoreConfig) -> ActorCritic:
    """Returns the network with the core that its configuration names, or the network itself for none."""
    if config.has_core:
        return Recurrent(network, config)
    return network


def unroll_steps(
    network: ActorCritic, observations: Tensor, state: Tensor, resets: Tensor
) -> tuple[Tensor, Tensor]:
    """One pass over L steps of M environments, without what follows them.

    Args:
        observations: `[L, M, ...]`. state: before the first step, `[K, M, H]`.
        resets: before which steps that state becomes 0, `[L, M]`, bool.

    Returns:
        Logits `[L·M, A]` and values `[L·M]`.
    """
    num_steps, num_envs = resets.shape
    # `unroll` gives logits of every row but the last: an extra row at the end, whose value is not used.
    rows = torch.cat((observations, observations[-1:]))
    no_resets = torch.zeros(1, num_envs, dtype=torch.bool)
    logits, values, _ = network.unroll(rows, state, torch.cat((resets, no_resets)).numpy(), ())
    return logits, values[: num_steps * num_envs]


def kept(state: Tensor, resets: NDArray[np.bool_]) -> Tensor:
    """The state `[K, N, H]` with 0 in the environments of `resets` `[N]`."""
    return state * torch.from_numpy(~resets).to(state.device).unsqueeze(-1)
