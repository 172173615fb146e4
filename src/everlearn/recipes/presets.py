"""The paper's strategies as named combinations of slots, with its hyperparameters."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import torch

from everlearn._kit.knobs import check, knob_names
from everlearn.errors import ConfigError, NetworkError, sentence
from everlearn.heads import CWR, CWRStar, PerTask, Plain
from everlearn.learning.loop import Strategy
from everlearn.learning.parallel import ALONE, Ranks
from everlearn.learning.slots import Slots
from everlearn.memories import Everything, NoMemory
from everlearn.models.network import Network
from everlearn.recipes.paper import PAPER
from everlearn.recipes.tuned import TUNED
from everlearn.regularisers import EWC, LWF, SI, Freeze, NoRegulariser

Knobs = Mapping[str, Any]
"""Knobs by dotted name: "si.lam", "head.growth", "training.first.epochs"; or a slot's kind: "head" → "per_task"."""


CWR_PLUS = CWR(init="zero", shift="batch")

PRESETS: dict[str, Slots] = {
    "naive": Slots(Plain()),
    "cumulative": Slots(Plain(), memory=Everything()),
    "lwf": Slots(Plain(growth="expanding"), LWF()),
    "ewc": Slots(Plain(), EWC(lam=1.5e4)),
    "si": Slots(Plain(), SI(lam=1.5e4, w_1=1e-3, w_i=1e-3)),
    "fw": Slots(Plain(growth="expanding", old_rows="frozen"), Freeze()),
    "cw": Slots(Plain(growth="expanding"), Freeze()),
    "cwr": Slots(CWR(), Freeze()),
    "cwr+": Slots(CWR_PLUS, Freeze()),
    "ar1": Slots(CWR_PLUS, SI(lam=1.5e4, w_1=1e-4, w_i=1e-4)),
    "ar1-ewc": Slots(CWR_PLUS, EWC(lam=1.5e4)),
    "ar1-lwf": Slots(CWR_PLUS, LWF()),
    "cwr*": Slots(CWRStar(), Freeze()),
    "ar1*": Slots(CWRStar(), SI(lam=1.5e4, w_1=1e-4, w_i=1e-4)),
}
"""Slots by the name of the strategy, with hyperparameters of our own."""

SETTINGS: dict[str, dict[str, dict[str, Any]]] = {"presets": {name: {} for name in PRESETS}, **PAPER, **TUNED}
"""The paper's hyperparameters and our own, by network and benchmark; `presets` are the values above."""

KINDS: dict[str, dict[str, type]] = {
    "head": {kind.name: kind for kind in (Plain, PerTask, CWR, CWRStar)},
    "regulariser": {kind.name: kind for kind in (NoRegulariser, Freeze, LWF, EWC, SI)},
    "memory": {kind.name: kind for kind in (NoMemory, Everything)},
}
"""Every kind that a slot can be of, by name."""


def preset(name: str, setting: str | None = None, knobs: Knobs | None = None) -> Slots:
    """The slots of a strategy, with the paper's hyperparameters for a setting, and then with the knobs given.

    setting: the paper's "caffenet/core50", "googlenet/core50" and "cifarnet/icifar-100", or our "small/digits" and
    "small/mini50"; None for the presets' own values.

    >>> slots = preset("ar1", "cifarnet/icifar-100", {"si.lam": 1e5})
    >>> slots.regulariser.lam, slots.regulariser.w_1, slots.training.first.epochs
    (100000.0, 0.00015, 60)
    """
    if name not in PRESETS:
        raise ConfigError(
            sentence("Unknown strategy", expected=f"one of {list(PRESETS)}", got=repr(name), do="Choose one.")
        )
    slots = PRESETS[name]
    if setting is not None:
        if setting not in SETTINGS:
            raise ConfigError(
                sentence("Unknown setting", expected=f"one of {list(SETTINGS)}", got=repr(setting), do="Choose one.")
            )
        slots = with_knobs(slots, SETTINGS[setting][name])
    return with_knobs(slots, knobs or {})


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

    ranks: the processes that learn it together, from `everlearn.learning.parallel`; by default this one alone.

    >>> from everlearn.models import small
    >>> build("ar1", small(classes=10), knobs={"si.lam": 1e4}).regulariser.lam
    10000.0
    """
    if not isinstance(network, Network):
        raise NetworkError(
            sentence(
                "This is no network of ours",
                expected="an everlearn.models.Network",
                got=type(network).__name__,
                do="Wrap a module of your own: everlearn.models.wrap(module, ...).",
            )
        )
    return Strategy(network, preset(name, setting, knobs), seed=seed, device=device, ranks=ranks)


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
