"""η·λ·max F̂, and the alarm where it pulls weights past their old values."""

from everlearn.diagnostics.alarm import Alarm, Severity, named
from everlearn.diagnostics.importance import histogram
from everlearn.diagnostics.thresholds import DIVERGES, OVERSHOOT
from everlearn.records import Run


def lam(run: Run) -> list[float | None]:
    """λ_i of each batch."""
    return [record.lam for record in run.records]


def eta(run: Run) -> list[float | None]:
    """The largest η of each batch: as recorded, or else of the steps that were logged."""
    logged: dict[int, float] = {}
    for event in run.events:
        if event.eta is not None:
            logged[event.i] = max(event.eta, logged.get(event.i, event.eta))
    return [logged.get(r.i) if r.eta is None else r.eta for r in run.records]


def pull(run: Run) -> list[float | None]:
    """η_i·λ_i·max F̂ of each batch, F̂ being that after the batch before; None where a factor is not recorded.

    Above 1, a weight is pulled past its old value.
    """
    largest = [None if (found := histogram(record)) is None else found.largest for record in run.records]
    return _products(run, largest)


def least_pull(run: Run) -> list[float | None]:
    """The same, or where the largest F̂ is not recorded what it is at least, by the histogram."""
    return _products(run, [None if (one := histogram(record)) is None else one.at_least for record in run.records])


def _products(run: Run, largest: list[float | None]) -> list[float | None]:
    factors = zip(eta(run), lam(run), [None, *largest[:-1]], strict=True)
    return [None if a is None or b is None or c is None else a * b * c for a, b, c in factors]


def overshoot_alarms(run: Run) -> list[Alarm]:
    """Whether the pull overshoots in some batch."""
    exact = pull(run)
    found = {i: p for i, p in enumerate(least_pull(run), start=1) if p is not None and p > OVERSHOOT}
    if not found:
        return []
    worst = max(found, key=lambda i: found[i])
    least = "" if exact[worst - 1] is not None else "at least "
    said = (
        f"In {named(list(found))}, the pull overshoots: η·λ·max F̂ is {least}{found[worst]:.3g} in B_{worst}, and above "
        "1 a weight is pulled past its old value."
    )
    do = f"Lower λ, η or max_F so that the product is 1 at most: λ to {_bound(run, worst, found[worst]):.3g}, say."
    severity: Severity = "red" if found[worst] > DIVERGES else "amber"
    return [Alarm("overshoot", severity, tuple(found), said, do, {"eta_lam_max_F": list(found.values())})]


def _bound(run: Run, i: int, product: float) -> float:
    """The λ at which the product would be 1."""
    return (lam(run)[i - 1] or 0.0) / product


def unchecked_overshoot(run: Run) -> list[str]:
    """Why overshoot could not be looked for in some batches, where there is importance at all."""
    held = [record.i for record in run.records if record.i > 1 and run.records[record.i - 2].importance is not None]
    pulls = least_pull(run)
    missing = [i for i in held if pulls[i - 1] is None]
    return [f"Overshoot in {named(missing)}: η, λ or F̂ is not recorded."] if missing else []
