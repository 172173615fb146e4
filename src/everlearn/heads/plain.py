"""The plain head: one softmax over all rows, trained and tested as it is."""

from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from everlearn.errors import check_choice
from everlearn.heads.base import Head

OldRows = Literal["tuned", "frozen"]


@dataclass
class Plain(Head):
    """A single head (SIT). `old_rows="frozen"` keeps the rows of B_1 … B_{i−1} byte for byte (FW).

    >>> Plain(growth="expanding", init="zero").old_rows
    'tuned'
    """

    name: ClassVar[str] = "plain"

    old_rows: OldRows = "tuned"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("old_rows", self.old_rows, get_args(OldRows))

    def held_rows(self, *, distils: bool) -> list[int]:
        if self.old_rows == "tuned":
            return []
        return sorted({row for rows in self.batches_[:-1] for row in rows} - set(self.batches_[-1]))
