"""What a head is: the rows of the output layers, which class each belongs to, and how they start."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from everlearn._kit.keyed import keyed_generator
from everlearn._kit.knobs import check, check_types, learnt_names
from everlearn.errors import ConfigError, DataError, StateError, sentence
from everlearn.learning.bench import Bench
from everlearn.learning.loss import Term
from everlearn.learning.memory import Memory
from everlearn.learning.theta import Extend, Theta
from everlearn.models.network import Output

Growth = Literal["maximal", "expanding"]
Init = Literal["keep", "zero", "constant", "gaussian", "xavier"]


@dataclass
class Head:
    """The output layers of a network, a row a class.

    growth: `maximal` has a row for every class from the start, `expanding` grows by the new classes of each batch.
    classes: of a maximal head, the class of each row; by default row k is class k. An expanding head starts with no
    row and takes classes in order of arrival.
    init: how new rows start: `keep` (as the network has them; `zero` for rows that grow), `zero`, `constant`
    (all weights init_scale), `gaussian` (standard deviation init_scale), `xavier` (uniform ±√(3 / pn), Caffe's).
    init_scale: the constant, or the standard deviation, that `init` starts rows with.
    """

    name: ClassVar[str] = "head"
    shared_only: ClassVar[bool] = False  # whether regularisers see Θ̄ alone
    knows_task: ClassVar[bool] = False  # whether it can only be asked with the task known (MT)
    solves: ClassVar[bool] = False  # whether it has a closed form: `solve` is called when B_i's steps are made
    shaping: ClassVar[tuple[str, ...]] = ("growth",)  # knobs that a state must share
    why: ClassVar[dict[str, str]] = {"_held": "rows or biases that must not move, to put back after each step"}

    growth: Growth = "maximal"
    classes: Sequence[int] | None = None
    init: Init = "gaussian"
    init_scale: float = 0.01

    classes_: list[int] = field(default_factory=list, init=False)  # the class of each row
    batches_: list[list[int]] = field(default_factory=list, init=False)  # the rows of B_1, B_2, …
    bench: Bench = field(init=False, repr=False, compare=False)
    _held: list[tuple[Tensor, Tensor, Tensor, Tensor]] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        check_types(self)
        check(
            self.init_scale > 0,
            "A bad init_scale",
            expected="more than 0",
            got=self.init_scale,
            do='Use init="zero" for rows that start at 0.',
        )
        check(
            self.classes is None or self.growth == "maximal",
            "An expanding head takes classes as they arrive",
            expected="classes=None",
            got=self.classes,
            do='Leave classes out, or choose growth="maximal".',
        )
        classes = list(self.classes or ())
        check(min(classes, default=0) >= 0, "A bad class", expected="0 or more", got=classes, do="Number from 0 up.")
        duplicates = sorted({c for c in classes if classes.count(c) > 1})
        check(not duplicates, "A class twice", expected="each class once", got=duplicates, do="Drop the repeats.")

    def refuses(self, memory: Memory) -> str:
        """Why this head makes no sense beside a memory, '' where it does.

        Args:
            memory: the memory that stands beside it.
        """
        return ""

    # --- attaching --------------------------------------------------------------------------------

    def attach(self, bench: Bench) -> None:
        """Take over the output layers of a network.

        Args:
            bench: all that the head may work with: Θ and its network, the training, the seed.
        """
        self.bench = bench
        self._refuse_dead()
        if self.growth == "expanding":
            bench.theta.set_rows(0)
            return
        rows = bench.theta.network.rows
        self.classes_ = list(range(rows)) if self.classes is None else [int(c) for c in self.classes]
        if len(self.classes_) != rows:
            raise ConfigError(
                sentence(
                    "Classes and rows do not fit",
                    expected=f"{rows} classes, one for each row of the network's output layers",
                    got=len(self.classes_),
                    do="Build the network with as many rows as there are classes.",
                )
            )
        self.init_rows(range(rows))

    @property
    def theta(self) -> Theta:
        """Θ."""
        return self.bench.theta

    @property
    def seed(self) -> int:
        """Of everything random."""
        return self.bench.seed

    @property
    def starts_at_zero(self) -> bool:
        """Whether rows of new classes give exactly 0 for every pattern until they are trained."""
        return self.init == "zero" or (self.init == "keep" and self.growth == "expanding")

    def _refuse_dead(self) -> None:
        """Refuse rows none of which would ever move: at 0 a ReLU passes no gradient."""
        rectified = all(any(isinstance(part, nn.ReLU) for part in o.tail.modules()) for o in self.outputs)
        if rectified and self.starts_at_zero:
            raise ConfigError(
                sentence(
                    "These rows would never learn, since a ReLU follows the output layer and passes no gradient at 0",
                    expected="rows that do not start at 0, or a CWR head with bias fixed",
                    got=f"init {self.init}" + (f" and bias {bias}" if (bias := getattr(self, "bias", None)) else ""),
                    do='Use init="gaussian", or bias="fixed".',
                )
            )

    def init_rows(self, rows: range) -> None:
        """Start these rows as `init` says; their biases at 0.

        Args:
            rows: the rows, of every output layer.
        """
        if self.init == "keep" or not rows:
            return
        generator = keyed_generator(self.seed, "rows", len(self.batches_), rows.start)
        with torch.no_grad():
            for output in self.outputs:
                self.fill_(output.layer.weight[rows.start : rows.stop], generator)
                if output.layer.bias is not None:
                    output.layer.bias[rows.start : rows.stop] = 0.0

    def fill_(self, weight: Tensor, generator: torch.Generator) -> None:
        """Write initial values into rows of weights.

        Args:
            weight: rows of an output layer's weights, which are written into.
            generator: the random numbers that `gaussian` and `xavier` draw.
        """
        drawn = torch.empty(weight.shape)  # drawn on the CPU, so that every device starts alike
        if self.init in ("zero", "keep"):
            nn.init.zeros_(drawn)
        elif self.init == "constant":
            nn.init.constant_(drawn, self.init_scale)
        elif self.init == "gaussian":
            nn.init.normal_(drawn, std=self.init_scale, generator=generator)
        else:
            bound = sqrt(3 / weight[0].numel())
            nn.init.uniform_(drawn, -bound, bound, generator=generator)
        weight.copy_(drawn)

    # --- rows and classes -------------------------------------------------------------------------

    @property
    def outputs(self) -> list[Output]:
        return self.theta.network.output_layers

    @property
    def s(self) -> int:
        """The rows of each output layer."""
        return len(self.classes_)

    @property
    def seen_(self) -> list[int]:
        """The rows of the classes met so far, ascending."""
        return sorted({row for rows in self.batches_ for row in rows})

    def rows_of(self, y: Tensor) -> Tensor:
        """The row of each label; refuses classes without a row.

        Args:
            y: the class of each pattern, by its number, [n].

        Returns:
            The row of each pattern, [n].
        """
        row_of = {c: row for row, c in enumerate(self.classes_)}
        labels, where = y.unique(return_inverse=True)
        absent = [int(c) for c in labels if int(c) not in row_of]
        if absent:
            raise DataError(
                sentence(
                    "There is no row for these classes",
                    expected=f"classes among the head's {self.s} rows",
                    got=absent,
                    do='To let the head grow, build it with growth="expanding"; or build the network with a row for '
                    "every class.",
                )
            )
        return torch.tensor([row_of[int(c)] for c in labels], device=y.device)[where]

    def check(self, classes: list[int]) -> None:
        """Refuse a batch of these classes before anything is changed.

        Args:
            classes: the classes of the batch.
        """
        if known := sorted({self.classes_[row] for row in self.seen_} & set(classes)):
            self.check_known(known)
        if self.growth == "maximal":
            self.rows_of(torch.tensor(classes))
        rows = len(self.softmax_classes(classes))
        if rows < 2 and not self.solves:
            raise DataError(
                sentence(
                    "A softmax over a single row teaches nothing",
                    expected="at least two rows in the softmax",
                    got=f"{rows} (growth={self.growth!r}, classes {classes})",
                    do='Begin with a batch of two or more classes, or use a plain head with growth="maximal".',
                )
            )

    def check_stream(self, batches: Sequence[Sequence[int]]) -> None:
        """Refuse a stream by the classes of its batches, where some come again that must not.

        Args:
            batches: the classes of each batch, B_1 first.
        """
        met: set[int] = set()
        for classes in batches:
            if known := sorted(met & set(classes)):
                self.check_known(known)
            met |= set(classes)

    def check_known(self, known: list[int]) -> None:
        """Refuse classes that come again, with the reason, where this head cannot take them.

        Args:
            known: the classes of a batch that an earlier batch had.
        """

    def softmax_classes(self, classes: list[int]) -> set[int]:
        """The classes whose rows a batch of these classes would be trained over.

        Args:
            classes: the classes of the batch.
        """
        return {*self.classes_, *classes}

    def check_question(self, columns: list[int], batch: int | None) -> None:
        """Refuse a question that this head cannot answer.

        Args:
            columns: the rows that scores are asked for.
            batch: the batch (1-based) whose classes alone are asked for; None where the task is not known.
        """
        if not columns:
            raise DataError(
                sentence(
                    "There is nothing to score",
                    expected="a learner that has met classes",
                    got="none",
                    do='Let it learn a batch first, or ask a maximal head for rows="all".',
                )
            )

    # --- the verbs --------------------------------------------------------------------------------

    def begin(self, counts: Mapping[int, int], i: int, *, distils: bool) -> Extend | None:
        """Make the head ready for B_i.

        Args:
            counts: how many patterns B_i has of each class.
            i: the number of the batch (1-based).
            distils: whether the regulariser's loss has terms on old rows, which may move then.

        Returns:
            A function that extends whatever is laid out like Θ, where the head grew; None where it did not.
        """
        extend = None
        new = [c for c in counts if c not in self.classes_]
        if new:
            start = self.s
            self.classes_ = [*self.classes_, *new]
            extend = self.theta.set_rows(self.s)
            self.init_rows(range(start, self.s))
        rows = [self.classes_.index(c) for c in counts]
        self.batches_ = [*self.batches_, rows]
        self.hold_begin(distils=distils)
        return extend

    def train_rows(self) -> Tensor | None:
        """The rows that L_cross is over while B_i is learnt; None for all."""
        return None

    def hard_targets(self, y: Tensor) -> Term:
        """y_1h for patterns of these rows, over the rows that L_cross is over.

        Args:
            y: the row of each pattern, [n].

        Returns:
            L_cross with the true rows as targets, at weight 1.
        """
        rows = self.train_rows()
        if rows is None:
            return Term(1.0, y)
        place = torch.full((self.s,), -1, device=y.device)
        place[rows] = torch.arange(len(rows), device=y.device)
        return Term(1.0, place[y], rows)

    def distilled_rows(self) -> Tensor | None:
        """The rows that y_lwf is over; None for all."""
        return None

    def held_rows(self, *, distils: bool) -> list[int]:
        """The rows that must not move while the batch at hand is learnt.

        Args:
            distils: whether the loss has terms on old rows, which may move then.
        """
        return []

    def hold_begin(self, *, distils: bool) -> None:
        """Remember what must not move, from the weights as they are.

        Args:
            distils: as for `held_rows`.
        """
        rows = torch.tensor(self.held_rows(distils=distils), dtype=torch.long, device=self.theta.value.device)
        self._held = []
        if len(rows):
            values, vs = self.theta.output_views(self.theta.value), self.theta.output_views(self.theta.v)
            self._held = [(value, v, rows, value[rows].clone()) for value, v in zip(values, vs, strict=True)]

    def hold(self) -> None:
        """After SGD's step: put back what must not move, byte for byte, and leave it no momentum."""
        for value, v, rows, kept in self._held:
            value[rows] = kept
            v[rows] = 0.0

    def consolidate(self, i: int) -> None:
        """B_i is learnt: make the weights to test with.

        Args:
            i: the number of the batch (1-based).
        """
        self._held = []

    def solve(self, features: Tensor, y: Tensor) -> None:
        """Learn B_i in closed form, for heads with `solves`.

        Args:
            features: what enters the last output layer for each pattern of B_i's training data.
            y: the row of each pattern.
        """

    def test_rows(self) -> list[Tensor] | None:
        """The output layers' weights to test with, laid out as they are; None where those that stand will do."""
        return None

    def scores(self, features: Tensor) -> Tensor | None:
        """A score for each pattern and row, for heads that do not end in the output layers; None for those that do.

        It may use what the head has learnt and nothing else: a snapshot asks it while the learner goes on.

        Args:
            features: what enters the last output layer.
        """
        return None

    def overhead(self, pn: list[int]) -> int:
        """The paper's storage formula, in values.

        Args:
            pn: for each output layer, the weights in a row: the neurons of the penultimate layer.
        """
        return 0

    # --- state ------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """The classes of the rows and of the batches; and every other field that is learnt, whose name ends in `_`."""
        others = [name for name in learnt_names(self) if name not in ("classes_", "batches_")]
        batches = [list(rows) for rows in self.batches_]
        return {"classes": list(self.classes_), "batches": batches, **{name: getattr(self, name) for name in others}}

    def load_state(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave; a state of other classes is refused.

        Args:
            state: what `state` gave.
        """
        if self.growth == "maximal" and state["classes"] != self.classes_:
            raise StateError(
                sentence(
                    "This state is of a head with other classes",
                    expected=self.classes_,
                    got=state["classes"],
                    do="Build the learner with the classes that the state was made with.",
                )
            )
        self.classes_ = list(state["classes"])
        self.batches_ = [list(rows) for rows in state["batches"]]
        self._held = []
        for name in learnt_names(self):
            if name in state:
                setattr(self, name, state[name])
