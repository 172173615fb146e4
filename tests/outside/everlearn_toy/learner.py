"""A learner that is no combination of slots, and asks nothing of the network: nearest mean of pixels."""

from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import Tensor

from everlearn import Batch, Learner
from everlearn.errors import DataError, StateError
from everlearn.learning.learner import OnStep
from everlearn.models import Network


class PixelMeans(Learner):
    """Keeps the sum and the number of the patterns of each class."""

    def __init__(self, knobs: Mapping[str, Any], device: str | torch.device) -> None:
        self.shrink, self.least, self.device = knobs["means.shrink"], knobs["means.least"], device
        self.i_ = 0
        self.batches: list[list[int]] = []
        self.rows: list[int] = []
        self.sums = torch.zeros(0, 0, device=device)
        self.counts = torch.zeros(0, device=device)

    @property
    def rows_(self) -> list[int]:
        return self.rows

    def learn_batch(self, batch: Batch, on_step: OnStep | None = None) -> None:
        x, y = self._flat(batch.x), torch.as_tensor(batch.y)
        classes = sorted(int(c) for c in y.unique())
        rows = [*self.rows, *(c for c in classes if c not in self.rows)]
        sums, counts = x.new_zeros(len(rows), x.shape[1]), x.new_zeros(len(rows))
        if self.rows:
            if x.shape[1] != self.sums.shape[1]:
                raise DataError(f"Patterns of another size: expected {self.sums.shape[1]} values, got {x.shape[1]}.")
            sums[: len(self.rows)], counts[: len(self.rows)] = self.sums, self.counts
        for c in classes:
            there = (y == c).to(x.device)
            sums[rows.index(c)] += x[there].sum(dim=0)
            counts[rows.index(c)] += there.sum()
        self.rows, self.sums, self.counts = rows, sums, counts
        self.batches, self.i_ = [*self.batches, classes], self.i_ + 1

    def columns(self, rows: Literal["all", "seen"] = "seen", *, batch: int | None = None) -> list[int]:
        return [self.rows.index(c) for c in (self.rows if batch is None else self.batches[batch - 1])]

    def scores(self, x: Any, rows: Literal["all", "seen"] = "seen", *, batch: int | None = None) -> Tensor:
        if not self.rows:
            raise DataError("Nothing has been learnt yet: expected a batch, got none. Learn one first.")
        means = self.sums / self.counts.clamp(min=self.least)[:, None]
        means = means + self.shrink * (means.mean(dim=0) - means)
        return -torch.cdist(self._flat(x), means[self.columns(rows, batch=batch)])

    def state_dict(self) -> dict[str, Any]:
        tensors = {"sums": self.sums.clone(), "counts": self.counts.clone()}
        return {"i": self.i_, "batches": self.batches, "rows": self.rows, **tensors}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if set(state) < {"i", "batches", "rows", "sums", "counts"}:
            raise StateError("This is no state of pixel means.")
        self.i_, self.batches, self.rows = state["i"], [list(one) for one in state["batches"]], list(state["rows"])
        self.sums, self.counts = state["sums"].to(self.device), state["counts"].to(self.device)

    def _flat(self, x: Any) -> Tensor:
        return torch.as_tensor(x).to(self.device, torch.float32).flatten(1)


def build(network: Network, knobs: Mapping[str, Any], *, seed: int, device: str | torch.device) -> Learner:
    """What the recipes of this package name."""
    return PixelMeans(knobs, device)
