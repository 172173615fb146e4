"""Pictures that somebody else draws, and where they stand on a page."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from everlearn.records.groups import Comparison
from everlearn.report.markup import Html, scroll, tag


@dataclass(frozen=True)
class Picture:
    """An <svg> element, and what stands below it in words."""

    svg: Html
    caption: str


Pictures = Callable[[Comparison, str], Mapping[str, Picture]]
"""Draws what a benchmark's runs recorded, by the names in `NAMES`; ids in the markup begin with the second argument.
What no run recorded is not there."""

FINAL = ("bars",)
"""The pictures beside the table of final accuracies."""

SECTIONS = (
    ("told", "With the task known and without", ("mt_vs_sit",)),
    ("balance", "Old classes and new ones", ("stability_plasticity",)),
    ("moved", "How far the weights moved", ("weight_change_3d", "weight_change_heat")),
    ("importance", "How important the weights are", ("importance_histograms",)),
    ("strength", "How strongly the past is held", ("strength",)),
    ("strip", "Confusion, batch after batch", ("confusion_strip",)),
)
"""A section's key, its title and its pictures."""

NAMES = (*FINAL, *(name for *_, names in SECTIONS for name in names))


def no_pictures(bench: Comparison, prefix: str) -> Mapping[str, Picture]:
    """For pages without them."""
    return {}


def sections(drawn: Mapping[str, Picture]) -> list[tuple[str, str, list[Html]]]:
    """The sections that have a picture."""
    found = [(key, title, shown(drawn, names, title)) for key, title, names in SECTIONS]
    return [section for section in found if section[2]]


def shown(drawn: Mapping[str, Picture], names: Iterable[str], title: str) -> list[Html]:
    """Those of these pictures that were drawn."""
    return [_figure(drawn[name], title) for name in names if name in drawn]


def _figure(one: Picture, title: str) -> Html:
    return tag("figure", scroll(one.svg, title), tag("figcaption", one.caption), class_="picture")
