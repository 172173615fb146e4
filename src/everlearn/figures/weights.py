"""How much the weights of each layer moved in each batch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray

from everlearn.figures.series import Series, first_of, missing
from everlearn.figures.style import FIRM, RULE, WIDTH, batch_axis, legend, legend_rows, log_axis, sheet, styled
from everlearn.figures.style import text as drawn
from everlearn.report.axes import batch_ticks

Floats = NDArray[np.float64]
_MANY = 800
"""Beyond so many bars, they are pixels in an SVG too, lest it grow to megabytes."""
_NAMED = 16
"""So many layers at most are named; of a deeper network, they are numbered."""


def changes(one: Series) -> tuple[list[str], Floats]:
    """The layers of a network from the input on, and mean |Δθ|, [layers, batches], over the finished runs.

    Where no run has finished, over the run that stands for all.
    """
    runs = one.group.finished or tuple(run for run in (one.run,) if run is not None)
    layers = list(dict.fromkeys(layer for run in runs for record in run.records for layer in record.change))
    batches = max((len(run.records) for run in runs), default=0)
    found = np.full((len(runs), len(layers), batches), np.nan)
    for r, run in enumerate(runs):
        for record in run.records:
            for k, layer in enumerate(layers):
                found[r, k, record.i - 1] = record.change.get(layer, np.nan)
    there = (~np.isnan(found)).sum(axis=0)
    total: Floats = np.divide(np.nansum(found, axis=0), there, out=np.full(there.shape, np.nan), where=there > 0)
    return layers, total


def _all(series: Sequence[Series], figure: str) -> list[tuple[Series, list[str], Floats]]:
    found = [(one, *changes(one)) for one in series]
    there = [(one, layers, mean) for one, layers, mean in found if layers]
    if not there:
        raise missing(figure, "the field 'change' in records (mean |Δθ| by layer)", series)
    return there


@styled()
def weight_change_3d(series: Sequence[Series], *, title: str | None = None) -> Figure:
    """Mean |Δθ| by layer and batch as a 3D histogram for each strategy, as in the paper; one scale for all.

    Args:
        series: what to draw, from `load` or `labelled`, in this order.
        title: the heading; by default one that names the benchmark.
    """
    first = first_of(series, "weight_change_3d")
    there = _all(series, "weight_change_3d")
    columns = min(3, len(there))
    rows = -(-len(there) // columns)
    layers = max((names for _, names, _ in there), key=len)
    shades = colormaps["cividis"](np.linspace(0.05, 0.95, len(layers)))
    named = layers if len(layers) <= _NAMED else []
    title = f"How far the weights moved on {drawn(first.benchmark)}." if title is None else title
    tops = [float(np.nanmax(mean)) for *_, mean in there]
    top = max([most for most, (one, *_) in zip(tops, there, strict=True) if not one.group.upper_bound] or tops) or 1.0
    many = sum(mean.size for *_, mean in there) > _MANY
    note = "Height: mean |Δθ| of a layer's weights in a batch, averaged over runs. Layers from the input (front) on."
    alone = [drawn(one.label, 30) for (one, *_), most in zip(there, tops, strict=True) if most > top]
    if alone:
        note += f" One scale for all; {', '.join(alone)} moved further, on a scale of its own."
    figure, grid = sheet(
        rows,
        columns,
        ((WIDTH - 0.2) / columns - 0.05, 1.85),
        title=title,
        note=note,
        margins=(0.05, 0.15, 0.28, 0.2 + 0.2 * legend_rows(named)[0]),
        gaps=(0.05, 0.22),
        projection="3d",
    )
    for k, axes in enumerate(axes for row in grid for axes in row):
        if k < len(there):
            _histogram(axes, *there[k], shades, max(top, tops[k]), many)
            if tops[k] > top:
                axes.title.set_text(f"{axes.get_title()}, own scale")
        else:
            axes.set_axis_off()
    if named:
        handles = [Patch(color=shade) for shade in shades]
        legend(figure, handles, named, handlelength=0.9, fontsize=7.5)
    return figure


def _histogram(axes: Any, one: Series, layers: list[str], mean: Floats, shades: Floats, top: float, many: bool) -> None:
    n, batches = mean.shape
    layer, batch = (part.ravel() for part in np.meshgrid(np.arange(n), np.arange(batches), indexing="ij"))
    height = np.nan_to_num(mean.ravel())
    moved = height > 0
    layer, batch, height = layer[moved], batch[moved], height[moved]
    if moved.any():
        axes.bar3d(
            batch + 0.65,
            layer + 0.65,
            0,
            0.7,
            0.7,
            height,
            color=shades[layer],
            shade=True,
            edgecolor="white",
            lw=0.15,
            rasterized=many,
        )
    axes.set_title(drawn(one.label, 30), loc="center", y=1.05, pad=0)
    axes.view_init(elev=26, azim=-52)
    axes.set(xlim=(0.5, batches + 0.5), ylim=(0.5, n + 0.5), zlim=(0, top))
    axes.set_xticks(batch_ticks(batches))
    axes.set_yticks(batch_ticks(n, 8))
    axes.set_xlabel("batch", labelpad=-9, fontsize=7)
    axes.set_ylabel("layer", labelpad=-9, fontsize=7)
    axes.set_box_aspect((1.15, 1, 0.8), zoom=1.12)
    axes.tick_params(labelsize=6, pad=-3.5)
    axes.tick_params(axis="z", pad=-2)
    axes.locator_params(axis="z", nbins=4)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((1, 1, 1, 1))
        axis.line.set_color(FIRM)
        axis._axinfo["grid"].update(color=RULE, linewidth=0.5)


@styled()
def weight_change_heat(series: Sequence[Series], *, title: str | None = None) -> Figure:
    """Mean |Δθ| by layer and batch in colours, on one logarithmic scale; layers that did not move are hatched.

    Args:
        series: what to draw, from `load` or `labelled`, in this order.
        title: the heading; by default one that names the benchmark.
    """
    first = first_of(series, "weight_change_heat")
    there = _all(series, "weight_change_heat")
    columns = min(3, len(there))
    rows = -(-len(there) // columns)
    deepest = max(len(layers) for _, layers, _ in there)
    letters = max(len(drawn(name, 18)) for _, layers, _ in there for name in layers)
    left = 0.3 + (0.058 * letters if deepest <= _NAMED else 0.25)
    alike = all(layers == there[0][1] for _, layers, _ in there)
    gap = 0.14 if alike else left
    title = f"How far the weights moved on {drawn(first.benchmark)}." if title is None else title
    figure, grid = sheet(
        rows,
        columns,
        (min(2.3, (WIDTH - left - 0.85 - gap * (columns - 1)) / columns), min(2.6, max(0.75, 0.17 * deepest))),
        title=title,
        note="Mean |Δθ| of a layer's weights in a batch, averaged over runs; hatched: none moved; "
        "empty: there were none before. Layers from the input (top) on.",
        margins=(left, 0.85, 0.25, 0.42),
        gaps=(gap, 0.34),
    )
    moved = np.concatenate([mean[mean > 0] for *_, mean in there])
    norm = LogNorm(moved.min(), moved.max()) if moved.size and moved.min() < moved.max() else LogNorm(1e-6, 1)
    for k, axes in enumerate(axes for row in grid for axes in row):
        if k >= len(there):
            axes.set_axis_off()
            continue
        _heat(axes, *there[k], norm, names=not alike or k % columns == 0)
        if k + columns < len(there):
            axes.set_xlabel("")
            axes.tick_params(axis="x", labelbottom=False)
    width = figure.get_size_inches()[0]
    low, high = grid[-1][0].get_position().y0, grid[0][0].get_position().y1
    place = figure.add_axes((1 - 0.72 / width, low, 0.1 / width, high - low))
    bar = figure.colorbar(ScalarMappable(norm, colormaps["viridis_r"]), cax=place)
    log_axis(bar.ax.yaxis)
    bar.set_label("mean |Δθ|", fontsize=7.5)
    bar.ax.tick_params(labelsize=7, length=2)
    bar.outline.set(edgecolor=FIRM, linewidth=0.5)
    return figure


def _heat(axes: Axes, one: Series, layers: list[str], mean: Floats, norm: LogNorm, *, names: bool) -> None:
    n, batches = mean.shape
    still = mean == 0
    extent = (0.5, batches + 0.5, n - 0.5, -0.5)
    axes.imshow(
        np.ma.masked_where(~(mean > 0), mean),
        cmap=colormaps["viridis_r"],
        norm=norm,
        aspect="auto",
        interpolation="none",
        extent=extent,
    )
    for k, i in zip(*np.nonzero(still), strict=True):
        axes.add_patch(
            Rectangle(
                (i + 0.5, k - 0.5), 1, 1, fc="#f6f7f8", ec=FIRM, hatch="//////", lw=0, rasterized=still.sum() > _MANY
            )
        )
    axes.set_title(drawn(one.label, 30))
    batch_axis(axes, batches)
    axes.set(xlim=extent[:2], ylim=extent[2:])
    if len(layers) <= _NAMED:
        axes.set_yticks(range(n), [drawn(name, 18) for name in layers] if names else [""] * n, parse_math=False)
    else:
        axes.set_yticks([k - 1 for k in batch_ticks(n)], [str(k) if names else "" for k in batch_ticks(n)])
        axes.set_ylabel("Layer" if names else "")
    for spine in axes.spines.values():
        spine.set(visible=True, color=FIRM, linewidth=0.5)
