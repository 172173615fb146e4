"""Hyperparameters by setting and strategy: the paper's and our own."""

from collections.abc import Mapping
from typing import Any

from everlearn._kit.knobs import check
from everlearn.recipes.known import KNOWN
from everlearn.recipes.paper import PAPER, Knobs
from everlearn.recipes.tuned import TUNED


def _whole(table: dict[str, Knobs]) -> dict[str, Knobs]:
    """A table with every strategy of ours: those without a row take that of the one they are like, or none."""
    return {name: table.get(name, table.get(recipe.like or "", {})) for name, recipe in KNOWN.items()}


TABLES: dict[str, dict[str, Knobs]] = {
    setting: _whole(table) for setting, table in {"presets": {}, **PAPER, **TUNED}.items()
}
"""Knobs by setting and strategy; in `presets` every strategy has its own values."""


def table(setting: str, own: Mapping[str, Mapping[str, Any]], names: list[str]) -> Mapping[str, Any]:
    """The knobs of a setting for the first of these strategies that it has a table for; none where it has none.

    Args:
        setting: the name of a setting.
        own: tables that the strategy brings with it, by setting: these come first.
        names: the strategy, and those whose settings it takes where it has none.

    >>> table("caffenet/core50", {}, ["ar1*", "ar1"])["si.lam"], table("caffenet/core50", {}, ["mine"])
    (800000.0, {})
    """
    known = [*TABLES, *(name for name in own if name not in TABLES)]
    check(setting in known, "Unknown setting", expected=f"one of {known}", got=repr(setting), do="Choose one.")
    if setting in own:
        return own[setting]
    here = TABLES.get(setting, {})
    return next((here[name] for name in names if name in here), {})
