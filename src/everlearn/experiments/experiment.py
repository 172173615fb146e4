"""What an experiment is: variants to learn, and figures to draw of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Budget = Literal["cpu", "paper"]

CPU = {
    "icifar-100": "cifarnet/icifar-100/cpu",
    "icifar-100+joined": "cifarnet/icifar-100/cpu",
    "cifar-split-6": "cifarnet/cifar-split-6/cpu",
    "cifar-split-11": "cifarnet/cifar-split-6/cpu",
}
"""Settings of four epochs a batch, η falling to 0, by benchmark, where the paper's would take days on a CPU."""

CORE50 = {"training.first.epochs": 1, "training.later.epochs": 1}
"""On CORe50 the CPU's budget is one epoch a batch, with the paper's hyperparameters."""


@dataclass(frozen=True)
class Variant:
    """One line, bar or strip of a figure: a strategy with its knobs, under a label.

    benchmark, network: where they differ from the experiment's own. rates: another strategy, whose epochs and rates it
    takes, so that it differs from it in nothing else. cpu: its setting at CPU budget, where it is not the benchmark's.
    pull: η·λ on later batches, from which λ follows: one λ would be much at one η and nothing at another.
    """

    label: str
    strategy: str
    knobs: dict[str, Any] = field(default_factory=dict)
    benchmark: str | None = None
    network: str | None = None
    rates: str | None = None
    cpu: str | None = None
    pull: float | None = None


@dataclass(frozen=True)
class Experiment:
    """where: in the paper; theirs: what it is done with there, if with something else.

    benchmark: the default. variants: on a benchmark; figures: which are drawn of them.

    batches: the first so many, None for all. networks: one after the other, where the paper compares them.
    trajectories: whether the ways of the weights are followed too, in run 1. options: of figures, by their names.
    """

    where: str
    benchmark: str
    variants: Callable[[str], list[Variant]]
    figures: tuple[str, ...]
    batches: int | None = None
    networks: tuple[str | None, ...] = (None,)
    trajectories: bool = False
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    theirs: str | None = None

    def setting(self, budget: Budget, benchmark: str, variant: Variant) -> str | None:
        """Whose hyperparameters: ours at CPU budget where we have some, else the benchmark's own, None."""
        return (variant.cpu or CPU.get(benchmark)) if budget == "cpu" else None

    def knobs(self, budget: Budget, benchmark: str) -> dict[str, Any]:
        """What a budget turns beside the setting."""
        return CORE50 if budget == "cpu" and benchmark.startswith("core50") else {}
