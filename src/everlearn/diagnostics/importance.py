"""The distribution of F̂, and alarms on it: nearly all zero, nearly all saturated."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from everlearn.diagnostics.advice import advice, knob
from everlearn.diagnostics.alarm import Alarm, named, percent, severity
from everlearn.diagnostics.thresholds import HELD, MAX_F, NEARLY_ALL, SATURATED
from everlearn.errors import DataError, sentence
from everlearn.records import Record, Run
from everlearn.records import fields as f


@dataclass(frozen=True, eq=False)
class Histogram:
    """F̂ after a batch: counts between edges, the shares that are zero and saturated at max_F, and the largest F̂.

    Or F, or the batch's own F^i: of these nothing is saturated, and SI's may have a negative share.
    """

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]
    zero: float
    saturated: float
    largest: float | None = None
    negative: float = 0.0

    def below(self, bound: float) -> float:
        """The share of weights with F̂ below a bound, by whole bins: a bin that reaches above it does not count.

        Weights below the lowest edge are in no bin, so that the share can be larger, never smaller.

        >>> Histogram(np.array([1e-3, 1e-2, 1e-1]), np.array([30, 10]), zero=0.5, saturated=0.0).below(0.05)
        0.875
        """
        positive = int(self.counts.sum())
        if not positive:
            return self.zero if self.saturated or (self.largest or 0.0) > bound else 1.0
        small = int(self.counts[self.edges[1:] <= bound].sum())
        return self.zero + (1 - self.zero) * small / positive

    @property
    def at_least(self) -> float | None:
        """The largest F̂, or where it is not recorded the lower edge of the highest bin with a weight in it."""
        filled = np.nonzero(self.counts)[0]
        if self.largest is not None or not len(filled):
            return self.largest
        return float(self.edges[filled[-1]])


def histogram(record: Record) -> Histogram | None:
    """What a record says of F̂; None where there is none."""
    if record.importance is None:
        return None
    return _histogram(f.Fields(record.importance, f"the importance of {_said(record)}"), clipped=True)


def information(record: Record, of: Literal["F", "F_i"] = "F") -> Histogram | None:
    """What a record says of F, which F̂ was formed from, or of the batch's own F^i; None where it says nothing."""
    where = f"the importance of {_said(record)}"
    found = None if record.importance is None else f.Fields(record.importance, where).may(of, f.mapping, None)
    return None if found is None else _histogram(f.Fields(found, f"{of} in {where}"), clipped=False)


def check_importance(record: Record) -> None:
    """Raise a DataError where what a record says of importance cannot be drawn."""
    histogram(record)
    information(record, "F")
    information(record, "F_i")


def _said(record: Record) -> str:
    return f"{record.strategy}, run {record.run}, batch {record.i}"


def _histogram(read: f.Fields, *, clipped: bool) -> Histogram:
    edges, counts = np.array(read.need("edges", _numbers)), np.array(read.need("counts", f.counts), dtype=np.int64)
    if len(edges) != len(counts) + 1 or not (np.diff(edges) > 0).all() or not edges[0] > 0:
        raise DataError(
            sentence(
                f"{read.where} cannot be drawn",
                expected="rising edges above 0, one more than counts",
                got=f"{len(edges)} edges and {len(counts)} counts",
                do="Repeat the run, or move its folder elsewhere.",
            )
        )
    saturated = read.need("saturated", f.share) if clipped else 0.0
    negative = 0.0 if clipped else read.may("negative", f.share, 0.0)
    return Histogram(edges, counts, read.need("zero", f.share), saturated, read.may("max", f.number, None), negative)


def _numbers(x: object) -> list[float]:
    """a list of finite numbers"""
    if not isinstance(x, list):
        raise TypeError
    return [f.number(one) for one in x]


def importance_alarms(run: Run) -> list[Alarm]:
    """Whether F̂ is nearly all zero, or nearly all at max_F."""
    found = {record.i: one for record in run.records if (one := histogram(record)) is not None}
    bound = HELD * _max_F(run)
    unheld = {i: one.below(bound) for i, one in found.items()}
    zero = {i: share for i, share in unheld.items() if share >= NEARLY_ALL}
    full = {i: one.saturated for i, one in found.items() if one.saturated >= SATURATED}
    alarms = []
    if zero:
        said = (
            f"After {named(list(zero))}, importance is nearly all zero: F̂ is below {bound:g} for {_from(zero)} of the "
            "weights."
        )
        alarms.append(_alarm("importance_zero", run, zero, said, {"below": bound, "share": list(zero.values())}))
    if full:
        said = (
            f"After {named(list(full))}, importance is nearly all saturated: {_from(full)} of the weights are at max_F."
        )
        alarms.append(_alarm("importance_saturated", run, full, said, {"share": list(full.values())}))
    return alarms


def _alarm(name: str, run: Run, batches: dict[int, float], said: str, evidence: dict[str, Any]) -> Alarm:
    where = tuple(batches)
    return Alarm(name, severity(where, run.records[-1].i), where, said, advice(name, run), evidence)


def _from(shares: dict[int, float]) -> str:
    low, high = percent(min(shares.values())), percent(max(shares.values()))
    return low if low == high else f"{low} to {high}"


def _max_F(run: Run) -> float:
    """max_F as far as the run's config tells; else the paper's."""
    found = knob(run, "regulariser.max_F")
    return float(found) if isinstance(found, int | float) and found > 0 else MAX_F
