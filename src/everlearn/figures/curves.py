"""Curves by batch: the mean over runs, and a band of one standard deviation."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from everlearn.errors import ConfigError, sentence
from everlearn.figures.series import Series, first_of, labelled, missing
from everlearn.figures.style import (
    WIDTH,
    batch_axis,
    colour,
    dashes,
    legend,
    legend_rows,
    marker,
    percent_axis,
    sheet,
    styled,
)
from everlearn.figures.style import text as drawn
from everlearn.learning.evaluation import accuracy_on
from everlearn.records import Record, Run
from everlearn.records.groups import spread
from everlearn.report.axes import apart, ticks
from everlearn.report.joined import places

HEIGHT, LABEL = 2.45, 1.12  # inches: a panel's height, and the room for names beside it
_SHORT = 12  # letters: names that are longer stand in a legend


@dataclass(frozen=True)
class Panel:
    """What one panel shows of each record, as a share from 0 to 1."""

    title: str
    value: Callable[[Record], float | None]


CONVENTIONS = {
    "seen": Panel("On the classes seen so far", lambda record: record.accuracy_seen),
    "fixed": Panel("On the fixed test set, all classes", lambda record: record.accuracy),
}
"""The paper's two ways to measure, in the order of its figure on iCIFAR-100."""


def accuracy_curves(
    series: Sequence[Series], *, conventions: Sequence[str] = ("seen", "fixed"), title: str | None = None
) -> Figure:
    """Accuracy after each batch, as in the paper's figures on CORe50 and iCIFAR-100.

    Args:
        series: what to draw, from `load` or `labelled`, in this order.
        conventions: "seen" tests on the classes met so far, "fixed" on all classes of the stream; a panel each.
        title: the heading; by default one that names the benchmark.
    """
    unknown = [name for name in conventions if name not in CONVENTIONS]
    if unknown or not conventions:
        raise ConfigError(
            sentence("Bad conventions", expected=f"some of {list(CONVENTIONS)}", got=list(conventions), do="Name them.")
        )
    first = first_of(series, "accuracy_curves")
    title = f"Accuracy on {drawn(first.benchmark)} after each batch." if title is None else title
    return _figure([CONVENTIONS[name] for name in conventions], series, "accuracy_curves", title)


def curves_by_variant(
    runs: Mapping[str, Sequence[Run]],
    *,
    conventions: Sequence[str] = ("seen", "fixed"),
    title: str | None = None,
) -> Figure:
    """`accuracy_curves` with a label for each variant instead of the strategy's name.

    Args:
        runs: the runs of each variant, by its label.
        conventions: as for `accuracy_curves`.
        title: the heading; by default one that names the benchmark.
    """
    return accuracy_curves(labelled(runs), conventions=conventions, title=title)


def stability_plasticity(series: Sequence[Series], *, title: str | None = None) -> Figure:
    """After each batch, the accuracy on the classes that were there before it, and on those that came with it.

    Args:
        series: what to draw, from `load` or `labelled`, in this order.
        title: the heading; by default one that names the benchmark.
    """
    first = first_of(series, "stability_plasticity")
    panels = [Panel("Stability: classes of earlier batches", old), Panel("Plasticity: classes new in the batch", new)]
    title = f"What is kept and what is learnt on {drawn(first.benchmark)}." if title is None else title
    return _figure(panels, series, "stability_plasticity", title)


def old(record: Record) -> float | None:
    """The accuracy on the classes that had arrived before this batch; None if there are none."""
    before = {c for batch in record.batches[: record.i - 1] for c in batch}
    return _share(record, before)


def new(record: Record) -> float | None:
    """The accuracy on the classes of this batch that had not arrived before; None if there are none."""
    before = {c for batch in record.batches[: record.i - 1] for c in batch}
    return _share(record, set(record.batches[record.i - 1]) - before)


def _share(record: Record, classes: set[int]) -> float | None:
    tested = sum(int(n) for c, n in zip(record.order, record.totals, strict=True) if c in classes)
    if not tested:
        return None
    return accuracy_on(record.confusion, record.totals.tolist(), record.order, sorted(classes))


@styled()
def _figure(panels: Sequence[Panel], series: Sequence[Series], name: str, title: str) -> Figure:
    there = [one for one in series if one.run is not None]
    if not there:
        raise missing(name, "records of at least one batch", series)
    direct = all(len(one.label) <= _SHORT for one in there)
    beside = LABEL if direct else 0.12
    below = 0.45 if direct else 0.52 + 0.18 * legend_rows(one.label for one in there)[0]
    width = (WIDTH - 0.55 - beside - (len(panels) - 1) * (beside + 0.3)) / len(panels)
    figure, grid = sheet(
        1,
        len(panels),
        (min(width, 3.4), HEIGHT),
        title=title,
        note=_note(there),
        margins=(0.55, beside, 0.28, below),
        gaps=(beside + 0.3, 0),
    )
    cells = grid[0]
    of = max(one.run.of or 1 for one in there if one.run)
    top = ticks(100 * min(1, max(_top(panel, one) for panel in panels for one in there)))[-1]
    for axes, panel in zip(cells, panels, strict=True):
        axes.set_title(panel.title)
        percent_axis(axes, top, "Accuracy (%)" if axes is cells[0] else "")
        batch_axis(axes, of)
        lines = [_line(axes, panel, one, of) for one in there]
        if direct:
            _names(axes, panel, there, top, of)
    if not direct:
        legend(figure, lines, [one.label for one in there])
    return figure


def _note(series: Sequence[Series]) -> str:
    """What lines and bands are."""
    runs = sorted({len(one.group.finished) for one in series if one.group.finished})
    parts = []
    if runs:
        many = str(runs[0]) if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
        parts.append(f"Lines: {'one run' if runs == [1] else f'mean over {many} runs'}.")
    if any(n > 1 for n in runs):
        parts.append("Bands: one sample standard deviation.")
    if any(run.records for one in series for run in one.group.unfinished):
        parts.append("Dotted lines that end in a cross: unfinished runs, in no mean.")
    return " ".join(parts)


def _top(panel: Panel, one: Series) -> float:
    means = [found.mean + (found.std or 0) for found in one.group.curve(panel.value) if found]
    single = [panel.value(record) or 0 for run in one.group.unfinished for record in run.records]
    return max([*means, *single], default=0.0)


def _line(axes: Axes, panel: Panel, one: Series, of: int) -> Line2D:
    """A series' band and line, and its unfinished runs; gives what stands for it in a legend."""
    curve, style, shade = one.group.curve(panel.value), one.style, colour(one.style)
    lines = []
    if curve:
        batches = np.array(places(one.run, of)[: len(curve)])
        mean = 100 * np.array([np.nan if found is None else found.mean for found in curve])
        std = 100 * np.array([0.0 if found is None else found.std or 0.0 for found in curve])
        if std.any():
            axes.fill_between(batches, mean - std, mean + std, color=shade, alpha=0.14, lw=0)
        lines = axes.plot(batches, mean, color=shade, lw=1.5, ls=dashes(style), marker=marker(style), ms=4)
        lines[0].set(label=one.label, mec="white", mew=0.5, clip_on=False, markevery=max(1, len(curve) // 12))
    for run in one.group.unfinished:
        values = [np.nan if (value := panel.value(record)) is None else 100 * value for record in run.records]
        i = places(run, of)[: len(values)]
        lines += axes.plot(i, values, color=shade, lw=1, ls=(0, (1, 2)), label=f"{one.label}, run {run.number}")
        axes.plot(i[-1:], values[-1:], color=shade, ls="", marker="x", ms=5, mew=1.4)
    return lines[0]


def _names(axes: Axes, panel: Panel, series: Sequence[Series], top: float, of: int) -> None:
    """Names and final values at the ends of the lines, moved apart where they would overlap."""
    ends = []
    for one in series:
        alone = one.run.records if one.run else ()
        curve = one.group.curve(panel.value) or [spread([panel.value(record)]) for record in alone]
        known = [(x, 100 * found.mean) for x, found in zip(places(one.run, of), curve, strict=False) if found]
        if known:
            ends.append((one, *known[-1]))
    heights = apart([y for *_, y in ends], top * 0.14 / HEIGHT, 0, top)
    for (one, x, y), place in zip(ends, heights, strict=True):
        lead = {"arrowstyle": "-", "color": colour(one.style), "lw": 0.7, "alpha": 0.8, "shrinkA": 1, "shrinkB": 4}
        lead["relpos"] = (0, 0.5)
        axes.annotate(
            f"{drawn(one.label)} {y:.1f}",
            (x, y),
            xytext=(1.06, place),
            textcoords=axes.get_yaxis_transform(),
            va="center",
            fontsize=7.5,
            arrowprops=lead,
            annotation_clip=False,
        )
