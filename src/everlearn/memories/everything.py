"""The memory that keeps everything: Cumulative."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch

from everlearn.data.batch import Batch
from everlearn.learning.memory import Memory
from everlearn.learning.regulariser import NoRegulariser, Regulariser


@dataclass
class Everything(Memory):
    """Every pattern of B_1 … B_{i−1}, trained on again together with B_i.

    restart: learn each time from the initial weights; False goes on from those that B_{i−1} left.
    """

    name: ClassVar[str] = "everything"
    shaping: ClassVar[tuple[str, ...]] = ("restart",)

    restart: bool = True

    batch_: Batch | None = field(default=None, init=False)

    def refuses(self, regulariser: Regulariser) -> str:
        if isinstance(regulariser, NoRegulariser):
            return ""
        return "A memory that trains on everything again leaves a regulariser nothing to protect"

    @property
    def restarts(self) -> bool:
        return self.restart

    def mix(self, batch: Batch) -> Batch:
        if self.batch_ is None:
            return batch
        return Batch(torch.cat([self.batch_.x, batch.x]), torch.cat([self.batch_.y, batch.y]))

    def store(self, batch: Batch) -> None:
        mixed = self.mix(batch)
        self.batch_ = Batch(mixed.x.clone(), mixed.y.clone()) if mixed is batch else mixed  # never the caller's memory

    def state(self) -> dict[str, Any]:
        return {} if self.batch_ is None else {"x": self.batch_.x, "y": self.batch_.y}

    def load_state(self, state: dict[str, Any]) -> None:
        self.batch_ = Batch(state["x"], state["y"]) if state else None
