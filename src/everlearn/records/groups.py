"""Runs by benchmark and strategy, and the numbers over them."""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from everlearn.records import names
from everlearn.records.reading import Record, Run, RunConfig


@dataclass(frozen=True)
class Spread:
    """The mean of n values and their sample standard deviation (n − 1), which one value does not have."""

    mean: float
    std: float | None
    n: int


def spread(values: Iterable[float | None]) -> Spread | None:
    """Mean and deviation of the values that are there.

    >>> spread([1.0, 3.0, None])
    Spread(mean=2.0, std=1.4142135623730951, n=2)
    """
    there = [value for value in values if value is not None]
    if not there:
        return None
    return Spread(statistics.fmean(there), statistics.stdev(there) if len(there) > 1 else None, len(there))


def _mean(values: Iterable[float | None]) -> float | None:
    found = spread(values)
    return found.mean if found else None


METRICS: dict[str, Callable[[Run], float | None]] = {
    "final": lambda run: run.records[-1].accuracy,
    "average": lambda run: _mean(r.accuracy for r in run.records),
    "seen": lambda run: run.records[-1].accuracy_seen,
    "average_seen": lambda run: _mean(r.accuracy_seen for r in run.records),
    "mt": lambda run: _mean(run.records[-1].accuracy_mt),
    "backward_transfer": lambda run: run.records[-1].backward_transfer,
    "forward_transfer": lambda run: run.records[-1].forward_transfer,
    "forgetting": lambda run: run.records[-1].forgetting,
    "seconds_train": lambda run: _mean(r.seconds_train for r in run.records),
    "seconds_eval": lambda run: _mean(r.seconds_eval for r in run.records),
    "images_per_second": lambda run: _mean(e.images_per_second for e in run.events),
}
"""One number for each finished run. Averages and seconds are over its batches; the rest is after its last batch."""


@dataclass(frozen=True, eq=False)
class Group:
    """The runs of one strategy in one configuration. label: its name, and what sets it apart from its namesakes."""

    strategy: str
    variant: int
    apart: str
    runs: tuple[Run, ...]

    @property
    def label(self) -> str:
        return f"{self.strategy} ({self.apart})" if self.apart else self.strategy

    @property
    def title(self) -> str:
        """The label with the strategy spelt as in the paper."""
        return f"{names.spelt(self.strategy)} ({self.apart})" if self.apart else names.spelt(self.strategy)

    @property
    def style(self) -> names.Style:
        return names.style(self.strategy, self.variant)

    @property
    def finished(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if run.finished)

    @property
    def unfinished(self) -> tuple[Run, ...]:
        return tuple(run for run in self.runs if not run.finished)

    @property
    def shown(self) -> Run | None:
        """The run that stands for all where only one can be shown: the first finished, or the first with a record."""
        return next((run for run in (*self.finished, *self.runs) if run.records), None)

    @property
    def rehearses(self) -> bool:
        """Whether it keeps old patterns."""
        held = any(
            name.startswith("memory") and size
            for run in self.runs
            for r in run.records[-1:]
            for name, size in r.storage.items()
        )
        return held or names.rehearses(self.strategy)

    @property
    def knows_task(self) -> bool:
        """Whether it is told which batch a test pattern belongs to (MT)."""
        return any(run.config.knobs.get("head") == "per_task" for run in self.runs if run.config)

    @property
    def upper_bound(self) -> bool:
        return names.is_bound(self.strategy)

    def over(self, metric: str) -> Spread | None:
        """A metric's mean and deviation over the finished runs."""
        return spread(METRICS[metric](run) for run in self.finished)

    def curve(self, value: Callable[[Record], float | None]) -> list[Spread | None]:
        """A value by batch, over the finished runs."""
        batches = max((len(run.records) for run in self.finished), default=0)
        return [spread(value(run.records[i]) for run in self.finished) for i in range(batches)]


@dataclass(frozen=True, eq=False)
class Comparison:
    """All groups on one benchmark, best first, those without a finished run after them and the upper bound last."""

    name: str
    synthetic: bool
    groups: tuple[Group, ...]
    repeated: tuple[str, ...]

    @property
    def title(self) -> str:
        """The name, which never stands alone where the benchmark is synthetic."""
        return f"{self.name} (synthetic)" if self.synthetic else self.name

    @property
    def runs(self) -> list[Run]:
        return [run for group in self.groups for run in group.runs]

    @property
    def best(self) -> Group | None:
        """The best group that keeps no old patterns and is not told the task."""
        return next((g for g in self.groups if g.finished and not (g.rehearses or g.knows_task)), None)


def benchmarks(runs: Sequence[Run]) -> list[Comparison]:
    """Runs by benchmark, strategy and configuration. A run that stands twice counts once: the longer one."""
    found = []
    for name in sorted({run.benchmark for run in runs}):
        here = [run for run in runs if run.benchmark == name]
        groups: list[Group] = []
        repeated: list[str] = []
        for strategy in sorted({run.strategy for run in here}):
            for variant, (apart, members) in enumerate(_variants([run for run in here if run.strategy == strategy])):
                kept = _once(members)
                groups.append(Group(strategy, variant, apart, kept))
                repeated += [run.place for run in members if run not in kept]
        synthetic = names.is_synthetic(name) or any(run.config.synthetic for run in here if run.config)
        found.append(Comparison(name, synthetic, tuple(sorted(groups, key=_rank)), tuple(sorted(repeated))))
    return found


def kind(run: Run) -> tuple[object, ...]:
    """The same for runs of one strategy in one configuration on one benchmark, whatever their numbers and seeds."""
    return run.benchmark, run.strategy, _key(run)


def _rank(group: Group) -> tuple[bool, bool, float, str]:
    final = group.over("final")
    return group.upper_bound, final is None, -final.mean if final else 0.0, group.label


def _once(runs: Sequence[Run]) -> tuple[Run, ...]:
    kept: dict[tuple[int, int | None], Run] = {}
    for run in sorted(runs, key=lambda run: (-len(run.records), run.place)):
        kept.setdefault((run.number, run.config.seed if run.config else None), run)
    return tuple(sorted(kept.values(), key=lambda run: (run.number, run.place)))


def _variants(runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """Runs of one strategy by configuration and stream, each with what sets it apart.

    A run that left no config, or no record, joins the only others that it can belong to.
    """
    members: dict[Key, list[Run]] = {}
    for run in sorted(runs, key=lambda run: None in _key(run)):
        key = _key(run)
        fits = [other for other in members if _may_be(key, other)]
        members.setdefault(fits[0] if len(fits) == 1 else key, []).append(run)
    if len(members) == 1:
        return [("", found) for found in members.values()]
    told = [_told(found[0]) for found in members.values()]
    differ = [name for name in sorted(set().union(*told)) if len({one.get(name, "default") for one in told}) > 1]
    apart = [", ".join(f"{name} {one.get(name, 'default')}" for name in differ) for one in told]
    return sorted(zip(apart, members.values(), strict=True), key=lambda pair: pair[0])


Key = tuple[str | None, str | None]


def _key(run: Run) -> Key:
    """A run's configuration and the length of its stream, None where it does not tell."""
    made = json.dumps(_choices(run.config), sort_keys=True) if run.config else None
    return made, None if run.of is None else str(run.of)


def _choices(config: RunConfig) -> dict[str, object]:
    """What settles a result, but for the run's number and the seed."""
    start = {"network": config.network, "weights": config.weights}
    return {**start, "setting": config.setting, "held_out": config.held_out, **config.knobs}


def _may_be(key: Key, other: Key) -> bool:
    """Whether two runs contradict each other nowhere."""
    return all(one is None or two is None or one == two for one, two in zip(key, other, strict=True))


def _told(run: Run) -> dict[str, str]:
    """What can set a run apart from its namesakes, in words."""
    told = {"batches": "unknown" if run.of is None else str(run.of)}
    if run.config is None:
        return told | {"config": "unknown"}
    choices = _choices(run.config)
    return told | {name: value if isinstance(value, str) else json.dumps(value) for name, value in choices.items()}
