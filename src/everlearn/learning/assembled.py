"""The slots on a network: what a strategy is made of, what may be asked of it, its state and its storage."""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from everlearn._kit.keyed import forked
from everlearn._kit.state import State, mapped
from everlearn.data.batch import Array, Batch
from everlearn.data.labels import Labels
from everlearn.errors import StateError, sentence
from everlearn.learning.bench import Bench
from everlearn.learning.learner import Learner, Predictor, Rows
from everlearn.learning.parallel import ALONE, Ranks
from everlearn.learning.slots import Slots
from everlearn.learning.snapshot import Snapshot
from everlearn.learning.storage import Kept, Ledger, measure
from everlearn.learning.theta import Theta
from everlearn.learning.turns import Busy
from everlearn.learning.unsplit import unsplit
from everlearn.models.network import Network


@dataclass
class Within:
    """Where in a batch the learner is: steps made, and which batch it was."""

    step: int
    batch: str


class Moment(NamedTuple):
    """All that a learner is at one moment."""

    snapshot: Snapshot
    state: State
    labels: Labels


class Assembled(Learner):
    """A network and the slots Head × Regulariser × Memory: all of a strategy but how it learns.

    Args:
        network: taken over, not copied.
        slots: of these only the knobs are taken.
        seed: settles everything random.
        device: where to compute, as PyTorch names it.
        ranks: the processes that learn it together, from `everlearn.parallel`; by default this one alone.
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
        self.device, self.ranks = torch.device(device), ranks
        self.network = network.to(self.device)
        self.theta = Theta(self.network)
        self.bench = Bench(self.theta, self.head, self.memory, self.training, int(seed), ranks)
        for slot in (self.head, self.regulariser, self.memory):
            slot.attach(self.bench)
        self.i_ = 0
        self.within_: Within | None = None
        self._n_i = 0
        self._held_within: dict[str, Kept] = {}
        self._features: tuple[Tensor, ...] = ()
        self._initial = mapped(self.weights(), Tensor.clone) if self.memory.restarts else None
        self._snapshot: Snapshot | None = None
        self.turn: Busy[Moment] = Busy(self._moment)  # others are answered as before the batch

    @property
    def seed(self) -> int:
        """Of everything random."""
        return self.bench.seed

    def __repr__(self) -> str:
        """What it is made of, what it has learnt, and what it knows."""
        some = ", ".join(map(repr, self.classes_[:5])) + (", …" if len(self.classes_) > 5 else "")
        knows = f"{len(self.classes_)} classes ({some})" if self.classes_ else "no classes yet"
        return f"<{' × '.join(self.slots.names)} learner: {self.theta.m:,} weights, {self.i_} batches, {knows}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> "Assembled":
        """A learner of its own that learns on from here."""
        rebuild, parts = self.__reduce__()
        return cast(Assembled, rebuild(*parts))

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """A copy, also for pickle: the network and the slots, with the state laid in."""
        now = self._now()
        network = copy.deepcopy(now.snapshot.network)
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(name in now.state["trainable weights"])  # also where Θ̄ is frozen just now
        known = {"labels": now.labels, "recipe_": self.recipe_, "history_": copy.deepcopy(self.history_)}
        known["_held_within"] = dict(self._held_within)
        return _rebuilt, (type(self), network, self.slots, str(self.device), self.ranks, now.state, known)

    # --- asking -----------------------------------------------------------------------------------

    def snapshot(self) -> Predictor:
        """What it answers now, for ever. While a batch is being learnt, other threads get the learner before it."""
        if self.turn.mine:  # in the middle of a batch, which will write on
            now = Snapshot(self.network, self.head, self.labels)
            for tensor in (*now.network.parameters(), *now.network.buffers()):
                tensor.data = tensor.data.clone()
            return now
        with self.turn.lock:
            before = self.turn.elsewhere
            return self._cached() if before is None else before.snapshot

    def _cached(self) -> Snapshot:
        """A snapshot of a learner that nobody changes, kept until somebody does."""
        if self._snapshot is None:
            self._snapshot = Snapshot(self.network, self.head, self.labels)
        return self._snapshot

    def _moment(self) -> Moment:
        """All that the learner is, as somebody begins to change it: it goes on in new memory."""
        before = Moment(self._cached(), {**self._state(), "v": self.theta.v.clone()}, self.labels)
        self._snapshot = None
        return before

    def _now(self) -> Moment:
        """All that the learner is, copied; in other threads than the one that changes it, all that it was before."""
        if self.turn.mine:
            return Moment(Snapshot(self.network, self.head, self.labels), self._copied(), self.labels)
        with self.turn.lock:
            return self.turn.elsewhere or Moment(self._cached(), self._copied(), self.labels)

    def _asked(self) -> Predictor:
        """A snapshot that is asked at once and dropped: on the learning thread nothing needs to be copied."""
        return Snapshot(self.network, self.head, self.labels) if self.turn.mine else self.snapshot()

    @contextmanager
    def _reading(self) -> Iterator[Predictor]:
        yield self._asked()

    @property
    def rows_(self) -> list[int]:
        return self._asked().rows_

    def columns(self, rows: Rows = "seen", *, batch: int | None = None) -> list[int]:
        return self._asked().columns(rows, batch=batch)

    def scores(self, x: Array, rows: Rows = "seen", *, batch: int | None = None) -> Tensor:
        """The last output layer's logits, with the weights to test with, in evaluation mode; or the head's own scores.

        Args:
            x: patterns, [n, …].
            rows, batch: which columns, as the protocol says.
        """
        return self._asked().scores(x, rows, batch=batch)

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

    # --- learning, whole or not at all ------------------------------------------------------------

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A batch that fails leaves the learner as it was. That is not copied: the learner goes on in new memory."""
        with nullcontext() if self.turn.mine else self.turn:
            before = self.turn.before
            assert before is not None
            try:
                self.theta.leave_memory()
                with forked(self.device), unsplit(self.network, self.ranks):
                    yield
            except BaseException:
                self._go_back(before.state)
                raise
            finally:
                self._features = ()

    def _go_back(self, state: State) -> None:
        """Be again what the learner was, from wherever it was interrupted."""
        self.theta.close()
        self.theta.repoint()
        self._take(state)

    # --- state and storage ------------------------------------------------------------------------

    def weights(self) -> dict[str, Tensor]:
        return {name: tensor.detach() for name, tensor in self.network.state_dict().items()}

    def _shapes(self) -> dict[str, list[int]]:
        """The shape of each weight; of output layers, that of a row."""
        return {name: list(tensor.shape[is_output(name) :]) for name, tensor in self.weights().items()}

    def _trains(self) -> dict[str, bool]:
        """The weights that are in Θ."""
        return {segment.name: True for segment in self.theta.segments}

    def _agree(self, data: Batch) -> None:
        """Refuse to go on where several processes do not hold the same to learn these data with."""

        def held() -> State:
            state = self._state()
            knobs = {"knobs": repr(self.slots), "batch": data.fingerprint}
            place = {"place in the stream": [self.i_, state["within"]]}
            parts = ("shapes", "seed", "network", "v", "head", "regulariser", "memory")
            return {**knobs, **place, **{part: state[part] for part in parts}}

        self.ranks.agree(held)

    def state_dict(self) -> State:
        """Everything learnt, also in the middle of a batch; what later steps write into is copied.

        While another thread learns a batch, it is the state before that.
        """
        now = self._now()
        return {**now.state, "labels": now.labels.state()}

    def _copied(self) -> State:
        """The state with copies of what later steps write into."""
        state = self._state()
        return {**state, "network": mapped(state["network"], Tensor.clone), "v": state["v"].clone()}

    def _state(self) -> State:
        """The state with the network's own memory in it."""
        return {
            "slots": self.slots.identity,
            "shapes": self._shapes(),
            "trainable weights": self._trains(),
            "seed": self.seed,
            "i": self.i_,
            "n_i": self._n_i,
            "within": None if self.within_ is None else [self.within_.step, self.within_.batch],
            "frozen": self.theta.frozen,
            "network": self.weights(),
            "v": self.theta.v,
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
        labels = Labels.from_state(state.get("labels"))
        with self.turn:
            before = self.turn.before
            assert before is not None
            try:
                self.theta.leave_memory(everything=True)  # snapshots keep the old one
                self._take(state)
            except BaseException:
                self._go_back(before.state)
                raise
            if labels == Labels() and self.head.seen_:
                labels = Labels(integers=True)  # states of 0.1.0 have no labels
            self.labels = labels
            learnt = self.i_ - (self.within_ is not None)
            self.history_ = [entry for entry in self.history_ if entry["i"] <= learnt]

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
        self.bench.seed, self.i_, self._n_i = state["seed"], state["i"], state["n_i"]
        self.within_ = None if state["within"] is None else Within(*state["within"])
        self.network.eval()

    def _owners(self) -> dict[str, Any]:
        network = [self.theta.value, *self.network.parameters(), *self.network.buffers()]
        parts = {"network": network, "sgd.v": self.theta.v, "sgd.grad": self.theta.held, "initial": self._initial}
        slots = {"head": self.head, "regulariser": self.regulariser, "memory": self.memory}
        before = None if self.turn.before is None else self.turn.before.state
        return {**parts, **slots, "before": before, "features": self._features}

    def storage(self) -> Ledger:
        """The paper's formula for this strategy beside what it really keeps."""
        pn = [output.pn for output in self.head.outputs]
        m = self.theta.m - (self.head.overhead(pn) if self.head.shared_only else 0)
        own, more = self.head.overhead(pn), self.regulariser.overhead(m, self.head.s, len(pn), self._n_i)
        parts = ["s·pn" if self.head.shared_only else "", self.regulariser.formula(shared_only=self.head.shared_only)]
        formula = " + ".join(filter(None, parts))
        slots: dict[str, Any] = {"head": self.head, "regulariser": self.regulariser, "memory": self.memory}
        words = {f"{slot}.{name}": why for slot, part in slots.items() for name, why in part.why.items()}
        return Ledger(formula or "0", own + more, measure(self._owners()), dict(self._held_within), words)


def is_output(name: str) -> bool:
    """Whether a weight of this name is an output layer's."""
    return name.startswith("outputs.")


def _rebuilt(
    kind: type[Assembled], network: Network, slots: Slots, device: str, ranks: Ranks, state: State, known: State
) -> Assembled:
    """What `Assembled.__reduce__` stands for."""
    learner = kind(network, slots, device=device, ranks=ranks)
    learner.load_state_dict(state)
    vars(learner).update(known)
    return learner
