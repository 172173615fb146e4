"""The per-task head of the multi-task (MT) scenario: a softmax of its own for each batch."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from everlearn.errors import DataError, sentence
from everlearn.learning.head import Head
from everlearn.learning.memory import Memory, NoMemory


@dataclass
class PerTask(Head):
    """L_cross over B_i's rows only; tested with the task known, over the rows of each pattern's own batch.

    Rows outside the loss do not move: neither weight decay nor leftover momentum touches them. LWF distils over the
    old rows, so there old rows are in the loss and do move.
    """

    name: ClassVar[str] = "per_task"
    knows_task: ClassVar[bool] = True

    def refuses(self, memory: Memory) -> str:
        if isinstance(memory, NoMemory):
            return ""
        return "A per-task head trains over B_i's rows only, so replayed patterns of old classes have no row there"

    def _rows(self, rows: list[int]) -> Tensor:
        return torch.tensor(rows, dtype=torch.long, device=self.theta.value.device)

    def check_known(self, known: list[int]) -> None:
        raise DataError(
            sentence(
                "A per-task head has each class in one task, and a pattern's task would be ambiguous",
                expected="classes that no earlier batch had",
                got=known,
                do="Use a plain head for streams that bring known classes again (NI, NIC).",
            )
        )

    def check_question(self, columns: list[int], batch: int | None) -> None:
        if batch is None:
            raise DataError(
                sentence(
                    "A per-task head needs to know the task",
                    expected="the number of a batch",
                    got=None,
                    do="Pass batch=i; a plain head tells all classes apart.",
                )
            )
        super().check_question(columns, batch)

    def softmax_classes(self, classes: list[int]) -> set[int]:
        return set(classes)

    def train_rows(self) -> Tensor | None:
        return self._rows(self.batches_[-1])

    def distilled_rows(self) -> Tensor | None:
        return self._rows(self.seen_)

    def held_rows(self, *, distils: bool) -> list[int]:
        in_loss = self.seen_ if distils else self.batches_[-1]
        return sorted(set(range(self.s)) - set(in_loss))
