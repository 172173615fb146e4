"""The sequence of confusion matrices, a strip for each strategy."""

import textwrap
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from everlearn.errors import ConfigError, sentence
from everlearn.figures.series import Series, first_of, missing
from everlearn.figures.style import FIRM, INK, QUIET, RULE, WIDTH, B, shares_map, sheet, styled
from everlearn.figures.style import text as drawn
from everlearn.records import Record
from everlearn.report.colours import by_row
from everlearn.report.matrices import chosen

MOST = 10
"""So many matrices at most in a strip; of a longer stream, some batches are chosen."""
_LEFT = 1.05


@styled()
def confusion_strip(
    series: Sequence[Series],
    *,
    batches: Sequence[int] | None = None,
    title: str | None = None,
    side: float = 0.92,
) -> Figure:
    """Confusion matrices after each batch, as in the paper: rows true, columns predicted, in order of arrival.

    Each row is in shares of its class's test patterns, on one colour scale.

    Args:
        series: what to draw, from `load` or `labelled`, in this order.
        batches: which to show, below 0 counted from the end (-1 is the last); of a stream that is too short for them
            all, those that it has. By default at most ten.
        title: the heading; by default one that names the benchmark.
        side: the side of a matrix in inches, at most.
    """
    first = first_of(series, "confusion_strip")
    there = [(one, run) for one in series if (run := one.run) is not None]
    if not there:
        raise missing("confusion_strip", "records of at least one batch", series)
    of = max(run.of or 1 for _, run in there)
    steps = chosen(of, MOST) if batches is None else _steps(batches, of)
    side = min(side, (WIDTH - _LEFT - 0.1 - 0.07 * (len(steps) - 1)) / len(steps))
    title = f"Confusion on {drawn(first.benchmark)}, batch after batch." if title is None else title
    note = (
        "Rows: true class. Columns: predicted class. Both in order of arrival, with a line between batches; "
        "framed: classes seen so far. Below each: accuracy on the fixed test set. One run each."
    )
    note += f" {len(steps)} of the {of} batches are shown." if len(steps) < of else ""
    figure, grid = sheet(
        len(there), len(steps), (side, side), title=title, note=note, margins=(_LEFT, 0.1, 0.2, 0.94), gaps=(0.07, 0.26)
    )
    norm = PowerNorm(0.5, 0, 1)
    for row, (one, run) in zip(grid, there, strict=True):
        for axes, i in zip(row, steps, strict=True):
            if i <= len(run.records):
                _matrix(axes, run.records[i - 1], norm)
            else:
                axes.set_axis_off()
        beside = figure.text(0, 0, _lines(one.label), ha="right", va="center", fontsize=7.5)
        beside.set(transform=row[0].transAxes, position=(-0.26 / side, 0.5))
        row[0].set_ylabel("true", fontsize=6.5, color=QUIET, labelpad=1.5)
    for axes, i in zip(grid[0], steps, strict=True):
        axes.set_title(B(i), loc="center", fontsize=8, pad=3)
    grid[-1][0].text(0, -0.17 / side, "predicted", fontsize=6.5, color=QUIET, va="top", transform=grid[-1][0].transAxes)
    _scale(figure, norm)
    return figure


def _steps(batches: Sequence[int], of: int) -> list[int]:
    """The numbers of these batches, which may be counted from the end.

    >>> _steps([1, -2, -1], of=10), _steps([-2, -1], of=1)
    ([1, 9, 10], [1])
    """
    found = list(dict.fromkeys(i if i > 0 else of + 1 + i for i in batches))
    if 0 in batches or not any(1 <= i <= of for i in found):
        raise ConfigError(
            sentence("Bad batches", expected=f"some from 1 to {of}, or -1 for the last", got=batches, do="Name them.")
        )
    return [i for i in found if 1 <= i <= of]


def _lines(label: str) -> str:
    """A name in short lines, beside a strip."""
    return "\n".join(textwrap.wrap(drawn(label, 52), 13))


def _matrix(axes: Axes, record: Record, norm: PowerNorm) -> None:
    n = len(record.order)
    axes.imshow(
        by_row(record.confusion, record.totals), cmap=shares_map(), norm=norm, interpolation="none", extent=(0, n, n, 0)
    )
    inner = sorted({k for k in record.arrived if 0 < k < n})
    for k in inner:
        axes.plot([0, n], [k, k], color=INK, alpha=0.15, lw=0.4)
        axes.plot([k, k], [0, n], color=INK, alpha=0.15, lw=0.4)
    seen = record.arrived[record.i - 1]
    axes.add_patch(Rectangle((0, 0), seen, seen, fill=False, ec=QUIET, lw=0.9, clip_on=False, zorder=3))
    axes.set(xlim=(0, n), ylim=(n, 0), xticks=[], yticks=[])
    for spine in axes.spines.values():
        spine.set(visible=True, color=RULE, linewidth=0.8)
    axes.set_xlabel(f"{100 * record.accuracy:.1f} %", fontsize=6.5, color=QUIET, labelpad=2)


def _scale(figure: Figure, norm: PowerNorm) -> None:
    """The one colour scale, below the strips."""
    width, height = figure.get_size_inches()
    long = min(2.9, width - _LEFT - 0.3)
    axes = figure.add_axes((_LEFT / width, 0.46 / height, long / width, 0.09 / height))
    bar = figure.colorbar(ScalarMappable(norm, shares_map()), cax=axes, orientation="horizontal")
    bar.set_ticks([0, 0.05, 0.25, 0.5, 1], labels=["0", "5", "25", "50", "100 %"])
    bar.ax.tick_params(labelsize=6.5, length=2)
    bar.outline.set(edgecolor=FIRM, linewidth=0.5)
    bar.set_label("Share of a true class (square-root scale)", fontsize=7, loc="left", labelpad=3)
