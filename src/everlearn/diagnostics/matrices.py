"""Alarms on the sequence of confusion matrices: forgetting, new classes not learnt, a sharp bar."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from everlearn.diagnostics.advice import advice
from everlearn.diagnostics.alarm import Alarm, named, percent, severity
from everlearn.diagnostics.shapes import Shape, shapes
from everlearn.records import Run


def matrix_alarms(run: Run) -> list[Alarm]:
    """What the whole sequence of matrices shows; the last one alone is often not enough."""
    found = shapes(run.records)
    bands = [one for one in found if one.is_band]
    blanks = [one for one in found if one.is_blank]
    bars = [one for one in found if one.is_bar]
    return [
        *([_forgetting(run, bands)] if bands else []),
        *([_not_learnt(run, blanks)] if blanks else []),
        *([_bar(run, bars, forgets=bool(bands))] if bars else []),
    ]


def _forgetting(run: Run, found: list[Shape]) -> Alarm:
    band = [one.band or 0.0 for one in found]
    said = (
        f"After {_batches(found)}, {_mean(band)} of the patterns of older classes are given to the newest batch: a "
        f"vertical band. That is forgetting: {_mean([one.old or 0.0 for one in found])} of them are still recognised."
    )
    evidence = {
        "given_to_newest": band,
        "by_blind_guess": [one.blind for one in found],
        "old_recognised": [one.old for one in found],
    }
    return _alarm("forgetting", run, found, said, evidence)


def _not_learnt(run: Run, found: list[Shape]) -> Alarm:
    new, old = [one.new or 0.0 for one in found], [one.old or 0.0 for one in found]
    lost = [one.lost or 0.0 for one in found]
    said = (
        f"After {_batches(found)}, {_mean(new)} of the patterns of the newest classes are recognised, but {_mean(old)} "
        f"of the older classes': the new ones are not learnt, and {_mean(lost)} of their patterns are given to older "
        "classes."
    )
    evidence = {"new_recognised": new, "old_recognised": old, "given_to_older": lost}
    return _alarm("not_learnt", run, found, said, evidence)


def _bar(run: Run, found: list[Shape], *, forgets: bool) -> Alarm:
    """forgets: whether there is a band too; then to lower λ, as a saturated network needs it, would make that worse."""
    worst = max(found, key=lambda one: one.bar or 0.0)
    taken = [one.bar or 0.0 for one in found]
    said = (
        f"After {_batches(found)}, {_mean(taken)} of the patterns of older classes are given to "
        f"{'one class' if len(worst.bar_classes) == 1 else 'few classes'}: a sharp bar (after B_{worst.i} on "
        f"{' and '.join(_called(run, c) for c in worst.bar_classes)})."
    )
    evidence = {
        "given_to_few": taken,
        "share_of_mistakes": [one.mistakes for one in found],
        "classes": [list(one.bar_classes) for one in found],
    }
    return _alarm("bar", run, found, said, evidence, advised="bar_and_band" if forgets else "bar")


def _alarm(
    name: str, run: Run, found: Sequence[Shape], said: str, evidence: dict[str, Any], advised: str | None = None
) -> Alarm:
    batches = tuple(one.i for one in found)
    how = severity(batches, run.records[-1].i, last=name != "not_learnt")
    return Alarm(name, how, batches, said, advice(advised or name, run), evidence)


def _batches(found: Sequence[Shape]) -> str:
    return named([one.i for one in found])


def _mean(shares: Sequence[float]) -> str:
    return percent(shares[0]) if len(shares) == 1 else f"on average {percent(fmean(shares))}"


def _called(run: Run, c: int) -> str:
    names = run.config.class_names if run.config else ()
    return f"class {names[c]}" if c < len(names) else f"class {c}"
