"""The alarm on a strategy that cannot be told from Naive: a paired test on stored predictions."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from everlearn.diagnostics.advice import advice
from everlearn.diagnostics.alarm import Alarm, Severity, percent
from everlearn.diagnostics.mcnemar import mid_p
from everlearn.diagnostics.thresholds import ALPHA, SAME
from everlearn.recipes.known import BASELINE
from everlearn.records import Run
from everlearn.records.groups import kind
from everlearn.records.predictions import predicted, truth


@dataclass(frozen=True)
class Pair:
    """A run beside Naive on the same patterns, after the last batch i that both have learnt.

    only_run, only_naive: patterns on which one alone is right; patterns: all that were tested.
    """

    run: int
    i: int
    only_run: int
    only_naive: int
    patterns: int

    @cached_property
    def p(self) -> float:
        return mid_p(self.only_run, self.only_naive)


class Among:
    """Runs that stand together, and what was found out about them: pairs with Naive, and which repeat each other."""

    def __init__(self, runs: Iterable[Run] = ()) -> None:
        self._naive: dict[tuple[str, int], list[Run]] = {}
        self._kinds: dict[tuple[object, ...], list[Run]] = {}
        self._pairs: dict[int, tuple[Run, Pair | str]] = {}  # a run is kept, so that its id stays its own
        for run in runs:
            self._kinds.setdefault(kind(run), []).append(run)
            if _plain(run) and len(run.records) > 1:
                self._naive.setdefault((run.benchmark, run.number), []).append(run)

    def pair(self, run: Run) -> Pair | str:
        """The run beside its Naive run, or the reason why there is no such pair; "" for Naive itself."""
        if id(run) not in self._pairs:
            self._pairs[id(run)] = run, _pair(run, self._naive.get((run.benchmark, run.number), []))
        return self._pairs[id(run)][1]

    def pairs(self, run: Run) -> list[Pair]:
        """The pairs of the run's repeats, one for each other number of a run."""
        repeats = {one.number: one for one in reversed(self._kinds.get(kind(run), []))}
        found = [self.pair(one) for number, one in sorted(repeats.items()) if number != run.number]
        return [pair for pair in found if isinstance(pair, Pair)]


def naive_alarms(run: Run, among: Among) -> list[Alarm]:
    """Whether a strategy cannot be told from Naive, over all runs of it that have a Naive run beside them.

    The patterns on which one alone is right are added over these runs, each with its own Naive run, and tested
    together. A run that differs from its Naive run for itself (p < ALPHA / runs, Bonferroni's bound) tells them apart
    too: differences in both directions do not cancel.
    """
    own = among.pair(run)
    if isinstance(own, str):
        return []
    pairs = [own, *among.pairs(run)]
    better, worse = sum(pair.only_run for pair in pairs), sum(pair.only_naive for pair in pairs)
    together, patterns = mid_p(better, worse), sum(pair.patterns for pair in pairs)
    if together < ALPHA or any(pair.p < ALPHA / len(pairs) for pair in pairs):
        return []
    over = f"over {len(pairs)} runs" if len(pairs) > 1 else f"in run {run.number}"
    said = (
        f"After B_{own.i}, it cannot be told from Naive: {over}, of {patterns} test patterns it alone is right on "
        f"{better} and Naive alone on {worse} (McNemar's mid-p {together:.2g}); on "
        f"{percent(1 - (better + worse) / patterns)} both are right or both wrong."
    )
    evidence = {
        "p": together,
        "only_run": better,
        "only_naive": worse,
        "patterns": patterns,
        "runs": [{"run": pair.run, "p": pair.p, "i": pair.i} for pair in pairs],
    }
    severity: Severity = "red" if better + worse <= SAME * patterns else "amber"
    return [Alarm("same_as_naive", severity, (own.i,), said, advice("same_as_naive", run), evidence)]


def unchecked_naive(run: Run, among: Among) -> list[str]:
    """Why the run could not be compared with Naive, if it could not."""
    why = among.pair(run)
    return [f"Whether it can be told from Naive: {why}."] if isinstance(why, str) and why else []


def _pair(run: Run, naive_runs: list[Run]) -> Pair | str:
    if _plain(run):
        return ""
    if len(run.records) < 2:
        return "fewer than two batches have been learnt"
    beside = [one for one in naive_runs if _stream(run) == _stream(one) and _frame(run) == _frame(one)]
    if not beside:
        return "there is no Naive run of the same benchmark, order and network beside it"
    for naive in sorted(beside, key=lambda one: _differences(run, one)):
        pair = _compared(run, naive)
        if pair is not None:
            return pair
    return "predictions or true classes were not kept"


def _plain(run: Run) -> bool:
    """Whether a run is Naive's, with none of its slots exchanged."""
    knobs = run.config.knobs if run.config else {}
    return run.strategy == BASELINE and not {"regulariser", "memory"} & set(knobs)


def _stream(run: Run) -> tuple[object, ...]:
    return run.records[0].order, run.records[0].batches, tuple(run.records[0].totals.tolist())


def _frame(run: Run) -> tuple[object, ...]:
    config = run.config
    if config is None:
        return ()
    return config.network, config.weights, config.held_out, config.knobs.get("head") == "per_task"


def _differences(run: Run, naive: Run) -> tuple[int, str]:
    """In how much of what both have, their training and seed, two runs differ; the nearest Naive run counts."""
    one, two = ({} if r.config is None else _training(r) for r in (run, naive))
    return sum(one.get(name) != two.get(name) for name in {*one, *two}), naive.place


def _training(run: Run) -> dict[str, object]:
    assert run.config is not None
    knobs = {name: value for name, value in run.config.knobs.items() if name.startswith("training.")}
    return {**knobs, "setting": run.config.setting, "seed": run.config.seed}


def _compared(run: Run, naive: Run) -> Pair | None:
    """Right and wrong, pattern by pattern; None where it was not kept, or is not of the same patterns."""
    i = min(len(run.records), len(naive.records))
    ours, theirs = predicted(run, i), predicted(naive, i)
    labels = [y for y in (truth(run), truth(naive)) if y is not None]
    if ours is None or theirs is None or not labels or not len(ours):
        return None
    if any(one.shape != ours.shape or (one != labels[0]).any() for one in labels) or theirs.shape != ours.shape:
        return None
    a, b = ours == labels[0], theirs == labels[0]
    return Pair(run.number, i, int((a & ~b).sum()), int((b & ~a).sum()), len(ours))
