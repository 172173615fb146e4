"""What regularisers with a quadratic pull towards θ* share beside their maths: knobs, safety, ledger and state."""

import warnings
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar

import torch
from torch import Tensor

from everlearn._kit.histograms import Json, histogram
from everlearn._kit.knobs import check, check_types
from everlearn.errors import DivergenceError, InactiveError, NotFiniteError, OvershootWarning, sentence
from everlearn.learning.regulariser import Regulariser
from everlearn.learning.theta import Extend


@dataclass
class Quadratic(Regulariser):
    """λ/2 · Σ_k F̂_k (θ_k − θ*_k)², as a pull that is added to the gradient before momentum and η.

    lam: λ. max_F: F̂ is clipped there; None leaves it unclipped. biases: whether biases are pulled too (the paper's m
    includes them; the authors' solver leaves them alone).
    F_ and theta_star_ are kept between batches; F̂ is formed from F when a batch begins.
    """

    why: ClassVar[dict[str, str]] = {
        "F_": "F, half of the paper's 2·m; in the CWR family over Θ̄, which lacks the output biases too",
        "theta_star_": "Θ*, the other half of the paper's 2·m",
        "_pulls": "F̂, formed from F once a batch; the paper counts it as F",
    }

    lam: float = 1.0
    max_F: float | None = 0.001
    biases: bool = True

    F_: Tensor | None = field(default=None, init=False)
    theta_star_: Tensor | None = field(default=None, init=False)
    consolidated_: int = field(default=0, init=False)  # batches that F speaks of
    F_i_: Json | None = field(default=None, init=False, repr=False)  # the histogram of F^i
    _pulls: list[tuple[Tensor, Tensor]] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_types(self)
        check(self.lam >= 0, "A bad λ", expected="0 or more", got=self.lam, do="Raise lam.")
        check(
            self.max_F is None or self.max_F > 0,
            "A bad max_F",
            expected="more than 0, or None for no clipping",
            got=self.max_F,
            do="Raise max_F.",
        )

    @abstractmethod
    def F_hat(self) -> Tensor:
        """The normalised importance, from F."""

    def pairs(self) -> list[tuple[Tensor, Tensor]]:
        """The pairs (F̂, θ*) that pull; none before B_1 has been learnt."""
        return [] if self.F_ is None or self.theta_star_ is None else [(self.F_hat(), self.theta_star_)]

    def pulls(self) -> list[tuple[Tensor, Tensor]]:
        """`pairs`, formed once a batch, without the biases if they are to be left alone."""
        if self._pulls is None:
            self._pulls = self.pairs()
            if not self.biases:
                for F_hat, _ in self._pulls:
                    for part in self.bench.scope.regions:
                        if part.bias:
                            F_hat[part.span] = 0.0
        return self._pulls

    def grow(self, extend: Extend) -> None:
        if self.F_ is not None and self.theta_star_ is not None:
            self.F_, self.theta_star_ = extend(self.F_), extend(self.theta_star_)

    def begin(self, i: int) -> None:
        """Form F̂, and judge the step that it will make."""
        self._pulls = None
        if pulls := self.pulls():
            training, parts = self.bench.training, self.bench.scope.regions
            total = reduce(torch.add, [F_hat for F_hat, _ in pulls])
            factors = [training.bias_eta if part.bias else 1.0 for part in parts]
            reached = [float(total[part.span].max()) if len(total[part.span]) else 0.0 for part in parts]
            factor, max_F_hat = max(zip(factors, reached, strict=True), key=lambda pair: pair[0] * pair[1])
            least, most = training.phase(i).etas
            self._check_step(factor * least, factor * most, max_F_hat, training.momentum)

    def _check_step(self, least: float, eta: float, max_F_hat: float, momentum: float) -> None:
        """Warn where (7) overshoots θ* at the largest η; refuse where it diverges at the smallest η already.

        The heavy ball e' = (1 + μ − a)·e − μ·e₋₁ with a = η·λ·F̂ is stable just where a < 2·(1 + μ).
        """
        step, limit = eta * self.lam * max_F_hat, 2 * (1 + momentum)
        numbers = f"η·λ·max F̂ = {eta:g} · {self.lam:g} · {max_F_hat:g} = {step:.4g}"
        if least * self.lam * max_F_hat > limit:
            raise DivergenceError(
                sentence(
                    f"{self.name}'s pull diverges",
                    expected=f"η·λ·max F̂ ≤ 2·(1 + momentum) = {limit:g}",
                    got=numbers,
                    do=f"Lower λ to {1 / (eta * max_F_hat):.4g} or less, or lower η or max_F.",
                )
            )
        if step > 1 + 1e-6:
            warnings.warn(
                f"{self.name}'s pull overshoots θ*: {numbers} is beyond 1 (it diverges beyond {limit:g}). "
                f"The largest λ that does not overshoot is {1 / (eta * max_F_hat):.4g}.",
                OvershootWarning,
                stacklevel=2,
            )

    def keep(self, i: int, F_i: Tensor, F: Tensor) -> None:
        """Keep the importance of B_1 … B_i and the weights as B_i left them; refuse one that is none.

        Args:
            i: the number of the batch (1-based).
            F_i: F^i, the importance of B_i alone, [m].
            F: the importance of B_1 … B_i, [m].
        """
        if not torch.count_nonzero(F_i):
            raise InactiveError(
                sentence(
                    "The regulariser is inactive",
                    expected=f"{self.name}'s importance to be non-zero somewhere after B_{i}",
                    got=f"zero for all {F_i.numel()} weights",
                    do="Check that the weights move: the learning rate, frozen parameters, the loss.",
                )
            )
        if not torch.stack(torch.aminmax(F)).isfinite().all():
            raise NotFiniteError(
                sentence(
                    f"{self.name}'s importance is not finite",
                    expected="finite values",
                    got=f"{int((~torch.isfinite(F)).sum())} NaN or infinite values after B_{i}",
                    do="Lower the learning rate or λ.",
                )
            )
        self.F_, self.theta_star_, self.F_i_ = F, self.bench.scope.value.clone(), histogram(F_i)
        self.consolidated_, self._pulls = self.consolidated_ + 1, None

    @property
    def strength(self) -> float | None:
        return self.lam

    def importance(self) -> Tensor | None:
        pairs = self.pairs()
        return reduce(torch.add, [F_hat for F_hat, _ in pairs]) if pairs else None

    def information(self) -> Tensor | None:
        return self.F_

    def of_batch(self) -> Json | None:
        return self.F_i_

    def overhead(self, m: int, s: int, outputs: int, n_i: int) -> int:
        return 2 * m  # F and Θ*

    def formula(self, *, shared_only: bool) -> str:
        return "2·(m − s·pn)" if shared_only else "2·m"

    def state(self) -> dict[str, Any]:
        kept = {"F": self.F_, "theta_star": self.theta_star_, "consolidated": self.consolidated_}
        return {**kept, "F_i": self.F_i_}

    def load_state(self, state: dict[str, Any]) -> None:
        self.F_, self.theta_star_, self.consolidated_ = state["F"], state["theta_star"], state["consolidated"]
        self.F_i_, self._pulls = state.get("F_i"), None
