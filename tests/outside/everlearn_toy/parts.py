"""A network and a source of somebody else's."""

import numpy as np
import torch
from torch import nn

from everlearn.data.source import Patterns, Source
from everlearn.models import Network, wrap


def linear(classes: int, input_shape: tuple[int, int, int], *, normalise: bool, seed: int) -> Network:
    """one hidden layer on plain pixels, for any shape

    normalise: whether patterns are bytes.
    """
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(
            nn.Flatten(), nn.Linear(int(np.prod(input_shape)), 16), nn.ReLU(), nn.Linear(16, classes)
        )
    return wrap(module, ["3"], torch.zeros(1, *input_shape), normalise=Bytes() if normalise else None)


class Bytes(nn.Module):
    """From bytes to [0, 1]."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.float() / 255


def stripes() -> Source:
    """six classes of stripes, 6×6"""
    rng = np.random.default_rng(0)
    pictures = np.stack([np.tile(np.arange(6) % (c + 2) == 0, (6, 1)) for c in range(6)]).astype(np.float32)

    def drawn(n: int) -> Patterns:
        y = np.arange(6).repeat(n)
        return Patterns((pictures[y] + 0.1 * rng.standard_normal((6 * n, 6, 6)))[:, None].astype(np.float32), y)

    return Source("toy-stripes", drawn(12), drawn(4), tuple(f"every {c + 2}" for c in range(6)), synthetic=True)
