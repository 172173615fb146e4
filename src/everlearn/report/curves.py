"""Curves by batch: the mean over the finished runs, a band of one deviation, and unfinished runs on their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from everlearn.records import Record, Run
from everlearn.records.groups import Comparison, Group, Spread, spread
from everlearn.records.names import DASHES, MARKERS, Style
from everlearn.report.axes import Frame, apart, batch_ticks, ticks
from everlearn.report.joined import places
from everlearn.report.markup import Html, fold, join, scroll, tag
from everlearn.report.tables import written


@dataclass(frozen=True)
class Metric:
    """What one panel shows. key: for machines; title and unit: for people; scale and digits: how it is written."""

    key: str
    title: str
    unit: str
    value: Callable[[Record], float | None]
    scale: float = 1
    digits: int = 1

    def say(self, found: Spread | None) -> str:
        return written(found, self.scale, self.digits)


ACCURACY = (
    Metric("accuracy", "On the fixed test set, all classes", "%", lambda r: r.accuracy, 100),
    Metric("accuracy_seen", "On the classes seen so far", "%", lambda r: r.accuracy_seen, 100),
)
SECONDS = (
    Metric("seconds_train", "Training", "seconds a batch", lambda r: r.seconds_train, 1, 2),
    Metric("seconds_eval", "Evaluation", "seconds a batch", lambda r: r.seconds_eval, 1, 2),
)


_UNFINISHED = " Thin dotted lines that end in a cross are unfinished runs, which are in no mean."


def figure(bench: Comparison, metrics: Sequence[Metric], where: str, *, shared: bool, caption: str) -> Html:
    """Panels side by side, with one legend and the numbers behind them. shared: whether they have one scale."""
    of = max((run.of or 1 for run in bench.runs), default=1)
    tops = [_top(bench, metric) for metric in metrics]
    panels = []
    for metric, top in zip(metrics, tops, strict=True):
        frame = Frame(of, ticks(max(tops) if shared else top)[-1])
        title = tag("p", metric.title, tag("span", f" {metric.unit}", class_="unit"), class_="panel-title")
        panels.append(
            tag("div", title, panel(bench, metric, frame), class_="panel", data_numbers=f"{where}-{metric.key}")
        )
    numbers = [_numbers(bench, metric, of, f"{where}-{metric.key}") for metric in metrics]
    return tag(
        "figure",
        legend(bench),
        tag("div", *panels, class_="panels"),
        tag("figcaption", caption, _UNFINISHED if any(group.unfinished for group in bench.groups) else ""),
        fold("Numbers behind the curves", *numbers),
        class_="curves",
    )


def _top(bench: Comparison, metric: Metric) -> float:
    spreads = [found for group in bench.groups for found in group.curve(metric.value) if found]
    means = [metric.scale * (found.mean + (found.std or 0)) for found in spreads]
    single = [metric.scale * (metric.value(r) or 0) for g in bench.groups for run in g.unfinished for r in run.records]
    top = max([*means, *single], default=0.0)
    return min(top, 100) if metric.unit == "%" else top


def legend(bench: Comparison) -> Html:
    """Who is who; each can be taken out of the figure."""
    items = [
        tag(
            "label",
            tag("input", type="checkbox", checked=True),
            swatch(group.style),
            group.title if group.finished else f"{group.title} (unfinished)",
            class_=f"k{k}",
        )
        for k, group in enumerate(bench.groups)
    ]
    return tag("fieldset", tag("legend", "Strategies shown", class_="quiet"), *items, class_="legend")


def swatch(style: Style) -> Html:
    """A short piece of a strategy's line."""
    line = tag("path", d="M1 6H25", class_="line", stroke_dasharray=DASHES[style.dash])
    mark = tag("path", d=MARKERS[style.marker], transform="translate(13 6)", class_="mark")
    return tag("svg", line, mark, class_=f"swatch p{style.colour}", viewBox="0 0 26 12", aria_hidden="true")


def panel(bench: Comparison, metric: Metric, frame: Frame) -> Html:
    """One chart."""
    lines = [_line(group, k, metric, frame) for k, group in enumerate(bench.groups)]
    last = [f"{g.title} {metric.say(curve[-1])}" for g in bench.groups if (curve := g.curve(metric.value))]
    said = f"{metric.title}, by batch, in {metric.unit}. After the last batch: {'; '.join(last) or 'no finished run'}."
    return tag(
        "svg",
        _axes(frame),
        *lines,
        _labels(bench, metric, frame),
        viewBox=f"0 0 {frame.width:g} {frame.height:g}",
        role="img",
        aria_label=said,
        class_="chart",
        data_of=frame.of,
        data_from=f"{frame.x(1):g}",
        data_to=f"{frame.x(frame.of):g}",
    )


def _placed(group: Group, metric: Metric, of: int) -> list[tuple[float, Spread | None]]:
    """A group's values, each with the batch that it stands at."""
    return list(zip(places(group.shown, of), group.curve(metric.value), strict=False))


def _axes(frame: Frame) -> Html:
    parts = []
    for value in ticks(frame.top):
        y = f"{frame.y(value):.1f}"
        parts.append(tag("path", d=f"M{frame.left:g} {y}H{frame.end:g}", class_="zero" if value == 0 else "grid"))
        parts.append(tag("text", f"{value:g}", x=f"{frame.left - 7:g}", y=y, dy=".35em", class_="tick right"))
    for i in batch_ticks(frame.of):
        x, y = f"{frame.x(i):.1f}", f"{frame.floor + 17:g}"
        parts.append(tag("text", i, x=x, y=y, class_="tick middle"))
    middle = f"{(frame.left + frame.end) / 2:g}"
    parts.append(tag("text", "batch", x=middle, y=f"{frame.height - 6:g}", class_="tick middle"))
    return tag("g", *parts, class_="axes")


def _line(group: Group, k: int, metric: Metric, frame: Frame) -> Html:
    """A strategy's band, line and markers, and its unfinished runs."""
    curve = [(i, found) for i, found in _placed(group, metric, frame.of) if found]
    style, parts = group.style, []
    if any(found.std for _, found in curve):
        edges = [(i, found.mean, found.std or 0) for i, found in curve]
        points = [(i, mean + std) for i, mean, std in edges] + [(i, mean - std) for i, mean, std in reversed(edges)]
        parts.append(tag("path", d=_path(points, metric, frame) + "Z", class_="band"))
    points = [(i, found.mean) for i, found in curve]
    parts.append(tag("path", d=_path(points, metric, frame), class_="line", stroke_dasharray=DASHES[style.dash]))
    marked = set(batch_ticks(frame.of)) | {frame.of}
    for i, found in curve:
        if i in marked or len(curve) < frame.of:
            at = f"translate({frame.x(i):.1f} {frame.y(found.mean * metric.scale):.1f})"
            name = tag("title", f"{group.title}, batch {i:g}: {metric.say(found)} {metric.unit}")
            parts.append(tag("path", name, d=MARKERS[style.marker], transform=at, class_="mark"))
    stopped = [_unfinished(group, run, metric, frame) for run in group.unfinished]
    return tag("g", *parts, *stopped, class_=f"series p{style.colour} k{k}")


def _unfinished(group: Group, run: Run, metric: Metric, frame: Frame) -> Html:
    """An unfinished run: a thin dotted line that ends in a cross."""
    at_batch = zip(places(run, frame.of), run.records, strict=False)
    points = [(i, value) for i, r in at_batch if (value := metric.value(r)) is not None]
    if not points:
        return Html()
    i, value = points[-1]
    at = f"translate({frame.x(i):.1f} {frame.y(value * metric.scale):.1f})"
    name = tag("title", f"{group.title}, run {run.number}, {run.progress}")
    cross = tag("path", name, d="M-4 -4L4 4M-4 4L4 -4", transform=at, class_="cross")
    return join(tag("path", d=_path(points, metric, frame), class_="line stopped"), cross)


def _path(points: Sequence[tuple[float, float]], metric: Metric, frame: Frame) -> str:
    return (
        "M" + "L".join(f"{frame.x(i):.1f} {frame.y(value * metric.scale):.1f}" for i, value in points) if points else ""
    )


def _labels(bench: Comparison, metric: Metric, frame: Frame) -> Html:
    """Names at the ends of the lines, moved apart where they would overlap."""
    ends = []
    for k, group in enumerate(bench.groups):
        curve = [(i, found) for i, found in _placed(group, metric, frame.of) if found]
        if curve:
            i, found = curve[-1]
            ends.append((k, group, frame.x(i), frame.y(found.mean * metric.scale)))
    places = apart([y for *_, y in ends], 15.5, frame.above, frame.floor)
    parts = []
    for (k, group, x, y), place in zip(ends, places, strict=True):
        to = frame.end + 15
        lead = tag("path", d=f"M{x + 5:.1f} {y:.1f}L{to - 3:.1f} {place:.1f}", class_="lead")
        text = tag(
            "text", tag("title", group.title), _short(group), x=f"{to:g}", y=f"{place:.1f}", dy=".35em", class_="name"
        )
        parts.append(tag("g", lead, text, class_=f"p{group.style.colour} k{k}"))
    return tag("g", *parts, class_="labels")


def _short(group: Group) -> str:
    """A name that fits beside a line: its beginning, or of what sets it apart the end."""
    if len(group.title) <= 11:
        return group.title
    return f"…{group.apart[-10:]}" if group.apart else f"{group.title[:10]}…"


def _numbers(bench: Comparison, metric: Metric, of: int, key: str) -> Html:
    """The panel's numbers as a table: the mean and deviation of each strategy, and each unfinished run."""
    head = tag("tr", tag("th", "Strategy", scope="col"), *(tag("th", i, scope="col") for i in range(1, of + 1)))
    rows = []
    for k, group in enumerate(bench.groups):
        known = {"data_benchmark": bench.name, "data_strategy": group.label, "data_metric": metric.key}
        curve = {round(i): found for i, found in _placed(group, metric, of)}
        if curve:
            cells = [
                _cell(metric, curve[i], data_batch=i, **known) if i in curve else tag("td") for i in range(1, of + 1)
            ]
            rows.append(tag("tr", tag("th", swatch(group.style), group.title, scope="row"), *cells, data_k=k))
        for run in group.unfinished:
            name = f"{group.title}, run {run.number}, {run.progress}"
            one = {round(i): spread([metric.value(r)]) for i, r in zip(places(run, of), run.records, strict=False)}
            cells = [
                _cell(metric, one[i], data_batch=i, data_run=run.number, **known) if i in one else tag("td")
                for i in range(1, of + 1)
            ]
            rows.append(tag("tr", tag("th", name, scope="row"), *cells))
    caption = tag("caption", f"{bench.title}: {metric.title.lower()}, by batch ({metric.unit}; mean ± deviation)")
    table = tag("table", caption, tag("thead", head), tag("tbody", *rows), class_="numbers", id=key)
    return scroll(table, f"{metric.title}, by batch")


def _cell(metric: Metric, found: Spread | None, **known: object) -> Html:
    value = None if found is None else repr(found.mean)
    std = None if found is None or found.std is None else repr(found.std)
    return tag("td", metric.say(found), **known, data_value=value, data_std=std)
