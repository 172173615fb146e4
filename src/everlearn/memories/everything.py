"""The memory that keeps everything: Cumulative."""

from collections.abc import Sequence
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

    why: ClassVar[dict[str, str]] = {
        "batch_": "all old patterns and labels (while a batch is learnt, its mix with B_i is a copy more); "
        "Cumulative is the paper's upper bound, not an overhead"
    }

    restart: bool = True

    batch_: Batch | None = field(default=None, init=False)
    sizes_: list[int] = field(default_factory=list, init=False)  # the patterns of each batch

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

    def parts(self) -> Sequence[Batch]:
        if self.batch_ is None:
            return []
        xs, ys = self.batch_.x.split(self.sizes_), self.batch_.y.split(self.sizes_)
        return [Batch(x, y) for x, y in zip(xs, ys, strict=True)]

    def store(self, i: int, batch: Batch) -> None:
        self.sizes_ = [*self.sizes_, len(batch)]
        mixed = self.mix(batch)
        self.batch_ = Batch(mixed.x.clone(), mixed.y.clone()) if mixed is batch else mixed  # never the caller's memory

    def state(self) -> dict[str, Any]:
        return {} if self.batch_ is None else {"x": self.batch_.x, "y": self.batch_.y, "sizes": list(self.sizes_)}

    def load_state(self, state: dict[str, Any]) -> None:
        self.batch_ = Batch(state["x"], state["y"]) if state else None
        self.sizes_ = list(state.get("sizes", [len(state["y"])])) if state else []  # older states have no sizes
