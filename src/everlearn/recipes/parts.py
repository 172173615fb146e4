"""All our slots under one roof, for recipes that are made of them; imported when a strategy is first built."""

from everlearn.heads import CWR, CWRStar, PerTask, Plain
from everlearn.learning.slots import Slots
from everlearn.learning.training import Phase, Training
from everlearn.memories import Everything, NoMemory
from everlearn.regularisers import EWC, LWF, SI, Freeze, NoRegulariser

__all__ = [
    "CWR",
    "CWR_PLUS",
    "EWC",
    "KINDS",
    "LWF",
    "SI",
    "CWRStar",
    "Everything",
    "Freeze",
    "NoMemory",
    "NoRegulariser",
    "PerTask",
    "Phase",
    "Plain",
    "Slots",
    "Training",
]

CWR_PLUS = CWR(init="zero", shift="batch")

KINDS: dict[str, dict[str, type]] = {
    "head": {kind.name: kind for kind in (Plain, PerTask, CWR, CWRStar)},
    "regulariser": {kind.name: kind for kind in (NoRegulariser, Freeze, LWF, EWC, SI)},
    "memory": {kind.name: kind for kind in (NoMemory, Everything)},
}
"""Every kind that a slot can be of, by name."""
