"""The three slots and the training, before they meet a network."""

from dataclasses import dataclass, field
from typing import Any

from everlearn._kit.knobs import all_knobs
from everlearn.errors import ConfigError
from everlearn.learning.head import Head
from everlearn.learning.memory import Memory, NoMemory
from everlearn.learning.regulariser import NoRegulariser, Regulariser
from everlearn.learning.training import Training


@dataclass(frozen=True)
class Slots:
    """Strategy = Head × Regulariser × Memory, and how SGD is run.

    Args:
        head: the output layers' rows: how they start, which are trained, which are tested.
        regulariser: what holds the weights; by default nothing.
        memory: what is kept of old batches; by default nothing.
        training: epochs, learning rates and the other knobs of SGD.

    >>> from everlearn.heads import CWR
    >>> from everlearn.regularisers import SI
    >>> Slots(CWR(init="zero", shift="batch"), SI()).names  # AR1
    ['cwr', 'si', 'none']
    """

    head: Head
    regulariser: Regulariser = field(default_factory=NoRegulariser)
    memory: Memory = field(default_factory=NoMemory)
    training: Training = field(default_factory=Training)

    @property
    def names(self) -> list[str]:
        """The kinds of the three slots."""
        return [self.head.name, self.regulariser.name, self.memory.name]

    @property
    def identity(self) -> dict[str, Any]:
        """What a state must have in common with a learner: the kinds of its slots, and the knobs that shape it."""
        parts: dict[str, Head | Regulariser | Memory] = {
            "head": self.head,
            "regulariser": self.regulariser,
            "memory": self.memory,
        }
        shape = {f"{slot}.{knob}": getattr(part, knob) for slot, part in parts.items() for knob in part.shaping}
        return {**dict(zip(parts, self.names, strict=True)), **shape}

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Every knob's value, by the names that `--set` takes.

        >>> from everlearn.heads import PerTask
        >>> from everlearn.regularisers import SI
        >>> Slots(PerTask(), SI(lam=4e5)).hyperparameters["si.lam"]
        400000.0
        """
        out = all_knobs(self.training, "training.")
        for part in (self.head, self.regulariser, self.memory):
            out |= all_knobs(part, f"{part.name}.")
        return out

    def refuse_senseless(self) -> None:
        """Refuse combinations that cannot work, with the reason."""
        reasons = [self.head.refuses(self.memory), self.memory.refuses(self.regulariser)]
        if not (isinstance(self.memory, NoMemory) or self.regulariser.takes_replay):
            reasons.append("This regulariser has targets for B_i's patterns alone, and none for replayed ones")
        for reason in filter(None, reasons):
            raise ConfigError(f"{reason}: {' × '.join(self.names)}. Leave one of the slots at its default.")
