"""Final accuracies as a Markdown table."""

import html
import re
from collections.abc import Sequence

from everlearn.figures.known import known
from everlearn.figures.series import Series, first_of
from everlearn.records import RunConfig
from everlearn.report.markup import plain
from everlearn.report.tables import DEVIATION, runs_of, written

_HEAD = ("Strategy", "Runs", "Epochs", "Fixed test set (%)", "Classes seen (%)", "Backward transfer", "Paper (%)")


def markdown_table(series: Sequence[Series]) -> str:
    """Mean ± deviation of the accuracy after the last batch, in both conventions, and of the backward transfer.

    Beside them the epochs on B_1 and on later batches, and the paper's number if it has one.

    Where no run has finished, there is a dash.

    Args:
        series: a row each, in this order.

    Returns:
        Markdown.
    """
    rows = [_HEAD, ("---", *["---:"] * (len(_HEAD) - 1)), *(_row(one) for one in series)]
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    benchmark = first_of(series, "markdown_table").benchmark
    note = (
        f"Accuracy on {escaped(benchmark)} after the last batch: mean ± {DEVIATION} over finished runs. Epochs: on "
        "B_1, and on later batches where they are others. Backward transfer: in points. Paper: where its text gives "
        "a number; accuracies on the fixed test set"
    )
    note += ", of networks that start from ImageNet's weights." if benchmark.startswith("core50") else "."
    return "\n".join([*lines, "", note, ""])


def _row(one: Series) -> tuple[str, ...]:
    group = one.group
    config = next((run.config for run in group.runs if run.config), None)
    numbers = (written(group.over(metric), 100) for metric in ("final", "seen", "backward_transfer"))
    return escaped(one.label), runs_of(group), _epochs(config), *numbers, known(config) or "—"


def _epochs(config: RunConfig | None) -> str:
    """On B_1 and on later batches, as config.json has them; a dash for runs of versions that did not write them."""
    learnt = config.hyperparameters if config else {}
    both = [learnt.get(f"training.{phase}.epochs") for phase in ("first", "later")]
    return ", ".join(dict.fromkeys(str(one) for one in both if isinstance(one, int))) or "—"


def escaped(words: object) -> str:
    r"""A text that Markdown shows as it is.

    >>> escaped("cwr* | <b>")
    'cwr\\* \\| &lt;b&gt;'
    """
    line = html.escape(" ".join(plain(words).split()), quote=False)
    return re.sub(r"([\\`*_\[\]|~$#!])", r"\\\1", line)
