"""MT and SIT: who is compared in both, and the accuracies on the classes of each batch."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from everlearn.errors import DataError, sentence
from everlearn.figures.series import IN_TURN, Series, first_of, missing
from everlearn.figures.table import escaped
from everlearn.learning.evaluation import by_batch
from everlearn.records import Record
from everlearn.records.groups import Spread, spread
from everlearn.records.names import COLOURS, Style, spelt, style
from everlearn.report.tables import DEVIATION, runs_of, written

_SCENARIO = re.compile(r"[\s,_-]+\(?(MT|SIT)\)?$", re.IGNORECASE)
_HEAD = re.compile(r"(^|, )head [\w*+-]+(?=,|$)")


@dataclass(frozen=True)
class Scenario:
    """MT or SIT. title: in words; members: series by the names that stand for them in both."""

    name: str
    title: str
    members: dict[str, Series]
    by_batch: Callable[[Record], list[float]]

    def accuracies(self, one: Series, of: int) -> list[Spread]:
        """After the last batch, the accuracy on the classes of each batch, and at the end their average."""
        rows = [self.by_batch(run.records[-1]) for run in one.group.finished]
        if any(len(row) != of for row in rows):
            raise DataError(
                sentence(
                    "mt_vs_sit cannot compare these runs",
                    expected=f"accuracies on {of} batches, in accuracy_mt and in confusion",
                    got=f"{sorted({len(row) for row in rows})} in the runs of {one.label}",
                    do="Draw runs of one stream, made by this version.",
                )
            )
        whole = [[*row, float(np.mean(row))] for row in rows]
        return [found for column in zip(*whole, strict=True) if (found := spread(column))]


@dataclass(frozen=True)
class Scenarios:
    """Both, of a stream of so many batches. styles: of everybody who is in one of them, by name, in order."""

    mt: Scenario
    sit: Scenario
    of: int
    styles: dict[str, Style]

    @property
    def series(self) -> list[Series]:
        """Everybody who is in one of them."""
        return [*self.mt.members.values(), *self.sit.members.values()]


def split(series: Sequence[Series]) -> tuple[list[Series], list[Series] | None]:
    """Those that are not told the task, and those that are; None if nobody is."""
    told = [one for one in series if one.knows_task]
    return [one for one in series if not one.knows_task], told or None


def scenarios(series: Sequence[Series], mt: Sequence[Series] | None = None) -> Scenarios:
    """SIT runs beside MT runs; without the latter, beside themselves when they are told the task in the test."""
    first_of(series, "mt_vs_sit")
    sit = [one for one in series if one.group.finished]
    told = sit if mt is None else [one for one in mt if one.group.finished]
    if not sit or not told:
        raise missing("mt_vs_sit", "finished runs in MT and in SIT", series if not sit else mt or [])
    names = _names(sit, told)
    trained = "task told in the test only" if mt is None else "a head for each task"
    both = (
        Scenario("MT", f"MT: {trained}", {names[one]: one for one in told}, _mt),
        Scenario("SIT", "SIT: one head for all classes, no task told", {names[one]: one for one in sit}, _sit),
    )
    of = max(run.of or 1 for one in (*sit, *told) for run in one.group.finished)
    return Scenarios(*both, of, _styles({names[one]: one for one in (*told, *sit)}))


def mt_vs_sit_table(series: Sequence[Series]) -> str:
    """The numbers of `mt_vs_sit` as Markdown: a row for each strategy in each scenario, a column for each batch.

    Args:
        series: SIT runs and MT runs together; without MT runs, as for `mt_vs_sit`.

    Returns:
        Markdown.
    """
    found = scenarios(*split(series))
    head = ["Strategy", "Scenario", "Runs", *(f"B{i}" for i in range(1, found.of + 1)), "Average"]
    rows = [head, ["---", "---", *["---:"] * (len(head) - 2)]]
    for name in found.styles:
        for part in (found.mt, found.sit):
            if one := part.members.get(name):
                values = [written(value, 100) for value in part.accuracies(one, found.of)]
                rows.append([escaped(name), part.name, runs_of(one.group), *values])
    note = (
        f"Accuracy (%) on {escaped(series[0].benchmark)} after the last batch, on the classes of each batch, and the "
        f"average over the batches: mean ± {DEVIATION} over finished runs. {found.mt.title}. {found.sit.title}."
    )
    return "\n".join([*("| " + " | ".join(row) + " |" for row in rows), "", note, ""])


def _names(sit: Sequence[Series], told: Sequence[Series]) -> dict[Series, str]:
    """What each is called in both: the same name for "EWC MT" and "EWC SIT", and for a strategy with either head.

    Where that would make one name of two in the same scenario, they keep their labels.
    """
    found = {}
    for one in (*told, *sit):
        alone = max(sum(o.group.strategy == one.group.strategy for o in part) for part in (sit, told)) == 1
        found[one] = _name(one, alone=alone)
    for part in (sit, told):
        names = [found[one] for one in part]
        found |= {one: one.label for one in part if names.count(found[one]) > 1}
    return found


def _name(one: Series, *, alone: bool) -> str:
    if one.label != one.group.title:
        return _SCENARIO.sub("", one.label) or one.label
    apart = "" if alone else _HEAD.sub("", one.group.apart).removeprefix(", ")
    return f"{spelt(one.group.strategy)} ({apart})" if apart else spelt(one.group.strategy)


def _styles(who: dict[str, Series]) -> dict[str, Style]:
    """The strategies' own styles if these tell all apart by colour, as bars must; else colours in turn."""
    own = {name: style(one.group.strategy) for name, one in who.items()}
    if len({each.colour for each in own.values()}) == len(own):
        return own
    return {name: Style(IN_TURN[k % COLOURS], 0, 0) for k, name in enumerate(own)}


def _mt(record: Record) -> list[float]:
    return list(record.accuracy_mt)


def _sit(record: Record) -> list[float]:
    return by_batch(record.confusion, record.totals.tolist(), record.order, record.batches)
