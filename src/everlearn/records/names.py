"""How strategies and benchmarks are called and drawn: the same on every page."""

from everlearn.recipes import words_of
from everlearn.recipes.style import COLOURS, DASHES, MARKERS, Style

__all__ = ["COLOURS", "DASHES", "MARKERS", "Style", "is_bound", "is_synthetic", "rehearses", "spelt", "style"]

_SYNTHETIC = ("mini50",)


def style(strategy: str, variant: int = 0) -> Style:
    """A strategy's style; a name without a recipe gets one by its letters. Variants differ in their dashes.

    >>> style("ar1") == style("ar1"), style("ar1").colour == style("ar1", variant=1).colour
    (True, True)
    """
    return words_of(strategy).style.varied(variant)


def spelt(strategy: str) -> str:
    """A strategy as its recipe spells it.

    >>> spelt("ar1"), spelt("mine")
    ('AR1', 'mine')
    """
    return words_of(strategy).title


def rehearses(strategy: str) -> bool:
    """Whether it keeps old patterns, as far as its recipe tells.

    >>> rehearses("cumulative"), rehearses("icarl"), rehearses("ar1")
    (True, True, False)
    """
    return words_of(strategy).keeps != "nothing"


def is_bound(strategy: str) -> bool:
    """Whether it keeps everything: an upper bound, not a contender.

    >>> is_bound("cumulative"), is_bound("icarl")
    (True, False)
    """
    return words_of(strategy).keeps == "everything"


def is_synthetic(benchmark: str) -> bool:
    """Whether a benchmark is known to be drawn; the configs of its runs may say so too."""
    return benchmark.startswith(_SYNTHETIC)
