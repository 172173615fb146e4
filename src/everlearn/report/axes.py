"""Where things stand in a chart: round ticks from zero, and labels that do not overlap."""

import math
from collections.abc import Sequence
from dataclasses import dataclass


def step(top: float, most: int = 5) -> float:
    """The smallest round step (1, 2 or 5 times a power of ten) that needs at most so many steps to the top.

    >>> step(1.0), step(0.93), step(37)
    (0.2, 0.2, 10.0)
    """
    if not top > 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(top / most))
    return next(round(power * k, 12) for k in (1, 2, 5, 10, 20) if power * k * most >= top * (1 - 1e-9))


def ticks(top: float, most: int = 5) -> list[float]:
    """Round values from 0 to the first at or above the top.

    >>> ticks(0.93)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    width = step(top, most)
    return [round(k * width, 12) for k in range(math.ceil(top / width - 1e-9) + 1)] if top > 0 else [0.0, width]


def batch_ticks(of: int, most: int = 12) -> list[int]:
    """Batch numbers to write under a chart: all of them, or the first and round ones.

    >>> batch_ticks(3), batch_ticks(25)
    ([1, 2, 3], [1, 5, 10, 15, 20, 25])
    """
    if of <= most:
        return list(range(1, of + 1))
    width = max(1, round(step(of, most // 2)))
    return [1, *range(width, of + 1, width)]


def apart(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions as near to the wanted ones as a gap between them allows, in the same order, from low to high.

    >>> apart([10, 11, 50], gap=10, low=0, high=100)
    [5.5, 15.5, 50.0]
    """
    gap = min(gap, (high - low) / max(1, len(wanted) - 1))
    blocks: list[tuple[float, list[int]]] = []  # where a block of touching labels starts, and who is in it
    for k in sorted(range(len(wanted)), key=lambda k: wanted[k]):
        block = [k]
        while True:
            start = sum(wanted[j] - gap * place for place, j in enumerate(block)) / len(block)
            start = max(low, min(start, high - gap * (len(block) - 1)))
            if not blocks or blocks[-1][0] + gap * len(blocks[-1][1]) <= start:
                break
            block = blocks.pop()[1] + block
        blocks.append((start, block))
    placed = {k: start + gap * place for start, block in blocks for place, k in enumerate(block)}
    return [placed[k] for k in range(len(wanted))]


@dataclass(frozen=True)
class Frame:
    """A chart's coordinates, in the units of its drawing."""

    of: int
    top: float
    width: float = 440
    height: float = 300
    left: float = 42
    right: float = 98
    above: float = 12
    below: float = 42

    @property
    def end(self) -> float:
        """Where the last batch stands."""
        return self.width - self.right

    @property
    def floor(self) -> float:
        """Where zero stands."""
        return self.height - self.below

    def x(self, i: float) -> float:
        """Where batch i stands."""
        if self.of == 1:
            return (self.left + 8 + self.end) / 2
        return self.left + 8 + (self.end - self.left - 8) * (i - 1) / (self.of - 1)

    def y(self, value: float) -> float:
        """Where a value stands; what is beyond the frame stands at its edge."""
        return self.floor - (self.floor - self.above) * min(max(value / self.top, 0), 1)
