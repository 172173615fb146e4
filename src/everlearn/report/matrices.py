"""The sequence of confusion matrices of each strategy."""

import math

import numpy as np

from everlearn.records import Record, Run
from everlearn.records.groups import Comparison, Group
from everlearn.report.colours import EMPTY, by_row, picture
from everlearn.report.curves import swatch
from everlearn.report.joined import places
from everlearn.report.markup import Html, fold, join, scroll, tag
from everlearn.report.tables import PERCENT

MOST = 30
"""So many matrices at most in a strip; of a longer stream, some batches are chosen."""


def chosen(of: int, most: int = MOST) -> list[int]:
    """The batches whose matrices are shown: all, or as many as a strip holds, with the first and the last.

    >>> chosen(3), chosen(100, most=5)
    ([1, 2, 3], [1, 26, 50, 75, 100])
    """
    return sorted({round(float(i)) for i in np.linspace(1, of, min(of, most))})


def figure(bench: Comparison, where: str) -> Html:
    """A large matrix a strategy, moved through the batches by a slider; and all of them in strips."""
    shown = [(group, run) for group in bench.groups if (run := group.shown) is not None]
    of = max((run.of or 1 for _, run in shown), default=1)
    steps = chosen(of)
    grids = {borders: f"{where}-grid-{k}" for k, borders in enumerate(sorted({_borders(run) for _, run in shown}))}
    hidden = tag("svg", *(_grid(name, borders) for borders, name in grids.items()), class_="defs", aria_hidden="true")
    large = [_large(group, run, _placed(run, steps, of), grids[_borders(run)]) for group, run in shown]
    strips = [_strip(group, run, _placed(run, steps, of), grids[_borders(run)]) for group, run in shown]
    return tag(
        "figure",
        hidden,
        _scale(any((run.records[-1].totals == 0).any() for _, run in shown)),
        _slider(steps, of, where),
        tag("div", *large, class_="large"),
        tag("figcaption", _caption(steps, of)),
        tag("h4", "Batch by batch"),
        tag("div", *strips, class_="strips few" if len(steps) <= 4 else "strips"),
        fold("Share recognised, in numbers", *(_recognised(bench, group, run, steps) for group, run in shown)),
        class_="matrices",
    )


def _placed(run: Run, steps: list[int], of: int) -> list[tuple[int, Record]]:
    """The records that are shown, each with the batch that it stands at; of a stream with fewer batches, all."""
    found = [(round(i), record) for i, record in zip(places(run, of), run.records, strict=False)]
    return [(i, record) for i, record in found if i in steps or run.of != of]


def _caption(steps: list[int], of: int) -> str:
    said = (
        "Rows: the true class. Columns: the predicted class. Both in order of arrival, with a line between batches; "
        "the frame holds the classes seen so far. A good learner has a growing diagonal; a vertical band on the newest "
        "classes is forgetting."
    )
    return said if len(steps) == of else f"{said} {len(steps)} of the {of} batches are shown."


def _borders(run: Run) -> tuple[int, tuple[int, ...]]:
    """How many classes there are, and how many have arrived at each border between batches."""
    record = run.records[-1]
    inner = {n for n in record.arrived if 0 < n < len(record.order)}
    return len(record.order), tuple(sorted(inner))


def _grid(name: str, borders: tuple[int, tuple[int, ...]]) -> Html:
    n, inner = borders
    lines = tag("path", d="".join(f"M{k} 0V{n}M0 {k}H{n}" for k in inner), opacity=0.5 if len(inner) > 12 else None)
    return tag("symbol", lines, id=name, viewBox=f"0 0 {n} {n}")


def _matrix(record: Record, said: str, grid: str) -> Html:
    n = len(record.order)
    seen = record.arrived[record.i - 1]
    image = tag("image", href=picture(by_row(record.confusion, record.totals)), width=n, height=n)
    lines = tag("use", href=f"#{grid}", width=n, height=n, class_="borders")
    frame = tag("rect", width=seen, height=seen, class_="seen")
    return tag("svg", image, lines, frame, class_="cm", viewBox=f"0 0 {n} {n}", role="img", aria_label=said)


def _said(group: Group, run: Run, record: Record) -> str:
    right = f"{100 * record.accuracy:.1f}{PERCENT} right on the fixed test set"
    return f"Confusion matrix of {group.title}, run {run.number}, after batch {record.i} of {record.of}: {right}."


def _large(group: Group, run: Run, placed: list[tuple[int, Record]], grid: str) -> Html:
    i, record = placed[-1]
    note = tag("span", f"batch {i}, {100 * record.accuracy:.1f}{PERCENT}", class_="after")
    axes = (tag("span", "true", class_="axis down"), tag("span", "predicted", class_="axis along"))
    return tag(
        "div",
        tag("p", swatch(group.style), tag("b", group.title), note, class_="who"),
        tag("div", _matrix(record, _said(group, run, record), grid), *axes, class_="framed"),
        class_="one",
    )


def _strip(group: Group, run: Run, placed: list[tuple[int, Record]], grid: str) -> Html:
    cells = []
    for i, record in placed:
        percent = f"{100 * record.accuracy:.1f}{PERCENT}"
        note = tag("span", tag("b", i), f" {percent}", class_="after")
        matrix = _matrix(record, _said(group, run, record), grid)
        cells.append(tag("li", matrix, note, data_batch=i, data_note=f"batch {i}, {percent}"))
    stop = "" if run.finished else f", {run.progress}"
    head = tag("h5", swatch(group.style), group.title, tag("span", f" run {run.number}{stop}", class_="quiet"))
    row = tag("ol", *cells, class_="strip", tabindex=0, aria_label=f"Confusion matrices of {group.title}, by batch")
    return tag("div", head, row, class_="of-one")


def _recognised(bench: Comparison, group: Group, run: Run, steps: list[int]) -> Html:
    """The matrices' diagonal in numbers: after each batch, the share recognised of the classes that came with each."""
    arrived = (0, *run.records[0].arrived)
    blocks = [(j, arrived[j - 1], arrived[j]) for j in range(1, len(arrived)) if arrived[j] > arrived[j - 1]]
    head = tag("tr", tag("th", "After", scope="col"), *(tag("th", f"of B{j}", scope="col") for j, *_ in blocks))
    rows = []
    for record in (run.records[i - 1] for i in steps if i <= len(run.records)):
        cells = [_share(record, first, last) for _, first, last in blocks]
        rows.append(tag("tr", tag("th", f"batch {record.i}", scope="row"), *cells))
    caption = tag("caption", f"{bench.title}, {group.title}, run {run.number}: share of test patterns recognised (%)")
    return scroll(tag("table", caption, tag("thead", head), tag("tbody", *rows)), f"Share recognised by {group.title}")


def _share(record: Record, first: int, last: int) -> Html:
    rows = record.confusion[first:last]
    right, all_ = int(np.trace(rows[:, first:last])), int(record.totals[first:last].sum())
    return tag("td", f"{100 * right / all_:.1f}" if all_ else "—", data_value=repr(right / all_) if all_ else None)


def _scale(empty: bool) -> Html:
    """The one colour scale, with its marks where the square root puts them."""
    bar = tag(
        "image", href=picture(np.linspace(0, 1, 4 * EMPTY)[None] ** 2), width=200, height=10, preserveAspectRatio="none"
    )
    marks = [
        tag("text", f"{mark}{PERCENT}", x=f"{200 * math.sqrt(mark / 100):.1f}", y=21, class_=side)
        for mark, side in ((0, None), (5, "middle"), (25, "middle"), (50, "middle"), (100, "right"))
    ]
    said = "Colour scale, by the square root: the more of a class goes to a column, the stronger the blue."
    gradient = tag("svg", bar, *marks, viewBox="0 0 200 24", role="img", aria_label=said)
    none = tag("span", "grey: no test patterns", class_="quiet") if empty else Html()
    name = tag("span", "Share of a true class’s test patterns", tag("br"), "(square-root scale)", class_="quiet")
    return tag("div", name, gradient, none, class_="scale")


def _slider(steps: list[int], of: int, where: str) -> Html:
    """Moves all large matrices to a batch; it is shown by the script that it needs."""
    name = f"{where}-slider"
    if len(steps) < 2:
        return Html()
    last = len(steps) - 1
    slider = tag(
        "input", type="range", id=name, min=0, max=last, value=last, step=1, data_steps=" ".join(map(str, steps))
    )
    output = tag("output", f"{steps[-1]} of {of}", for_=name)
    return tag("div", join(tag("label", "After batch", for_=name), slider, output), class_="slider", hidden=True)
