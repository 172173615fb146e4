"""The tables of a page: final numbers, storage, seconds, and how the runs were made."""

import json
from dataclasses import dataclass

from everlearn.records import Run
from everlearn.records.groups import METRICS, Comparison, Group, Spread
from everlearn.report.curves import swatch
from everlearn.report.markup import Html, fold, join, plain, scroll, tag
from everlearn.report.tables import DEVIATION, runs_of, written


@dataclass(frozen=True)
class Column:
    """A column of numbers over runs."""

    metric: str
    title: str
    group: str
    scale: float = 100
    digits: int = 1


FINAL = (
    Column("final", "Final", "Fixed test set, %"),
    Column("average", "Average", "Fixed test set, %"),
    Column("seen", "Final", "Classes seen, %"),
    Column("average_seen", "Average", "Classes seen, %"),
)
KEPT = (
    Column("forgetting", "Forgetting", "Old batches, %"),
    Column("backward_transfer", "Backward transfer", "Old batches, %"),
    Column("forward_transfer", "Forward transfer", "Next batch, %"),
    Column("mt", "Final", "Task known, %"),
)
SECONDS = (
    Column("seconds_train", "Training", "Seconds a batch", 1, 2),
    Column("seconds_eval", "Evaluation", "Seconds a batch", 1, 2),
    Column("images_per_second", "Training", "Images a second", 1, 0),
)


def final(bench: Comparison) -> Html:
    """The final table: the best first, the upper bound on its own line."""
    note = tag(
        "p",
        f"Mean ± {DEVIATION} over the finished runs. Final: after the last batch. Average: of the accuracies after "
        "each batch. Dots: the final accuracy of each run on the fixed test set, from 0 to 100\N{NO-BREAK SPACE}%.",
        class_="note",
    )
    return join(_table(bench, FINAL, "final accuracy", dots=True), note)


def kept(bench: Comparison) -> Html:
    """What was kept of old batches, and what it takes to be told the task."""
    if not any(group.over(column.metric) for group in bench.groups for column in KEPT):
        return Html()
    note = tag(
        "p",
        "Forgetting: how far old batches fell from their best. Backward transfer: how they changed since they were "
        "learnt. Forward transfer: what a batch gained before it was learnt. Task known: accuracy where each pattern’s "
        "own batch is given, the mean over the batches.",
        class_="note",
    )
    return join(tag("h4", "Forgetting and transfer"), _table(bench, KEPT, "forgetting and transfer", dots=False), note)


def seconds(bench: Comparison) -> Html:
    """Seconds a batch, over the finished runs."""
    return _table(bench, SECONDS, "seconds a batch", dots=False)


def _table(bench: Comparison, columns: tuple[Column, ...], what: str, *, dots: bool) -> Html:
    there = [column for column in columns if any(group.over(column.metric) for group in bench.groups)]
    above: dict[str, int] = {}
    for column in there:
        above[column.group] = above.get(column.group, 0) + 1
    first = [tag("th", "Strategy", scope="col", rowspan=2), tag("th", "Runs", scope="col", rowspan=2)]
    spans = [tag("th", name, scope="colgroup", colspan=width, class_="span") for name, width in above.items()]
    last = [tag("th", "Each run", scope="col", rowspan=2, class_="each")] if dots else []
    head = [tag("tr", *first, *spans, *last), tag("tr", *(tag("th", column.title, scope="col") for column in there))]
    contenders = [_row(bench, group, there, dots=dots) for group in bench.groups if not group.upper_bound]
    bound = [_row(bench, group, there, dots=dots) for group in bench.groups if group.upper_bound]
    bodies = [tag("tbody", *rows, class_=name) for rows, name in ((contenders, None), (bound, "bound")) if rows]
    caption = tag("caption", f"{bench.title}: {what}")
    return scroll(tag("table", caption, tag("thead", *head), *bodies, class_="standing"), f"{bench.title}: {what}")


def _row(bench: Comparison, group: Group, columns: list[Column], *, dots: bool) -> Html:
    best = dots and group is bench.best
    marks = []
    if best:
        marks.append(tag("span", "best without rehearsal", class_="badge"))
    if dots and group.upper_bound:
        marks.append(tag("span", "upper bound", class_="badge plain"))
    if dots and group.knows_task:
        marks.append(tag("span", "told the task", class_="badge plain"))
    if dots and group.rehearses and not group.upper_bound:
        marks.append(tag("span", "keeps patterns", class_="badge plain"))
    known = {"data_benchmark": bench.name, "data_strategy": group.label}
    cells = [_number(group.over(column.metric), column, known) for column in columns]
    name = tag("th", swatch(group.style), tag("span", group.title, class_="name"), *marks, scope="row")
    runs = tag("td", runs_of(group), **known, data_metric="runs", data_value=len(group.runs))
    last = [tag("td", _dots(group), class_="each")] if dots else []
    return tag("tr", name, runs, *cells, *last, class_="best" if best else None)


def _number(found: Spread | None, column: Column, known: dict[str, str]) -> Html:
    values: dict[str, object] = {}
    if found:
        values = {"data_value": repr(found.mean), "data_n": found.n}
        values |= {} if found.std is None else {"data_std": repr(found.std)}
    return tag("td", written(found, column.scale, column.digits), **known, data_metric=column.metric, **values)


def _dots(group: Group) -> Html:
    """The final accuracy of each finished run, on a line from 0 to 100 %."""
    finals = [METRICS["final"](run) or 0.0 for run in group.finished]
    marks = [tag("path", d=f"M{3 + 114 * value:.1f} 8h0", class_="dot") for value in finals]
    line = tag("path", d="M3 8H117M3 5V11M60 6V10M117 5V11", class_="rule")
    return tag("svg", line, *marks, viewBox="0 0 120 16", class_=f"dots p{group.style.colour}", aria_hidden="true")


def storage(bench: Comparison) -> Html:
    """The storage ledger: the paper's formula beside the bytes really kept, by name."""
    shown = [(group, run) for group in bench.groups if (run := group.shown) is not None]
    last = {group.label: run.records[-1] for group, run in shown}
    names = list(dict.fromkeys(name for record in last.values() for name in record.storage))
    head = tag("tr", tag("th", "", scope="col"), *(tag("th", group.title, scope="col") for group, _ in shown))

    def row(title: object, key: str, values: list[object], **extra: object) -> Html:
        cells = [
            tag("td", _spaced(v), data_benchmark=bench.name, data_strategy=g.label, data_metric=key, data_value=v)
            for (g, _), v in zip(shown, values, strict=True)
        ]
        return tag("tr", tag("th", title, scope="row"), *cells, **extra)

    paper = [
        row("Formula", "formula", [r.formula for r in last.values()], class_="formula"),
        row("Values", "values", [r.values for r in last.values()]),
    ]
    kept = [row(tag("code", name), f"storage:{name}", [r.storage.get(name) for r in last.values()]) for name in names]
    total = row("All, bytes", "storage", [sum(r.storage.values()) for r in last.values()], class_="total")
    above = [_over("The paper’s overhead, in values", len(shown)), _over("Kept between batches, in bytes", len(shown))]
    caption = tag("caption", f"{bench.title}: storage after the last batch of the run shown")
    bodies = [tag("tbody", above[0], *paper), tag("tbody", above[1], *kept, total)]
    return scroll(tag("table", caption, tag("thead", head), *bodies, class_="ledger"), f"{bench.title}: storage")


def _over(title: str, width: int) -> Html:
    return tag("tr", tag("th", title, scope="rowgroup", colspan=width + 1), class_="over")


def _spaced(value: object) -> str:
    """A whole number with thin spaces between thousands; a dash for nothing.

    >>> _spaced(1234567) == "1\\u202f234\\u202f567", _spaced(None)
    (True, '—')
    """
    if value is None:
        return "—"
    return f"{value:,}".replace(",", "\u202f") if isinstance(value, int) else str(value)


def made(bench: Comparison) -> Html:
    """The exact commands, versions and configurations, and the classes in order of arrival."""
    with_config = [(run, run.config) for run in bench.runs if run.config]
    commands = "\n".join(config.command for _, config in with_config if config.command)
    where = [(config.versions, config.machine) for _, config in with_config]
    places = {json.dumps(pair, sort_keys=True): pair for pair in where}
    versions = [
        tag("ul", *(tag("li", f"{name}: {value}") for part in places[key] for name, value in sorted(part.items())))
        for key in sorted(places)
    ]
    configs = [fold(_named(run), tag("pre", tag("code", _settings(run)), tabindex=0)) for run in bench.runs]
    return join(
        fold(
            f"Commands ({len(with_config)})",
            tag("pre", tag("code", commands or "No run left its command."), tabindex=0),
        )
        if with_config
        else Html(),
        fold("Versions and machine", *versions) if versions else Html(),
        fold(f"Configurations ({len(bench.runs)})", *configs, class_="nest"),
        _classes(bench),
    )


def _named(run: Run) -> str:
    return f"{run.strategy}, run {run.number}, {run.progress}: {run.place}"


def _settings(run: Run) -> str:
    if run.config is None:
        return "No config.json was left."
    return "\n".join(f"{key}: {plain(json.dumps(value, ensure_ascii=False))}" for key, value in run.config.raw.items())


def _classes(bench: Comparison) -> Html:
    run = next((run for group in bench.groups if (run := group.shown) is not None), None)
    if run is None:
        return Html()
    names = run.config.class_names if run.config else ()
    items = [
        tag("li", ", ".join(names[c] if c < len(names) else f"class {c}" for c in batch))
        for batch in run.records[0].batches
    ]
    return fold(f"Classes in order of arrival, run {run.number}", tag("ol", *items))
