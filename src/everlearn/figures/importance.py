"""The distribution of F̂ after each batch."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from everlearn.diagnostics.importance import Histogram, histogram
from everlearn.figures.series import Series, first_of, missing
from everlearn.figures.style import WIDTH, B, colour, log_axis, sheet, styled
from everlearn.figures.style import text as drawn
from everlearn.report.matrices import chosen

MOST = 4
"""So many batches at most side by side; of a longer stream, the first ones and the last."""


def _first_and_last(of: int) -> list[int]:
    return chosen(of, MOST) if of <= MOST else [*range(1, MOST), of]


@styled()
def importance_histograms(
    series: Sequence[Series], *, batches: Sequence[int] | None = None, title: str | None = None
) -> Figure:
    """F̂ after each batch on logarithmic scales, a row for each strategy, as in the paper's figures on EWC and SI.

    batches: which to show, at most four by default.
    """
    first = first_of(series, "importance_histograms")
    found = [(one, [histogram(record) for record in one.run.records]) for one in series if one.run is not None]
    there = [(one, rows) for one, rows in found if any(rows)]
    if not there:
        raise missing("importance_histograms", "the field 'importance' in records (EWC, SI, AR1)", series)
    steps = _first_and_last(max(len(rows) for _, rows in there)) if batches is None else list(batches)
    shown = [(one, [rows[i - 1] if i <= len(rows) else None for i in steps]) for one, rows in there]
    low, high, top = _range([one for _, rows in shown for one in rows if one])
    title = f"How important the weights are on {drawn(first.benchmark)}." if title is None else title
    figure, grid = sheet(
        len(there),
        len(steps),
        ((WIDTH - 0.85 - 0.24 * (len(steps) - 1)) / len(steps), 1.05),
        title=title,
        note="Number of weights by F̂ after a batch, one run each, both on logarithmic scales. Zero: the share of "
        "weights without importance, which no bar shows. Saturated: the share clipped at max F.",
        margins=(0.75, 0.1, 0.4, 0.42),
        gaps=(0.24, 0.48),
    )
    for row, (one, members) in zip(grid, shown, strict=True):
        for axes, i, member in zip(row, steps, members, strict=True):
            axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(0.7, top))
            if member is None:
                axes.set_axis_off()
                continue
            _histogram(axes, one, i, member, first=axes is row[0])
            if row is grid[-1]:
                axes.set_xlabel("F̂")
            else:
                axes.tick_params(axis="x", labelbottom=False)
    return figure


def _range(members: Sequence[Histogram]) -> tuple[float, float, float]:
    """From the lowest edge to the highest that any histogram needs, and the top of the counts."""
    filled = [(one, np.nonzero(one.counts)[0]) for one in members if one.counts.any()]
    if not filled:
        return 1e-6, 1.0, 10.0
    low = min(float(one.edges[at[0]]) for one, at in filled)
    high = max(float(one.edges[at[-1] + 1]) for one, at in filled)
    top = max(int(one.counts.max()) for one, _ in filled)
    return low, high, 10 ** math.ceil(math.log10(top * 1.5))


def _histogram(axes: Axes, one: Series, i: int, member: Histogram, *, first: bool) -> None:
    axes.stairs(member.counts, member.edges, baseline=0.1, fill=True, color=colour(one.look), label=one.label)
    axes.set_title(f"{drawn(one.label, 16)}, {B(i)}", pad=14, fontsize=8)
    shares = f"zero {_percent(member.zero)}, saturated {_percent(member.saturated)}"
    axes.text(0, 1.035, shares, transform=axes.transAxes, fontsize=6.5, va="bottom")
    axes.grid(axis="y")
    log_axis(axes.xaxis, 4)
    log_axis(axes.yaxis)
    if first:
        axes.set_ylabel("Weights")
    else:
        axes.tick_params(axis="y", labelleft=False)


def _percent(share: float) -> str:
    """A share in per cent, with as many digits as it needs to differ from zero.

    >>> _percent(0.0), _percent(0.00139), _percent(0.5786), _percent(2e-6)
    ('0 %', '0.14 %', '58 %', '0.00020 %')
    """
    if share <= 0:
        return "0 %"
    digits = max(0, 1 - math.floor(math.log10(100 * share)))
    return f"{100 * share:.{min(digits, 6)}f} %"
