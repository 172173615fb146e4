"""A training batch B_i, checked at the door, in whatever form it is given."""

import copy
import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from everlearn.data.classes import check_labels
from everlearn.data.loaders import from_dataset, from_loader, is_pair
from everlearn.data.patterns import Array, check_patterns, is_array, no_patterns
from everlearn.data.source import Patterns, Source
from everlearn.errors import DataError, sentence

__all__ = ["Array", "Batch", "as_batch", "check_labels", "check_patterns"]


@dataclass(frozen=True, eq=False, init=False)
class Batch:
    """B_i: n_i patterns and their classes.

    Attributes:
        x: patterns [n_i, …], float32 or uint8.
        y: int64 [n_i]: the class numbers, or places in `labels`.
        labels: None where classes are integers from 0 up. Else the distinct classes, sorted where they can be sorted,
            in order of first appearance where they cannot.

    Args:
        x: patterns as a tensor, an array, nested lists of numbers, or a list of tensors or arrays. Floats become
            float32, and so do numbers in lists; uint8 stays uint8.
        y: one class for each pattern: integers from 0 up, or strings, tuples, enums, anything hashable.

    >>> batch = Batch(torch.zeros(3, 1, 8, 8), torch.tensor([4, 4, 7]))
    >>> len(batch), batch.classes
    (3, [4, 7])
    >>> batch = Batch([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]], ["dog", "cat", "dog"])
    >>> batch.labels, batch.y
    (('cat', 'dog'), tensor([1, 0, 1]))
    """

    x: Tensor
    y: Tensor
    labels: tuple[Hashable, ...] | None = None

    def __init__(self, x: Array, y: Array) -> None:
        object.__setattr__(self, "x", check_patterns(x))
        numbers, labels = check_labels(y)
        object.__setattr__(self, "y", numbers)
        object.__setattr__(self, "labels", labels)
        if len(self.x) != len(self.y):
            raise DataError(
                sentence(
                    "Patterns and labels do not fit",
                    expected=f"{len(self.x)} labels, one for each pattern",
                    got=len(self.y),
                    do="Give x and y of equal length.",
                )
            )
        if len(self.x) == 0:
            raise no_patterns()

    def __len__(self) -> int:
        return len(self.y)

    @property
    def fingerprint(self) -> str:
        """Tells one batch from another: its shape, and a digest of all its labels and patterns."""
        digest = hashlib.blake2b(self.y.cpu().numpy().tobytes(), digest_size=8)
        for part in self.x.split(1024):
            digest.update(part.cpu().contiguous().numpy().data)
        if self.labels is not None:
            digest.update(repr(self.labels).encode())
        return f"{list(self.x.shape)} {digest.hexdigest()}"

    @property
    def classes(self) -> list[Any]:
        """The classes in this batch: integers ascending, or labels in the order of `labels`."""
        return list(self.counts)

    @property
    def counts(self) -> dict[Any, int]:
        """The patterns of each class, in the order of `classes`.

        >>> Batch(torch.zeros(3, 1, 8, 8), torch.tensor([7, 4, 7])).counts
        {4: 1, 7: 2}
        >>> Batch(torch.zeros(3, 1, 8, 8), ["dog", "cat", "dog"]).counts
        {'cat': 1, 'dog': 2}
        """
        places, counts = (column.tolist() for column in self.y.unique(return_counts=True))
        classes = places if self.labels is None else [self.labels[place] for place in places]
        return dict(zip(classes, counts, strict=True))

    def numbered(self, numbers: Sequence[int]) -> "Batch":
        """The same patterns, with class numbers in place of labels.

        Args:
            numbers: the class number of each of `labels`.

        Returns:
            A batch without labels, which shares x.

        >>> Batch(torch.zeros(3, 1, 8, 8), ["dog", "cat", "dog"]).numbered([5, 2]).y
        tensor([2, 5, 2])
        """
        batch = copy.copy(self)  # x was checked already
        object.__setattr__(batch, "y", torch.tensor(numbers, dtype=torch.long)[self.y])
        object.__setattr__(batch, "labels", None)
        return batch


def as_batch(value: Any) -> Batch:
    """A batch from any form in which one may be given.

    Args:
        value: a `Batch`, which comes back as it is; a pair (x, y), as `Batch` takes them; a `torch.utils.data.Dataset`
            of pairs (x, y), read once from its first item to its last; a `torch.utils.data.DataLoader`, read in one
            pass with its own workers, order and augmentation.

    Returns:
        The batch, checked and whole in memory.

    >>> as_batch(([[0.0, 1.0], [1.0, 0.0]], ["dog", "cat"])).classes
    ['cat', 'dog']
    >>> as_batch(TensorDataset(torch.zeros(3, 4), torch.tensor([2, 0, 2]))).counts
    {0: 1, 2: 2}
    """
    if isinstance(value, Batch):
        return value
    if isinstance(value, DataLoader):
        return Batch(*from_loader(value))
    if type(value) is TensorDataset and len(value.tensors) == 2:
        return Batch(*value.tensors)
    if isinstance(value, Dataset):
        return Batch(*from_dataset(value))
    if is_pair(value) and all(is_array(part) for part in value) and not _is_items(value):
        return Batch(*value)
    raise _no_batch(value)


def _is_items(value: Any) -> bool:
    """Whether this is a list of items (x, y), each with one label, and not x beside y."""
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(is_pair(part) and is_array(part[0]) and not is_array(part[1]) for part in value)
    )


def _no_batch(value: Any) -> DataError:
    got, do = type(value).__name__, "Pass Batch(x, y) or (x, y)."
    if isinstance(value, Source):
        do = "Pass (source.train.x, source.train.y)."
    elif isinstance(value, Patterns):
        do = "Pass (patterns.x, patterns.y)."
    elif isinstance(getattr(value, "source", None), Source):  # a stream
        do = "Pass its batches one by one: for batch in stream."
    elif isinstance(value, list | tuple) and any(isinstance(part, Batch) for part in value):
        got, do = f"{len(value)} batches", "Pass them one by one: for batch in batches."
    elif _is_items(value):
        got, do = f"{got} of items", "Pass tuple(zip(*items))."
    elif is_pair(value):
        got = f"{got} of {type(value[0]).__name__} and {type(value[1]).__name__}"
    elif got == "DataFrame":
        do = "Pass (frame[columns], frame[label]): the columns that hold the pattern, and the one with its class."
    elif isinstance(value, Mapping):
        do = "Pass (data['x'], data['y']), by the names that these have there."
    elif hasattr(value, "__array__"):
        got, do = f"{got} without labels", "Pass (x, y)."
    return DataError(
        sentence("This is no batch", expected="a Batch, a pair (x, y), a Dataset or a DataLoader", got=got, do=do)
    )
