"""How strongly the past is held along the stream."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from everlearn.diagnostics.overshoot import lam, pull
from everlearn.figures.series import Series, first_of, missing
from everlearn.figures.style import (
    QUIET,
    WIDTH,
    batch_axis,
    colour,
    dashes,
    legend,
    legend_rows,
    log_axis,
    marker,
    sheet,
    styled,
)
from everlearn.figures.style import text as drawn
from everlearn.records import Run
from everlearn.records.groups import Spread, spread


@dataclass(frozen=True)
class _Panel:
    title: str
    label: str
    members: list[tuple[Series, list[Spread | None]]]
    bound: float | None = None


@styled()
def strength(series: Sequence[Series], *, title: str | None = None) -> Figure:
    """λ_i along the stream and, where η and the largest F̂ are recorded, η·λ·max F̂.

    LWF's λ, the weight of the soft targets from 0 to 1, has a panel of its own.

    Args:
        series: what to draw, from `load` or `labelled`, in this order.
        title: the heading; by default one that names the benchmark.
    """
    first = first_of(series, "strength")
    panels = [panel for panel in _panels(series) if panel.members]
    if not panels:
        raise missing("strength", "the field 'lam' in records (LWF, EWC, SI, AR1)", series)
    of = max(one.run.of or 1 for panel in panels for one, _ in panel.members if one.run)
    who = list({id(one): one for panel in panels for one, _ in panel.members}.values())
    gap = 0.62
    title = f"How strongly the past is held on {drawn(first.benchmark)}." if title is None else title
    width = (WIDTH - 0.75 - gap * (len(panels) - 1)) / len(panels)
    figure, grid = sheet(
        1,
        len(panels),
        (min(width, 3.6), 1.9),
        title=title,
        note=_note(panels, who),
        margins=(0.65, 0.1, 0.28, 0.5 + 0.2 * legend_rows(one.label for one in who)[0]),
        gaps=(gap, 0),
    )
    handles: dict[int, object] = {}
    for axes, panel in zip(grid[0], panels, strict=True):
        handles |= _draw(axes, panel, of)
    legend(figure, handles.values(), [one.label for one in who])
    return figure


def _note(panels: Sequence[_Panel], who: Sequence[Series]) -> str:
    said = "Mean over runs." if any(len(one.group.finished) > 1 for one in who) else "One run each."
    bound = any(panel.bound is not None for panel in panels)
    return f"{said} Dashed: above it, a weight is pulled past its old value." if bound else said


def _panels(series: Sequence[Series]) -> list[_Panel]:
    lams = [(one, curve) for one, curve in _curves(series, lam) if any(curve)]
    held = [(one, curve) for one, curve in lams if _pulls(one)]
    soft = [(one, curve) for one, curve in lams if not _pulls(one)]
    pulls = [(one, curve) for one, curve in _curves(series, pull) if any(curve)]
    return [
        _Panel("Weight of soft targets", "λ", soft),
        _Panel("Pull towards old weights", "λ", held),
        _Panel("Pull in one step", "η·λ·max F̂", pulls, bound=1.0),
    ]


def _curves(
    series: Sequence[Series], value: Callable[[Run], list[float | None]]
) -> list[tuple[Series, list[Spread | None]]]:
    """A value by batch for each series, over its finished runs or else the one that stands for all."""
    found = []
    for one in series:
        runs = one.group.finished or tuple(run for run in (one.run,) if run is not None)
        rows = [value(run) for run in runs]
        batches = max(map(len, rows), default=0)
        found.append((one, [spread(row[i] if i < len(row) else None for row in rows) for i in range(batches)]))
    return found


def _pulls(one: Series) -> bool:
    """Whether a series pulls weights, rather than weigh soft targets: it has importances, or a λ above 1."""
    records = [record for run in one.group.runs for record in run.records]
    return any(record.importance is not None or (record.lam or 0) > 1 for record in records)


def _draw(axes: Axes, panel: _Panel, of: int) -> dict[int, object]:
    drawn_lines: dict[int, object] = {}
    for one, curve in panel.members:
        values = np.array([np.nan if found is None else found.mean for found in curve])
        (drawn_lines[id(one)],) = axes.plot(
            range(1, len(values) + 1),
            values,
            color=colour(one.style),
            ls=dashes(one.style),
            marker=marker(one.style),
            lw=1.5,
            ms=4,
            mec="white",
            mew=0.5,
            label=one.label,
            clip_on=False,
        )
    known = [found.mean for _, curve in panel.members for found in curve if found]
    axes.set_title(panel.title)
    axes.set_ylabel(panel.label, rotation=0 if len(panel.label) == 1 else 90)
    axes.grid(axis="y")
    batch_axis(axes, of)
    if panel.bound is not None:
        axes.axhline(panel.bound, color=QUIET, lw=0.9, ls=(0, (4, 2)))
    if panel.title.startswith("Weight"):
        axes.set_ylim(0, 1)
    elif all(value > 0 for value in known):
        _log(axes, known if panel.bound is None else [*known, panel.bound])
    return drawn_lines


def _log(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic scale between whole powers of ten."""
    axes.set_yscale("log")
    log_axis(axes.yaxis)
    axes.set_ylim(10 ** math.floor(math.log10(min(values) * 0.99)), 10 ** math.ceil(math.log10(max(values) * 1.01)))
