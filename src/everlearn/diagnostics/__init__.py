"""Alarms: what went wrong in a run, and which setting to change, from records alone. PyTorch is never imported here."""

from collections.abc import Iterable

from everlearn.diagnostics.alarm import RANK, Alarm, Severity
from everlearn.diagnostics.frozen import frozen_alarms
from everlearn.diagnostics.importance import importance_alarms
from everlearn.diagnostics.matrices import matrix_alarms
from everlearn.diagnostics.naive import Among, naive_alarms, unchecked_naive
from everlearn.diagnostics.overshoot import overshoot_alarms, unchecked_overshoot
from everlearn.records import Run

__all__ = ["NAMES", "Alarm", "Among", "Severity", "alarms", "unchecked"]

NAMES = {
    "forgetting": "Forgetting",
    "not_learnt": "New classes not learnt",
    "bar": "A sharp bar",
    "importance_zero": "Importance nearly all zero",
    "importance_saturated": "Importance nearly all saturated",
    "overshoot": "Overshoot",
    "frozen_moved": "A frozen layer moved",
    "same_as_naive": "Cannot be told from Naive",
}
"""Every alarm, and its title."""


def alarms(run: Run, among: Among | Iterable[Run] = ()) -> list[Alarm]:
    """All alarms of a run, red ones first; none for a healthy one.

    among: the runs that it stands among, where its Naive run and its own repeats are looked for. Whoever asks for many
    runs makes one `Among` of them, which compares each with Naive once.
    """
    if not run.records:
        return []
    found = [
        *matrix_alarms(run),
        *importance_alarms(run),
        *overshoot_alarms(run),
        *frozen_alarms(run),
        *naive_alarms(run, _among(among)),
    ]
    return sorted(found, key=lambda alarm: RANK[alarm.severity])


def unchecked(run: Run, among: Among | Iterable[Run] = ()) -> list[str]:
    """What could not be looked at, and why; whoever sees no alarm should know it."""
    if not run.records:
        return ["No batch has been learnt yet."]
    return [*unchecked_overshoot(run), *unchecked_naive(run, _among(among))]


def _among(runs: Among | Iterable[Run]) -> Among:
    return runs if isinstance(runs, Among) else Among(runs)
