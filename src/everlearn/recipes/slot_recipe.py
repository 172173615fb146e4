"""A recipe whose strategy is made of slots: head × regulariser × memory, in the one loop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from everlearn.recipes.recipe import Batches, Knobs, Recipe, check_network, described_network
from everlearn.recipes.space import Space

if TYPE_CHECKING:
    import torch

    from everlearn.learning.loop import Strategy
    from everlearn.learning.parallel import Ranks
    from everlearn.learning.slots import Slots
    from everlearn.models.network import Network


@dataclass(frozen=True, eq=False)
class SlotRecipe(Recipe):
    """A strategy that is made of slots: head × regulariser × memory, in the one loop.

    Args:
        slots: a function that makes them, given the module with all our slots (`everlearn.recipes.parts`); or where it
            is found as "package.module:function".

    The others are as for `Recipe`; `learner` and `knobs` follow from the slots, and several processes can learn it
    together. `searched` is for knobs of slots that are not ours: those of ours are searched for anyway.

    >>> recipe = SlotRecipe("half", slots=lambda s: s.Slots(s.CWR(), s.SI(lam=100.0)))
    >>> recipe.hyperparameters(knobs={"si.w_i": 0.5})["si.lam"]
    100.0
    """

    slots: "Callable[[Any], Slots] | str" = ""

    @cached_property
    def own(self) -> "Slots":
        """The slots with hyperparameters of our own."""
        from everlearn.recipes import parts

        make = self._imported(self.slots) if isinstance(self.slots, str) else self.slots
        return cast("Slots", make(parts))

    def made(self, setting: str | None = None, knobs: Knobs | None = None) -> "Slots":
        """The slots with the hyperparameters of a setting, and then with the knobs given.

        Args:
            setting, knobs: as for `hyperparameters`; the knob `head`, `regulariser` or `memory` exchanges a slot.
        """
        from everlearn.recipes.presets import has_slot, with_knobs

        given = self.table(setting)
        if self.like is not None:  # whose slots may be others
            given = {knob: value for knob, value in given.items() if has_slot(self.own, knob)}
        return with_knobs(with_knobs(self.own, given), knobs or {})

    def hyperparameters(self, setting: str | None = None, knobs: Knobs | None = None) -> dict[str, Any]:
        return self.made(setting, knobs).hyperparameters

    def has_knob(self, knob: str, setting: str | None = None, knobs: Knobs | None = None) -> bool:
        from everlearn.recipes.presets import has_slot

        return has_slot(self.made(setting, knobs), knob)

    def build(
        self,
        network: "Network",
        *,
        setting: str | None = None,
        knobs: Knobs | None = None,
        seed: int = 0,
        device: "str | torch.device" = "cpu",
        ranks: "Ranks | None" = None,
    ) -> "Strategy":
        from everlearn.learning.loop import Strategy
        from everlearn.learning.parallel import ALONE

        check_network(network)
        slots = self.made(setting, knobs)
        learner = Strategy(network, slots, seed=seed, device=device, ranks=ranks or ALONE)
        learner.recipe_ = {
            "name": self.name,
            "knobs": slot_knobs(slots, self.own),
            "network": described_network(network),
        }
        return learner

    def check_stream(self, batches: Batches, setting: str | None = None, knobs: Knobs | None = None) -> None:
        self.made(setting, knobs).head.check_stream(batches)

    def space(
        self,
        setting: str | None = None,
        knobs: Knobs | None = None,
        *,
        etas: tuple[float, float] = (1e-4, 1e-1),
        sizes: Sequence[int] = (),
    ) -> Space:
        from everlearn.recipes.slot_space import SlotSpace

        return SlotSpace(self.made(setting, knobs), etas, sizes, fixed=knobs or {}, searched=self.searched)


def slot_knobs(slots: "Slots", own: "Slots | None") -> dict[str, Any]:
    """All knobs of some slots, and the kinds of those that are others than a recipe's own.

    >>> from everlearn.recipes.presets import preset
    >>> slot_knobs(preset("lwf", knobs={"head": "per_task"}), preset("lwf"))["head"]
    'per_task'
    """
    kinds = {
        place: kind
        for place, kind, usual in zip(
            ("head", "regulariser", "memory"), slots.names, own.names if own else [""] * 3, strict=True
        )
        if kind != usual
    }
    return {**kinds, **slots.hyperparameters}
