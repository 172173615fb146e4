"""Count what a step asks of PyTorch, and how many values it reads and writes: noise does not touch these.

    python -m benchmarks.operations

Ours is the second step of B_2, which begins an epoch as the plain loop's step does. Operations that only make a view
are left out.
"""

from collections import Counter
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.plain import train
from benchmarks.sizes import ETA, MOMENTUM, SIZES, WEIGHT_DECAY, Size
from everlearn import PRESETS, Batch, build
from everlearn.learning.learner import Step


class Count(TorchDispatchMode):
    """Operations by name, and the values that they touch."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations: Counter[str] = Counter()
        self.values = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.operations[func._schema.name.removeprefix("aten::")] += 1
            touched = tree_leaves([args, kwargs or {}, result])
            self.values += sum(one.numel() for one in touched if isinstance(one, Tensor))
        return result

    def minus(self, other: "Count") -> "Count":
        """What this one has more, operation by operation."""
        rest = Count()
        every = self.operations | other.operations
        rest.operations = Counter({op: self.operations[op] - other.operations[op] for op in every})
        rest.values = self.values - other.values
        return rest


def plain_step(size: Size, **options: bool) -> Count:
    """A step of the plain loop, and the order of its epoch."""
    network, (x, y) = size.make_network(), size.batch(2)
    sgd = torch.optim.SGD(network.parameters(), ETA, MOMENTUM, weight_decay=WEIGHT_DECAY, **options)
    batch = x[: size.minibatch], y[: size.minibatch]
    train(network, sgd, batch, 1, size.minibatch)  # SGD makes its momentum
    count = Count()
    with count:
        train(network, sgd, batch, 1, size.minibatch)
    return count


class EnoughError(Exception):
    """The step that was to be counted has been made."""


def our_step(name: str, size: Size) -> Count:
    """A step of a preset in B_2: the second, which begins an epoch."""
    knobs = {"training.first.epochs": 1, "training.minibatch": size.minibatch}
    knobs |= {"training.later.epochs": 2} | ({"ewc.minibatch": size.minibatch // 2} if "ewc" in name else {})
    learner = build(name, size.make_network(), knobs=knobs)
    learner.learn(Batch(*size.batch(1)))
    count = Count()

    def on_step(step: Step) -> None:
        if step.step == 1:
            count.__enter__()  # type: ignore[no-untyped-call]
        elif step.step == 2:
            count.__exit__(None, None, None)  # type: ignore[no-untyped-call]
            raise EnoughError

    with suppress(EnoughError):
        learner.learn(Batch(*(part[: size.minibatch] for part in size.batch(2))), on_step=on_step)
    return count


def main() -> None:
    """Print the plain loop's count, and what every preset does beyond it."""
    size = SIZES["tiny"]
    floor, m = plain_step(size), sum(p.numel() for p in size.make_network().parameters())

    def line(name: str, count: Count, more: object = "") -> str:
        return f"{name:<14} {count.operations.total():4} operations, {count.values / m:5.1f}·m values touched {more}"

    print(line("plain", floor))
    print(line("plain foreach", plain_step(size, foreach=True)))
    print(line("plain fused", plain_step(size, fused=True)))
    for name in PRESETS:
        count = our_step(name, size)
        print(line(name, count, {op: n for op, n in count.minus(floor).operations.items() if n}))


if __name__ == "__main__":
    main()
