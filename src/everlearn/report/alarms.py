"""The section "What to look at": the alarms of each strategy, in words."""

from everlearn.diagnostics import NAMES, Alarm, Among, alarms
from everlearn.records import Run
from everlearn.records.groups import Comparison, Group
from everlearn.report.curves import swatch
from everlearn.report.markup import Html, join, tag

_WORDS = {"red": "Red", "amber": "Amber", "green": "Green"}


def section(bench: Comparison) -> Html:
    """For each strategy its alarms over all runs, the same one of several runs told once; or that there is none."""
    among = Among(bench.runs)
    told = [_strategy(among, group) for group in bench.groups if any(run.records for run in group.runs)]
    note = tag(
        "p",
        "From confusion matrices, importances, weight changes and predictions, by fixed thresholds. Red: it holds "
        "after the last batch, or after half of them. Amber: after fewer, or not certain. Green: no alarm.",
        class_="note",
    )
    return join(tag("dl", *told, class_="alarms"), note)


def _strategy(among: Among, group: Group) -> Html:
    found: dict[str, list[tuple[Run, Alarm]]] = {}
    for run in group.runs:
        for alarm in alarms(run, among):
            found.setdefault(alarm.name, []).append((run, alarm))
    head = tag("dt", swatch(group.style), tag("span", group.title, class_="name"))
    listed = [_told(group, same) for same in sorted(found.values(), key=_first_red)]
    return join(head, *(listed or [tag("dd", _badge("green"), " No alarm.", data_severity="green")]))


def _first_red(same: list[tuple[Run, Alarm]]) -> bool:
    return all(alarm.severity != "red" for _, alarm in same)


def _told(group: Group, same: list[tuple[Run, Alarm]]) -> Html:
    """One alarm, told of the run that shows it worst, with the numbers of the others that have it."""
    run, alarm = min(same, key=lambda pair: (pair[1].severity != "red", -len(pair[1].batches)))
    others = [str(other.number) for other, _ in same if other is not run]
    few = f"Also in run{'s' if len(others) > 1 else ''} {', '.join(others)}." if others else ""
    said = [
        _badge(alarm.severity),
        " ",
        tag("b", f"{NAMES[alarm.name]}."),
        f" {alarm.sentence} ",
        tag("span", " ".join(filter(None, [f"Run {run.number}.", few])), class_="quiet"),
    ]
    known = {"data_severity": alarm.severity, "data_alarm": alarm.name, "data_strategy": group.label}
    return tag("dd", *said, **known)


def _badge(severity: str) -> Html:
    return tag("span", _WORDS[severity], class_=f"badge {severity}")
