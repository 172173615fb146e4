"""Synaptic Intelligence: importance from the path that each weight takes while it is learnt."""

from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from everlearn._kit.knobs import check
from everlearn.data.batch import Batch
from everlearn.learning.theta import blocks
from everlearn.regularisers.quadratic import Quadratic

Path = Literal["update", "gradient"]


@dataclass
class SI(Quadratic):
    """F^i from (9) and (10), F = F + w_i·F^i and F̂ = clip(F, max_F) from (11).

    w_1, w_i: the weights of F^1 and of every later F^i. xi: ξ.
    path: `gradient` sums −Δθ·∂L_cross/∂θ, the equation. `update` sums v², v being SGD's update with η, momentum,
    weight decay and pull in it: what the authors' code does, and what the paper's w_i are made for.
    The floor at 0 is applied when F̂ is formed, so that F stays a plain sum.

    >>> SI(lam=4e5, w_1=1.5e-4, w_i=5e-6, path="update").max_F
    0.001
    """

    name: ClassVar[str] = "si"
    shaping: ClassVar[tuple[str, ...]] = ("path",)
    why: ClassVar[dict[str, str]] = {
        **Quadratic.why,
        "path_": "SI's −ΣΔL along the path; the paper counts it as information that SGD has anyway",
        "theta_start_": "the weights at the start of the batch, for T; the paper's Θ holds them from B_2 on",
        "_grad": "L_cross's gradient alone, for path='gradient'",
    }

    w_1: float = 1.0
    w_i: float = 1.0
    xi: float = 1e-7
    path: Path = "update"

    path_: Tensor | None = field(default=None, init=False)  # −ΣΔL_k so far in this batch
    theta_start_: Tensor | None = field(default=None, init=False)
    _grad: Tensor | None = field(default=None, init=False, repr=False)

    def F_hat(self) -> Tensor:
        """(11): F̂ = clip(F, max_F), with a floor at 0: a negative importance would push weights away."""
        assert self.F_ is not None
        return self.F_.clamp(min=0.0, max=inf if self.max_F is None else self.max_F)

    def begin(self, i: int) -> None:
        super().begin(i)
        self.theta_start_ = self.bench.scope.value.clone()  # a copy: a view would follow the weights and make T = 0
        self.path_ = torch.zeros_like(self.theta_start_)

    def constrain(self) -> None:
        theta = self.bench.scope
        if self.path == "gradient":
            self._grad = theta.grad.clone()  # L_cross alone, before the pull and the weight decay
        for F_hat, theta_star in self.pulls():
            for grad, F, value, star in blocks(theta.grad, F_hat, theta.value, theta_star):
                grad.addcmul_(F, value - star, value=self.lam)  # (7): grad += λ·F̂·(θ − θ*)

    def observe(self) -> None:
        assert self.path_ is not None
        v = self.bench.scope.v  # Δθ = −v
        if self._grad is None:
            self.path_.addcmul_(v, v)
        else:
            self.path_ -= -v * self._grad  # (9): ΔL = Δθ·∂L/∂θ
        self._grad = None

    def consolidate(self, i: int, data: Batch) -> None:
        assert self.path_ is not None
        assert self.theta_start_ is not None
        self._pulls = None  # F̂ has done its work, and makes room
        F_i = self.path_  # written over: like the start of B_i, the path is not needed any more
        for path, value, start in blocks(F_i, self.bench.scope.value, self.theta_start_):
            T = value - start
            path.copy_(path / (T * T + self.xi))  # (10): F^i = −ΣΔL / (T² + ξ)
        self.path_ = self.theta_start_ = None
        F = (self.w_1 if i == 1 else self.w_i) * F_i
        self.keep(i, F_i, F if self.F_ is None else F.add_(self.F_))  # (11): F = F + w_i·F^i

    # --- beside the maths -------------------------------------------------------------------------

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.xi > 0, "A bad ξ", expected="more than 0", got=self.xi, do="Raise xi.")
        for w in (self.w_1, self.w_i):
            check(w > 0, "A bad w_i", expected="more than 0", got=w, do="Raise w_1 or w_i; set lam=0 to switch off.")

    def state(self) -> dict[str, Any]:
        path = None if self.path_ is None else self.path_.clone()
        return {**super().state(), "path": path, "theta_start": self.theta_start_}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.path_, self.theta_start_, self._grad = state["path"], state["theta_start"], None
