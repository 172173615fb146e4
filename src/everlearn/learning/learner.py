"""The protocol of a learner: all that runs, engines, reports and pages know of one, whatever it is inside."""

import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import torch
from torch import Tensor

from everlearn._kit.state import State
from everlearn.data.batch import Array, Batch, as_batch
from everlearn.data.labels import Labels
from everlearn.learning.evaluation import Accuracy, accuracy
from everlearn.learning.storage import Ledger, measure

Rows = Literal["all", "seen"]


@dataclass(frozen=True)
class Step:
    """One step of SGD, just made.

    Args:
        i: the number of the batch (1-based).
        epoch: the epoch within the batch (1-based).
        epochs: how many epochs the batch has.
        step: the step within the batch (1-based), over all epochs.
        steps: how many steps the batch has.
        loss: L of the step's minibatch.
        eta: η, the learning rate of the step.
    """

    i: int
    epoch: int
    epochs: int
    step: int
    steps: int
    loss: float
    eta: float


OnStep = Callable[[Step], object]


class Predictor(ABC):
    """What may be asked of a learner, or of a snapshot of one. Asking never changes it."""

    labels: Labels

    @property
    @abstractmethod
    def rows_(self) -> list[int]:
        """The class of each column of `scores(x, "all")`, by its number."""

    @abstractmethod
    def columns(self, rows: Rows = "seen", *, batch: int | None = None) -> list[int]:
        """The places in `rows_` of the columns of `scores(x, rows, batch=batch)`.

        Args:
            rows, batch: as for `scores`.
        """

    @abstractmethod
    def scores(self, x: Array, rows: Rows = "seen", *, batch: int | None = None) -> Tensor:
        """A score for each pattern and each of `columns(rows, batch=batch)`; the highest is the prediction.

        Args:
            x: patterns, [n, …].
            rows: `seen` for the classes seen so far, `all` for every row that there is.
            batch: only the classes of this batch (1-based), for a task that is known (MT).
        """

    @property
    def knows_task(self) -> bool:
        """Whether it can only be asked with the task known (MT)."""
        return False

    @property
    def classes_(self) -> list[Any]:
        """The classes seen so far, as the user named them: one for each column of `scores(x)`."""
        return self.labels.names([self.rows_[row] for row in self.columns("seen")])

    def predict(self, x: Array, rows: Rows = "seen", *, batch: int | None = None) -> Any:
        """The class of the highest score for each pattern.

        Args:
            x: patterns, [n, …].
            rows, batch: as for `scores`.

        Returns:
            Classes as they were taught: a tensor of integers, or a NumPy array of other labels.
        """
        asked = self.snapshot()  # one state for all three questions
        best = asked.scores(x, rows, batch=batch).argmax(dim=1).cpu()
        numbers = torch.tensor([asked.rows_[row] for row in asked.columns(rows, batch=batch)])[best]
        return asked.labels.decode(numbers)

    def evaluate(self, batch: Any, *, task: int | None = None) -> Accuracy:
        """The share of patterns classified right, over all rows and over the classes seen.

        Args:
            batch: patterns with their classes, in any form that `learn` takes.
            task: the batch (1-based) whose classes alone are scored (MT).
        """
        asked = self.snapshot()
        known = asked.labels.encoded(as_batch(batch))
        y = known.y.cpu().numpy()
        if task is not None:
            columns = torch.tensor([asked.rows_[row] for row in asked.columns(batch=task)])
            share = accuracy(columns[asked.scores(known.x, batch=task).argmax(dim=1).cpu()].numpy(), y)
            return Accuracy(share, share)
        rows = [*asked.columns("all")]
        seen = torch.tensor([rows.index(row) for row in asked.columns("seen")], dtype=torch.long)
        if not len(seen):
            asked.scores(known.x, "seen")  # refuses, and says why
        scores = asked.scores(known.x, "all").cpu()  # one pass for both
        classes = torch.tensor(asked.rows_)[rows]
        every, among_seen = classes[scores.argmax(dim=1)], classes[seen][scores[:, seen].argmax(dim=1)]
        return Accuracy(all_rows=accuracy(every.numpy(), y), seen=accuracy(among_seen.numpy(), y))

    def snapshot(self) -> "Predictor":
        """What it answers now, for ever: any number of threads may ask it while the learner goes on."""
        return self


class Turn:
    """A lock that one thread may take again; a copy of a learner has one of its own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __deepcopy__(self, memo: dict[int, Any]) -> "Turn":
        return Turn()


class Learner(Predictor):
    """Learns batches one after the other, and classifies every class seen so far.

    A learner implements `learn_batch`, `rows_`, `columns`, `scores`, `state_dict` and `load_state_dict`; the rest has a
    default. `i_` is the number of batches begun, which `learn_batch` counts. `labels` and `history_` are kept for it.
    """

    i_: int = 0

    def __new__(cls, *args: Any, **kwargs: Any) -> "Learner":
        """Every learner has labels and a history, whatever its own constructor does."""
        learner = super().__new__(cls)
        learner.labels, learner.history_, learner.recipe_ = Labels(), [], None
        learner.turn = Turn()
        return learner

    turn: AbstractContextManager[object]
    """Held while a batch is learnt, and while the learner is copied for a snapshot."""

    history_: list[dict[str, Any]]
    """One entry for each batch learnt: `i`, `when` (UTC), how many `patterns`, how many of each of its `classes`, and
    how patterns came: their `shape`, `dtype` and smallest and largest `values`, so that others can be brought so too.
    """

    recipe_: dict[str, Any] | None
    """What built it: the `name` of a strategy, all `knobs`, and how the `network` was made; None if built by hand."""

    def learn(self, batch: Any, on_step: OnStep | None = None) -> None:
        """Learn a batch, or leave the learner as it was before the call.

        PyTorch's global generator is the training's own until `learn` returns, and then as it was before.

        Args:
            batch: a `Batch`; a pair (x, y) of arrays, tensors or lists; a `torch.utils.data.Dataset` or `DataLoader`.
                Classes are integers from 0 up, strings, or anything hashable.
            on_step: called after each step of SGD; there `state_dict()` may be taken, to resume in the middle of the
                batch.
        """
        given = as_batch(batch)
        with self.turn:
            before = self.labels
            self.labels, numbered = before.grown(given)
            try:
                self.learn_batch(numbered, on_step)
            except BaseException:
                self.labels = before
                raise
        counts = dict(zip(self.labels.names(list(numbered.counts)), numbered.counts.values(), strict=True))
        self.history_.append(
            {
                "i": self.i_,
                "when": datetime.now(UTC).isoformat(timespec="seconds"),
                "patterns": len(numbered),
                "classes": counts,
                "shape": list(numbered.x.shape[1:]),
                "dtype": str(numbered.x.dtype).removeprefix("torch."),
                "values": [float(end) for end in torch.aminmax(numbered.x)],
            }
        )

    @abstractmethod
    def learn_batch(self, batch: Batch, on_step: OnStep | None = None) -> None:
        """Learn B_i, whose classes are numbers, or leave the learner as it was before the call.

        Args:
            batch: patterns, and their classes as numbers from 0 up.
            on_step: called after each step of SGD.
        """

    def check_stream(self, batches: Sequence[Sequence[int]]) -> None:
        """Refuse a stream by the classes of its batches, B_1 first, where it cannot be learnt to the end.

        Args:
            batches: the classes of each batch, by their numbers.
        """

    def diagnostics(self) -> dict[str, Any]:
        """What to record of the batch just learnt, where there is something to say.

        `lam` and `eta`: the λ and the largest η used. `F_hat` and its clip `max_F`, `F`, which F̂ is formed from, and
        `F_i`, the histogram of F^i.
        """
        return {}

    def weights(self) -> dict[str, Tensor]:
        """Every weight and statistic by name, as it is now; not copies."""
        return {}

    @abstractmethod
    def state_dict(self) -> State:
        """Everything learnt, also in the middle of a batch: dicts and lists of tensors, numbers, strings and None."""

    @abstractmethod
    def load_state_dict(self, state: State) -> None:
        """Take back a state, of this learner or of one built alike; a state that does not fit changes nothing.

        Args:
            state: what `state_dict` gave.
        """

    def storage(self) -> Ledger:
        """The paper's formula for this strategy beside what it really keeps; by default, the tensors of its state."""
        kept = measure({"state": self.state_dict()})
        return Ledger("", 0, kept, kept)

    def snapshot(self) -> Predictor:
        """What it answers now, for ever; by default a copy, which waits for a batch that is being learnt."""
        with self.turn:
            return copy.deepcopy(self)
