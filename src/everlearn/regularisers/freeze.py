"""Freezing Θ̄ after B_1: what CWR, CWR+, FW and CW do with the shared weights."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from everlearn._kit.knobs import check_types
from everlearn.learning.regulariser import Regulariser, Trunk

Features = Literal["once", "every_step"]


@dataclass
class Freeze(Regulariser):
    """Learn Θ̄ on B_1 and keep it fixed from B_2 on (Algorithms 1 and 2, lines 7 and 8).

    A frozen Θ̄ is byte-identical after the batch: no gradient, no weight decay, no leftover momentum, and the trunk
    in evaluation mode, so batch-norm statistics stay and no dropout acts inside it.

    dropout: let dropout act inside the frozen trunk all the same. features: a frozen trunk in evaluation mode gives
    the same outputs at every step, so they are computed `once` a batch; `every_step` is the slow way to the same
    result (up to rounding), and dropout needs it.
    """

    name: ClassVar[str] = "freeze"

    dropout: bool = False
    features: Features = "once"

    def __post_init__(self) -> None:
        check_types(self)

    def begin(self, i: int) -> None:
        self.bench.scope.freeze(i > 1)

    @property
    def trunk(self) -> Trunk:
        if self.dropout:
            return "dropout"
        return "still" if self.features == "once" else "evaluation"
