"""The space of slots: the hyperparameters of a strategy, read off what it is made of."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from everlearn.heads import CWR
from everlearn.learning.equations import lambda_i
from everlearn.learning.slots import Slots
from everlearn.recipes.presets import with_knobs
from everlearn.recipes.space import Point, Range, Space, rounded
from everlearn.regularisers import EWC, LWF, SI
from everlearn.regularisers.quadratic import Quadratic

PULL = Range(0.02, 1.5)  # η·λ·max_F: above 1 it overshoots
W = Range(1e-6, 1e-2)  # SI's w_1 and w_i
MAX_F = Range(1e-9, 1e-3)  # EWC's, which has no w_i to lift a Fisher information to max_F: it may stay far below
END = Range(0.2, 0.95, log=False)  # the ends of LWF's map
SCALE = Range(0.5, 2.0)  # CWR's w_1


class SlotSpace(Space):
    """The space of a strategy that is made of slots, on one stream.

    Args:
        slots: the strategy as it is before the search, which is also the first point tried.
        etas: the range of η.
        sizes: the n_i of the stream, which LWF's map starts from.
        fixed: knobs that are not searched for.
        searched: ranges of further knobs, for slots that are not known here.

    Dimensions: η of B_1 and of later batches; the pull η·λ·max_F rather than λ (a λ means nothing without its η);
    SI's w_1 and w_i; EWC's max_F; both ends of LWF's map; CWR's w_1. Everything else stays as the slots have it.
    """

    def __init__(
        self,
        slots: Slots,
        etas: tuple[float, float],
        sizes: Sequence[int],
        fixed: Collection[str] = (),
        searched: Mapping[str, Range] | None = None,
    ) -> None:
        self.slots, self.sizes, self.further = slots, list(sizes), list(searched or {})
        regulariser, head = slots.regulariser, slots.head
        ranges = {"training.first.eta": {"eta_1": Range(*etas)}, "training.later.eta": {"eta_i": Range(*etas)}}
        if isinstance(regulariser, Quadratic):
            ranges[f"{regulariser.name}.lam"] = {"pull": PULL}
        if isinstance(regulariser, EWC):
            ranges["ewc.max_F"] = {"max_F": MAX_F}
        if isinstance(regulariser, SI):
            ranges |= {"si.w_1": {"w_1": W}, "si.w_i": {"w_i": W}}
        if isinstance(regulariser, LWF):
            ranges["lwf.map"] = {"low": END, "high": END}
        if isinstance(head, CWR) and head.shift == "none":
            ranges["cwr.w_1"] = {"scale": SCALE}
        ranges |= {knob: {knob: span} for knob, span in (searched or {}).items()}
        self._ranges = {knob: span for knob, span in ranges.items() if knob not in fixed}

    @property
    def ranges(self) -> dict[str, Range]:
        """Every dimension."""
        return {name: span for spans in self._ranges.values() for name, span in spans.items()}

    def place(self, knobs: dict[str, Any]) -> Point:
        """The point of the space that is nearest to these knobs; those that are not searched for count for nothing."""
        searched = {knob: value for knob, value in knobs.items() if knob in self._ranges}
        values = self._values(with_knobs(self.slots, searched))
        return {name: span.clip(values[name]) for name, span in self.ranges.items()}

    def _values(self, slots: Slots) -> Point:
        training, regulariser, head = slots.training, slots.regulariser, slots.head
        values: Point = {"eta_1": training.first.eta, "eta_i": training.later.eta}
        if isinstance(regulariser, Quadratic):
            values["max_F"] = regulariser.max_F or 1.0
            values["pull"] = training.later.eta * regulariser.lam * values["max_F"]
        if isinstance(regulariser, SI):
            values |= {"w_1": regulariser.w_1, "w_i": regulariser.w_i}
        if isinstance(regulariser, LWF):
            values |= dict(zip(("low", "high"), regulariser.map[1], strict=True))
        if isinstance(head, CWR):
            values["scale"] = head.w_1
        own = slots.hyperparameters if self.further else {}
        return values | {knob: own[knob] for knob in self.further}

    def knobs(self, point: Point) -> dict[str, Any]:
        """The knobs that a point stands for."""
        here = {**self._values(self.slots), **point}
        regulariser = self.slots.regulariser
        makers: dict[str, Callable[[], Any]] = {
            "training.first.eta": lambda: here["eta_1"],
            "training.later.eta": lambda: here["eta_i"],
            "si.w_1": lambda: here["w_1"],
            "si.w_i": lambda: here["w_i"],
            "ewc.max_F": lambda: here["max_F"],
            "lwf.map": lambda: [list(self._shares()), sorted((here["low"], here["high"]))],
            "cwr.w_1": lambda: here["scale"],
        }
        if isinstance(regulariser, Quadratic):
            scale = here["eta_i"] * here["max_F"]
            makers[f"{regulariser.name}.lam"] = lambda: rounded(here["pull"] / scale)
        return {knob: here[knob] if knob in self.further else makers[knob]() for knob in self._ranges}

    def _shares(self) -> tuple[float, float]:
        """1 − n_i/Σn_j for B_2 and for the last batch: where LWF's map starts from."""
        n, total = self.sizes, 0
        shares = []
        for i, n_i in enumerate(n, start=1):
            total += n_i
            shares.append(lambda_i(i, n_i, total, ((0.0, 1.0), (0.0, 1.0))))
        later = shares[1:] or [0.0]
        low, high = rounded(min(later)), rounded(max(later))
        return (low, high) if low < high else (0.0, 1.0)
