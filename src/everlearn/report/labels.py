"""Runs by the folders that they are in: the variants of an experiment, under the names that it gives them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from everlearn.records import Run
from everlearn.records.groups import Comparison, Group, benchmarks
from everlearn.report.joined import rank


@dataclass(frozen=True, eq=False)
class Labelled(Group):
    """A group with a name of its own."""

    name: str = ""

    @property
    def label(self) -> str:
        return self.name

    @property
    def title(self) -> str:
        return self.name


def by_folder(runs: Sequence[Run]) -> list[Comparison]:
    """As `everlearn.records.groups.benchmarks`, a group for each folder of runs; two kinds in one are told apart."""
    folders: dict[str, list[Run]] = {}
    for run in runs:
        folders.setdefault(label_of(run), []).append(run)
    found: dict[str, list[Comparison]] = {}
    for label, members in sorted(folders.items()):
        for bench in benchmarks(members):
            found.setdefault(bench.name, []).append(_labelled(bench, label, found.get(bench.name, [])))
    return [_one(parts) for _, parts in sorted(found.items())]


def label_of(run: Run) -> str:
    """The folders on the way to a run, without the one that only numbers it.

    >>> label_of(Run("EWC MT/run-2", None, ())), label_of(Run("caffenet-128/AR1/run-1", None, ()))
    ('EWC MT', 'caffenet-128, AR1')
    """
    parts = PurePosixPath(run.place).parts
    if len(parts) > 1 and re.fullmatch(r"run-\d+", parts[-1]):
        parts = parts[:-1]
    return ", ".join(parts) or "."


def _labelled(bench: Comparison, label: str, before: list[Comparison]) -> Comparison:
    groups = []
    for k, one in enumerate(bench.groups):
        name = label if len(bench.groups) == 1 else f"{label}: {one.title}"
        kin = sum(group.strategy == one.strategy for part in before for group in part.groups)
        kin += sum(group.strategy == one.strategy for group in bench.groups[:k])
        groups.append(Labelled(one.strategy, kin, "", one.runs, name))
    return Comparison(bench.name, bench.synthetic, tuple(groups), bench.repeated)


def _one(parts: list[Comparison]) -> Comparison:
    """One benchmark of all its folders, in the order of every page: best first, the upper bound last."""
    groups = sorted((group for part in parts for group in part.groups), key=rank)
    repeated = sorted(place for part in parts for place in part.repeated)
    return Comparison(parts[0].name, any(part.synthetic for part in parts), tuple(groups), tuple(repeated))
