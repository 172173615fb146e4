"""The floor: a step of training as a competent person writes it by hand for this network and nothing else.

Every contestant takes turns with it, step by step, so that a slow second of the machine strikes both alike.
"""

from time import perf_counter, process_time

import torch
from torch import Tensor
from torch.nn import functional as fn

from benchmarks.sizes import ETA, MOMENTUM, WEIGHT_DECAY, Size
from everlearn.models import Network


def step(network: Network, optimiser: torch.optim.Optimizer, x: Tensor, y: Tensor, idx: Tensor) -> None:
    """One minibatch, picked by index."""
    optimiser.zero_grad()
    loss = fn.cross_entropy(network(x.index_select(0, idx))[-1], y.index_select(0, idx))
    loss.backward()
    optimiser.step()


class Floor:
    """A plain loop that stands still between its steps: channels last, SGD fused; the fastest as a rule."""

    def __init__(self, size: Size) -> None:
        self.x, self.y = size.batch(1)
        self.idx = torch.arange(size.minibatch)
        self.network = size.make_network().train()
        self.network.memory_format = torch.channels_last
        parameters = self.network.parameters()
        self.optimiser = torch.optim.SGD(parameters, ETA, MOMENTUM, weight_decay=WEIGHT_DECAY, fused=True)
        self.step()  # warms up its kernels and memory
        self.steps, self.seconds, self.cpu = 0, 0.0, 0.0

    def step(self) -> None:
        """The next step; in training mode, whatever the contestant is doing."""
        with torch.inference_mode(mode=False), torch.enable_grad():
            step(self.network, self.optimiser, self.x, self.y, self.idx)

    def take_a_turn(self) -> None:
        """The next step, on the floor's own clock."""
        start, cpu = perf_counter(), process_time()
        self.step()
        self.steps += 1
        self.seconds += perf_counter() - start
        self.cpu += process_time() - cpu
