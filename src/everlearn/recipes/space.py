"""What a search may change of a strategy: its dimensions, and the knobs that a point of them stands for."""

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

Point = dict[str, float]
"""A place in the space, by the names of its dimensions."""


class Range(NamedTuple):
    """From low to high, on a log scale or a plain one.

    Args:
        low: the smallest value.
        high: the largest value.
        log: whether it is searched on a log scale.
    """

    low: float
    high: float
    log: bool = True

    def clip(self, value: float) -> float:
        """The nearest value in the range.

        Args:
            value: any number.
        """
        return min(max(value, self.low), self.high)


class Space:
    """A space with one dimension for each knob that is searched for. Without dimensions there is one point.

    Args:
        searched: the range of each knob, by its name.
        start: every knob's value before the search, which is also the first point tried. A knob that is an integer
            there stays one.
        fixed: knobs that are not searched for.

    >>> space = Space({"k": Range(1, 50), "scale": Range(0.1, 10)}, {"k": 5, "scale": 1.0}, fixed=["scale"])
    >>> space.first, space.knobs({"k": 7.3})
    ({'k': 5}, {'k': 7})
    """

    def __init__(self, searched: Mapping[str, Range], start: Mapping[str, Any], fixed: Collection[str] = ()) -> None:
        self._searched = {knob: span for knob, span in searched.items() if knob not in fixed}
        self._start = start

    @property
    def ranges(self) -> dict[str, Range]:
        """Every dimension."""
        return dict(self._searched)

    @property
    def first(self) -> Point:
        """The strategy as it is before the search, as a point of the space."""
        return self.place({})

    def place(self, knobs: dict[str, Any]) -> Point:
        """The point of the space that is nearest to these knobs; those that are not searched for count for nothing."""
        return {knob: span.clip(knobs.get(knob, self._start[knob])) for knob, span in self._searched.items()}

    def point(self, suggest: Callable[[str, Range], float]) -> Point:
        """A point, one dimension after the other."""
        return {name: rounded(suggest(name, span)) for name, span in self.ranges.items()}

    def knobs(self, point: Point) -> dict[str, Any]:
        """The knobs that a point stands for."""
        return {knob: round(value) if _whole(self._start[knob]) else value for knob, value in point.items()}


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def rounded(value: float, digits: int = 3) -> float:
    """To so many significant digits, so that what is published is what was run.

    >>> rounded(0.00123456), rounded(98765.4)
    (0.00123, 98800.0)
    """
    if value == 0:
        return 0.0
    return float(f"{value:.{digits - 1}e}")
