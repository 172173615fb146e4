"""What shape a confusion matrix has: a band, a blank where new classes should be, or a bar."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from everlearn.diagnostics.thresholds import BAND, BAR, FEW, LEARNT, LOST
from everlearn.records import Matrix, Record


@dataclass(frozen=True)
class Shape:
    """The matrix after B_i, i > 1, in shares of test patterns; None where there is no pattern to measure on.

    band: of older classes' patterns, given to B_i's classes; blind: what a blind guess would give them. old, new:
    recognised of the classes that are not in B_i, and of those that B_i brought first; lost: of the latter, given to
    older classes. bar: given to a few classes by all others; bar_classes: those; mistakes: the share of all mistakes
    that are theirs; size: how many classes the newest batch has.
    """

    i: int
    blind: float
    band: float | None
    old: float | None
    new: float | None
    lost: float | None
    bar: float | None
    bar_classes: tuple[int, ...]
    mistakes: float
    size: int

    @property
    def is_band(self) -> bool:
        """Forgetting: half-way or more from a blind guess to giving everything to the newest batch."""
        return self.band is not None and self.band - self.blind >= BAND * (1 - self.blind)

    @property
    def is_blank(self) -> bool:
        """New classes not learnt: recognised far less often than older ones, and given to them."""
        if self.old is None or self.new is None or self.lost is None:
            return False
        return self.lost >= LOST and self.new < LEARNT * self.old

    @property
    def is_bar(self) -> bool:
        """A sharp bar on one or few classes, sharper than a band that is shared out among the newest ones."""
        even = len(self.bar_classes) / max(self.size, 2)
        return self.bar is not None and self.bar >= BAR and self.mistakes >= (1 + even) / 2


def shape(record: Record) -> Shape:
    """The shape of a record's matrix. Classes that have not arrived do not count, nor do those without patterns."""
    place = {c: k for k, c in enumerate(record.order)}
    seen = list(range(record.arrived[record.i - 1]))
    newest = [place[c] for c in record.classes]
    older = [k for k in seen if k not in set(newest)]
    before = {c for batch in record.batches[: record.i - 1] for c in batch}
    fresh = [place[c] for c in record.classes if c not in before]
    totals, matrix = record.totals, record.confusion
    bar, bar_classes, mistakes = _bar(record, seen, newest)
    return Shape(
        i=record.i,
        blind=len(newest) / max(len(seen), 1),
        band=_given(matrix, totals, older, newest),
        old=_right(matrix, totals, older),
        new=_right(matrix, totals, fresh),
        lost=_given(matrix, totals, fresh, older),
        bar=bar,
        bar_classes=bar_classes,
        mistakes=mistakes,
        size=len(newest),
    )


def shapes(records: Sequence[Record]) -> list[Shape]:
    """The shapes after each batch but the first: before it, nothing was old."""
    return [shape(record) for record in records if record.i > 1]


def _given(matrix: Matrix, totals: Matrix, rows: list[int], columns: list[int]) -> float | None:
    """The share of these rows' patterns that is given to these columns."""
    patterns = int(totals[rows].sum())
    return float(matrix[np.ix_(rows, columns)].sum() / patterns) if patterns and columns else None


def _right(matrix: Matrix, totals: Matrix, rows: list[int]) -> float | None:
    patterns = int(totals[rows].sum())
    return float(matrix[rows, rows].sum() / patterns) if patterns else None


def _bar(record: Record, seen: list[int], newest: list[int]) -> tuple[float | None, tuple[int, ...], float]:
    """What the few classes that take most take of all others, which they are, and their share of all mistakes."""
    wrong = record.confusion[np.ix_(seen, seen)].copy()
    np.fill_diagonal(wrong, 0)
    few = max(1, len(newest) // FEW)
    top = [int(k) for k in np.argsort(-wrong.sum(axis=0), kind="stable")[:few]]
    others = [k for k in seen if k not in top]
    taken, patterns = int(wrong[np.ix_(others, top)].sum()), int(record.totals[others].sum())
    if not patterns or (len(newest) == 1 and top == newest):  # a batch of one class: its band is a bar
        return None, (), 0.0
    mistakes = int(wrong.sum())
    classes = tuple(sorted(record.order[k] for k in top))
    return taken / patterns, classes, int(wrong[:, top].sum()) / mistakes if mistakes else 0.0
