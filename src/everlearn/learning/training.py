"""How SGD is run on B_1 and on B_i, i > 1: the knobs of the optimiser, and its step."""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from everlearn._kit.knobs import check, check_types
from everlearn.learning.theta import Theta, blocks

Carry = Literal["never", "after_first", "always"]
BatchNorm = Literal["follow", "still"]


@dataclass(frozen=True)
class Phase:
    """Epochs and learning rate for B_1, or for each B_i, i > 1.

    epochs: 0 makes no step: for heads with a closed form. eta: the learning rate η. schedule: points (share of the
    batch's steps, factor of η), linear between them; the default keeps η constant, ((0, 4), (0.25, 1)) starts fourfold
    and is at η after a quarter of the steps.

    >>> Phase(epochs=4, eta=0.1, schedule=((0, 4), (0.25, 1))).eta_at(step=0, steps=100)
    0.4
    """

    epochs: int
    eta: float
    schedule: tuple[tuple[float, float], ...] = ((0.0, 1.0),)

    def __post_init__(self) -> None:
        check_types(self)
        object.__setattr__(self, "schedule", tuple(map(tuple, self.schedule)))  # files have lists
        check(self.epochs >= 0, "Too few epochs", expected="0 or more", got=self.epochs, do="Raise epochs.")
        check(self.eta > 0, "A bad learning rate", expected="more than 0", got=self.eta, do="Raise eta.")
        shares = [share for share, _ in self.schedule]
        check(
            bool(shares) and shares == sorted(shares) and 0 <= shares[0] <= shares[-1] <= 1,
            "A bad schedule",
            expected="points (share of the steps from 0 to 1, factor), shares ascending",
            got=self.schedule,
            do="Sort the points.",
        )
        factors = [factor for _, factor in self.schedule]
        check(
            min(factors) >= 0 < max(factors),
            "A bad schedule",
            expected="factors of 0 or more, and one above 0",
            got=factors,
            do="Mend the factors.",
        )

    def eta_at(self, step: int, steps: int) -> float:
        """η at a step of a batch.

        Args:
            step: the step within the batch (0-based).
            steps: how many steps the batch has.
        """
        shares, factors = zip(*self.schedule, strict=True)
        return self.eta * float(np.interp(step / max(1, steps), shares, factors))

    @property
    def etas(self) -> tuple[float, float]:
        """The smallest and the largest η."""
        factors = [factor for _, factor in self.schedule]
        return self.eta * min(factors), self.eta * max(factors)


@dataclass(frozen=True)
class Training:
    """SGD with momentum and weight decay, as Caffe runs it.

    first, later: epochs and learning rate on B_1 and on B_i, i > 1.
    momentum, weight_decay, minibatch: SGD's. bias_eta, bias_decay: factors of η and of the weight decay for biases
    (Caffe's custom is 2 and 0).
    reshuffle: a new order every epoch; False keeps B_i's one shuffle for all its epochs, as the paper's code does.
    carry: whether B_i starts with the momentum that B_{i−1} left: never, always, or after_first (from B_3 on, since
    B_1's is dropped; the authors').
    batch_norm: statistics follow the data wherever the trunk trains, or are still from B_2 on. Affine weights are
    ordinary weights of Θ either way.
    """

    first: Phase = field(default_factory=lambda: Phase(epochs=8, eta=0.02))
    later: Phase = field(default_factory=lambda: Phase(epochs=8, eta=0.02))
    momentum: float = 0.9
    weight_decay: float = 5e-4
    minibatch: int = 32
    bias_eta: float = 1.0
    bias_decay: float = 1.0
    reshuffle: bool = True
    carry: Carry = "after_first"
    batch_norm: BatchNorm = "follow"

    def __post_init__(self) -> None:
        check_types(self)
        check(0 <= self.momentum < 1, "A bad momentum", expected="0 ≤ momentum < 1", got=self.momentum, do="Lower it.")
        for name in ("weight_decay", "bias_eta", "bias_decay"):
            value = getattr(self, name)
            check(value >= 0, f"A bad {name}", expected="0 or more", got=value, do="Raise it.")
        check(self.minibatch >= 1, "A bad minibatch size", expected="1 or more", got=self.minibatch, do="Raise it.")

    def phase(self, i: int) -> Phase:
        """The phase that B_i is trained by.

        Args:
            i: the number of the batch (1-based).
        """
        return self.first if i == 1 else self.later

    def carries_into(self, i: int) -> bool:
        """Whether B_i starts with the momentum that B_{i−1} left.

        Args:
            i: the number of the batch (1-based).
        """
        return self.carry == "always" or (self.carry == "after_first" and i > 2)

    def step_(self, theta: Theta, eta: float) -> None:
        """One step of SGD: v = momentum·v + η·(grad + decay·θ); θ = θ − v, over what is not frozen.

        Caffe's form: η stands inside v, so v is the update itself, which SI's path="update" reads.

        Args:
            theta: Θ with its gradient and v, which is written into.
            eta: η, the learning rate of this step.
        """
        for bias, *piece in theta.pieces():
            decay = self.weight_decay * (self.bias_decay if bias else 1.0)
            rate = eta * (self.bias_eta if bias else 1.0)
            for value, grad, v in blocks(*piece):
                decayed = grad.add(value, alpha=decay) if decay else grad  # autograd's own is not ours to write into
                v.mul_(self.momentum).add_(decayed, alpha=rate)
                value.sub_(v)
