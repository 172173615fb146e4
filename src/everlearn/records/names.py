"""How strategies and benchmarks are called and drawn: the same on every page."""

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
class Look:
    """How a strategy is drawn: by colour, and by dash and marker for those who see no colours."""

    colour: int
    dash: int
    marker: int


_SPELT = {
    "naive": ("Naive", Look(1, 0, 1)),
    "cumulative": ("Cumulative", Look(0, 1, 0)),
    "lwf": ("LWF", Look(5, 0, 3)),
    "ewc": ("EWC", Look(6, 0, 1)),
    "si": ("SI", Look(7, 0, 4)),
    "fw": ("FW", Look(4, 2, 1)),
    "cw": ("CW", Look(4, 3, 0)),
    "cwr": ("CWR", Look(4, 0, 2)),
    "cwr+": ("CWR+", Look(3, 0, 5)),
    "cwr*": ("CWR*", Look(3, 1, 1)),
    "ar1": ("AR1", Look(2, 0, 0)),
    "ar1*": ("AR1*", Look(2, 1, 2)),
    "ar1-ewc": ("AR1-EWC", Look(2, 2, 1)),
    "ar1-lwf": ("AR1-LWF", Look(2, 3, 3)),
    "rehe": ("REHE", Look(8, 0, 2)),
    "gem": ("GEM", Look(8, 1, 3)),
    "icarl": ("iCaRL", Look(8, 2, 0)),
}
REHEARSAL = frozenset({"cumulative", "rehe", "gem", "icarl"})
UPPER_BOUND = "cumulative"
"""The strategy that keeps everything: an upper bound, not a contender."""

_SYNTHETIC = ("mini50",)


def look(strategy: str, variant: int = 0) -> Look:
    """A strategy's look; a name that is not the paper's gets one by its letters. Variants differ in their dashes.

    >>> look("ar1") == look("ar1"), look("ar1").colour == look("ar1", variant=1).colour
    (True, True)
    """
    if strategy in _SPELT:
        found = _SPELT[strategy][1]
    else:
        drawn = hashlib.sha256(strategy.encode("utf-8", "replace")).digest()
        found = Look(2 + drawn[0] % (COLOURS - 2), 1 + drawn[1] % (len(DASHES) - 1), drawn[2] % len(MARKERS))
    return Look(found.colour, (found.dash + variant) % len(DASHES), (found.marker + variant) % len(MARKERS))


def spelt(strategy: str) -> str:
    """A strategy as the paper spells it.

    >>> spelt("ar1"), spelt("mine")
    ('AR1', 'mine')
    """
    return _SPELT[strategy][0] if strategy in _SPELT else strategy


def is_synthetic(benchmark: str) -> bool:
    """Whether a benchmark is known to be drawn; the configs of its runs may say so too."""
    return benchmark.startswith(_SYNTHETIC)
