"""What an experiment is: variants to learn, and figures to draw of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

Budget = Literal["cpu", "paper"]

CPU_EPOCHS = {"icifar-100": 4, "icifar-100+joined": 4, "cifar-split-6": 4}
"""Epochs of a batch where the paper's would take days without an accelerator; its other values are kept."""


@dataclass(frozen=True)
class Variant:
    """One line, bar or strip of a figure: a strategy with its knobs, under a label.

    benchmark, network: where they differ from the experiment's own.
    """

    label: str
    strategy: str
    knobs: dict[str, Any] = field(default_factory=dict)
    benchmark: str | None = None
    network: str | None = None


@dataclass(frozen=True)
class Experiment:
    """where: in the paper. benchmark: the default. variants: on a benchmark; figures: which are drawn of them.

    batches: the first so many, None for all. networks: one after the other, where the paper compares them.
    trajectories: whether the ways of the weights are followed too, in run 1.
    """

    where: str
    benchmark: str
    variants: Callable[[str], list[Variant]]
    figures: tuple[str, ...]
    batches: int | None = None
    networks: tuple[str | None, ...] = (None,)
    trajectories: bool = False

    def setting(self, network: str | None) -> str | None:
        """Whose hyperparameters: the benchmark's own, which are the paper's where it has some."""
        return "googlenet/core50" if network == "googlenet-128" else None

    def budget(self, budget: Budget, benchmark: str) -> dict[str, Any]:
        """What a budget changes."""
        if budget == "paper" or benchmark not in CPU_EPOCHS:
            return {}
        epochs = CPU_EPOCHS[benchmark]
        return {"training.first.epochs": epochs, "training.later.epochs": epochs}
