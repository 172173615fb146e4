"""The CWR heads: temporary weights tw to train with, consolidated weights cw to test with. CWR* is in a file apart."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from everlearn._kit.keyed import keyed_generator
from everlearn._kit.knobs import check
from everlearn.errors import DataError, InactiveError, sentence
from everlearn.learning.head import Head
from everlearn.learning.memory import Memory, NoMemory
from everlearn.learning.theta import Extend

Shift = Literal["none", "batch", "all"]
Bias = Literal["fixed", "learned", "zero"]


@dataclass
class Consolidating(Head):
    """What CWR, CWR+ and CWR* share.

    Before B_i, tw starts anew for all rows, as `init` says, without momentum; the rows of B_i whose classes are known
    start from cw. After it, (tw[j] − avg(tw)) / std(tw) goes into cw[j] for the classes j of B_i, as a subclass says.
    Between batches the output layers hold cw.

    shift: CWR+'s mean shift; avg(tw) is one scalar for each output layer, over all elements of B_i's rows (`batch`),
    or of all rows, as the text can be read (`all`: about 0, by the softmax); `none` for CWR.
    unit_std: divide by the standard deviation of the elements of B_i's rows as well, which the paper tried.
    bias: `fixed` at 1 for classes seen and 0 for others, never trained (the authors' code); `zero`; or `learned`,
    started at 0 (at cw, as its row is) and consolidated as one more column, with an avg of its own.
    """

    shared_only: ClassVar[bool] = True
    shaping: ClassVar[tuple[str, ...]] = ("growth", "init", "shift", "unit_std", "bias")
    why: ClassVar[dict[str, str]] = {
        **Head.why,
        "cw_": "cw, while the output layers hold tw: the paper's s·pn, and the biases beside them",
    }

    shift: Shift = "none"
    unit_std: bool = False
    bias: Bias = "fixed"

    cw_: list[Tensor] = field(default_factory=list, init=False)  # while a batch is learnt: cw, laid out as the outputs

    def init_rows(self, rows: range) -> None:
        """cw = 0 (line 1)."""
        with torch.no_grad():
            for part in self._live():
                part[rows.start : rows.stop] = 0.0

    def begin(self, counts: Mapping[int, int], i: int, *, distils: bool) -> Extend | None:
        extend = super().begin(counts, i, distils=distils)
        self.cw_ = [part.clone() for part in self._live()]
        generator = keyed_generator(self.seed, "tw", i)
        again = sorted({row for rows in self.batches_[:-1] for row in rows} & set(self.batches_[-1]))
        with torch.no_grad():
            for part, v, cw in zip(self._live(), self.theta.output_views(self.theta.v), self.cw_, strict=True):
                v.zero_()
                if _is_bias(part):
                    part.copy_(self._bias_start(part))
                else:
                    self.fill_(part, generator)  # line 5: re-init tw, or tw = 0
                part[again] = cw[again]  # CWR*: tw[j] = cw[j]
        self.hold_begin(distils=distils)
        return extend

    def test_rows(self) -> list[Tensor] | None:
        """While a batch is learnt: cw with the rows of the batch at hand consolidated from tw (lines 9 and 10)."""
        if not self.cw_:
            return None  # the output layers hold cw
        rows = self.batches_[-1]
        merged = []
        for old, tw in zip(self.cw_, self._live(), strict=True):
            cw = old.clone()
            if _is_bias(tw) and self.bias != "learned":
                cw = self._bias_start(tw)
            else:
                of = tw if self.shift == "all" else tw[rows]
                avg = 0.0 if self.shift == "none" else float(of.mean())
                std = self._std(tw[rows]) if self.unit_std and not _is_bias(tw) else 1.0
                cw[rows] = self.into(old[rows], self.scale * (tw[rows] - avg) / std)  # w_i·tw[j], or tw[j] − avg(tw)
            merged.append(cw)
        return merged

    def consolidate(self, i: int) -> None:
        super().consolidate(i)
        cw = self.test_rows()
        assert cw is not None
        for live, part in zip(self._live(), cw, strict=True):
            live.copy_(part)
        self.cw_ = []

    @property
    def scale(self) -> float:
        """w_i of the batch at hand."""
        return 1.0

    def into(self, old: Tensor, new: Tensor) -> Tensor:
        """cw of B_i's rows, from `old`, which it was, and `new`, which B_i makes of them."""
        return new

    def hold_begin(self, *, distils: bool) -> None:
        super().hold_begin(distils=distils)
        if self.bias != "learned":
            every = torch.arange(self.s, device=self.theta.value.device)
            for part, v in zip(self._live(), self.theta.output_views(self.theta.v), strict=True):
                if _is_bias(part):
                    self._held.append((part, v, every, part.clone()))

    def _live(self) -> list[Tensor]:
        """The output layers' weights and biases as they stand in Θ."""
        return self.theta.output_views(self.theta.value)

    def _bias_start(self, part: Tensor) -> Tensor:
        start = torch.zeros_like(part)
        if self.bias == "fixed":
            start[self.seen_] = 1.0
        return start

    # --- beside the maths -------------------------------------------------------------------------

    def __post_init__(self) -> None:
        super().__post_init__()
        check(
            self.init != "keep",
            "A CWR head starts tw anew for every batch",
            expected="zero, constant, gaussian or xavier",
            got=self.init,
            do='Use init="gaussian" for CWR, init="zero" for the others.',
        )

    def refuses(self, memory: Memory) -> str:
        if isinstance(memory, NoMemory):
            return ""
        return "A head that consolidates B_i's rows alone leaves what tw learns of replayed classes unused"

    @property
    def starts_at_zero(self) -> bool:
        return self.init == "zero" and self.bias != "fixed"

    def overhead(self, pn: list[int]) -> int:
        return self.s * sum(pn)  # s·pn, over all output layers

    def _std(self, tw: Tensor) -> float:
        """The standard deviation of all elements of B_i's rows."""
        std = float(tw.std(correction=0))
        if std == 0.0:
            raise InactiveError(
                sentence(
                    "The rows of tw have no deviation to divide by",
                    expected="elements that differ",
                    got="all alike",
                    do="Check that the head learns (the learning rate, a ReLU over zero rows), or set unit_std=False.",
                )
            )
        return std

    def state(self) -> dict[str, Any]:
        return {"classes": list(self.classes_), "batches": [list(rows) for rows in self.batches_], "cw": list(self.cw_)}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.cw_ = list(state["cw"])


@dataclass
class CWR(Consolidating):
    """Copy Weights with Re-init, and CWR+ by its knobs (Algorithms 1 and 2).

    cw[j] = w_i·(tw[j] − avg(tw)) / std(tw) for the classes j of B_i, which must be new. CWR has init="gaussian" and no
    shift, CWR+ init="zero" and shift="batch".

    w_1, w_i: CWR's scale for B_1 and for later batches (CWR+: 1).

    >>> CWR(init="zero", shift="batch").w_i
    1.0
    """

    name: ClassVar[str] = "cwr"

    w_1: float = 1.0
    w_i: float = 1.0

    @property
    def scale(self) -> float:
        return self.w_1 if len(self.batches_) == 1 else self.w_i

    def __post_init__(self) -> None:
        super().__post_init__()
        for w in (self.w_1, self.w_i):
            check(w > 0, "A bad w_i", expected="more than 0", got=w, do="Raise w_1 or w_i.")

    def check_known(self, known: list[int]) -> None:
        raise DataError(
            sentence(
                "CWR and CWR+ would overwrite the consolidated rows of known classes",
                expected="classes that no earlier batch had",
                got=known,
                do="On streams that bring known classes again (NI, NIC) use cwr* or ar1*, or the head cwr_star in "
                "place of this one.",
            )
        )


def _is_bias(part: Tensor) -> bool:
    return part.ndim == 1
