"""Bars: final accuracy by variant, and MT beside SIT."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from everlearn.errors import ConfigError, DataError, sentence
from everlearn.evaluation import accuracy_on
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
from everlearn.records import Record
from everlearn.records.groups import METRICS, spread
from everlearn.records.names import spelt
from everlearn.report.matrices import chosen
from everlearn.report.tables import written

MOST = 12
"""So many batches at most as groups of bars; of a longer stream, some are chosen."""
_MEASURES = {
    "final": "on the fixed test set after the last batch",
    "seen": "on the classes seen, after the last batch",
    "average": "on the fixed test set, averaged over the batches",
    "average_seen": "on the classes seen, averaged over the batches",
    "mt": "with the task told, averaged over the batches",
}


@styled()
def bars(series: Sequence[Series], *, metric: str = "final", title: str | None = None) -> Figure:
    """A bar for each series, in the order given: the mean over its finished runs, its deviation, and a dot a run."""
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
        axes.barh(k, 100 * mean.mean, height=0.64, color=tint(one.look), label=one.label)
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

    series: SIT runs. mt: runs with a head for each task; without them, MT is what the SIT runs reach if they are told
    the task when they are tested, and the figure says so.
    """
    first = first_of(series, "mt_vs_sit")
    sit = [one for one in series if one.group.finished]
    told = sit if mt is None else [one for one in mt if one.group.finished]
    if not sit or not told:
        raise missing("mt_vs_sit", "finished runs in MT and in SIT", series if not sit else mt or [])
    who = _pairs(sit, told)
    of = max(run.of or 1 for one in (*sit, *told) for run in one.group.finished)
    title = f"MT and SIT on {drawn(first.benchmark)}, after the last batch." if title is None else title
    trained = "task told in the test only" if mt is None else "a head for each task"
    figure, grid = sheet(
        2,
        1,
        (WIDTH - 0.65, 1.35),
        title=title,
        note=_note(of, [*sit, *told]),
        margins=(0.55, 0.1, 0.25, 0.35 + 0.2 * legend_rows(who)[0]),
        gaps=(0, 0.42),
    )
    for axes, name, members, by_batch in (
        (grid[0][0], f"MT: {trained}", told, _mt),
        (grid[1][0], "SIT: one head for all classes, no task told", sit, _sit),
    ):
        axes.set_title(name)
        _groups(axes, members, who, of, by_batch)
    grid[1][0].set_xlabel("Classes of batch", labelpad=1)
    handles = [Patch(color=colour(members[0].look)) for members in who.values()]
    legend(figure, handles, who, handlelength=1)
    return figure


def _note(of: int, series: Sequence[Series]) -> str:
    parts = ["Avg: average over the batches."]
    if any(len(one.group.finished) > 1 for one in series):
        parts.append("Bars: mean over runs. Lines: one sample standard deviation.")
    if of > MOST:
        parts.append(f"{MOST} of the {of} batches are shown.")
    return " ".join(parts)


def _pairs(sit: Sequence[Series], told: Sequence[Series]) -> dict[str, list[Series]]:
    """Who is compared, by name: a strategy that has one series in MT and one in SIT stands for both."""
    found: dict[str, list[Series]] = {}
    for one in (*sit, *(other for other in told if other not in sit)):
        kin = [sum(other.group.strategy == one.group.strategy for other in part) for part in (sit, told)]
        alone = max(kin) == 1 and one.label == one.group.title
        found.setdefault(spelt(one.group.strategy) if alone else one.label, []).append(one)
    return found


def _groups(
    axes: Axes,
    members: Sequence[Series],
    who: Mapping[str, Sequence[Series]],
    of: int,
    by_batch: Callable[[Record], list[float]],
) -> None:
    """A group of bars for each batch and one for the average."""
    shown, width = chosen(of, MOST), 0.84 / len(who)
    places = np.arange(len(shown) + 1) + np.where(np.arange(len(shown) + 1) == len(shown), 0.25, 0)
    for one in members:
        rows = [by_batch(run.records[-1]) for run in one.group.finished]
        if any(len(row) != of for row in rows):
            raise DataError(
                sentence(
                    "mt_vs_sit cannot compare these runs",
                    expected=f"accuracies on {of} batches, in accuracy_mt and in confusion",
                    got=f"{sorted({len(row) for row in rows})} in the runs of {one.label}",
                    do="Draw runs of one stream, made by this version.",
                )
            )
        columns = [spread(row[i - 1] for row in rows) for i in shown]
        columns.append(spread(float(np.mean(row)) for row in rows))
        k = next(k for k, kin in enumerate(who.values()) if one in kin)
        x = places + (k - (len(who) - 1) / 2) * width
        height = [100 * column.mean for column in columns if column]
        std = [100 * (column.std or 0) for column in columns if column]
        axes.bar(x, height, width * 0.92, color=colour(one.look), label=one.label)
        if any(std):
            axes.errorbar(x, height, yerr=std, ls="", color=INK, lw=0.7, path_effects=halo())
    axes.set_xticks(places, [*(B(i) for i in shown), "Avg"])
    axes.get_xticklabels()[-1].set(fontweight="bold", color=INK)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.6, places[-1] + 0.6)
    percent_axis(axes, 100)
    axes.set_yticks([0, 25, 50, 75, 100])
    axes.axvline((places[-1] + places[-2]) / 2, color=QUIET, lw=0.6, ls=(0, (2, 2)))


def _mt(record: Record) -> list[float]:
    return list(record.accuracy_mt)


def _sit(record: Record) -> list[float]:
    totals = record.totals.tolist()
    return [accuracy_on(record.confusion, totals, record.order, batch) for batch in record.batches]
