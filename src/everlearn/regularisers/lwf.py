"""Learning Without Forgetting: keep the predictions of old classes stable on the new patterns."""

from dataclasses import dataclass, field
from math import inf
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as fn
from torch import Tensor

from everlearn._kit.knobs import check, check_types
from everlearn.data.batch import Batch
from everlearn.learning.equations import Map, lambda_i
from everlearn.learning.loss import Minibatch, Term, Terms
from everlearn.learning.regulariser import Regulariser

Form = Literal["fused", "two_term", "distillation"]


@dataclass
class LWF(Regulariser):
    """LWF as the paper runs it: soft targets (1 − λ_i)·y_1h + λ_i·y_lwf, with λ_i from the shares of patterns.

    map: ((a, b), (c, d)), the linear map of (5) from [a … b] onto [c … d].
    lam: a constant λ for all batches after the first, instead of the map.
    form: `fused` is L_2, (3); `two_term` is L_1, (2), with the same gradient, and (1) at another temperature;
    `distillation` is the native L_cross(y_1h) + λ·L_kdl(y_lwf) of Li and Hoiem.
    temperature: of the distilled term; theirs is 2. L_kdl is not multiplied by temperature²: λ absorbs it.

    y_lwf is computed once, before training on B_i and before the head expands, in evaluation mode. On an expanding
    head its entries for new rows are 0. With a per-task head L_cross is over B_i's rows and y_lwf over the old rows.

    >>> LWF(map=((0.5, 0.9), (0.45, 0.85))).form
    'fused'
    """

    name: ClassVar[str] = "lwf"
    takes_replay: ClassVar[bool] = False  # y_lwf is of B_i's patterns
    why: ClassVar[dict[str, str]] = {
        "y_lwf_": "the predictions n_i·s of every output layer; on an expanding head s counts the old rows",
        "rows_": "the rows that y_lwf is over",
    }

    map: Map = ((0.0, 1.0), (0.0, 1.0))
    lam: float | None = None
    form: Form = "fused"
    temperature: float = 1.0

    lam_: float = field(default=0.0, init=False)  # λ_i of the batch at hand
    n_: int = field(default=0, init=False)  # Σ n_j so far
    rows_: Tensor | None = field(default=None, init=False)  # the rows that y_lwf is over; None for all
    y_lwf_: list[Tensor] = field(default_factory=list, init=False)

    def prepare(self, i: int, data: Batch) -> None:
        self.n_ += len(data)
        self.lam_ = lambda_i(i, len(data), self.n_, self.map) if self.lam is None or i == 1 else self.lam  # (5)
        self.rows_ = rows = self.bench.rows.distilled()
        self.y_lwf_ = []
        if self.lam_:
            outputs = [o if rows is None else o[:, rows] for o in self.bench.logits(data.x)]
            self.y_lwf_ = [(o / self.temperature).softmax(dim=1) for o in outputs]

    def loss_terms(self, o: Tensor, hard: Term, at: Minibatch) -> Terms:
        if not self.lam_:  # B_1, or λ = 0: nothing to remember
            return [hard]
        y_lwf = self.y_lwf_[at.output][at.idx]
        if self.rows_ is None:  # all rows of the head; those that are new had no prediction
            y_lwf = fn.pad(y_lwf, (0, at.s - y_lwf.shape[1]))
        if self.form == "distillation":  # native: L_cross + λ·L_kdl
            return [hard, Term(self.lam_, y_lwf, self.rows_, self.temperature)]
        if self.form == "fused" and self.rows_ is None and hard.rows is None:  # (3): (1 − λ)·y_1h + λ·y_lwf
            y_1h = torch.zeros_like(y_lwf).scatter_(1, hard.t[:, None], 1.0)
            return [Term(1.0, torch.lerp(y_1h, y_lwf, self.lam_))]
        return [hard._replace(weight=1 - self.lam_), Term(self.lam_, y_lwf, self.rows_, self.temperature)]  # (1), (2)

    def consolidate(self, i: int, data: Batch) -> None:
        self.y_lwf_ = []

    # --- beside the maths -------------------------------------------------------------------------

    def __post_init__(self) -> None:
        check_types(self)
        top = inf if self.form == "distillation" else 1.0
        (a, b), ends = self.map
        check(
            a < b and all(0 <= end <= top for end in ends),
            "A bad map",
            expected=f"((a, b), (c, d)) with a < b and c, d from 0 to {top}",
            got=self.map,
            do="Give the end points as the paper's tables do, e.g. ((0.5, 0.9), (0.45, 0.85)).",
        )
        check(
            self.lam is None or 0 <= self.lam <= top,
            "A bad λ",
            expected=f"0 ≤ λ ≤ {top}",
            got=self.lam,
            do="λ shares out one loss between new and old.",
        )
        check(
            self.temperature > 0 and (self.temperature == 1 or self.form != "fused"),
            "A bad temperature",
            expected="1 for fused targets, else any above 0",
            got=f"{self.temperature} with form={self.form!r}",
            do='Set form="distillation" for the native LWF, or form="two_term" for (1).',
        )

    @property
    def distils(self) -> bool:
        return self.lam_ > 0

    @property
    def strength(self) -> float | None:
        return self.lam_

    def overhead(self, m: int, s: int, outputs: int, n_i: int) -> int:
        return n_i * s * outputs

    def formula(self, *, shared_only: bool) -> str:
        return "n_i·s for each output layer, while B_i is learnt"

    def state(self) -> dict[str, Any]:
        return {"lam": self.lam_, "n": self.n_, "rows": self.rows_, "y_lwf": list(self.y_lwf_)}

    def load_state(self, state: dict[str, Any]) -> None:
        self.lam_, self.n_, self.rows_, self.y_lwf_ = state["lam"], state["n"], state["rows"], list(state["y_lwf"])
