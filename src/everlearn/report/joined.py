"""The same stream with batches joined: its runs stand beside the others, where as many classes have been seen."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from everlearn.records import Run
from everlearn.records.groups import Comparison, Group

JOINED = "+joined"
"""How the name of such a benchmark ends; the rest is the stream's."""


def together(benches: Sequence[Comparison]) -> list[Comparison]:
    """Benchmarks, with the runs on joined batches among those on the stream itself, if it has any."""
    found = {bench.name: bench for bench in benches}
    for name in [name for name in found if name.endswith(JOINED) and name.removesuffix(JOINED) in found]:
        base = name.removesuffix(JOINED)
        found[base] = _merged(found[base], found.pop(name))
    return list(found.values())


def _merged(bench: Comparison, joined: Comparison) -> Comparison:
    """All groups of both, in the order of one benchmark's: best first, the upper bound last."""
    labels = [group.label for group in bench.groups]
    more = [group if group.label not in labels else _apart(group, bench) for group in joined.groups]
    groups = sorted((*bench.groups, *more), key=rank)
    return replace(
        bench,
        synthetic=bench.synthetic or joined.synthetic,
        groups=tuple(groups),
        repeated=tuple(sorted((*bench.repeated, *joined.repeated))),
    )


def _apart(group: Group, bench: Comparison) -> Group:
    """A group whose namesake has learnt the stream itself, told apart from it."""
    variant = sum(other.strategy == group.strategy for other in bench.groups)
    return replace(group, variant=variant, apart=f"{group.apart}, joined" if group.apart else "joined")


def rank(group: Group) -> tuple[bool, bool, float, str]:
    """Sorts groups as `everlearn.records.groups.Comparison` wants them."""
    final = group.over("final")
    return group.upper_bound, final is None, -final.mean if final else 0.0, group.label


def places(run: Run | None, of: int) -> list[float]:
    """Where a run's batches stand on an axis of so many: if it has fewer, each where as many classes have been seen.

    A stream whose batches do not all bring new classes stands at its own batches.
    """
    own = [float(i) for i in range(1, of + 1)]
    if run is None or not run.records or run.of == of:
        return own
    last = run.records[-1]
    if any(one >= two for one, two in pairwise(last.arrived)):
        return own
    return [of * seen / len(last.order) for seen in last.arrived]
