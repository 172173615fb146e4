"""How every figure looks: sizes for print, the page's colours, and texts that are drawn and never obeyed."""

import math
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import Colormap, ListedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont
from matplotlib.ft2font import FT2Font
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from everlearn.records.names import DASHES, Style
from everlearn.report.axes import batch_ticks
from everlearn.report.colours import EMPTY, colours
from everlearn.report.markup import plain

DPI = 200
WIDTH = 7.2
"""Inches: the text of a page of two columns."""

PALETTE = ("#1a1d21", "#8b9099", "#c42400", "#5b2b05", "#c78600", "#006d5e", "#18139a", "#0099ef", "#862dca")
"""The page's colours on white, which eyes that see fewer colours tell apart too."""
INK, QUIET, RULE, FIRM = "#1a1d21", "#59616c", "#e2e5e9", "#9aa2ad"

_HEIGHT = {"title": 0.19, "note": 0.145}
"""The parts of a heading, and the inches that a line of each takes."""
_MARKERS = ("o", "s", "D", "^", "v", "P")
_FONT = "DejaVu Sans"  # comes with matplotlib, so that a figure is the same everywhere
_STYLE: Any = {  # matplotlib types its keys one by one
    "font.family": _FONT,
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 6,
    "axes.labelsize": 8,
    "axes.labelcolor": INK,
    "axes.edgecolor": FIRM,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "xtick.color": FIRM,
    "ytick.color": FIRM,
    "xtick.labelcolor": QUIET,
    "ytick.labelcolor": QUIET,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.size": 3,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.handlelength": 2.2,
    "text.color": INK,
    "text.parse_math": False,
    "figure.dpi": DPI,
    "savefig.dpi": DPI,
    "svg.fonttype": "path",
    "svg.hashsalt": "everlearn",
}


@contextmanager
def styled() -> Iterator[None]:
    """Our style, whatever the user's own settings; they are back afterwards."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(_STYLE)
        yield


@cache
def _known(character: str) -> bool:
    return FT2Font(findfont(_FONT)).get_char_index(ord(character)) != 0


def text(words: object, most: int = 60) -> str:
    r"""Words from a record as they are drawn: one line, no control characters, none that the font lacks.

    What is too long keeps its beginning and its end.

    >>> text("a\x1b[31m\n  b"), text("a long name 2", most=9)
    ('a�[31m b', 'a lon…e 2')
    """
    line = " ".join(plain(words).split())
    line = "".join(c if _known(c) else "\N{REPLACEMENT CHARACTER}" for c in line)
    last = (most - 1) * 2 // 5
    return line if len(line) <= most else f"{line[: most - 1 - last]}…{line[-last:]}"


def B(i: int) -> str:
    """A batch's name.

    >>> B(12)
    'B₁₂'
    """
    return "B" + str(i).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def power(value: float) -> str:
    """A power of ten as it is written on a logarithmic axis, and nothing for other values.

    >>> power(1e-4), power(1.0), power(3.0)
    ('10⁻⁴', '1', '')
    """
    exponent = round(math.log10(value)) if value > 0 else 0
    if value <= 0 or not math.isclose(value, 10.0**exponent):
        return ""
    return "1" if exponent == 0 else "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def colour(style: Style) -> str:
    """A style's colour."""
    return PALETTE[style.colour]


def tint(style: Style, share: float = 0.5) -> tuple[float, ...]:
    """Its colour mixed with white, for areas that something is drawn upon."""
    return tuple(1 - share * (1 - part) for part in to_rgb(colour(style)))


def halo() -> list[Any]:
    """A white edge around what is drawn upon dark areas."""
    return [withStroke(linewidth=1.4, foreground="white")]


def dashes(style: Style) -> Any:
    """A style's line style."""
    return "-" if DASHES[style.dash] == "none" else (0, tuple(float(part) / 2 for part in DASHES[style.dash].split()))


def marker(style: Style) -> str:
    """A style's marker."""
    return _MARKERS[style.marker]


def shares_map() -> Colormap:
    """The page's colour scale for shares, with grey where there is nothing."""
    scale = colours() / 255
    return ListedColormap(scale[:EMPTY].tolist(), name="shares").with_extremes(bad=tuple(scale[EMPTY]))


def sheet(
    rows: int,
    columns: int,
    panel: tuple[float, float],
    *,
    title: str,
    note: str = "",
    margins: tuple[float, float, float, float] = (0.55, 0.1, 0.1, 0.5),
    gaps: tuple[float, float] = (0.4, 0.5),
    **kinds: Any,
) -> tuple[Figure, list[list[Axes]]]:
    """A figure of panels, all in inches. title and note stand above them; either may be empty.

    panel: width and height of each; margins: left, right, top (below the title) and bottom; gaps: between columns and
    between rows.
    """
    left, right, top, bottom = margins
    title, note = text(title, 500), text(note, 500)
    width = max(3.4, left + right + columns * panel[0] + (columns - 1) * gaps[0])
    head = _head(title, note, width)
    above = top + sum(step for *_, step in head) + (0.16 if head else 0)
    height = above + bottom + rows * panel[1] + (rows - 1) * gaps[1]
    figure = Figure(figsize=(width, height), facecolor="white")
    y = height - 0.1
    for line, kind, step in head:
        figure.text(0.1 / width, y / height, line, va="top", ha="left", **kind)
        y -= step
    figure.set_label(" ".join(part for part in (title, note) if part))

    def cell(row: int, column: int) -> Axes:
        x, y = left + column * (panel[0] + gaps[0]), bottom + (rows - 1 - row) * (panel[1] + gaps[1])
        return figure.add_axes((x / width, y / height, panel[0] / width, panel[1] / height), **kinds)

    return figure, [[cell(row, column) for column in range(columns)] for row in range(rows)]


def _head(title: str, note: str, width: float) -> list[tuple[str, dict[str, Any], float]]:
    """The lines above the panels, each with its font and its height."""
    bold, quiet = (
        {"fontsize": 10, "fontweight": "bold", "gid": "title"},
        {"fontsize": 7.5, "color": QUIET, "gid": "note"},
    )
    lines = [(line, bold, _HEIGHT["title"]) for line in _wrapped(title, int(12.4 * width))]
    return lines + [(line, quiet, _HEIGHT["note"]) for line in _wrapped(note, int(18.2 * width))]


def note_of(figure: Figure) -> str:
    """The note above a figure's panels."""
    return " ".join(one.get_text() for one in figure.texts if one.get_gid() == "note")


def without_heading(figure: Figure) -> Figure:
    """The same figure with its title and note taken off, and no paper behind it: for a page that says them itself."""
    head = [one for one in figure.texts if one.get_gid() in _HEIGHT]
    width, height = figure.get_size_inches()
    left = height - sum(_HEIGHT[str(one.get_gid())] for one in head) - (0.1 if head else 0)
    for one in head:
        one.remove()
    for axes in figure.axes:
        x, y, wide, high = axes.get_position(original=True).bounds
        axes.set_position((x, y * height / left, wide, high * height / left))
        axes.patch.set_visible(False)
        for wall in ("xaxis", "yaxis", "zaxis") if axes.name == "3d" else ():
            getattr(axes, wall).set_pane_color((1, 1, 1, 0))
    figure.set_size_inches(width, left)
    figure.patch.set_visible(False)
    return figure


def _wrapped(words: str, most: int) -> list[str]:
    return textwrap.wrap(words, most) if words else []


def batch_axis(axes: Axes, of: int, label: str = "Batch") -> None:
    """Batches along the horizontal axis."""
    axes.xaxis.set_major_locator(FixedLocator(batch_ticks(of)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlim((0.5, 1.5) if of == 1 else (1 - 0.03 * (of - 1), of + 0.03 * (of - 1)))
    axes.set_xlabel(label)


def percent_axis(axes: Axes, top: float, label: str = "Accuracy (%)") -> None:
    """Shares in per cent up the vertical axis, from zero."""
    axes.set_ylim(0, top)
    axes.set_ylabel(label)
    axes.grid(axis="y")


def log_axis(axis: Axis, most: int = 5) -> None:
    """Powers of ten along a logarithmic axis."""
    axis.set_major_locator(LogLocator(numticks=most))
    axis.set_major_formatter(FuncFormatter(lambda value, _: power(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def legend_rows(labels: Iterable[str]) -> tuple[int, int]:
    """How many rows a legend needs below the panels, and how many columns it has.

    >>> legend_rows(["AR1", "CWR+"]), legend_rows(["a label of some forty letters, more or less"] * 3)
    ((1, 2), (2, 2))
    """
    words = [text(label) for label in labels]
    columns = max(1, min(len(words), 8, int((WIDTH - 0.2) / (0.48 + 0.068 * max(map(len, words), default=0)))))
    rows = -(-len(words) // columns)
    return rows, -(-len(words) // max(rows, 1))


def legend(figure: Figure, handles: Iterable[Any], labels: Iterable[str], **how: Any) -> None:
    """Who is who, below the panels."""
    words = [text(label) for label in labels]
    figure.legend(list(handles), words, ncols=legend_rows(words)[1], loc="lower center", **how)
