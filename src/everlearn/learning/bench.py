"""The bench: what a slot may work with. It is given once, when the slot is attached, and is all that it gets."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from everlearn._kit.keyed import keyed_generator
from everlearn.data.batch import Batch
from everlearn.learning import passes
from everlearn.learning.loss import L_of, Loss
from everlearn.learning.parallel import Ranks
from everlearn.learning.theta import Scope, Theta
from everlearn.learning.training import Training

if TYPE_CHECKING:
    from everlearn.learning.head import Head
    from everlearn.learning.memory import Memory

PASS_MINIBATCH = 256
"""Patterns that pass the network together where nothing is trained."""


class RowBook:
    """Which class has which row of the output layers; to be read, not written."""

    def __init__(self, head: "Head") -> None:
        self._head = head

    def __len__(self) -> int:
        return self._head.s

    @property
    def classes(self) -> list[int]:
        """The class of each row."""
        return list(self._head.classes_)

    @property
    def seen(self) -> list[int]:
        """The rows of the classes seen so far, ascending."""
        return self._head.seen_

    @property
    def batches(self) -> list[list[int]]:
        """The rows of B_1, B_2, …"""
        return [list(rows) for rows in self._head.batches_]

    def of(self, y: Tensor) -> Tensor:
        """The row of each class."""
        return self._head.rows_of(y)

    def distilled(self) -> Tensor | None:
        """The rows that an old network's predictions are taken over; None for all."""
        return self._head.distilled_rows()


class Bench:
    """What a slot may work with.

    theta: Θ, all weights as one vector. scope: the part of it that a regulariser holds: all, or Θ̄ under a head that
    takes care of its rows itself. rows: which class has which row. memory: what is kept of old batches. training: how
    SGD is run. seed: of everything random, which `generator` draws by.

    `features`, `logits` and `gradient` are one pass each, in evaluation mode. They draw no random number, and leave the
    gradient of the step at hand alone, so a slot may ask for them at any time.
    """

    def __init__(
        self, theta: Theta, head: "Head", memory: "Memory", training: Training, seed: int, ranks: Ranks
    ) -> None:
        self.theta, self.memory, self.training, self.seed = theta, memory, training, seed
        self.scope = Scope(theta, shared_only=head.shared_only)
        self.rows = RowBook(head)
        self._head, self._ranks = head, ranks

    @property
    def device(self) -> torch.device:
        """Where Θ lies."""
        return self.theta.value.device

    def generator(self, *key: str | int) -> torch.Generator:
        """Random numbers by key: the same for the same seed and key, whatever else was drawn.

        Args:
            key: what for, and where in the stream: ("reservoir", i).
        """
        return keyed_generator(self.seed, *key)

    def features(self, x: Tensor) -> Tensor:
        """What enters the last output layer, for all patterns x: [n, …]."""
        return passes.features(self.theta.network, x, PASS_MINIBATCH, self._ranks)[-1]

    def logits(self, x: Tensor) -> list[Tensor]:
        """Every output layer's logits for all patterns x, each [n, rows], with the weights as they stand."""
        return passes.logits(self.theta.network, x, PASS_MINIBATCH, self._ranks)

    def L_cross(self, outputs: tuple[Tensor, ...], y: Tensor) -> Tensor:
        """The loss that a plain network is trained with.

        Args:
            outputs: every output layer's logits.
            y: the true rows, [n].
        """
        return L_of(self._head.outputs, outputs, lambda _k, _o: [self._head.hard_targets(y)])

    def gradient(self, batch: Batch, loss: Loss | None = None) -> Tensor:
        """∂L/∂θ over `scope`, for a mean loss over a batch; zeros for what L does not depend on or what is frozen.

        Args:
            batch: patterns and their classes, which must have rows.
            loss: from every output's logits and the true rows; `L_cross` by default.
        """
        x, y = batch.x.to(self.device), self.rows.of(batch.y).to(self.device)
        return passes.gradient(self.theta, self.scope, loss or self.L_cross, x, y, self._ranks)

    def gradients(self, batch: Batch, key: str, i: int) -> passes.Gradients:
        """The gradients of L_cross over a batch, by minibatches or pattern by pattern, once B_i is trained on.

        Args:
            batch: patterns and their classes.
            key, i: of the random order, so that minibatches are fair samples.
        """
        x, y = batch.x.to(self.device), self.rows.of(batch.y).to(self.device)
        order = torch.randperm(len(y), generator=keyed_generator(self.seed, key, i)).to(self.device)
        return passes.Gradients(self.theta, self.scope, self.L_cross, x, y, order, self._ranks)
