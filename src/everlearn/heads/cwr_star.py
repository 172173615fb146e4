"""CWR*: the CWR+ head for streams that bring known classes again, by a weighted average of old rows and new."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
import torch.nn.functional as fn
from torch import Tensor

from everlearn.heads.cwr import Consolidating, Shift
from everlearn.learning.bench import Bench
from everlearn.learning.head import Init
from everlearn.learning.theta import Extend


@dataclass
class CWRStar(Consolidating):
    """CWR*, by the paper's authors after it, for NI and NIC.

    Before B_i, tw[j] = cw[j] for the classes of B_i that are known, and tw[j] = 0 for all others. After it, for the
    classes j of B_i, cw[j] = (cw[j]·wpast_j + (tw[j] − avg(tw))) / (wpast_j + 1) with wpast_j = √(past_j / cur_j),
    past_j and cur_j being the patterns of class j before B_i and in it. Where all classes are new it is CWR+.

    >>> CWRStar().init, CWRStar().shift
    ('zero', 'batch')
    """

    name: ClassVar[str] = "cwr_star"
    why: ClassVar[dict[str, str]] = {
        **Consolidating.why,
        "past_": "CWR*'s past_j, the patterns of each class so far, which CWR+ does not need",
        "cur_": "CWR*'s cur_j, the patterns of each class in the batch at hand",
    }

    init: Init = "zero"
    shift: Shift = "batch"

    past_: Tensor | None = field(default=None, init=False)  # past_j of each row
    cur_: Tensor | None = field(default=None, init=False)  # while a batch is learnt: cur_j of each row

    def attach(self, bench: Bench) -> None:
        super().attach(bench)
        self.past_ = torch.zeros(self.s, dtype=torch.long, device=bench.device)

    def begin(self, counts: Mapping[int, int], i: int, *, distils: bool) -> Extend | None:
        extend = super().begin(counts, i, distils=distils)
        assert self.past_ is not None
        if extend is not None:
            self.past_ = fn.pad(self.past_, (0, self.s - len(self.past_)))  # a new class has no past
        self.cur_ = torch.zeros_like(self.past_)
        self.cur_[self.batches_[-1]] = self.cur_.new_tensor(list(counts.values()))
        return extend

    def consolidate(self, i: int) -> None:
        super().consolidate(i)
        assert self.past_ is not None
        assert self.cur_ is not None
        self.past_, self.cur_ = self.past_ + self.cur_, None

    def into(self, old: Tensor, new: Tensor) -> Tensor:
        assert self.past_ is not None
        assert self.cur_ is not None
        past, cur = (counts[self.batches_[-1]].to(new.dtype) for counts in (self.past_, self.cur_))
        wpast = (past / cur).sqrt().view(-1, *[1] * (old.ndim - 1))
        return (old * wpast + new) / (wpast + 1)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "past": self.past_, "cur": self.cur_}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        self.past_, self.cur_ = state["past"], state["cur"]
