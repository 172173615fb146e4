"""The paper's strategies as named combinations of slots, with its hyperparameters."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import torch

from everlearn._kit.knobs import check, knob_names
from everlearn.learning.loop import Strategy
from everlearn.learning.parallel import ALONE, Ranks
from everlearn.learning.slots import Slots
from everlearn.models.network import Network
from everlearn.recipes.known import KNOWN
from everlearn.recipes.parts import KINDS
from everlearn.recipes.registry import recipe_of
from everlearn.recipes.settings import TABLES
from everlearn.recipes.slot_recipe import SlotRecipe

__all__ = ["KINDS", "PRESETS", "SETTINGS", "Knobs", "build", "has_slot", "preset", "with_knobs"]

Knobs = Mapping[str, Any]
"""Knobs by dotted name: "si.lam", "head.growth", "training.first.epochs"; or a slot's kind: "head" → "per_task"."""

PRESETS: dict[str, Slots] = {name: recipe.own for name, recipe in KNOWN.items() if isinstance(recipe, SlotRecipe)}
"""Slots by the name of the strategy, with hyperparameters of our own."""

SETTINGS = TABLES
"""The paper's hyperparameters and our own, by network and benchmark; `presets` are the values above."""


def preset(name: str, setting: str | None = None, knobs: Knobs | None = None) -> Slots:
    """The slots of a strategy, with the hyperparameters of a setting, and then with the knobs given.

    Args:
        name: a strategy that is made of slots.
        setting: the paper's "caffenet/core50", "googlenet/core50" and "cifarnet/icifar-100", or our "small/digits" and
            "small/mini50"; None for the presets' own values.
        knobs: turned last, by dotted name.

    >>> slots = preset("ar1", "cifarnet/icifar-100", {"si.lam": 1e5})
    >>> slots.regulariser.lam, slots.regulariser.w_1, slots.training.first.epochs
    (100000.0, 0.00015, 60)
    """
    recipe = recipe_of(name)
    check(
        isinstance(recipe, SlotRecipe),
        f"{name} is not made of slots",
        expected="a strategy that is",
        got=repr(name),
        do="Build its learner instead: everlearn.build(name, network).",
    )
    return cast(SlotRecipe, recipe).made(setting, knobs)


def build(
    name: str,
    network: Network,
    *,
    setting: str | None = None,
    knobs: Knobs | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
    ranks: Ranks = ALONE,
) -> Strategy:
    """A learner from the name of a strategy and a network.

    Args:
        name: as `everlearn list strategies` has it.
        network: an `everlearn.models.Network`; `everlearn.models.wrap` makes one of a module.
        setting: the hyperparameter set; None for the strategy's own.
        knobs: turned last, by dotted name.
        seed: of everything that is random in training.
        device: where to compute, as PyTorch names it.
        ranks: the processes that learn it together, from `everlearn.learning.parallel`; by default this one alone.

    Returns:
        A learner that has seen nothing yet: a `Strategy`, where the strategy is made of slots as all of ours are; else
        what its recipe builds, of which only the `Learner` protocol is known.

    >>> from everlearn.models import small
    >>> build("ar1", small(classes=10), knobs={"si.lam": 1e4}).regulariser.lam
    10000.0
    """
    recipe = recipe_of(name)
    learner = recipe.build(network, setting=setting, knobs=knobs, seed=seed, device=device, ranks=ranks)
    return cast(Strategy, learner)


def with_knobs(slots: Slots, knobs: Knobs) -> Slots:
    """The slots with these knobs turned, all at once. A slot goes by its place (head) or by its own name (cwr).

    >>> with_knobs(preset("cwr+"), {"cwr.growth": "expanding"}).head.growth
    'expanding'
    >>> with_knobs(preset("lwf"), {"head": "per_task"}).head  # MT
    PerTask(growth='expanding', classes=None, init='gaussian', init_scale=0.01, classes_=[], batches_=[])
    """
    kinds = {knob: value for knob, value in knobs.items() if "." not in knob}
    for knob, value in kinds.items():
        slots = dataclasses.replace(slots, **{knob: _of_kind(slots, knob, value)})
    places = _places(slots)
    tree: dict[str, Any] = {}
    typed: dict[str, str] = {}
    for knob, value in knobs.items():
        if knob in kinds:
            continue
        place, *path = knob.split(".")
        check(
            place in places,
            "Unknown knob",
            expected=f"SLOT.KNOB, with a slot among {sorted(set(places) - {'none'})}",
            got=repr(knob),
            do="Other slots belong to other strategies.",
        )
        typed[f"{places[place]}.{'.'.join(path)}"] = knob
        branch = tree
        for name in (places[place], *path[:-1]):
            branch = branch.setdefault(name, {})
        branch[path[-1]] = Value(value)
    return cast(Slots, _turned(slots, tree, "", typed)) if tree else slots


def _places(slots: Slots) -> dict[str, str]:
    """Where a knob's slot is, by its place and by its own name."""
    places = {f.name: f.name for f in dataclasses.fields(slots)}
    return places | {getattr(slots, kind).name: kind for kind in KINDS}


def has_slot(slots: Slots, knob: str) -> bool:
    """Whether there is the slot that a knob belongs to.

    >>> has_slot(preset("ar1"), "si.lam"), has_slot(preset("naive"), "si.lam")
    (True, False)
    """
    return knob.partition(".")[0] in _places(slots)


class Value(NamedTuple):
    """A knob's new value, at a leaf of the tree of knobs."""

    value: Any


def _turned(owner: Any, tree: dict[str, Any], name: str, typed: Mapping[str, str]) -> Any:
    """The owner with all these knobs turned at once, since some only make sense together."""
    names = knob_names(owner)
    for knob in tree:
        check(
            knob in names,
            "Unknown knob",
            expected=f"one of {names}",
            got=repr(typed.get(f"{name}{knob}", f"{name}{knob}")),
            do="Choose one.",
        )
    new = {
        knob: part.value if isinstance(part, Value) else _turned(getattr(owner, knob), part, f"{name}{knob}.", typed)
        for knob, part in tree.items()
    }
    return dataclasses.replace(owner, **new)


def _of_kind(slots: Slots, slot: str, kind: Any) -> Any:
    """A slot of another kind; a head keeps the knobs that both kinds have, such as its growth."""
    check(slot in KINDS, "Unknown slot", expected=f"one of {list(KINDS)}", got=repr(slot), do="Choose one.")
    kinds = KINDS[slot]
    check(kind in kinds, f"Unknown kind of {slot}", expected=f"one of {list(kinds)}", got=repr(kind), do="Choose one.")
    old, new = getattr(slots, slot), kinds[kind]
    common = set(knob_names(old)) & set(knob_names(new)) if slot == "head" else set()
    return new(**{name: getattr(old, name) for name in common})
