"""Elastic Weight Consolidation: importance from the Fisher information at the end of each batch."""

from dataclasses import dataclass, field
from functools import reduce
from math import inf
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from everlearn._kit.knobs import check
from everlearn.data.batch import Batch
from everlearn.errors import ConfigError, sentence
from everlearn.learning.passes import Gradients
from everlearn.learning.theta import Extend, blocks
from everlearn.regularisers.quadratic import Quadratic

Fisher = Literal["variance", "second_moment", "per_example"]
Terms = Literal["sum", "per_batch"]


@dataclass
class EWC(Quadratic):
    """F^i by the Fisher information, F = F + F^i and F̂ = clip(F / i, max_F) from (8).

    average: divide by i; False for the native sum. terms: `sum` keeps one F and one Θ* (option 2); `per_batch` keeps
    one of each for every batch (option 1), clipped one by one and never averaged.
    fisher: `variance` of the minibatches' mean gradients (the paper, App. A), their `second_moment` (the authors'
    code), or `per_example`, the mean of squared gradients of single patterns: the exact diagonal of the
    empirical Fisher.
    minibatch: patterns in a minibatch of the Fisher pass. The first two shrink as 1/minibatch, so the size is
    remembered with F, and a state made with another size is refused.
    chunk: patterns whose gradients are held at once by `per_example`.

    >>> EWC(lam=8e7).fisher
    'variance'
    """

    name: ClassVar[str] = "ewc"
    shaping: ClassVar[tuple[str, ...]] = ("fisher", "minibatch", "terms")

    why: ClassVar[dict[str, str]] = {**Quadratic.why, "history_": "one F^i and one Θ^i for each batch (option 1)"}

    average: bool = True
    terms: Terms = "sum"
    fisher: Fisher = "variance"
    minibatch: int = 32
    chunk: int = 16

    history_: list[tuple[Tensor, Tensor]] = field(default_factory=list, init=False)  # (F^i, Θ^i), option 1

    def F_hat(self) -> Tensor:
        """(8): F̂ = clip(F / i, max_F)."""
        assert self.F_ is not None
        return self._clipped(self.F_ / self.consolidated_ if self.average else self.F_)

    def _clipped(self, F: Tensor) -> Tensor:
        return F.clamp(min=0.0, max=inf if self.max_F is None else self.max_F)

    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        if self.terms == "sum":
            return super().pairs()
        return [(self._clipped(F_i), theta_i) for F_i, theta_i in self.history_]

    def constrain(self) -> None:
        theta = self.bench.scope
        for F_hat, theta_star in self.pulls():
            for grad, F, value, star in blocks(theta.grad, F_hat, theta.value, theta_star):
                grad.addcmul_(F, value - star, value=self.lam)  # (7): grad += λ·F̂·(θ − θ*)

    def consolidate(self, i: int, data: Batch) -> None:
        self._pulls = None  # F̂ has done its work, and makes room
        F_i = self._fisher(self.bench.gradients(data, "fisher", i))
        self.keep(i, F_i, F_i if self.F_ is None else self.F_ + F_i)  # (8): F = F + F^i
        if self.terms == "per_batch":
            assert self.theta_star_ is not None
            self.history_ = [*self.history_, (F_i, self.theta_star_)]
            self.F_ = self.theta_star_ = None

    def _fisher(self, gradients: Gradients) -> Tensor:
        """The diagonal of the Fisher information over B_i."""
        if self.fisher == "per_example":
            return gradients.squares(self.chunk) / len(gradients)
        mean, squares = (torch.zeros_like(self.bench.scope.value) for _ in range(2))
        count = 0
        for count, g in enumerate(gradients.minibatches(self.minibatch), start=1):
            if self.fisher == "second_moment":
                squares.addcmul_(g, g)
            else:  # Welford's running variance: no cancellation
                for g_k, mean_k, squares_k in blocks(g, mean, squares):
                    away = g_k - mean_k
                    mean_k.add_(away, alpha=1 / count)
                    squares_k.addcmul_(away, away, value=1 - 1 / count)
        return squares.div_(count)

    # --- beside the maths -------------------------------------------------------------------------

    def __post_init__(self) -> None:
        super().__post_init__()
        for size in (self.minibatch, self.chunk):
            check(size >= 1, "A bad size", expected="1 or more", got=size, do="Raise minibatch or chunk.")

    def prepare(self, i: int, data: Batch) -> None:
        if self.fisher == "variance" and len(data) <= self.minibatch:
            raise ConfigError(
                sentence(
                    "The variance over minibatches needs more than one of them",
                    expected=f"more than {self.minibatch} patterns in the batch",
                    got=len(data),
                    do='Set fisher="second_moment", or a smaller minibatch for the Fisher pass.',
                )
            )

    def grow(self, extend: Extend) -> None:
        super().grow(extend)
        self.history_ = [(extend(F_i), extend(theta_i)) for F_i, theta_i in self.history_]

    def information(self) -> Tensor | None:
        return reduce(torch.add, [F_i for F_i, _ in self.history_]) if self.history_ else super().information()

    def overhead(self, m: int, s: int, outputs: int, n_i: int) -> int:
        return super().overhead(m, s, outputs, n_i) * max(1, len(self.history_))

    def formula(self, *, shared_only: bool) -> str:
        each = super().formula(shared_only=shared_only)
        return each if self.terms == "sum" else f"{each} for each batch"

    def state(self) -> dict[str, Any]:
        return {**super().state(), "history": list(self.history_)}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.history_ = [(F_i, theta_i) for F_i, theta_i in state["history"]]
