"""What a figure draws: runs that belong together, with a name and a style."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from everlearn.errors import DataError, sentence
from everlearn.records import Run, read
from everlearn.records.groups import Comparison, Group, benchmarks
from everlearn.records.names import COLOURS, DASHES, MARKERS, Style
from everlearn.report.joined import JOINED, together

IN_TURN = (2, 6, 4, 7, 5, 8, 3, 1, 0)
"""The colours of variants: neighbours are far apart."""


@dataclass(frozen=True, eq=False)
class Series:
    """The runs behind one line, bar or strip.

    Args:
        label: what it is called.
        style: its colour, dash and marker.
        group: the runs, of one strategy in one configuration.
        benchmark: what they were run on, in words.
    """

    label: str
    style: Style
    group: Group
    benchmark: str

    @property
    def run(self) -> Run | None:
        """The run that stands for all where only one can be shown."""
        return self.group.shown

    @property
    def knows_task(self) -> bool:
        """Whether it was trained and tested with the task told (MT)."""
        return self.group.knows_task


def series_of(bench: Comparison) -> list[Series]:
    """A series for each strategy and configuration, best first, as on the page.

    Args:
        bench: the runs on one benchmark, grouped.
    """
    return [Series(group.title, group.style, group, bench.title) for group in bench.groups]


def labelled(runs: Mapping[str, Sequence[Run]]) -> list[Series]:
    """A series for each label, in this order, with colours in turn. The runs of a label must be of one configuration.

    Args:
        runs: the runs of each label.
    """
    found = []
    for k, (label, members) in enumerate(runs.items()):
        benches = benchmarks(members)
        groups = [f"{group.label} on {bench.name}" for bench in benches for group in bench.groups]
        if len(groups) != 1:
            raise DataError(
                sentence(
                    f"The runs labelled {label!r} cannot be averaged",
                    expected="runs of one strategy in one configuration on one benchmark",
                    got="; ".join(groups) or "no run",
                    do="Give each configuration a label of its own.",
                )
            )
        style = Style(IN_TURN[k % COLOURS], k // COLOURS % len(DASHES), k % len(MARKERS))
        found.append(Series(label, style, benches[0].groups[0], benches[0].title))
    return found


def load(
    folder: Path, by: Literal["strategy", "folder"] = "strategy", order: Sequence[str] = ()
) -> dict[str, list[Series]]:
    """All runs in a folder and below it, as series by the name of their benchmark.

    Args:
        folder: where the runs are.
        by: "strategy", or "folder" for variants: then the first folder on the way to a run is its label.
        order: labels that come first, in this order; the others follow, the best strategy first, and folders by name.
    """
    runs = read(folder)
    if by == "strategy":
        return {bench.name: ordered(series_of(bench), order) for bench in together(benchmarks(runs))}
    found: dict[str, dict[str, list[Run]]] = {}
    for run in sorted(runs, key=lambda run: _place(_label(run, folder), order)):
        found.setdefault(run.benchmark.removesuffix(JOINED), {}).setdefault(_label(run, folder), []).append(run)
    return {name: labelled(members) for name, members in sorted(found.items())}


def ordered(series: Sequence[Series], order: Sequence[str]) -> list[Series]:
    """Those with these labels first, in this order; then the others as they are."""
    return sorted(series, key=lambda one: _place(one.label, order))


def _place(label: str, order: Sequence[str]) -> int:
    return order.index(label) if label in order else len(order)


def _label(run: Run, folder: Path) -> str:
    """The first folder on the way to a run, or the folder itself if the run is there."""
    return (PurePosixPath(run.place).parts or (Path(folder).resolve().name,))[0]


def first_of(series: Sequence[Series], figure: str) -> Series:
    """The first series; to draw none is an error."""
    if not series:
        raise DataError(
            sentence(
                f"{figure} has nothing to draw",
                expected="at least one series",
                got="none",
                do="Load runs first (everlearn.figures.load).",
            )
        )
    return series[0]


def missing(figure: str, needs: str, series: Sequence[Series]) -> DataError:
    """The error where no run recorded what a figure draws."""
    who = ", ".join(one.label for one in series) or "no run"
    return DataError(
        sentence(
            f"{figure} has nothing to draw",
            expected=needs,
            got=f"none in the runs of {who}",
            do="Add runs that record it, or leave this figure out.",
        )
    )
