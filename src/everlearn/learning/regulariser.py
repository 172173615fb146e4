"""What a regulariser may do, and the null object that does none of it."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from torch import Tensor

from everlearn._kit.histograms import Json
from everlearn._kit.knobs import learnt_names
from everlearn.data.batch import Batch
from everlearn.errors import ConfigError, sentence
from everlearn.learning.bench import Bench
from everlearn.learning.loss import Minibatch, Term, Terms
from everlearn.learning.theta import Extend

Trunk = Literal["dropout", "evaluation", "still"]
"""How a frozen trunk runs: with dropout inside it, in evaluation mode, or so and only once a batch."""


@dataclass
class Regulariser:
    """The verbs of a regulariser, each doing nothing; a subclass says what it does more.

    The loop calls them in this order: `prepare` once before the head is made ready for B_i, `grow` if the head grew,
    `begin`, then at every step `loss_terms`, `constrain` after the backward pass and `observe` after SGD's step, and
    `consolidate` when B_i is learnt. `bench.scope` is the part of Θ that it holds.
    """

    name: ClassVar[str] = "none"
    shaping: ClassVar[tuple[str, ...]] = ()  # knobs that a state must share
    takes_replay: ClassVar[bool] = True  # whether its terms know what to do with replayed patterns
    together: ClassVar[bool] = False  # whether tensors among its terms are means over all rows of the logits
    why: ClassVar[dict[str, str]] = {}  # what each field that holds tensors is, for the ledger

    bench: Bench = field(init=False, repr=False, compare=False)

    def attach(self, bench: Bench) -> None:
        """Take what it may work with.

        Args:
            bench: all that the regulariser may work with: its part of Θ, the rows, the training, the seed.
        """
        self.bench = bench

    def prepare(self, i: int, data: Batch) -> None:
        """See B_i's training data while the network is as B_{i−1} left it.

        Args:
            i: the number of the batch (1-based).
            data: B_i's training data, with what the memory mixes in.
        """

    def grow(self, extend: Extend) -> None:
        """Θ was laid out anew: extend whatever is laid out like it.

        Args:
            extend: takes a vector laid out like Θ was, and gives it as Θ is now; new rows are 0.
        """

    def begin(self, i: int) -> None:
        """Training on B_i begins, by `bench.training.phase(i)`.

        Args:
            i: the number of the batch (1-based).
        """

    def loss_terms(self, o: Tensor, hard: Term, at: Minibatch) -> Terms:
        """One output layer's loss terms, from its logits.

        Args:
            o: the logits, [n, rows].
            hard: L_cross with the true rows as targets.
            at: which output layer and which patterns.

        Returns:
            The terms, `hard` among them or not: cross-entropies as `Term`, or any other scalar tensor.
        """
        return [hard]

    def check_together(self, terms: Terms, processes: int) -> None:
        """Refuse terms that several processes cannot share out: each has a part of the minibatch, weighted by its size.

        Args:
            terms: what `loss_terms` gave.
            processes: how many learn it together.
        """
        if processes > 1 and not self.together and not all(isinstance(term, Term) for term in terms):
            raise ConfigError(
                sentence(
                    f"{self.name}'s loss cannot be shared out between processes",
                    expected="cross-entropies, or together = True for means over all rows of the logits",
                    got="a tensor",
                    do="Start it without torchrun.",
                )
            )

    def constrain(self) -> None:
        """After the backward pass: change `bench.scope.grad`."""

    def observe(self) -> None:
        """After SGD's step: `bench.scope.v` is the update just made."""

    def consolidate(self, i: int, data: Batch) -> None:
        """Training on B_i has ended.

        Args:
            i: the number of the batch (1-based).
            data: B_i's training data, with what the memory mixes in.
        """

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
        """The paper's storage formula, in values.

        Args:
            m: the weights in scope.
            s: the rows of each output layer.
            outputs: the number of output layers.
            n_i: the patterns in the last batch's training data.
        """
        return 0

    def formula(self, *, shared_only: bool) -> str:
        """The paper's storage formula, in words.

        Args:
            shared_only: whether it holds Θ̄ alone, since the head takes care of its rows itself.
        """
        return ""

    def state(self) -> dict[str, Any]:
        """All that has been learnt: tensors and plain values. Kept tensors are replaced, never written into.

        By default every field that is learnt, that is whose name ends in `_`.
        """
        return {name: getattr(self, name) for name in learnt_names(self)}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave.

        Args:
            state: what `state` gave.
        """
        for name, value in state.items():
            setattr(self, name, value)


@dataclass
class NoRegulariser(Regulariser):
    """No regularisation: Naive, Cumulative."""
