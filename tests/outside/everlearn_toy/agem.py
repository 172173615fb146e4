"""A regulariser that changes the gradient, and a memory that it asks: A-GEM (Chaudhry et al., 2019)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from everlearn import Batch, Slots
from everlearn.heads import Plain
from everlearn.memories import Memory
from everlearn.recipes import SlotRecipe
from everlearn.regularisers import Regulariser


@dataclass
class Episodes(Memory):
    """`size` random patterns of every batch."""

    name: ClassVar[str] = "episodes"
    shaping: ClassVar[tuple[str, ...]] = ("size",)
    why: ClassVar[dict[str, str]] = {"kept_": "old patterns and their classes"}

    size: int = 40

    kept_: list[list[Tensor]] = field(default_factory=list, init=False)

    def store(self, i: int, batch: Batch) -> None:
        chosen = torch.randperm(len(batch), generator=self.bench.generator("episodes", i))[: self.size]
        self.kept_ = [*self.kept_, [batch.x[chosen], batch.y[chosen]]]

    def parts(self) -> Sequence[Batch]:
        return [Batch(x, y) for x, y in self.kept_]


@dataclass
class AGEM(Regulariser):
    """The step may not raise the loss on what is kept: g = g − (g·g_ref / g_ref·g_ref)·g_ref where g·g_ref < 0."""

    name: ClassVar[str] = "agem"

    def constrain(self) -> None:
        if kept := self.bench.memory.parts():
            old = Batch(torch.cat([batch.x for batch in kept]), torch.cat([batch.y for batch in kept]))
            g, g_ref = self.bench.scope.grad, self.bench.gradient(old)
            if g @ g_ref < 0:
                g -= (g @ g_ref) / (g_ref @ g_ref) * g_ref


RECIPE = SlotRecipe("toy-agem", "A-GEM", slots=lambda s: Slots(Plain(), AGEM(), Episodes()), like="naive", keeps="some")
