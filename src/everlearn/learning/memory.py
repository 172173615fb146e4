"""What a memory may do, and the null object that keeps nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from everlearn._kit.knobs import learnt_names
from everlearn.data.batch import Batch
from everlearn.learning.bench import Bench
from everlearn.learning.loss import Replayed
from everlearn.learning.regulariser import Regulariser


@dataclass
class Memory:
    """The verbs of a memory, each doing nothing; a subclass says what it does more.

    The loop calls `mix` once a batch, `replay` at every step, and `store` when B_i is learnt.
    """

    name: ClassVar[str] = "none"
    shaping: ClassVar[tuple[str, ...]] = ()  # knobs that a state must share
    why: ClassVar[dict[str, str]] = {}  # what each field that holds tensors is, for the ledger

    bench: Bench = field(init=False, repr=False, compare=False)

    def attach(self, bench: Bench) -> None:
        """Take what it may work with.

        Args:
            bench: all that the memory may work with: Θ and its network, the rows, the training, the seed.
        """
        self.bench = bench

    def refuses(self, regulariser: Regulariser) -> str:
        """Why this memory makes no sense beside a regulariser, '' where it does.

        Args:
            regulariser: the regulariser that stands beside it.
        """
        return ""

    @property
    def restarts(self) -> bool:
        """Whether every batch is learnt from the initial weights."""
        return False

    def mix(self, batch: Batch) -> Batch:
        """B_i's training data, which epochs go over: B_i itself, or more.

        Args:
            batch: B_i as it came.
        """
        return batch

    def replay(self, i: int, step: int) -> Replayed | None:
        """Old patterns that join the minibatch of this step of B_i; None for none.

        They may depend on i, on the step and on what is kept, and on nothing else: a resumed batch asks again.

        Args:
            i: the number of the batch (1-based).
            step: the step within B_i (0-based), over all its epochs.
        """
        return None

    def parts(self) -> Sequence[Batch]:
        """What is kept of B_1, B_2, …, one after the other."""
        return []

    def store(self, i: int, batch: Batch) -> None:
        """B_i is learnt: keep what is to be kept of it. `bench.features` gives features as B_i left the network.

        Args:
            i: the number of the batch (1-based).
            batch: B_i as it came, without what was mixed in.
        """

    def state(self) -> dict[str, Any]:
        """All that is kept: tensors and plain values. Kept tensors are replaced, never written into.

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
class NoMemory(Memory):
    """Nothing is kept of old batches."""
