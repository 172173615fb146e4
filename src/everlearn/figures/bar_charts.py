"""Bars: final accuracy by variant, and MT beside SIT."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from everlearn.errors import ConfigError, sentence
from everlearn.figures.scenarios import Scenario, Scenarios, scenarios
from everlearn.figures.series import Series, first_of, missing
from everlearn.figures.style import (
    INK,
    QUIET,
    WIDTH,
    B,
    colour,
    halo,
    legend,
    legend_rows,
    percent_axis,
    sheet,
    styled,
    tint,
)
from everlearn.figures.style import text as drawn
from everlearn.records.groups import METRICS
from everlearn.report.matrices import chosen
from everlearn.report.tables import written

MOST = 12
"""So many batches at most as groups of bars; of a longer stream, some are chosen."""
BESIDE = 40
"""So many bars at most, of at most eight batches, in each of two panels side by side; with more, MT is above SIT."""
_MEASURES = {
    "final": "on the fixed test set after the last batch",
    "seen": "on the classes seen, after the last batch",
    "average": "on the fixed test set, averaged over the batches",
    "average_seen": "on the classes seen, averaged over the batches",
    "mt": "with the task told, averaged over the batches",
}


@styled()
def bars(series: Sequence[Series], *, metric: str = "final", title: str | None = None) -> Figure:
    """A bar for each series, in the order given: the mean over its finished runs, its deviation, and a dot a run.

    Args:
        series: what to draw, from `load` or `labelled`, in this order.
        metric: `final`, `seen`, `average`, `average_seen` or `mt`: on the fixed test set or on the classes seen, after
            the last batch or averaged over the batches, or with the task told.
        title: the heading; by default one that names the benchmark.
    """
    first = first_of(series, "bars")
    if metric not in _MEASURES:
        raise ConfigError(sentence("A bad metric", expected=f"among {list(_MEASURES)}", got=metric, do="Name one."))
    found = [(one, mean) for one in series if (mean := one.group.over(metric)) is not None]
    if not found:
        raise missing("bars", "at least one finished run", series)
    letters = max(len(drawn(one.label, 40)) for one, _ in found)
    title = f"Accuracy on {drawn(first.benchmark)} {_MEASURES[metric]}." if title is None else title
    note = "Bars: mean over runs. Lines: one sample standard deviation. Dots: single runs."
    left = 0.25 + 0.068 * letters
    figure, grid = sheet(
        1,
        1,
        (max(3.2, 5.6 - left), 0.25 * len(found) + 0.1),
        title=title,
        note=note if any(mean.n > 1 for _, mean in found) else "One run each.",
        margins=(left, 0.95, 0.08, 0.45),
    )
    axes = grid[0][0]
    top = 100 * min(1.0, max(mean.mean + (mean.std or 0) for _, mean in found))
    for k, (one, mean) in enumerate(found):
        values = [100 * value for run in one.group.finished if (value := METRICS[metric](run)) is not None]
        axes.barh(k, 100 * mean.mean, height=0.64, color=tint(one.style), label=one.label)
        if mean.std is not None:
            axes.errorbar(100 * mean.mean, k, xerr=100 * mean.std, color=INK, lw=1, capsize=2.5, capthick=1)
            axes.plot(values, [k] * len(values), ls="", marker="o", ms=3, mfc="white", mec=INK, mew=0.6)
        axes.annotate(
            written(mean, 100), (1.02, k), xycoords=axes.get_yaxis_transform(), va="center", annotation_clip=False
        )
    names = [drawn(one.label, 40) for one, _ in found]
    axes.set_yticks(range(len(found)), names, parse_math=False, color=INK, fontsize=8)
    axes.set_ylim(len(found) - 0.45, -0.55)
    axes.set_xlim(0, min(100.0, top * 1.06) or 1.0)
    axes.set_xlabel("Accuracy (%)")
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    return figure


@styled()
def mt_vs_sit(series: Sequence[Series], mt: Sequence[Series] | None = None, *, title: str | None = None) -> Figure:
    """After the last batch, the accuracy on the classes of each batch and their average, in MT and in SIT.

    Without MT runs, MT is what the SIT runs reach if they are told the task when they are tested, and the figure says
    so. A strategy has one name and one colour in both.

    Args:
        series: SIT runs.
        mt: runs with a head for each task; by default the SIT runs, told the task when they are tested.
        title: the heading; by default one that names the benchmark.
    """
    first, found = first_of(series, "mt_vs_sit"), scenarios(series, mt)
    title = f"MT and SIT on {drawn(first.benchmark)}, after the last batch." if title is None else title
    shown, below = chosen(found.of, MOST), 0.35 + 0.2 * legend_rows(found.styles)[0]
    beside = len(shown) <= 8 and (len(shown) + 1) * len(found.styles) <= BESIDE
    figure, grid = sheet(
        *((1, 2) if beside else (2, 1)),
        ((WIDTH - 1.05) / 2, 1.9) if beside else (WIDTH - 0.65, 1.35),
        title=title,
        note=_note(found.of, found.series),
        margins=(0.55, 0.1, 0.25, below),
        gaps=(0.4, 0.42),
    )
    cells = [axes for row in grid for axes in row]
    for axes, part in zip(cells, (found.mt, found.sit), strict=True):
        axes.set_title(part.title)
        _groups(axes, part, found, shown)
        if axes is cells[-1] or beside:
            axes.set_xlabel("Classes of batch", labelpad=1)
        if beside and axes is cells[-1]:
            axes.set_ylabel("")
    legend(figure, [Patch(color=colour(style)) for style in found.styles.values()], list(found.styles), handlelength=1)
    return figure


def _note(of: int, series: Sequence[Series]) -> str:
    parts = ["Avg: average over the batches."]
    if any(len(one.group.finished) > 1 for one in series):
        parts.append("Bars: mean over runs. Lines: one sample standard deviation.")
    if of > MOST:
        parts.append(f"{MOST} of the {of} batches are shown.")
    return " ".join(parts)


def _groups(axes: Axes, part: Scenario, found: Scenarios, shown: Sequence[int]) -> None:
    """A group of bars for each batch and one for the average; who is in this scenario stands around its middle."""
    who, width = [name for name in found.styles if name in part.members], 0.84 / len(found.styles)
    places = np.arange(len(shown) + 1) + np.where(np.arange(len(shown) + 1) == len(shown), 0.25, 0)
    for k, name in enumerate(who):
        values = part.accuracies(part.members[name], found.of)
        columns = [values[i] for i in (*(i - 1 for i in shown), -1)]
        x = places + (k - (len(who) - 1) / 2) * width
        height, std = [100 * one.mean for one in columns], [100 * (one.std or 0) for one in columns]
        axes.bar(x, height, width * 0.92, color=colour(found.styles[name]), label=part.members[name].label)
        if any(std):
            axes.errorbar(x, height, yerr=std, ls="", color=INK, lw=0.7, path_effects=halo())
    axes.set_xticks(places, [*(B(i) for i in shown), "Avg"])
    axes.get_xticklabels()[-1].set(fontweight="bold", color=INK)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, places[-1] + 0.6)
    percent_axis(axes, 100)
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.axvline((places[-1] + places[-2]) / 2, color=QUIET, lw=0.6, ls=(0, (2, 2)))
