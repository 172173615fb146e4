"""The loss of one minibatch: terms of every output layer, weighted and summed."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as fn
from torch import Tensor

from everlearn.models.network import Output


class Term(NamedTuple):
    """One term of the loss of one output layer: weight · L_cross(softmax(o[:, rows] / temperature), t).

    Args:
        weight: what the term is multiplied by.
        t: soft targets over these rows, [n, rows], or the index of the true row among them, [n].
        rows: the rows that the softmax is over; None for all.
        temperature: divides the logits.
    """

    weight: float
    t: Tensor
    rows: Tensor | None = None
    temperature: float = 1.0


class Replayed(NamedTuple):
    """Old patterns that join the minibatch of one step.

    x, y: the patterns and their classes. kept: whatever else the memory keeps of them (logits, say), a value a pattern.
    """

    x: Tensor
    y: Tensor
    kept: dict[str, Tensor] = {}  # noqa: RUF012, a NamedTuple's default is never written into


class Minibatch(NamedTuple):
    """What one step is made with.

    Args:
        output: the number of the output layer that the loss is asked for (0-based).
        idx: for each row of the logits its place in B_i's training data. Places from n on are replayed patterns,
            idx − n their places in `replayed`.
        n: the patterns in B_i's training data.
        s: the rows of the head.
        replayed: old patterns that joined the minibatch; None for none.
    """

    output: int
    idx: Tensor
    n: int
    s: int
    replayed: Replayed | None = None

    def old(self) -> tuple[Tensor, Tensor]:
        """Which rows of the logits are of replayed patterns, and the places of these in `replayed`."""
        mask = self.idx >= self.n
        return mask, self.idx[mask] - self.n


Terms = Sequence[Term | Tensor]
"""Terms of one output layer: cross-entropies, or any other tensor as it is."""


def L_of(outputs: Sequence[Output], logits: Sequence[Tensor], terms: Callable[[int, Tensor], Terms]) -> Tensor:
    """Every output layer's terms, weighted by the layer's share in the loss, and summed.

    Args:
        outputs: the output layers, for their `loss_weight`.
        logits: what each gives, [n, rows].
        terms: the terms of layer k from its number and its logits.

    Returns:
        L, a scalar that gradients flow from.
    """
    L = torch.zeros((), device=logits[-1].device)
    for k, (output, o) in enumerate(zip(outputs, logits, strict=True)):
        for term in terms(k, o):
            if isinstance(term, Term):
                chosen = o if term.rows is None else o[:, term.rows]
                scaled = chosen if term.temperature == 1.0 else chosen / term.temperature
                L = L + output.loss_weight * term.weight * fn.cross_entropy(scaled, term.t)
            else:
                L = L + output.loss_weight * term
    return L


Loss = Callable[[tuple[Tensor, ...], Tensor], Tensor]
"""A loss from every output's logits and the true rows."""
