"""What every source of data gives: training and test patterns with their classes and sessions."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import DataError, sentence

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Patterns:
    """x: [n, channels, height, width], uint8 or float32; y: the class of each; session: 1-based, 0 where there is none.

    >>> Patterns(np.zeros((3, 1, 2, 2), dtype="uint8"), np.array([0, 1, 1])).session
    array([0, 0, 0])
    """

    x: Array
    y: Array
    session: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    def __post_init__(self) -> None:
        if not len(self.session):
            object.__setattr__(self, "session", np.zeros(len(self.y), dtype=np.int64))
        if self.x.ndim != 4 or not len(self.x) == len(self.y) == len(self.session):
            raise DataError(
                sentence(
                    "Patterns, classes and sessions do not fit",
                    expected="x [n, channels, height, width], and as many classes and sessions",
                    got=f"x {self.x.shape}, y {self.y.shape}, session {self.session.shape}",
                    do="Give one class, and one session or none, for each pattern.",
                )
            )

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, eq=False)
class Source:
    """A source: its name, its training and test patterns, and the names of its classes.

    Args:
        name: what it is called.
        train: the training patterns.
        test: the test patterns.
        classes: the names of the classes; y is a place in them.
        synthetic: drawn, not photographed; said wherever the source is named.
    """

    name: str
    train: Patterns
    test: Patterns
    classes: tuple[str, ...]
    synthetic: bool = False

    def only(self, classes: Sequence[int]) -> "Source":
        """The patterns of these classes, which are numbered anew in this order.

        Args:
            classes: their numbers so far; the first becomes class 0.
        """
        new = np.full(len(self.classes), -1)
        new[list(classes)] = np.arange(len(classes))

        def part(of: Patterns) -> Patterns:
            places = np.flatnonzero(new[of.y] >= 0)
            return Patterns(of.x[places], new[of.y[places]], of.session[places])

        names = tuple(self.classes[c] for c in classes)
        return replace(self, train=part(self.train), test=part(self.test), classes=names)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of a pattern."""
        channels, height, width = self.train.x.shape[1:]
        return channels, height, width
