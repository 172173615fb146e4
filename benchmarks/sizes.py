"""What is measured: networks, data shaped like CIFAR-100's and CORe50's, and how much of it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from everlearn.models import Network, caffenet_128, cifarnet

ETA, MOMENTUM, WEIGHT_DECAY = 1e-3, 0.9, 5e-4
EVALUATION_MINIBATCH = 256


@dataclass(frozen=True)
class Size:
    """One measurement: a network, and a stream of two batches with `new` classes each, B_1 being as short as can be:
    two minibatches, the second not whole, since EWC needs more than one.

    minibatches: of B_2, each of `minibatch` patterns; epochs: over B_2, for whatever trains all weights; frozen_epochs:
    for whatever trains the output layer alone; tests: patterns to evaluate; plain: the plain loops that take part in
    training, all if none are named; usual: the steps, and the epochs that they are in, of a batch with as many patterns
    as the paper's, where a batch of so few as are measured would tell mostly what one costs before its first step and
    after its last.
    """

    network: str
    classes: int
    new: int
    minibatches: int
    epochs: int
    frozen_epochs: int
    tests: int
    minibatch: int = 128
    plain: tuple[str, ...] = ()
    usual: tuple[int, int] | None = None

    @property
    def n(self) -> int:
        """The patterns of B_2."""
        return self.minibatches * self.minibatch

    @property
    def steps(self) -> dict[str, int]:
        """The minibatches of each job."""
        return {
            "train": self.epochs * self.minibatches,
            "frozen": self.frozen_epochs * self.minibatches,
            "evaluate": -(-self.tests // EVALUATION_MINIBATCH),
            "look": -(-self.n // EVALUATION_MINIBATCH),
        }

    @property
    def turns(self) -> dict[str, int]:
        """After how many minibatches of each job the floor takes its turn: some five times in `frozen`, else always."""
        return {"train": 1, "frozen": max(1, self.steps["frozen"] // 5), "evaluate": 1, "look": 1}

    def make_network(self) -> Network:
        """The network, with a row for every class."""
        return cifarnet(self.classes) if self.network == "cifarnet" else caffenet_128(self.classes)

    def batch(self, i: int) -> tuple[Tensor, Tensor]:
        """B_1 or B_2: uint8 noise, and classes that come in equal shares; what is in the patterns takes no time."""
        return self._noise(i, 5 * self.minibatch // 4 if i == 1 else self.n, (i - 1) * self.new, self.new)

    def test(self) -> tuple[Tensor, Tensor]:
        """Test patterns of the classes of both batches."""
        return self._noise(3, self.tests, 0, 2 * self.new)

    def _noise(self, seed: int, n: int, first: int, classes: int) -> tuple[Tensor, Tensor]:
        side = 32 if self.network == "cifarnet" else 128
        generator = torch.Generator().manual_seed(seed)
        x = torch.randint(0, 256, (n, 3, side, side), dtype=torch.uint8, generator=generator)
        return x, first + torch.arange(n) % classes


SIZES = {
    "cifarnet": Size("cifarnet", 100, 10, minibatches=20, epochs=1, frozen_epochs=20, tests=5120),
    "caffenet-128": Size(
        "caffenet-128",
        50,
        5,
        minibatches=8,
        epochs=1,
        frozen_epochs=20,
        tests=512,
        minibatch=64,
        plain=("plain", "plain channels_last fused"),
        usual=(375, 2),  # minibatches of 64, epochs over five objects' 12,000 frames
    ),
    "trial": Size("cifarnet", 100, 10, minibatches=4, epochs=1, frozen_epochs=20, tests=512),
    "tiny": Size("cifarnet", 100, 10, minibatches=2, epochs=1, frozen_epochs=2, tests=64, minibatch=32),
}
"""By name. A step of CaffeNet takes seconds. `trial` is short; `tiny` shows that everything works, and says nothing of
speed."""
