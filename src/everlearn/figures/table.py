"""Final accuracies as a Markdown table."""

import html
import re
from collections.abc import Sequence

from everlearn.figures.known import known
from everlearn.figures.series import Series, first_of
from everlearn.report.markup import plain
from everlearn.report.tables import DEVIATION, runs_of, written

_HEAD = ("Strategy", "Runs", "Fixed test set (%)", "Classes seen (%)", "Paper (%)")


def markdown_table(series: Sequence[Series]) -> str:
    """Mean ± deviation of the accuracy after the last batch, in both conventions, and the paper's number if it has one.

    Where no run has finished, there is a dash.
    """
    rows = [_HEAD, ("---", *["---:"] * (len(_HEAD) - 1)), *(_row(one) for one in series)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    benchmark = first_of(series, "markdown_table").benchmark
    note = (
        f"Accuracy on {escaped(benchmark)} after the last batch: mean ± {DEVIATION} over finished runs. Paper: on the "
        "fixed test set, where its text gives a number"
    )
    note += ", of networks that start from ImageNet's weights." if benchmark.startswith("core50") else "."
    return "\n".join([*lines, "", note, ""])


def _row(one: Series) -> tuple[str, ...]:
    group = one.group
    config = next((run.config for run in group.runs if run.config), None)
    both = (written(group.over(metric), 100) for metric in ("final", "seen"))
    return escaped(one.label), runs_of(group), *both, known(config) or "—"


def escaped(words: object) -> str:
    r"""A text that Markdown shows as it is.

    >>> escaped("cwr* | <b>")
    'cwr\\* \\| &lt;b&gt;'
    """
    line = html.escape(" ".join(plain(words).split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", line)
