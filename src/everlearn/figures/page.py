"""The figures of a page: drawn without their headings, which the page says in its own letters."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from everlearn.errors import DataError
from everlearn.figures.album import DRAWN
from everlearn.figures.inline import inline_svg
from everlearn.figures.series import ordered, series_of
from everlearn.figures.style import note_of, without_heading
from everlearn.records.groups import Comparison
from everlearn.report.pictures import NAMES, Picture

NO_OPTIONS: Mapping[str, Mapping[str, Any]] = {}


def pictures(
    bench: Comparison,
    prefix: str,
    order: Sequence[str] = (),
    asked: Collection[str] = (),
    options: Mapping[str, Mapping[str, Any]] = NO_OPTIONS,
) -> dict[str, Picture]:
    """What `everlearn.report.write` asks for: every picture that a benchmark's records hold the numbers for.

    Args:
        bench: the runs on one benchmark.
        prefix: what ids in the markup begin with; another one for each benchmark of a page.
        order: labels that come first, in this order.
        asked: figures that are drawn even where the page shows the same in its own way.
        options: by a figure's name, what its function takes beside the series.

    Returns:
        Pictures by the names of their figures.
    """
    series, found = ordered(series_of(bench), order), dict[str, Picture]()
    told = any(one.knows_task for one in series)
    for name in NAMES:
        if name == "mt_vs_sit" and not told:  # the page has a column of what SIT runs reach when they are told
            continue
        if name == "confusion_strip" and name not in asked:  # the page has matrices that can be stepped through
            continue
        try:
            figure = DRAWN[name](series, **options.get(name, {}))
        except DataError:  # nothing was recorded for it: LWF has no F, an old run no change
            continue
        alt, caption = figure.get_label(), note_of(figure)
        svg = inline_svg(without_heading(figure), f"{prefix}-{name.replace('_', '-')}", str(alt))
        found[name] = Picture(svg, caption)
    return found
