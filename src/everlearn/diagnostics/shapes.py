"""What shape a confusion matrix has: a band, a blank where new classes should be, or a bar."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from everlearn.diagnostics.thresholds import BAND, BAR, FEW, KEPT, LEARNT, LOST, TILT
from everlearn.records import Matrix, Record


@dataclass(frozen=True)
class Shape:
    """The matrix after B_i, i > 1, in shares of test patterns; None where there is no pattern to measure on.

    band: of older classes' patterns, given to B_i's classes; blind: what a blind guess would give them. old, new:
    recognised of the classes that are not in B_i, and of those that B_i brought first; lost: of the latter, given to
    older classes. bar: of older classes' patterns (of all, if none is older), given to a few others; bar_classes:
    those; mistakes: their share of the mistakes made on such patterns; size: how many classes the newest batch has.
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
        """Forgetting: far from a blind guess towards giving everything to the newest batch; less far out of balance."""
        if self.band is None or self.blind == 1:
            return False
        way = (self.band - self.blind) / (1 - self.blind)
        tilted = self.old is not None and self.new is not None and self.old < KEPT * self.new
        return way >= BAND or (tilted and way >= TILT)

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
    bar, bar_classes, mistakes = _bar(record, older or seen, seen, newest)
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


def _bar(
    record: Record, rows: list[int], seen: list[int], newest: list[int]
) -> tuple[float | None, tuple[int, ...], float]:
    """What the few classes that take most take of these rows, which they are, and their share of the mistakes there.

    Rows are those of older classes: where new ones alone are given to a few old classes, they were not learnt, and
    that is no bar.
    """
    wrong = record.confusion.copy()
    np.fill_diagonal(wrong, 0)
    taken = wrong[np.ix_(rows, seen)].sum(axis=0)
    top = [seen[k] for k in np.argsort(-taken, kind="stable")[: FEW if len(newest) >= 10 else 1]]
    others = [k for k in rows if k not in top]
    patterns, mistakes = int(record.totals[others].sum()), int(taken.sum())
    if not patterns or not mistakes or (len(newest) == 1 and top == newest):  # a batch of one class: its band is a bar
        return None, (), 0.0
    classes = tuple(sorted(record.order[k] for k in top))
    given = int(wrong[np.ix_(others, top)].sum())
    return given / patterns, classes, int(wrong[np.ix_(rows, top)].sum()) / mistakes
