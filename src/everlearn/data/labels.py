"""Which label stands for which class number."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from everlearn.data.batch import Batch
from everlearn.data.classes import check_labels
from everlearn.errors import DataError, StateError, sentence

UNKNOWN = 2**62
"""The number of every label that is not known: no class has it."""

SHOWN = 5  # labels in a repr


@dataclass(frozen=True, init=False, repr=False)
class Labels:
    """Which label stands for which class number; integers from 0 up stand for themselves.

    Labels never change: `grown` gives new ones.

    Attributes:
        known: the label of each class number from 0 up; None while nothing is known, and for integers.
        integers: whether integers were learnt.

    Args:
        known: the labels of the classes 0, 1, …, each of them once; none by default.
        integers: whether integers were learnt already.

    >>> Labels(["dog", "cat"])
    Labels('dog', 'cat')
    >>> Labels(["dog", "cat"]).names([1, 0, 1])
    ['cat', 'dog', 'cat']
    """

    known: tuple[Hashable, ...] | None
    integers: bool

    def __init__(self, known: Sequence[Hashable] | None = None, *, integers: bool = False) -> None:
        numbers, distinct = check_labels([] if known is None else known)
        if known is not None and (distinct is None or len(distinct) < len(known) or integers):
            raise DataError(
                sentence(
                    "These cannot be the labels of classes",
                    expected="labels other than integers, each of them once",
                    got=list(known),
                    do="Leave `known` out where classes are integers, or where there are none yet.",
                )
            )
        object.__setattr__(self, "known", distinct and tuple(distinct[place] for place in numbers.tolist()))
        object.__setattr__(self, "integers", integers)

    def __repr__(self) -> str:
        if self.known is None:
            return f"Labels({'integers=True' if self.integers else ''})"
        more = f", … {len(self.known)} in all" if len(self.known) > SHOWN else ""
        return f"Labels({', '.join(map(repr, self.known[:SHOWN]))}{more})"

    def __deepcopy__(self, memo: dict[int, Any]) -> "Labels":
        return self  # copies of labels might not equal them

    def grown(self, batch: Batch) -> tuple["Labels", Batch]:
        """The labels once this batch is learnt, and the batch with class numbers for y.

        New labels get the next numbers, in the order of `batch.labels`.

        Args:
            batch: the batch to be learnt.

        Returns:
            Labels that know those of the batch too, and the same patterns with class numbers. A batch of integers
            comes back as it is.

        >>> import torch
        >>> labels, batch = Labels(["dog"]).grown(Batch(torch.zeros(3, 4), ["owl", "dog", "cat"]))
        >>> labels, batch.y
        (Labels('dog', 'cat', 'owl'), tensor([2, 0, 1]))
        """
        self._check_kind(batch)
        if batch.labels is None:
            return (self if self.integers else Labels(integers=True)), batch
        numbers = self._numbers()
        new = [label for label in batch.labels if label not in numbers]
        labels = Labels([*numbers, *new]) if new else self
        return labels, labels.encoded(batch)

    def encoded(self, batch: Batch) -> Batch:
        """A batch with class numbers for y, to evaluate on.

        Args:
            batch: patterns with labels, known or not.

        Returns:
            The same patterns with class numbers, `UNKNOWN` for a label that is not known. A batch of integers comes
            back as it is.

        >>> import torch
        >>> Labels(["dog", "cat"]).encoded(Batch(torch.zeros(3, 4), ["cat", "dog", "emu"])).y.tolist()
        [1, 0, 4611686018427387904]
        """
        self._check_kind(batch)
        if batch.labels is None:
            return batch
        numbers = self._numbers()
        return batch.numbered([numbers.get(label, UNKNOWN) for label in batch.labels])

    def names(self, numbers: Sequence[int]) -> list[Any]:
        """The labels of class numbers.

        Args:
            numbers: class numbers, e.g. the rows of an output layer.

        Returns:
            Their labels; the number itself where it has none, and where classes are integers.

        >>> Labels(["dog", "cat"]).names([1, 7])
        ['cat', 7]
        """
        known = self.known or ()
        return [known[number] if 0 <= number < len(known) else number for number in numbers]

    def decode(self, numbers: Tensor) -> Tensor | NDArray[Any]:
        """Predicted class numbers as the labels that were taught.

        Args:
            numbers: class numbers, an integer tensor of any shape.

        Returns:
            The tensor itself where classes are integers. Else a NumPy array of the same shape: of strings where all
            labels are strings, of objects where not.

        >>> import torch
        >>> Labels(["dog", "cat"]).decode(torch.tensor([1, 1, 0]))
        array(['cat', 'cat', 'dog'], dtype='<U3')
        """
        if self.known is None:
            return numbers
        names = self.names(numbers.flatten().tolist())
        # NumPy drops NULs at the end of a string, and would take a tuple for a row.
        strings = all(type(label) is str and not label.endswith("\0") for label in (*self.known, *names))
        array = np.array(names, dtype=str) if strings else np.fromiter(names, dtype=object, count=len(names))
        return array.reshape(tuple(numbers.shape))

    def state(self) -> Any:
        """What `from_state` takes back: None, or a tree of dicts and lists that JSON can hold.

        Returns:
            None while nothing is known. Labels may be strings, and tuples of strings, numbers and None.

        >>> Labels(["dog", ("cat", 3)]).state()
        {'known': ['dog', {'tuple': ['cat', 3]}]}
        """
        if self.known is None:
            return {"integers": True} if self.integers else None
        return {"known": [_to_plain(label, label) for label in self.known]}

    @classmethod
    def from_state(cls, state: Any) -> "Labels":
        """The labels whose `state` this is.

        Args:
            state: what `state` gave, also after a way through JSON.

        Returns:
            Labels that equal them.

        >>> Labels.from_state({"known": ["dog", {"tuple": ["cat", 3]}]})
        Labels('dog', ('cat', 3))
        """
        try:
            if state is None:
                return cls()
            if state == {"integers": True}:
                return cls(integers=True)
            (key,) = state
            if key == "known" and isinstance(state[key], list):
                return cls([_from_plain(label) for label in state[key]])
        except (DataError, TypeError, ValueError, LookupError) as error:
            raise _damaged(state) from error
        raise _damaged(state)

    def _numbers(self) -> dict[Hashable, int]:
        return {label: number for number, label in enumerate(self.known or ())}

    def _check_kind(self, batch: Batch) -> None:
        """Refuse integers after labels, and labels after integers."""
        if batch.labels is None and self.known is not None:
            raise DataError(
                sentence(
                    "The classes are of another kind than those learnt",
                    expected=f"labels like {self.known[0]!r}",
                    got=f"the integer {batch.classes[0]}",
                    do="Pass labels of one kind to a learner, e.g. [names[number] for number in y].",
                )
            )
        if batch.labels is not None and self.integers:
            raise DataError(
                sentence(
                    "The classes are of another kind than those learnt",
                    expected="integers",
                    got=repr(batch.labels[0]),
                    do="Pass labels of one kind to a learner, e.g. [names.index(label) for label in y].",
                )
            )


def _to_plain(part: Any, label: Hashable) -> Any:
    """A label, or a part of one, as JSON can hold it."""
    if part is None or type(part) in (str, int, float, bool):
        return part
    if type(part) is tuple:
        return {"tuple": [_to_plain(inner, label) for inner in part]}
    raise StateError(
        sentence(
            "A label cannot be kept in a file",
            expected="a string, or a tuple of strings and numbers",
            got=repr(label),
            do="Teach strings instead, e.g. str(label), or label.name for an enum.",
        )
    )


def _from_plain(part: Any) -> Any:
    if isinstance(part, dict):
        return tuple(_from_plain(inner) for inner in part["tuple"])
    return part


def _damaged(state: object) -> StateError:
    return StateError(
        sentence(
            "These are not the labels of a learner, or they are damaged",
            expected="what Labels.state gave",
            got=repr(state)[:80],
            do="Use an earlier state.",
        )
    )
