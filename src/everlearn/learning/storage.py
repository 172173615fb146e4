"""The storage ledger: what the paper says a strategy keeps, beside what it really holds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

from torch import Tensor

WHY = {
    "network": "the model itself; the paper's overheads come on top of it",
    "sgd.v": "SGD's momentum, which plain training has too",
    "sgd.grad": "SGD's gradient, which plain training has too",
    "features": "what a frozen trunk gives for B_i, computed once",
    "initial": "the initial weights and statistics, to learn each time from them",
    "before": "weights, momentum and statistics as they were before the batch, so that a failed batch leaves no trace, "
    "and to answer from while it is learnt",
    "state": "everything that the learner keeps",
}
"""Names that a ledger can have whatever the slots, and what each is. Slots say it of their fields in `why`."""


@dataclass(frozen=True)
class Kept:
    """So many values, in so many bytes."""

    values: int
    bytes: int


@dataclass(frozen=True)
class Ledger:
    """What one learner stores.

    formula, paper: the paper's formula and its value for this learner, in values. kept: held between batches now.
    within: held at the end of the last batch's training, just before it was consolidated (what one step holds, such as
    activations, and B_i itself are not counted). why: what each name is, and how it differs from the formula.
    """

    formula: str
    paper: int
    kept: dict[str, Kept]
    within: dict[str, Kept]
    words: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def why(self) -> dict[str, str]:
        """What each name is; of a slot that does not say, its field's name stands for it."""
        known = {**WHY, **self.words}
        return {name: known.get(name, name) for name in {**self.kept, **self.within}}


def measure(owners: dict[str, Any]) -> dict[str, Kept]:
    """Count the tensors held by each owner, by name; a tensor that is a view of another's memory counts once.

    >>> import torch
    >>> measure({"sgd.v": torch.zeros(3)})
    {'sgd.v': Kept(values=3, bytes=12)}
    """
    known: set[int] = set()
    entries: dict[str, Kept] = {}
    for owner, value in owners.items():
        for name, tensor in _tensors(owner, value):
            storage = tensor.untyped_storage()
            if storage.data_ptr() in known or not tensor.numel():
                continue
            known.add(storage.data_ptr())
            values = storage.nbytes() // tensor.element_size()
            before = entries.get(name, Kept(0, 0))
            entries[name] = Kept(before.values + values, before.bytes + storage.nbytes())
    return entries


def _tensors(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """Every tensor in a tree of dataclasses, dicts, lists and tuples, under the name of a slot's field."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(name, part)
    elif isinstance(value, list | tuple):
        for part in () if _of_numbers(value) else value:
            yield from _tensors(name, part)
    elif is_dataclass(value) and not isinstance(value, type):
        for f in sorted(fields(value), key=lambda f: f.name.startswith("_")):  # the kept ones first
            deeper = name if "." in name else f"{name}.{f.name}"
            if hasattr(value, f.name):
                yield from _tensors(deeper, getattr(value, f.name))


def _of_numbers(value: Any) -> bool:
    """Whether a list begins with a number, as lists of classes do: they hold no tensors, and grow with the stream.

    >>> _of_numbers([[1, 2], [3]]), _of_numbers([]), _of_numbers(["a"])
    (True, False, False)
    """
    return isinstance(value, list) and bool(value) and (isinstance(value[0], int) or _of_numbers(value[0]))
