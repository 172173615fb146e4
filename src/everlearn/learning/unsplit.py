"""Batch norm and dropout as if the minibatch had not been split between processes.

All other layers treat each pattern by itself. Batch norm takes its mean and variance over the whole minibatch, and
dropout draws the masks of the whole minibatch and takes the rows of its share, so the share's result is that of one
process with all of it.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from everlearn.learning.parallel import Ranks, Several


@contextmanager
def unsplit(network: nn.Module, ranks: Ranks) -> Iterator[None]:
    """Batch norm and dropout in training mode speak of the whole minibatch, in a network that is given shares of it.

    Dropout's masks are those of one process on the CPU, for `nn.Dropout` and its kinds for channels, with patterns
    along the first dimension. What draws random numbers otherwise draws the same ones in every process.
    """
    with ExitStack() as back:
        if isinstance(ranks, Several):
            for module in network.modules():
                if isinstance(module, _BatchNorm):
                    back.enter_context(_forward(module, batch_norm, ranks))
                elif isinstance(module, nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.Dropout3d):
                    back.enter_context(_forward(module, dropout, ranks))
        yield


@contextmanager
def _forward(module: Any, function: Callable[[Any, Several, Tensor], Tensor], ranks: Several) -> Iterator[None]:
    """The module computes this function for a while."""
    module.forward = partial(function, module, ranks)
    try:
        yield
    finally:
        del module.forward


def dropout(module: Any, ranks: Several, x: Tensor) -> Tensor:
    """The rows of this share from a mask of the whole minibatch."""
    rows, n, _ = ranks.place
    if not (module.training and 0 < module.p < 1 and len(x) == rows.stop - rows.start):
        own: Tensor = type(module).forward(module, x)
        return own
    shape = [n, *x.shape[1:]] if isinstance(module, nn.Dropout) else [n, x.shape[1], *[1] * (x.ndim - 2)]
    mask = torch.empty(shape, dtype=x.dtype, device=x.device, memory_format=_layout(x))
    return x * mask.bernoulli_(1 - module.p).div_(1 - module.p)[rows]


def batch_norm(module: Any, ranks: Several, x: Tensor) -> Tensor:
    """(x − mean) / √(var + ε), with mean and variance over the whole minibatch, and running statistics of them."""
    if not module.training:
        still: Tensor = type(module).forward(module, x)
        return still
    over = [0, *range(2, x.ndim)]
    shape = [1, -1, *[1] * (x.ndim - 2)]
    weight = float(ranks.place.counted)
    count = x.new_full((1,), x.numel() / x.shape[1])
    sums = summed(weight * torch.cat([x.sum(over), count]), ranks)
    n = float(sums[-1].detach())
    if n <= 1:  # one value a channel: refused as PyTorch refuses it, in every process
        refused: Tensor = type(module).forward(module, x)
        return refused
    mean = sums[:-1] / n
    away = x - mean.view(shape)
    var = summed(weight * away.square().sum(over), ranks) / n
    if module.track_running_stats:
        with torch.no_grad():
            module.num_batches_tracked.add_(1)
            new = 1 / float(module.num_batches_tracked) if module.momentum is None else module.momentum
            module.running_mean.mul_(1 - new).add_(mean, alpha=new)
            module.running_var.mul_(1 - new).add_(var, alpha=new * n / (n - 1))
    out = away * torch.rsqrt(var + module.eps).view(shape)
    if module.affine:
        out = out * module.weight.view(shape) + module.bias.view(shape)
    return out


class Sum(torch.autograd.Function):
    """The sum over all processes; its gradient is the sum of theirs, since every one's loss follows from it."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.sum(value)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.ranks.sum(grads[0]), None


def summed(value: Tensor, ranks: Ranks) -> Tensor:
    """`Sum` of a tensor."""
    total: Tensor = Sum.apply(value, ranks)  # type: ignore[no-untyped-call]
    return total


def _layout(x: Tensor) -> torch.memory_format:
    last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return torch.channels_last if last else torch.contiguous_format
