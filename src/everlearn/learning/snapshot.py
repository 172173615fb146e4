"""What a strategy answers at one moment: read only, for any number of threads."""

import copy
from collections.abc import Callable, Sequence
from typing import get_args

import torch
from torch import Tensor, nn

from everlearn.data.batch import Array, check_patterns
from everlearn.data.labels import Labels
from everlearn.errors import DataError, sentence
from everlearn.learning import passes
from everlearn.learning.bench import PASS_MINIBATCH
from everlearn.learning.head import Head
from everlearn.learning.learner import Predictor, Rows
from everlearn.models.network import Network


class Snapshot(Predictor):
    """A network in evaluation mode and the rows to test with, which nobody writes into.

    Weights are shared with the learner, not copied: when it learns on, it does so in new memory.
    """

    def __init__(self, network: Network, head: Head, labels: Labels) -> None:
        self.network = _alias(network, head.test_rows())
        self.head, self.labels = copy.copy(head), labels  # what a head has learnt is replaced, never written into
        vars(self.head).pop("bench", None)  # so that a snapshot holds no memory and no momentum

    @property
    def rows_(self) -> list[int]:
        return list(self.head.classes_)

    @property
    def knows_task(self) -> bool:
        return self.head.knows_task

    def columns(self, rows: Rows = "seen", *, batch: int | None = None) -> list[int]:
        if rows not in get_args(Rows):
            raise DataError(
                sentence("Unknown rows", expected=f"one of {get_args(Rows)}", got=repr(rows), do="Choose one.")
            )
        if batch is None:
            return self.head.seen_ if rows == "seen" else list(range(self.head.s))
        if not 1 <= batch <= len(self.head.batches_):
            raise DataError(
                sentence(
                    "There is no such batch",
                    expected=f"1 to {len(self.head.batches_)}",
                    got=batch,
                    do="Name a batch that has been learnt.",
                )
            )
        return sorted(self.head.batches_[batch - 1])

    def scores(self, x: Array, rows: Rows = "seen", *, batch: int | None = None) -> Tensor:
        """The head's own scores, or the last output layer's logits."""
        columns = self.columns(rows, batch=batch)
        self.head.check_question(columns, batch)
        patterns = self.network.check_input(check_patterns(x))
        every = passes.outputs(self.network, patterns, PASS_MINIBATCH, self._scores)
        return every[:, torch.tensor(columns, device=every.device)]

    def _scores(self, x: Tensor) -> Tensor:
        features = self.network.features(x)
        own = self.head.scores(features[-1])
        return self.network.logits(features)[-1] if own is None else own


def _alias(network: Network, rows: Sequence[Tensor] | None) -> Network:
    """The network once more, in evaluation mode, with the same memory for its weights; rows: its output layers' own."""
    shared: dict[int, Tensor] = {}
    for parameter in network.parameters():
        shared[id(parameter)] = nn.Parameter(parameter.detach(), requires_grad=False)
    for buffer in network.buffers():
        shared[id(buffer)] = buffer.detach()
    for module in network.modules():  # what a forward pass left behind, such as an activation, cannot be copied
        for value in vars(module).values():
            for part in value if isinstance(value, list | tuple) else [value]:
                if isinstance(part, Tensor) and id(part) not in shared:
                    shared[id(part)] = part.detach()
    twin: Network = copy.deepcopy(network, dict(shared))
    if rows is not None:
        _lay_in(twin, iter(rows).__next__)
    return twin.eval()


def _lay_in(network: Network, following: Callable[[], Tensor]) -> None:
    """Give the output layers these rows: all weights first, then all biases, as Θ has them."""
    parts = list(network.outputs.named_parameters())
    for _, parameter in sorted(parts, key=lambda part: part[0].endswith("bias")):
        parameter.data = following()
