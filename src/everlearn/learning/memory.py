"""What a memory may do, and the null object that keeps nothing."""

from dataclasses import dataclass
from typing import Any, ClassVar

from everlearn.data.batch import Batch
from everlearn.learning.regulariser import Regulariser


@dataclass
class Memory:
    """The verbs of a memory, each doing nothing."""

    name: ClassVar[str] = "none"
    shaping: ClassVar[tuple[str, ...]] = ()  # knobs that a state must share

    def refuses(self, regulariser: Regulariser) -> str:
        """Why this memory makes no sense beside a regulariser, '' where it does."""
        return ""

    @property
    def restarts(self) -> bool:
        """Whether every batch is learnt from the initial weights."""
        return False

    def mix(self, batch: Batch) -> Batch:
        """What is trained on in place of B_i."""
        return batch

    def store(self, batch: Batch) -> None:
        """B_i is learnt: keep what is to be kept of it."""

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave."""


@dataclass
class NoMemory(Memory):
    """Nothing is kept of old batches."""
