"""Every figure of a folder of runs, as files."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from matplotlib.figure import Figure

from everlearn._kit.catalogue import FIGURES
from everlearn.errors import ConfigError, DataError, sentence
from everlearn.figures.bar_charts import bars, mt_vs_sit
from everlearn.figures.curves import accuracy_curves, stability_plasticity
from everlearn.figures.importance import importance_histograms
from everlearn.figures.matrices import confusion_strip
from everlearn.figures.paired import paired_table
from everlearn.figures.saving import save, write
from everlearn.figures.scenarios import mt_vs_sit_table, split
from everlearn.figures.series import Series, load
from everlearn.figures.strengths import strength
from everlearn.figures.table import markdown_table
from everlearn.figures.weights import weight_change_3d, weight_change_heat


def _mt_vs_sit(series: Sequence[Series], **options: Any) -> Figure:
    """Runs that know the task beside those that do not."""
    return mt_vs_sit(*split(series), **options)


DRAWN: dict[str, Callable[..., Figure]] = {
    "accuracy_curves": accuracy_curves,
    "bars": bars,
    "confusion_strip": confusion_strip,
    "importance_histograms": importance_histograms,
    "mt_vs_sit": _mt_vs_sit,
    "stability_plasticity": stability_plasticity,
    "strength": strength,
    "weight_change_3d": weight_change_3d,
    "weight_change_heat": weight_change_heat,
}
_WRITTEN: dict[str, Callable[..., str]] = {"table": markdown_table, "paired": paired_table}
_BESIDE: dict[str, Callable[[Sequence[Series]], str]] = {"mt_vs_sit": mt_vs_sit_table}
"""Tables of a figure's own numbers, written beside it."""


@dataclass
class Album:
    """What was written, and why something was not.

    Args:
        paths: the files written.
        left_out: why a figure was not drawn, by its name.
    """

    paths: list[Path] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)


def draw(
    folder: Path,
    out: Path,
    only: Iterable[str] | None = None,
    by: Literal["strategy", "folder"] = "strategy",
    *,
    order: Sequence[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Album:
    """Draw the runs in a folder and below it into another: BENCHMARK-FIGURE.png and .svg, or .md for a table.

    Beside mt_vs_sit, its numbers stand in BENCHMARK-mt_vs_sit-table.md.

    Args:
        folder: the runs, in it and below it.
        out: the folder to write to.
        only: names from `everlearn list figures`; such a figure that the runs have nothing for is an error. Without it
            all are drawn that can be, and the album says what was left out.
        by, order: as for `load`.
        options: by a figure's name, what its function takes beside the series, such as
            {"confusion_strip": {"batches": [-2, -1]}}.
    """
    names = list(FIGURES) if only is None else list(only)
    options = options or {}
    unknown = [name for name in (*names, *options) if name not in FIGURES]
    if unknown:
        raise ConfigError(
            sentence("Unknown figures", expected=f"among {list(FIGURES)}", got=unknown, do="Mend --only.")
        )
    album, stems = Album(), set[str]()
    for benchmark, series in load(folder, by, order).items():
        stem = _stem(benchmark, stems)
        for name in names:
            try:
                album.paths += _drawn(name, series, Path(out) / f"{stem}-{name}", options.get(name, {}))
            except DataError as error:
                if only is not None:
                    raise
                album.left_out[f"{stem}-{name}"] = str(error)
    return album


def _drawn(name: str, series: Sequence[Series], stem: Path, options: Mapping[str, Any]) -> Sequence[Path]:
    if name in _WRITTEN:
        path = stem.with_name(f"{stem.name}.md")
        write(path, _WRITTEN[name](series, **options).encode())
        return [path]
    paths = list(save(DRAWN[name](series, **options), stem))
    if name in _BESIDE:
        paths.append(stem.with_name(f"{stem.name}-table.md"))
        write(paths[-1], _BESIDE[name](series).encode())
    return paths


def _stem(benchmark: str, taken: set[str]) -> str:
    """A benchmark's name as the beginning of files' names: each its own, with nothing that a system could obey.

    >>> _stem("../a b", set()), _stem("../a b", {"a-b"})
    ('a-b', 'a-b-2')
    """
    base = re.sub(r"[^A-Za-z0-9_+-]+", "-", benchmark).strip("-")[:60] or "benchmark"
    stem, k = base, 1
    while stem.lower() in {other.lower() for other in taken}:
        k += 1
        stem = f"{base}-{k}"
    taken.add(stem)
    return stem
