"""A memory that replays at every step, and a loss that is no cross-entropy: DER (Buzzega et al., 2020)."""

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as fn

from everlearn import Batch
from everlearn.memories import Memory, Replayed
from everlearn.recipes import SlotRecipe
from everlearn.regularisers import Minibatch, Regulariser, Term, Terms


@dataclass
class Reservoir(Memory):
    """`size` patterns, any of those seen with equal chance, with their logits when they were stored."""

    name: ClassVar[str] = "toy_reservoir"
    size: int = 200
    minibatch: int = 32
    kept_: dict[str, Tensor] = field(default_factory=dict, init=False)

    def store(self, i: int, batch: Batch) -> None:
        ticket = torch.rand(len(batch), generator=self.bench.generator("reservoir", i))
        new = {"x": batch.x, "y": batch.y, "logits": self.bench.logits(batch.x)[-1], "ticket": ticket}
        every = {name: torch.cat([self.kept_[name], value]) if self.kept_ else value for name, value in new.items()}
        best = every["ticket"].argsort()[: self.size]  # a fair draw from all patterns so far
        self.kept_ = {name: value[best] for name, value in every.items()}

    def replay(self, i: int, step: int) -> Replayed | None:
        if not self.kept_:
            return None
        generator = self.bench.generator("replay", i, step)
        chosen = torch.randint(len(self.kept_["y"]), (self.minibatch,), generator=generator)
        kept = {name: value[chosen] for name, value in self.kept_.items()}
        return Replayed(kept["x"], kept["y"], kept)


@dataclass
class DER(Regulariser):
    """L_cross on new patterns + alpha · ‖logits now − then‖² on replayed ones; for a head that does not grow."""

    name: ClassVar[str] = "der"
    alpha: float = 0.5

    def loss_terms(self, o: Tensor, hard: Term, at: Minibatch) -> Terms:
        if at.replayed is None:
            return [hard]
        old, places = at.old()
        drift = fn.mse_loss(o[old], at.replayed.kept["logits"][places])
        return [fn.cross_entropy(o[~old], hard.t[~old]), self.alpha * drift]


RECIPE = SlotRecipe(
    "toy-der", "DER", slots=lambda s: s.Slots(s.Plain(), DER(), Reservoir()), like="naive", keeps="some"
)
