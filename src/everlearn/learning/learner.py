"""The protocol of a learner: all that runs, engines, reports and pages know of one, whatever it is inside."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from everlearn._kit.state import State
from everlearn.data.batch import Array, Batch, as_batch
from everlearn.data.labels import Labels
from everlearn.learning.evaluation import Accuracy, accuracy
from everlearn.learning.storage import Ledger, measure
from everlearn.learning.turns import Turn

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
        with self._reading() as asked:
            rows = asked.rows_
            return asked.labels.names([rows[row] for row in asked.columns("seen")])

    def predict(self, x: Array, rows: Rows = "seen", *, batch: int | None = None) -> Any:
        """The class of the highest score for each pattern.

        Args:
            x: patterns, [n, …].
            rows, batch: as for `scores`.

        Returns:
            Classes as they were taught: a tensor of integers, or a NumPy array of other labels.
        """
        with self._reading() as asked:  # one state for all three questions
            best = asked.scores(x, rows, batch=batch).argmax(dim=1).cpu()
            numbers = torch.tensor(asked.rows_)[asked.columns(rows, batch=batch)][best]
            return asked.labels.decode(numbers)

    def evaluate(self, batch: Any, *, task: int | None = None) -> Accuracy:
        """The share of patterns classified right, over all rows and over the classes seen.

        Args:
            batch: patterns with their classes, in any form that `learn` takes.
            task: the batch (1-based) whose classes alone are scored (MT).
        """
        with self._reading() as asked:
            known = asked.labels.encoded(as_batch(batch))
            return asked._accuracy(known, known.y.cpu().numpy(), task)

    def _accuracy(self, batch: Batch, y: NDArray[np.int64], task: int | None) -> Accuracy:
        """`evaluate`, for classes that are numbers."""
        classes = torch.tensor(self.rows_)
        if task is not None:
            best = self.scores(batch.x, batch=task).argmax(dim=1).cpu()
            share = accuracy(classes[self.columns(batch=task)][best].numpy(), y)
            return Accuracy(share, share)
        rows = [*self.columns("all")]
        seen = torch.tensor([rows.index(row) for row in self.columns("seen")], dtype=torch.long)
        if not len(seen):
            self.scores(batch.x, "seen")  # refuses, and says why
        scores = self.scores(batch.x, "all").cpu()  # one pass for both
        every = classes[rows][scores.argmax(dim=1)]
        among_seen = classes[rows][seen][scores[:, seen].argmax(dim=1)]
        return Accuracy(all_rows=accuracy(every.numpy(), y), seen=accuracy(among_seen.numpy(), y))

    @contextmanager
    def _reading(self) -> Iterator["Predictor"]:
        """Something to ask several questions of one state."""
        yield self

    def snapshot(self) -> "Predictor":
        """What it answers now, for ever: any number of threads may ask it while the learner goes on."""
        return self


class Learner(Predictor):
    """Learns batches one after the other, and classifies every class seen so far.

    A learner implements `learn_batch`, `rows_`, `columns`, `scores`, `state_dict` and `load_state_dict`; the rest has a
    default. `i_` is the number of batches begun, which `learn_batch` counts. `labels` and `history_` are kept for it;
    `everlearn.save` keeps them in its file, and its state need not have them.
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
            before, i = self.labels, self.i_
            labels, numbered = before.grown(given)
            entry = _entry(numbered, labels)
            try:
                self.labels = labels
                self.learn_batch(numbered, on_step)
                self.history_.append({"i": self.i_, **entry})
            except BaseException:
                if self.i_ == i:  # rolled back, and not interrupted just after the batch was learnt
                    self.labels = before
                raise

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

    @contextmanager
    def _reading(self) -> Iterator[Predictor]:
        with self.turn:
            yield self

    def snapshot(self) -> Predictor:
        """What it answers now, for ever; by default a copy, which waits for a batch that is being learnt."""
        with self.turn:
            return copy.deepcopy(self)


def _entry(batch: Batch, labels: Labels) -> dict[str, Any]:
    """What `history_` says of a batch; the range of values by its first thousand patterns."""
    counts = batch.counts
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "patterns": len(batch),
        "classes": dict(zip(labels.names(list(counts)), counts.values(), strict=True)),
        "shape": list(batch.x.shape[1:]),
        "dtype": str(batch.x.dtype).removeprefix("torch."),
        "values": [float(end) for end in torch.aminmax(batch.x[:1000])],
    }
