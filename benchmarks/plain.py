"""Training and inference as a competent person writes them by hand for this network and nothing else, in many ways."""

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.contestants import COMPILED
from benchmarks.floor import step
from benchmarks.sizes import ETA, EVALUATION_MINIBATCH, MOMENTUM, WEIGHT_DECAY, Size
from benchmarks.worker import Contestant, serve
from everlearn.models import Network

VARIANTS = {
    "plain": (False, {}),
    "plain channels_last": (True, {}),
    "plain foreach": (False, {"foreach": True}),
    "plain fused": (False, {"fused": True}),
    "plain channels_last foreach": (True, {"foreach": True}),
    "plain channels_last fused": (True, {"fused": True}),
    COMPILED: (True, {"fused": True}),
}
"""Whether patterns lie channels last, and options of SGD; the weights lie as the network has them."""


def train(
    network: Network,
    optimiser: torch.optim.Optimizer,
    data: tuple[Tensor, Tensor],
    epochs: int,
    size: int,
    between: Callable[[], object] = lambda: None,
) -> None:
    """SGD over minibatches picked by index from one tensor."""
    network.train()
    for _ in range(epochs):
        for idx in torch.randperm(len(data[0])).split(size):
            step(network, optimiser, *data, idx)
            between()


def infer(network: Network, x: Tensor, between: Callable[[], object] = lambda: None) -> Tensor:
    """The best row for every pattern."""
    network.eval()
    found = []
    with torch.inference_mode():
        for part in x.split(EVALUATION_MINIBATCH):
            found.append(network(part)[-1].argmax(dim=1))
            between()
        return torch.cat(found)


class Plain(Contestant):
    """`train` trains on B_2, `evaluate` predicts the test patterns, `look` predicts B_2's."""

    def __init__(self, name: str, job: str, size: Size) -> None:
        super().__init__(name, job, size)
        self.first, self.second, self.test = size.batch(1), size.batch(2), size.test()
        torch.optim.SGD([torch.zeros(1)], ETA)  # imports what it needs, as others have done by now

    def prepare(self) -> Callable[[], object]:
        size = self.size
        channels_last, options = VARIANTS[self.name]
        network = size.make_network()
        network.memory_format = torch.channels_last if channels_last else torch.contiguous_format
        sgd = torch.optim.SGD(network.parameters(), ETA, MOMENTUM, weight_decay=WEIGHT_DECAY, **options)
        if self.name == COMPILED:
            network.compile()
        if self.job == "train":
            train(network, sgd, self.first, 1, size.minibatch)
            return lambda: train(network, sgd, self.second, size.epochs, size.minibatch, self.between)
        x = (self.test if self.job == "evaluate" else self.second)[0]
        infer(network, x[:EVALUATION_MINIBATCH])
        return lambda: infer(network, x, self.between)


if __name__ == "__main__":
    serve(Plain)
