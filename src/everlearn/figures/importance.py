"""The distributions of F and F̂ after each batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from everlearn.diagnostics.importance import Histogram, histogram, information
from everlearn.figures.series import Series, first_of, missing
from everlearn.figures.style import INK, QUIET, WIDTH, B, colour, log_axis, sheet, styled, tint
from everlearn.figures.style import text as drawn
from everlearn.report.matrices import chosen

MOST = 4
"""So many batches at most side by side; of a longer stream, the first ones and the last."""
_RAW: tuple[Literal["F"], Literal["F_i"]] = ("F", "F_i")


def _first_and_last(of: int) -> list[int]:
    return chosen(of, MOST) if of <= MOST else [*range(1, MOST), of]


@dataclass(frozen=True)
class _Row:
    """What one row of panels shows: F̂, or F with the batches' own F^i as lines.

    name: which of the two; clips: max F, where there are weights at it.
    """

    one: Series
    name: str
    members: list[Histogram | None]
    lines: list[Histogram | None]
    clips: list[float | None]


@styled()
def importance_histograms(
    series: Sequence[Series], *, batches: Sequence[int] | None = None, title: str | None = None
) -> Figure:
    """F and F̂ after each batch on logarithmic scales, rows for each strategy, as in the paper's figures on EWC and SI.

    Where a run did not record F, only F̂ is drawn.

    Args:
        series: what to draw, from `load` or `labelled`, in this order.
        batches: the numbers of the batches to show (1-based); by default at most four.
        title: the heading; by default one that names the benchmark.
    """
    first = first_of(series, "importance_histograms")
    there = [one for one in series if one.run is not None and any(r.importance is not None for r in one.run.records)]
    if not there:
        raise missing("importance_histograms", "the field 'importance' in records (EWC, SI, AR1)", series)
    longest = max(len(one.run.records) for one in there if one.run)
    steps = _first_and_last(longest) if batches is None else list(batches)
    rows = [row for one in there for row in _rows(one, steps)]
    low, high, top = _range([one for row in rows for one in (*row.members, *row.lines) if one])
    title = f"How important the weights are on {drawn(first.benchmark)}." if title is None else title
    figure, grid = sheet(
        len(rows),
        len(steps),
        ((WIDTH - 0.85 - 0.24 * (len(steps) - 1)) / len(steps), 0.95),
        title=title,
        note=_note(rows),
        margins=(0.75, 0.1, 0.4, 0.42),
        gaps=(0.24, 0.48),
    )
    for axes_of, row in zip(grid, rows, strict=True):
        for k, (axes, i) in enumerate(zip(axes_of, steps, strict=True)):
            axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(0.7, top))
            if row.members[k] is None:
                axes.set_axis_off()
                continue
            _histogram(axes, row, k, i)
            if axes_of is grid[-1]:
                axes.set_xlabel("F̂ and F" if any(other.name == "F" for other in rows) else "F̂")
            else:
                axes.tick_params(axis="x", labelbottom=False)
    return figure


def _rows(one: Series, steps: Sequence[int]) -> list[_Row]:
    """A row of F, where it was recorded, and a row of F̂."""
    records = one.run.records if one.run else ()
    shown = [records[i - 1] if i <= len(records) else None for i in steps]
    F, F_i = ([None if record is None else information(record, of) for record in shown] for of in _RAW)
    F_hat = [None if record is None else histogram(record) for record in shown]
    clips = [found.largest if found and found.saturated else None for found in F_hat]  # max F, where it is reached
    below = _Row(one, "F̂", F_hat, [None] * len(steps), clips)
    return [_Row(one, "F", F, F_i, clips), below] if any(F) else [below]


def _note(rows: Sequence[_Row]) -> str:
    said = ["Number of weights by importance after a batch, one run each, both on logarithmic scales."]
    if any(row.name == "F" for row in rows):
        said.append("F: before it is clipped, in EWC also before it is averaged; thin line: the batch’s own part, Fⁱ.")
        said.append("F̂: what the next batch is held by.")
    said.append("Zero: the share of weights without importance, which no bar shows.")
    return " ".join([*said, "Saturated: clipped at max F, the dashed line."])


def _range(members: Sequence[Histogram]) -> tuple[float, float, float]:
    """From the lowest edge to the highest that any histogram needs, and the top of the counts."""
    filled = [(one, np.nonzero(one.counts)[0]) for one in members if one.counts.any()]
    if not filled:
        return 1e-6, 1.0, 10.0
    low = min(float(one.edges[at[0]]) for one, at in filled)
    high = max(float(one.edges[at[-1] + 1]) for one, at in filled)
    top = max(int(one.counts.max()) for one, _ in filled)
    return low, high, 10 ** math.ceil(math.log10(top * 1.5))


def _histogram(axes: Axes, row: _Row, k: int, i: int) -> None:
    member, line, raw = row.members[k], row.lines[k], row.name == "F"
    assert member is not None
    shade = tint(row.one.style, 0.45) if raw else colour(row.one.style)
    axes.stairs(member.counts, member.edges, baseline=0.1, fill=True, color=shade, label=row.one.label)
    if line is not None:
        axes.stairs(line.counts, line.edges, baseline=None, fill=False, color=INK, lw=0.8, label="F^i")
    axes.set_title(f"{drawn(row.one.label, 16)}, {B(i)}", pad=14, fontsize=8)
    shares = {"zero": member.zero, "negative" if raw else "saturated": member.negative if raw else member.saturated}
    if raw and not member.negative:
        del shares["negative"]
    said = ", ".join(f"{name} {_percent(share)}" for name, share in shares.items())
    if raw and member.largest is not None:
        said += f", largest {_short(member.largest)}"
    if (max_F := row.clips[k]) is not None:
        axes.axvline(max_F, color=QUIET, lw=0.7, ls=(0, (3, 2)), zorder=0.5)
    axes.text(0, 1.035, said, transform=axes.transAxes, fontsize=6.5, va="bottom")
    axes.grid(axis="y")
    log_axis(axes.xaxis, 4)
    log_axis(axes.yaxis)
    if k == 0:
        axes.set_ylabel(f"Weights by {row.name}")
    else:
        axes.tick_params(axis="y", labelleft=False)


def _short(value: float) -> str:
    """A value in a few letters.

    >>> _short(0.0341), _short(213.4), _short(2.1e6)
    ('0.034', '213', '2.1e6')
    """
    return f"{value:.0f}" if 10 <= value < 1e4 else f"{value:.2g}".replace("e+0", "e").replace("e-0", "e−")


def _percent(share: float) -> str:
    """A share in per cent, with as many digits as it needs to differ from zero.

    >>> _percent(0.0), _percent(0.00139), _percent(0.5786), _percent(2e-6)
    ('0 %', '0.14 %', '58 %', '0.00020 %')
    """
    if share <= 0:
        return "0 %"
    digits = max(0, 1 - math.floor(math.log10(100 * share)))
    return f"{100 * share:.{min(digits, 6)}f} %"
