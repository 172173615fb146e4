"""The pictures of a record, drawn as `everlearn figures` draws them."""

from typing import Any

from everlearn.loggers.base import Pictures
from everlearn.records import Record, Run, record_of
from everlearn.records.groups import benchmarks


class Painter:
    """Draws one run as it goes. Told of every record, in order."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    def add(self, record: dict[str, Any]) -> None:
        """One batch more; one that was there before is the newer one from now on."""
        del self._records[record["i"] - 1 :]
        self._records.append(record_of(record, "a record"))

    def pictures(self, *, last: bool) -> Pictures:
        """The confusion matrix and the histogram of F̂ after the newest batch.

        After the last one, also the sequence of matrices and how far each layer moved in each batch.
        """
        from everlearn import figures  # matplotlib, only where something is drawn
        from everlearn.figures.saving import png

        series = figures.series_of(benchmarks([Run("", None, tuple(self._records))])[0])
        i, newest = len(self._records), self._records[-1]
        drawn = {"confusion": figures.confusion_strip(series, batches=[i], side=2.4)}
        if newest.importance is not None:
            drawn["importance"] = figures.importance_histograms(series, batches=[i])
        if last:
            drawn["confusion_strip"] = figures.confusion_strip(series)
            if newest.change:
                drawn["weight_change"] = figures.weight_change_heat(series)
        return {name: png(figure) for name, figure in drawn.items()}
