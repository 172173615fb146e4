"""Small networks and streams that the tests share."""

import gc
import mmap
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from everlearn import PRESETS, Batch, Strategy, build
from everlearn._kit.keyed import keyed_generator
from everlearn.benchmarks import BENCHMARKS, Benchmark
from everlearn.data.source import Patterns, Source
from everlearn.models import Network, Output

CLASSES = 7
ORDER = ((0, 1, 2), (3, 4), (5, 6))
QUICK = {
    "training.minibatch": 8,
    "training.first.epochs": 2,
    "training.later.epochs": 2,
    "training.first.eta": 0.02,
    "training.later.eta": 0.01,
}
NAMES = list(PRESETS)


def is_mapped(x: Any) -> bool:
    """Whether an array's values lie in a file."""
    while isinstance(x, np.ndarray | memoryview):
        x = x.base if isinstance(x, np.ndarray) else x.obj
    return isinstance(x, mmap.mmap)


def toy_batch(classes: Sequence[int], n: int = 12, seed: int = 0, shape: tuple[int, ...] = (1, 8, 8)) -> Batch:
    """n patterns of each class around a centre of its own, shuffled."""
    centres = torch.randn(64, *shape, generator=torch.Generator().manual_seed(99))
    generator = keyed_generator(seed, *classes)
    y = torch.tensor(list(classes)).repeat(n)[torch.randperm(n * len(classes), generator=generator)]
    return Batch(centres[y] + 0.3 * torch.randn(len(y), *shape, generator=generator), y)


def toy_stream(order: Sequence[Sequence[int]] = ORDER, n: int = 12) -> list[Batch]:
    return [toy_batch(classes, n) for classes in order]


def toy_benchmark() -> Benchmark:
    """Ten classes in five batches, to take the place of digits, so that a run takes a moment."""
    train, test = (toy_batch(range(10), n=n, seed=seed) for n, seed in ((16, 0), (6, 1)))
    parts = [Patterns(b.x.numpy(), b.y.numpy()) for b in (train, test)]
    source = Source("toys", parts[0], parts[1], tuple(str(c) for c in range(10)))
    return Benchmark(lambda: source, BENCHMARKS["split-mnist"].stream)


class Trunk(nn.Module):
    """Batch norm and dropout inside, and a feature for each of three outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))
        self.high = nn.Sequential(nn.Dropout(0.2), nn.Conv2d(4, 6, 3, padding=1), nn.ReLU())
        self.top = nn.Sequential(nn.Flatten(), nn.Linear(96, 10), nn.ReLU())

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        low = self.low(x)
        high = self.high(low)
        return low.flatten(1), high, self.top(high)


def three_outputs(classes: int = CLASSES, seed: int = 0) -> Network:
    """Three output layers; the middle one ends in a ReLU and an average, as NiN does."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Network(
            Trunk(),
            [
                Output(nn.Linear(64, classes), loss_weight=0.3),
                Output(
                    nn.Conv2d(6, classes, 1),
                    tail=nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
                    loss_weight=0.3,
                ),
                Output(nn.Linear(10, classes), dropout=nn.Dropout(0.5)),
            ],
            input_shape=(1, 8, 8),
        )


def plain_network(classes: int = CLASSES, seed: int = 0, dropout: float = 0.5) -> Network:
    """One output layer with dropout directly before it, and no batch norm."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        trunk = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 9), nn.ReLU())
        return Network(trunk, [Output(nn.Linear(9, classes), dropout=nn.Dropout(dropout))], input_shape=(1, 8, 8))


def quick(name: str, network: Network | None = None, seed: int = 3, **knobs: Any) -> Strategy:
    """A learner that learns toys in a moment; knobs with __ for the dot."""
    fisher = {"ewc.minibatch": 8} if "ewc" in name else {}
    dotted = {knob.replace("__", "."): value for knob, value in knobs.items()}
    return build(name, network or plain_network(), knobs={**QUICK, **fisher, **dotted}, seed=seed)


def leaves(node: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf of a state, with its path."""
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, f"{name}/{key}")
    elif isinstance(node, list | tuple):
        for k, value in enumerate(node):
            yield from leaves(value, f"{name}/{k}")
    else:
        yield name, node


def assert_same_state(a: Any, b: Any) -> None:
    """Two states are equal bit for bit."""
    left, right = dict(leaves(a)), dict(leaves(b))
    assert left.keys() == right.keys()
    for name, value in left.items():
        if isinstance(value, Tensor):
            assert value.dtype == right[name].dtype, name
            assert torch.equal(value, right[name]), name
        else:
            assert value == right[name], name


def storages(tensors: list[Tensor]) -> dict[int, int]:
    return {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors if t.numel()}


def live_tensors() -> list[Tensor]:
    gc.collect()
    tensors = [o for o in gc.get_objects() if issubclass(type(o), Tensor)]  # isinstance would ask odd objects
    return [t for t in tensors if t.layout == torch.strided]  # other tests' sparse ones have no storage to ask


def until(what: Any, seconds: float = 300.0) -> Any:
    """Wait until it is true; what it gave then."""
    deadline = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found
