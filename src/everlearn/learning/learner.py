"""The outer protocol: what runs, evaluation and reports know of a learner, whatever it is inside."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from everlearn._kit.state import State
from everlearn.data.batch import Array, Batch, check_batch
from everlearn.learning.evaluation import Accuracy, accuracy
from everlearn.learning.storage import Ledger

Rows = Literal["all", "seen"]


@dataclass(frozen=True)
class Step:
    """One step of SGD, just made: batch i, epoch and step (1-based), of how many of each, and its loss and η."""

    i: int
    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    eta: float


OnStep = Callable[[Step], object]


class Learner(ABC):
    """Learns batches one after the other, and tells apart all classes met so far.

    i_ is the number of batches begun.
    """

    i_: int

    @property
    @abstractmethod
    def classes_(self) -> list[int]:
        """The class of each row."""

    @abstractmethod
    def learn(self, batch: Batch, on_step: OnStep | None = None) -> None:
        """Learn B_i, or leave the learner as it was before the call.

        After each step on_step is told; there state_dict() may be taken, to go on from the middle of the batch.
        PyTorch's global generator is the training's own until learn returns, and then as it was before.
        """

    def check_stream(self, batches: Sequence[Sequence[int]]) -> None:  # noqa: B027
        """Refuse a stream by the classes of its batches, B_1 first, where it cannot be learnt to the end."""

    @abstractmethod
    def columns(self, rows: Rows = "seen", *, batch: int | None = None) -> list[int]:
        """The rows that `scores` has as columns."""

    @abstractmethod
    def scores(self, x: Array, rows: Rows = "seen", *, batch: int | None = None) -> Tensor:
        """A score for each pattern and each of `columns(rows, batch=batch)`; the highest is the prediction.

        rows: over the classes seen so far, or over all rows. batch: over the classes of one batch (MT: the task known).
        """

    @property
    @abstractmethod
    def knows_task(self) -> bool:
        """Whether it can only be asked with the task known (MT)."""

    @abstractmethod
    def diagnostics(self) -> dict[str, Any]:
        """What to record of the batch just learnt: `lam` and `eta`, the λ and the largest η used, `F_hat` and its clip
        `max_F`, `F`, which F̂ is formed from, and `F_i`, the histogram of F^i; None where there is none.
        """

    @abstractmethod
    def weights(self) -> dict[str, Tensor]:
        """Every weight and statistic by name, as it is now; not copies."""

    @abstractmethod
    def state_dict(self) -> State:
        """Everything learnt, also in the middle of a batch."""

    @abstractmethod
    def load_state_dict(self, state: State) -> None:
        """Take back a state, of this learner or of one built alike; a state that does not fit changes nothing."""

    @abstractmethod
    def storage(self) -> Ledger:
        """The paper's formula for this strategy beside what it really keeps."""

    def predict(self, x: Array, rows: Rows = "seen", *, batch: int | None = None) -> Tensor:
        """The class of the highest score for each pattern."""
        best = self.scores(x, rows, batch=batch).argmax(dim=1).cpu()
        classes = self.classes_
        return torch.tensor([classes[row] for row in self.columns(rows, batch=batch)])[best]

    def evaluate(self, batch: Batch, *, task: int | None = None) -> Accuracy:
        """Accuracy over all rows and over the classes seen; task: with scores over one batch's classes (MT)."""
        check_batch(batch)
        y = batch.y.cpu().numpy()
        if task is not None:
            known = accuracy(self.predict(batch.x, batch=task).numpy(), y)
            return Accuracy(known, known)
        rows = [*self.columns("all")]
        seen = torch.tensor([rows.index(row) for row in self.columns("seen")], dtype=torch.long)
        if not len(seen):
            self.scores(batch.x, "seen")  # refuses, and says why
        scores = self.scores(batch.x, "all").cpu()  # one pass for both
        classes = torch.tensor(self.classes_)[rows]
        every, among_seen = classes[scores.argmax(dim=1)], classes[seen][scores[:, seen].argmax(dim=1)]
        return Accuracy(all_rows=accuracy(every.numpy(), y), seen=accuracy(among_seen.numpy(), y))
