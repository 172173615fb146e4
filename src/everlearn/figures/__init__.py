"""Figures in the paper's layout, from records alone. PyTorch is never imported here, and matplotlib only to draw."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlearn.figures.album import Album, draw
    from everlearn.figures.bar_charts import bars, mt_vs_sit
    from everlearn.figures.curves import accuracy_curves, curves_by_variant, stability_plasticity
    from everlearn.figures.importance import importance_histograms
    from everlearn.figures.inline import inline_svg
    from everlearn.figures.matrices import confusion_strip
    from everlearn.figures.page import pictures
    from everlearn.figures.paired import paired_table
    from everlearn.figures.saving import save
    from everlearn.figures.scenarios import mt_vs_sit_table
    from everlearn.figures.series import Series, labelled, load, series_of
    from everlearn.figures.strengths import strength
    from everlearn.figures.table import markdown_table
    from everlearn.figures.weights import weight_change_3d, weight_change_heat

_HOME = {
    "Album": "album",
    "Series": "series",
    "accuracy_curves": "curves",
    "bars": "bar_charts",
    "confusion_strip": "matrices",
    "curves_by_variant": "curves",
    "draw": "album",
    "importance_histograms": "importance",
    "inline_svg": "inline",
    "labelled": "series",
    "load": "series",
    "markdown_table": "table",
    "mt_vs_sit": "bar_charts",
    "mt_vs_sit_table": "scenarios",
    "paired_table": "paired",
    "pictures": "page",
    "save": "saving",
    "series_of": "series",
    "stability_plasticity": "curves",
    "strength": "strengths",
    "weight_change_3d": "weights",
    "weight_change_heat": "weights",
}

__all__ = [
    "Album",
    "Series",
    "accuracy_curves",
    "bars",
    "confusion_strip",
    "curves_by_variant",
    "draw",
    "importance_histograms",
    "inline_svg",
    "labelled",
    "load",
    "markdown_table",
    "mt_vs_sit",
    "mt_vs_sit_table",
    "paired_table",
    "pictures",
    "save",
    "series_of",
    "stability_plasticity",
    "strength",
    "weight_change_3d",
    "weight_change_heat",
]


def __getattr__(name: str) -> Any:
    """Names are looked up when they are first used, so that matplotlib is imported only where a figure is drawn."""
    if name in _HOME:
        return getattr(import_module(f"everlearn.figures.{_HOME[name]}"), name)
    raise AttributeError(f"module 'everlearn.figures' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
