"""Strategies against each other, run by run, as a Markdown table."""

from collections.abc import Sequence

from everlearn.figures.series import Series, first_of
from everlearn.figures.table import escaped
from everlearn.records.groups import METRICS, spread
from everlearn.report.tables import DEVIATION, written


def paired_table(series: Sequence[Series]) -> str:
    """Mean ± deviation of the difference in final accuracy, row minus column, in points.

    Run r has the same batches for every strategy: what its order makes hard for one it makes hard for the other, and
    so differences deviate less than accuracies. Where two have no finished run in common, there is a dash.

    Args:
        series: the strategies to compare, from `load`; rows and columns are in this order.

    Returns:
        Markdown.
    """
    first_of(series, "paired_table")
    finals = {escaped(one.label): _finals(one) for one in series}
    head = ("", *finals)
    rows = [(name, *(_cell(name, other, finals) for other in finals)) for name in finals]
    lines = ["| " + " | ".join(row) + " |" for row in (head, ("---", *["---:"] * len(finals)), *rows)]
    note = (
        "Row minus column, in points of the final accuracy on the fixed test set, run by run: "
        f"mean ± {DEVIATION} over the runs that both have finished."
    )
    return "\n".join([*lines, "", note, ""])


def _finals(one: Series) -> dict[int, float]:
    """The final accuracy by the number of the run."""
    found = {run.number: METRICS["final"](run) for run in one.group.finished}
    return {number: value for number, value in found.items() if value is not None}


def _cell(name: str, other: str, finals: dict[str, dict[int, float]]) -> str:
    if name == other:
        return ""
    mine, theirs = finals[name], finals[other]
    words = written(spread(mine[run] - theirs[run] for run in sorted(mine.keys() & theirs.keys())), 100)
    return words if words.startswith(("−", "—")) else f"+{words}"
