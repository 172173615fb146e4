"""The plain head: one softmax over all rows, trained and tested as it is."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from everlearn.learning.head import Head

OldRows = Literal["tuned", "frozen"]


@dataclass
class Plain(Head):
    """A single head (SIT). `old_rows="frozen"` keeps the rows of B_1 … B_{i−1} byte for byte (FW).

    >>> Plain(growth="expanding", init="zero").old_rows
    'tuned'
    """

    name: ClassVar[str] = "plain"
    shaping: ClassVar[tuple[str, ...]] = ("growth", "old_rows")

    old_rows: OldRows = "tuned"

    def held_rows(self, *, distils: bool) -> list[int]:
        if self.old_rows == "tuned":
            return []
        return sorted({row for rows in self.batches_[:-1] for row in rows} - set(self.batches_[-1]))
