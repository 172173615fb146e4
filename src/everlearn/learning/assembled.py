"""The slots on a network: what a strategy is made of, what may be asked of it, its state and its storage."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, get_args

import torch
from torch import Tensor

from everlearn._kit.state import State, mapped
from everlearn.data.batch import Array, Batch, check_patterns
from everlearn.errors import DataError, StateError, sentence
from everlearn.learning import passes
from everlearn.learning.learner import Learner, Rows
from everlearn.learning.parallel import ALONE, Ranks
from everlearn.learning.slots import Slots
from everlearn.learning.storage import Entry, Ledger, measure
from everlearn.learning.theta import Scope, Theta
from everlearn.models.network import Network

EVALUATION_MINIBATCH = 256


@dataclass
class Within:
    """Where in a batch the learner is: steps made, and which batch it was."""

    step: int
    batch: str


class Assembled(Learner):
    """A network and the slots Head × Regulariser × Memory: all of a strategy but how it learns.

    The network is taken over, not copied; of the slots only the knobs are taken. seed settles everything random.
    ranks: the processes that learn it together, from `everlearn.learning.parallel`; by default this one alone.
    """

    def __init__(
        self,
        network: Network,
        slots: Slots,
        *,
        seed: int = 0,
        device: str | torch.device = "cpu",
        ranks: Ranks = ALONE,
    ) -> None:
        slots.refuse_senseless()
        self.slots = slots
        self.head = replace(slots.head)  # the knobs alone: slots that were handed over are never written into
        self.regulariser = replace(slots.regulariser)
        self.memory = replace(slots.memory)
        self.training = slots.training
        self.seed, self.device, self.ranks = int(seed), torch.device(device), ranks
        self.network = network.to(self.device)
        self.theta = Theta(self.network)
        self.head.attach(self.theta, self.seed)
        self.scope = Scope(self.theta, shared_only=self.head.shared_only)
        self.i_ = 0
        self.within_: Within | None = None
        self._n_i = 0
        self._held_within: dict[str, Entry] = {}
        self._features: tuple[Tensor, ...] = ()
        self._before: State | None = None
        self._initial = mapped(self.weights(), Tensor.clone) if self.memory.restarts else None

    # --- asking -----------------------------------------------------------------------------------

    @property
    def classes_(self) -> list[int]:
        return list(self.head.classes_)

    def columns(self, rows: Rows = "seen", *, batch: int | None = None) -> list[int]:
        if rows not in get_args(Rows):
            raise DataError(
                sentence("Unknown rows", expected=f"one of {get_args(Rows)}", got=repr(rows), do="Choose one.")
            )
        if batch is None:
            return self.head.seen_ if rows == "seen" else list(range(self.head.s))
        if not 1 <= batch <= len(self.head.batches_):
            raise DataError(
                sentence(
                    "There is no such batch",
                    expected=f"1 to {len(self.head.batches_)}",
                    got=batch,
                    do="Name a batch that has been learnt.",
                )
            )
        return sorted(self.head.batches_[batch - 1])

    def scores(self, x: Array, rows: Rows = "seen", *, batch: int | None = None) -> Tensor:
        """The last output layer's logits, with the weights to test with, in evaluation mode."""
        columns = self.columns(rows, batch=batch)
        self.head.check_question(columns, batch)
        patterns = self.network.check_input(check_patterns(x))
        return self._logits(patterns, torch.tensor(columns, device=self.device))[-1]

    def _logits(self, x: Tensor, rows: Tensor | None, ranks: Ranks = ALONE) -> list[Tensor]:
        """Every output layer's logits over these rows, None for all."""
        with self.head.testing():
            outputs = passes.logits(self.network, x, EVALUATION_MINIBATCH, ranks)
        return outputs if rows is None else [o[:, rows] for o in outputs]

    @property
    def knows_task(self) -> bool:
        return self.head.knows_task

    def diagnostics(self) -> dict[str, Any]:
        regulariser = self.regulariser
        max_F = getattr(regulariser, "max_F", None)
        eta = max(self.training.phase(max(self.i_, 1)).etas)
        held = {"F_hat": regulariser.importance(), "max_F": max_F, "F": regulariser.information()}
        return {"lam": regulariser.strength, "eta": eta, **held, "F_i": regulariser.of_batch()}

    def check_stream(self, batches: Sequence[Sequence[int]]) -> None:
        self.head.check_stream(batches)

    # --- state and storage ------------------------------------------------------------------------

    def weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach() for name, tensor in self.network.state_dict().items()}

    def _shapes(self) -> dict[str, list[int]]:
        """The shape of each weight; of output layers, that of a row."""
        return {name: list(tensor.shape[is_output(name) :]) for name, tensor in self.weights().items()}

    def _trains(self) -> dict[str, bool]:
        """The weights that are in Θ."""
        return {segment.name: True for segment in self.theta.segments}

    def _held(self, data: Batch) -> State:
        """What every process must hold alike to learn these data."""
        state = self.state_dict()
        knobs = {"knobs": repr(self.slots), "batch": data.fingerprint}
        place = {"place in the stream": [self.i_, state["within"]]}
        parts = ("shapes", "seed", "network", "v", "head", "regulariser")
        return {**knobs, **place, **{part: state[part] for part in parts}}

    def state_dict(self) -> State:
        """Everything learnt, also in the middle of a batch; what later steps write into is copied."""
        return {
            "slots": self.slots.identity,
            "shapes": self._shapes(),
            "trainable weights": self._trains(),
            "seed": self.seed,
            "i": self.i_,
            "n_i": self._n_i,
            "within": None if self.within_ is None else [self.within_.step, self.within_.batch],
            "frozen": self.theta.frozen,
            "network": mapped(self.weights(), Tensor.clone),
            "v": self.theta.v.clone(),
            "initial": self._initial,
            "head": self.head.state(),
            "regulariser": self.regulariser.state(),
            "memory": self.memory.state(),
        }

    def load_state_dict(self, state: State) -> None:
        """Take back a state, of this learner or of one built alike; a state that does not fit changes nothing."""
        for what, mine in (
            ("slots", self.slots.identity),
            ("shapes", self._shapes()),
            ("trainable weights", self._trains()),
        ):
            theirs = state.get(what, {})
            differ = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
            if differ:
                raise StateError(
                    sentence(
                        f"This state has other {what}",
                        expected={name: mine.get(name) for name in differ},
                        got={name: theirs.get(name) for name in differ},
                        do="Build the learner with the preset, knobs and network that the state was made with.",
                    )
                )
        before = self.state_dict()
        try:
            self._take(state)
        except Exception:
            self._take(before)
            raise

    def _take(self, state: State) -> None:
        own = partial(torch.Tensor.to, device=self.device, copy=True)  # later steps write into some of these
        self.regulariser.load_state(mapped(state["regulariser"], own))
        self.head.load_state(mapped(state["head"], own))
        self.memory.load_state(state["memory"])
        if self.network.rows != self.head.s:
            self.theta.set_rows(self.head.s)
        for name, tensor in self.weights().items():
            tensor.copy_(state["network"][name])
        self.theta.v.copy_(state["v"])
        self.theta.frozen = state["frozen"]
        self._initial = state["initial"]
        self.seed, self.i_, self._n_i = state["seed"], state["i"], state["n_i"]
        self.head.seed = self.seed
        self.within_ = None if state["within"] is None else Within(*state["within"])
        self.network.eval()

    def _owners(self) -> dict[str, Any]:
        network = [self.theta.value, *self.network.parameters(), *self.network.buffers()]
        parts = {"network": network, "sgd.v": self.theta.v, "sgd.grad": self.theta.held, "initial": self._initial}
        slots = {"head": self.head, "regulariser": self.regulariser, "memory": self.memory}
        return {**parts, **slots, "before": self._before, "features": self._features}

    def storage(self) -> Ledger:
        """The paper's formula for this strategy beside what it really keeps."""
        pn = [output.pn for output in self.head.outputs]
        m = self.theta.m - (self.head.overhead(pn) if self.head.shared_only else 0)
        own, more = self.head.overhead(pn), self.regulariser.overhead(m, self.head.s, len(pn), self._n_i)
        parts = ["s·pn" if self.head.shared_only else "", self.regulariser.formula(shared_only=self.head.shared_only)]
        formula = " + ".join(filter(None, parts))
        return Ledger(formula or "0", own + more, measure(self._owners()), dict(self._held_within))


def is_output(name: str) -> bool:
    """Whether a weight of this name is an output layer's."""
    return name.startswith("outputs.")
