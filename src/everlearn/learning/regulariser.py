"""What a regulariser may do, and the null object that does none of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

from torch import Tensor

from everlearn._kit.histograms import Json
from everlearn.learning.passes import Gradients
from everlearn.learning.theta import Extend, Scope

Predictions = Callable[[], list[Tensor]]
"""Gives every output layer's logits for the patterns of B_i, over the rows to distil."""


Trunk = Literal["dropout", "evaluation", "still"]
"""How a frozen trunk runs: with dropout inside it, in evaluation mode, or so and only once a batch."""


class Term(NamedTuple):
    """One term of the loss of one output layer: weight · L_cross(softmax(o[:, rows] / temperature), t).

    t: soft targets over these rows, or the index of the true row among them; rows: None for all.
    """

    weight: float
    t: Tensor
    rows: Tensor | None = None
    temperature: float = 1.0


@dataclass
class Regulariser:
    """The verbs of a regulariser, each doing nothing; a subclass says what it does more.

    The loop calls them in this order: `look` once before the head is made ready for B_i, `grow` if the head grew,
    `begin`, then at every step `targets`, `constrain` after the backward pass and `observe` after SGD's step, and
    `consolidate` when B_i is learnt.
    """

    name: ClassVar[str] = "none"
    shaping: ClassVar[tuple[str, ...]] = ()  # knobs that a state must share

    def look(self, i: int, n_i: int, rows: Tensor | None, predictions: Predictions) -> None:
        """See B_i through the network as B_{i−1} left it; rows are those to distil, None for all."""

    def grow(self, extend: Extend) -> None:
        """Θ was laid out anew: extend whatever is laid out like it."""

    def begin(self, theta: Scope, i: int, etas: tuple[float, float], bias_eta: float, momentum: float) -> None:
        """Training on B_i begins; etas are the smallest and the largest η of the batch, bias_eta is biases' factor."""

    def targets(self, output: int, idx: Tensor, hard: Term, s: int) -> list[Term]:
        """One output layer's loss terms for the patterns idx of B_i.

        hard: L_cross with one-hot targets; s: the rows of the head.
        """
        return [hard]

    def constrain(self, theta: Scope) -> None:
        """After the backward pass: change theta.grad."""

    def observe(self, theta: Scope) -> None:
        """After SGD's step: theta.v is the update just made."""

    def consolidate(self, theta: Scope, i: int, gradients: Gradients) -> None:
        """Training on B_i has ended."""

    @property
    def distils(self) -> bool:
        """Whether the loss of the batch at hand has terms on old rows."""
        return False

    @property
    def trunk(self) -> Trunk:
        """How the trunk runs in batches that it is frozen in."""
        return "still"

    @property
    def strength(self) -> float | None:
        """The λ of the last batch, where there is one."""
        return None

    def importance(self) -> Tensor | None:
        """F̂ as the next batch will be held by it, where there is one."""
        return None

    def information(self) -> Tensor | None:
        """F, which F̂ is formed from, where there is one."""
        return None

    def of_batch(self) -> Json | None:
        """The histogram of F^i, of the batch that was learnt last; F^i itself is not kept."""
        return None

    def overhead(self, m: int, s: int, outputs: int, n_i: int) -> int:
        """The paper's storage formula, in values, for m weights in scope."""
        return 0

    def formula(self, *, shared_only: bool) -> str:
        """The paper's storage formula, in words."""
        return ""

    def state(self) -> dict[str, Any]:
        """All that has been learnt: tensors and plain numbers. Kept tensors are replaced, never written into."""
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave."""


@dataclass
class NoRegulariser(Regulariser):
    """No regularisation: Naive, Cumulative."""
