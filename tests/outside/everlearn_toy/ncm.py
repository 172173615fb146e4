"""A head with a closed form and scores of its own: the nearest class mean, on features that nothing trains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from everlearn import Phase, Slots, Training
from everlearn.heads import Head
from everlearn.recipes import SlotRecipe
from everlearn.regularisers import Freeze


@dataclass
class NCM(Head):
    """μ_k is the mean of the features of class k; the score is −‖φ(x) − μ_k‖."""

    name: ClassVar[str] = "ncm"
    solves: ClassVar[bool] = True
    why: ClassVar[dict[str, str]] = {"sums_": "the sum of each class's features", "counts_": "how many they are"}

    sums_: Tensor | None = field(default=None, init=False)
    counts_: Tensor | None = field(default=None, init=False)

    def begin(self, counts: Mapping[int, int], i: int, *, distils: bool) -> Any:
        extend = super().begin(counts, i, distils=distils)
        old = torch.zeros(0, device=self.bench.device) if self.counts_ is None else self.counts_
        self.counts_ = torch.cat([old, old.new_zeros(self.s - len(old))])
        return extend

    def solve(self, features: Tensor, y: Tensor) -> None:
        assert self.counts_ is not None
        flat = features.flatten(1)
        sums = flat.new_zeros(self.s, flat.shape[1]).index_add_(0, y, flat)
        if self.sums_ is not None:
            sums[: len(self.sums_)] += self.sums_
        self.sums_, self.counts_ = sums, self.counts_ + torch.bincount(y, minlength=self.s)

    def scores(self, features: Tensor) -> Tensor | None:
        if self.sums_ is None or self.counts_ is None:
            return features.new_zeros(len(features), self.s)
        return -torch.cdist(features.flatten(1), self.sums_ / self.counts_.clamp(min=1)[:, None])


NO_STEP = Training(first=Phase(epochs=0, eta=1.0), later=Phase(epochs=0, eta=1.0))
RECIPE = SlotRecipe("toy-ncm", "nearest class mean", slots=lambda s: Slots(NCM(), Freeze(), training=NO_STEP))
