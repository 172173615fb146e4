"""Synaptic Intelligence: importance from the path that each weight takes while it is learnt."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from everlearn._kit.knobs import check
from everlearn.learning.equations import F_hat_si, F_si, blocks, delta_L
from everlearn.learning.passes import Gradients
from everlearn.learning.theta import Scope
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

    w_1: float = 1.0
    w_i: float = 1.0
    xi: float = 1e-7
    path: Path = "update"

    path_: Tensor | None = field(default=None, init=False)  # −ΣΔL_k so far in this batch
    theta_start_: Tensor | None = field(default=None, init=False)
    _grad: Tensor | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self.xi > 0, "A bad ξ", expected="more than 0", got=self.xi, do="Raise xi.")
        for w in (self.w_1, self.w_i):
            check(w > 0, "A bad w_i", expected="more than 0", got=w, do="Raise w_1 or w_i; set lam=0 to switch off.")

    def F_hat(self) -> Tensor:
        assert self.F_ is not None
        return F_hat_si(self.F_, self.max_F)  # (11)

    def begin(self, theta: Scope, i: int, etas: tuple[float, float], bias_eta: float, momentum: float) -> None:
        super().begin(theta, i, etas, bias_eta, momentum)
        self.theta_start_ = theta.value.clone()  # a copy: a view would follow the weights and make T = 0
        self.path_ = torch.zeros_like(self.theta_start_)

    def constrain(self, theta: Scope) -> None:
        if self.path == "gradient":
            self._grad = theta.grad.clone()  # L_cross alone, before the pull and the weight decay
        super().constrain(theta)

    def observe(self, theta: Scope) -> None:
        assert self.path_ is not None
        if self._grad is None:
            self.path_.addcmul_(theta.v, theta.v)
        else:
            self.path_ -= delta_L(-theta.v, self._grad)  # (9), Δθ = −v
        self._grad = None

    def consolidate(self, theta: Scope, i: int, gradients: Gradients) -> None:
        self._pulls = None  # F̂ has done its work, and makes room
        F_i = self._F_i(theta)
        F = (self.w_1 if i == 1 else self.w_i) * F_i
        self.keep(theta, i, F_i, F if self.F_ is None else F.add_(self.F_))  # (11)

    def _F_i(self, theta: Scope) -> Tensor:
        """(10), written over the path, which like the start of B_i is not needed any more."""
        assert self.path_ is not None
        assert self.theta_start_ is not None
        F_i = self.path_
        for path, value, start in blocks(F_i, theta.value, self.theta_start_):
            path.copy_(F_si(path, value - start, self.xi))
        self.path_ = self.theta_start_ = None
        return F_i

    def state(self) -> dict[str, Any]:
        path = None if self.path_ is None else self.path_.clone()
        return {**super().state(), "path": path, "theta_start": self.theta_start_}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.path_, self.theta_start_, self._grad = state["path"], state["theta_start"], None
