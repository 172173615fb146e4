"""Caffe's rules, for the networks that the paper took from there.

Convolutions round their sizes down and poolings up; a pooling window that hangs over the edge is clipped. Local
response normalisation is over 5 channels. Caffe's networks train biases at twice the learning rate and without weight
decay: that is `Training`'s business (`bias_eta=2`, `bias_decay=0`), and every setting in `everlearn.paper` says so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt

import torch
from torch import Tensor, nn

from everlearn._kit.keyed import keyed_generator
from everlearn.models.network import Network

MEAN_BGR = (104.0, 117.0, 123.0)


class CaffeInput(nn.Module):
    """RGB patterns from 0 to 255, uint8 or float, as Caffe's networks take them: BGR minus (104, 117, 123).

    Args:
        mean: what is subtracted, by channel: blue, green, red.

    >>> red = torch.tensor([255, 0, 0], dtype=torch.uint8).view(1, 3, 1, 1)
    >>> CaffeInput()(red).flatten()
    tensor([-104., -117.,  132.])
    """

    mean: Tensor

    def __init__(self, mean: Sequence[float] = MEAN_BGR) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Turn RGB into BGR, and subtract the mean.

        Args:
            x: patterns, [n, 3, height, width], RGB.
        """
        return x.flip(1).to(self.mean.dtype) - self.mean


def max_pool(kernel: int, stride: int, padding: int = 0) -> nn.MaxPool2d:
    """Caffe's max pooling: ⌈(size + 2·padding − kernel) / stride⌉ + 1 windows.

    >>> max_pool(3, 2)(torch.zeros(1, 1, 122, 122)).shape[-1]
    61
    """
    return nn.MaxPool2d(kernel, stride, padding, ceil_mode=True)


def average_pool(kernel: int, stride: int) -> nn.AvgPool2d:
    """Caffe's average pooling; a clipped window is averaged over what is left of it.

    >>> average_pool(2, 2)(torch.tensor([[[[1.0, 3.0, 8.0]]]]).expand(1, 1, 2, 3))
    tensor([[[[2., 8.]]]])
    """
    return nn.AvgPool2d(kernel, stride, ceil_mode=True)


def lrn() -> nn.LocalResponseNorm:
    """x / (1 + (α / 5)·Σ x²)^β over 5 neighbouring channels, α = 1e-4, β = 0.75.

    >>> lrn()(torch.full((1, 1, 1, 1), 1000.0)).item()  # 1000 / 21^0.75
    101.93...
    """
    return nn.LocalResponseNorm(5, alpha=1e-4, beta=0.75, k=1.0)


@dataclass(frozen=True)
class Filler:
    """How a layer starts: weights from N(0, std²), or Caffe's xavier where std is None, and a constant bias.

    Caffe's xavier is uniform in ±√(3 / fan_in), fan_in being the weights of one output; PyTorch's takes fan_out too.
    """

    std: float | None = None
    bias: float = 0.0

    def fill_(self, layer: nn.Conv2d | nn.Linear, generator: torch.Generator) -> None:
        """Write initial values into a layer."""
        if self.std is None:
            bound = sqrt(3 / layer.weight[0].numel())
            nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
        else:
            nn.init.normal_(layer.weight, std=self.std, generator=generator)
        if layer.bias is not None:
            nn.init.constant_(layer.bias, self.bias)


def filled(network: Network, filler: Callable[[str], Filler], seed: int) -> Network:
    """The network with each layer started by the filler for its name; a layer's draw depends on seed and name alone."""
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            filler(name).fill_(module, keyed_generator(seed, "filler", name))
    return network
