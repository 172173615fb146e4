"""Freezing Θ̄ after B_1: what CWR, CWR+, FW and CW do with the shared weights."""

from dataclasses import dataclass
from typing import ClassVar

from everlearn.regularisers.base import Regulariser
from everlearn.theta import Scope


@dataclass
class Freeze(Regulariser):
    """Learn Θ̄ on B_1 and keep it fixed from B_2 on (Algorithms 1 and 2, lines 7 and 8).

    A frozen Θ̄ is byte-identical after the batch: no gradient, no weight decay, no leftover momentum, and the trunk
    in evaluation mode, so batch-norm statistics stay and no dropout acts inside it.
    """

    name: ClassVar[str] = "freeze"

    def begin(self, theta: Scope, i: int, etas: tuple[float, float], bias_eta: float, momentum: float) -> None:
        theta.freeze(i > 1)
