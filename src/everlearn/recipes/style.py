"""How a strategy is drawn: the same on every page and in every figure."""

import hashlib
from dataclasses import dataclass

COLOURS = 9
DASHES = ("none", "7 3", "2 3", "8 3 2 3")
MARKERS = (
    "M-3 0a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z",  # circle
    "M-2.7 -2.7h5.4v5.4h-5.4z",  # square
    "M0 -3.8L3.8 0L0 3.8L-3.8 0z",  # diamond
    "M0 -3.6L3.6 2.7H-3.6z",  # triangle
    "M0 3.6L3.6 -2.7H-3.6z",  # triangle on its tip
    "M-3.4 -1.1h2.3v-2.3h2.2v2.3h2.3v2.2h-2.3v2.3h-2.2v-2.3h-2.3z",  # plus
)


@dataclass(frozen=True)
class Style:
    """How a strategy is drawn: by colour, and by dash and marker for those who see no colours.

    Args:
        colour: the place in the pages' palette, from 0; 0 and 1 are ours, for the bounds.
        dash: the place in `DASHES`.
        marker: the place in `MARKERS`.
    """

    colour: int
    dash: int
    marker: int

    def varied(self, variant: int) -> "Style":
        """The style of a strategy's variant: the colour stays, dash and marker go on by so many places.

        >>> Style(2, 3, 0).varied(1)
        Style(colour=2, dash=0, marker=1)
        """
        return Style(self.colour, (self.dash + variant) % len(DASHES), (self.marker + variant) % len(MARKERS))


def drawn(name: str) -> Style:
    """The style of a strategy that chose none, by the letters of its name: the same everywhere.

    >>> drawn("mine") == drawn("mine"), drawn("mine") == drawn("yours")
    (True, False)
    """
    letters = hashlib.sha256(name.encode("utf-8", "replace")).digest()
    return Style(2 + letters[0] % (COLOURS - 2), 1 + letters[1] % (len(DASHES) - 1), letters[2] % len(MARKERS))
