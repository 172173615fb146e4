"""The numbers over all runs, for programs and for terminals."""

from pathlib import Path
from typing import Any

from everlearn.records import read
from everlearn.records.groups import METRICS, Comparison, Group, Spread, benchmarks
from everlearn.report.joined import together
from everlearn.report.markup import plain

PERCENT = "\N{NO-BREAK SPACE}%"
DEVIATION = "sample standard deviation (n − 1)"
_COLUMNS = {
    "final %": ("final", 100, 1),
    "seen %": ("seen", 100, 1),
    "average %": ("average", 100, 1),
    "seconds a batch": ("seconds_train", 1, 2),
}


def summary(folder: Path) -> dict[str, Any]:
    """All numbers over runs, ready for JSON: accuracies as shares from 0 to 1, None where there is none.

    Args:
        folder: a run's folder, or one with runs below it.
    """
    return {
        "deviation": DEVIATION,
        "benchmarks": [
            {
                "benchmark": bench.name,
                "synthetic": bench.synthetic,
                "best_without_rehearsal": bench.best.label if bench.best else None,
                "strategies": [_summary(group) for group in bench.groups],
            }
            for bench in together(benchmarks(read(folder)))
        ],
    }


def _summary(group: Group) -> dict[str, Any]:
    found = {metric: group.over(metric) for metric in METRICS}
    numbers = {
        metric: None if one is None else {"mean": one.mean, "std": one.std, "n": one.n} for metric, one in found.items()
    }
    return {
        "strategy": group.label,
        "runs": len(group.runs),
        "finished": len(group.finished),
        "rehearses": group.rehearses,
        "upper_bound": group.upper_bound,
        **numbers,
    }


def written(found: Spread | None, scale: float = 1, digits: int = 1) -> str:
    """A mean and its deviation as they are printed.

    >>> written(Spread(0.6123, 0.014, 3), 100), written(Spread(0.6123, None, 1), 100), written(None)
    ('61.2 ± 1.4', '61.2', '—')
    """
    if found is None:
        return "—"
    mean = f"{found.mean * scale:.{digits}f}".replace("-", "−")
    return mean if found.std is None else f"{mean} ± {found.std * scale:.{digits}f}"


def table(folder: Path) -> str:
    """All numbers over runs as a text: one table a benchmark, the best first and the upper bound last.

    Args:
        folder: a run's folder, or one with runs below it.
    """
    parts = [_table(bench) for bench in together(benchmarks(read(folder)))]
    return "\n\n".join([*parts, _NOTE]) + "\n"


_NOTE = (
    f"Mean ± {DEVIATION} over finished runs. final: on the fixed test set after the last batch; seen: on the\n"
    "classes seen until then; average: of the accuracies on the fixed test set after each batch; seconds: of\n"
    "training. * best that keeps no old patterns; ^ upper bound, keeps everything."
)


def _table(bench: Comparison) -> str:
    rows = [["strategy", "runs", *_COLUMNS]]
    for group in bench.groups:
        mark = " ^" if group.upper_bound else " *" if group is bench.best else ""
        cells = [written(group.over(metric), scale, digits) for metric, scale, digits in _COLUMNS.values()]
        rows.append([_line(group.label) + mark, runs_of(group), *cells])
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    rows.insert(1, ["-" * width for width in widths])
    lines = [
        "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
    return "\n".join([_line(bench.title), "", *(line.rstrip() for line in lines)])


def runs_of(group: Group) -> str:
    """How many runs there are, and how many of them finished."""
    finished, runs = len(group.finished), len(group.runs)
    return str(runs) if finished == runs else f"{finished} of {runs}"


def _line(text: str) -> str:
    return " ".join(plain(text).split())
