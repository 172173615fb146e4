"""A training batch B_i, checked at the door, in whatever form it is given."""

import copy
import hashlib
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise
from numbers import Number
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, default_collate

from everlearn.data.source import Patterns, Source
from everlearn.errors import DataError, EverlearnError, sentence

Array = Tensor | NDArray[Any] | Sequence[Any]
"""Patterns or labels as they may be given: a tensor, an array, or lists."""

CLASSES = "integers from 0 up, strings or other hashable classes"


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
            raise _empty()

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
        return _from_loader(value)
    if type(value) is TensorDataset and len(value.tensors) == 2:
        return Batch(*value.tensors)
    if isinstance(value, Dataset):
        return _from_dataset(value)
    if _is_pair(value) and all(_is_array(part) for part in value) and not _is_items(value):
        return Batch(*value)
    raise _no_batch(value)


# Patterns


def check_patterns(x: Array) -> Tensor:
    """Patterns as a tensor; refuses other dtypes and values that are not finite.

    Args:
        x: patterns as `Batch` takes them.

    Returns:
        A float32 or uint8 tensor [n, …], which shares the memory of x where it can.

    >>> check_patterns(np.zeros((2, 4), dtype="float64")).dtype
    torch.float32
    """
    if isinstance(x, list | tuple):
        given = _stacked([_tensor(pattern, f"Pattern {k}") for k, pattern in enumerate(x)], "pattern")
    else:
        given = _tensor(x, "The patterns")
    if not given.is_floating_point() and given.dtype != torch.uint8:
        floats, bytes_ = ("x.float()", "x.byte()") if isinstance(x, Tensor) else _casts("float32", "uint8")
        integers = not given.is_complex() and given.dtype != torch.bool
        raise DataError(
            sentence(
                "The patterns have the wrong dtype",
                expected="float32, or uint8 for a network that normalises",
                got=given.dtype,
                do=f"Use {floats}, or {bytes_} for pixels from 0 to 255." if integers else f"Use {floats}.",
            )
        )
    if given.ndim < 2:
        raise DataError(
            sentence(
                "The patterns have the wrong shape",
                expected="[patterns, …]",
                got=list(given.shape),
                do="Add a leading dimension: x[None] for a single pattern.",
            )
        )
    patterns = given.float() if given.is_floating_point() else given
    if patterns.is_floating_point() and not torch.isfinite(patterns).all():
        bad = int((~torch.isfinite(patterns.flatten(1)).all(dim=1)).nonzero()[0])
        if torch.isfinite(given[bad]).all():
            raise DataError(
                sentence(
                    "The patterns are too large for float32",
                    expected=f"values up to {torch.finfo(torch.float32).max:.1e}",
                    got=f"{float(given[bad].abs().max()):.1e} in pattern {bad}",
                    do="Scale them first, e.g. with x / abs(x).max().",
                )
            )
        raise DataError(
            sentence(
                "The patterns hold NaN or infinite values",
                expected="finite values",
                got=f"the first bad one in pattern {bad}",
                do="Mend or drop these patterns.",
            )
        )
    return patterns


def _casts(*dtypes: str) -> tuple[str, ...]:
    return tuple(f"x.astype('{dtype}')" for dtype in dtypes)


def _is_array(value: Any) -> bool:
    """Whether this can hold patterns or labels. Tensors and pandas columns have `__array__` too."""
    return hasattr(value, "__array__") or (isinstance(value, Sequence) and not isinstance(value, str | bytes))


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2


def _is_items(value: Any) -> bool:
    """Whether this is a list of items (x, y), each with one label, and not x beside y."""
    return (
        isinstance(value, list | tuple)
        and len(value) > 0
        and all(_is_pair(part) and _is_array(part[0]) and not _is_array(part[1]) for part in value)
    )


def _tensor(value: Any, name: str) -> Tensor:
    """What is called `name` as a tensor of its own dtype; numbers in lists have none, and become float64."""
    if isinstance(value, Tensor):
        return value.detach()
    if not _is_array(value) and not isinstance(value, Number):
        raise DataError(
            sentence(
                f"{name} cannot be read",
                expected="tensors, arrays or lists of numbers",
                got=type(value).__name__,
                do="Convert images first, e.g. with transform=torchvision.transforms.ToTensor().",
            )
        )
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise DataError(
            sentence(f"{name} cannot be read", expected="rows of one length", got=error, do="Give one shape.")
        ) from error
    if not hasattr(value, "__array__") and array.dtype.kind in "iu" and array.dtype != np.uint8:
        array = array.astype("float64")
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    try:
        tensor: Tensor = torch.from_numpy(array)
    except TypeError as error:
        raise DataError(
            sentence(
                f"{name} have a dtype that cannot be read" if name == "The patterns" else f"{name} cannot be read",
                expected="numbers",
                got=array.dtype,
                do="Convert them first, e.g. with x.astype('float32').",
            )
        ) from error
    return tensor


def _stacked(parts: list[Tensor], what: str) -> Tensor:
    """One tensor of many patterns, each of them called `what`."""
    if not parts:
        raise _empty()
    _check_alike(parts, what, 0)
    return torch.stack(parts)


def _check_alike(parts: list[Tensor], what: str, start: int) -> None:
    """Refuse parts that differ in dtype, or in shape from dimension `start` on."""
    shape, dtype = parts[0].shape[start:], parts[0].dtype
    for k, part in enumerate(parts):
        if part.shape[start:] != shape:
            raise DataError(
                sentence(
                    "The patterns differ in shape",
                    expected=f"{list(shape)} as in {what} 0",
                    got=f"{list(part.shape[start:])} in {what} {k}",
                    do="Resize or crop them to one shape.",
                )
            )
        if part.dtype != dtype:
            raise DataError(
                sentence(
                    "The patterns differ in dtype",
                    expected=f"{dtype} as in {what} 0",
                    got=f"{part.dtype} in {what} {k}",
                    do="Convert them to one dtype.",
                )
            )


# Labels


def check_labels(y: Array) -> tuple[Tensor, tuple[Hashable, ...] | None]:
    """Class numbers as int64, and what they stand for where that is not integers from 0 up.

    Args:
        y: one class for each pattern, as `Batch` takes them.

    Returns:
        The class numbers and None; or places and the distinct labels that they are places in.

    >>> check_labels(np.array([1, 2], dtype="uint8"))
    (tensor([1, 2]), None)
    >>> check_labels(["dog", "cat", "dog"])
    (tensor([1, 0, 1]), ('cat', 'dog'))
    """
    if isinstance(y, list | tuple | range):
        return _from_labels(y)
    if not _is_array(y):
        raise DataError(
            sentence(
                "The labels cannot be read",
                expected="a tensor, an array or a list with one class for each pattern",
                got=type(y).__name__,
                do="Use list(y).",
            )
        )
    array = y.detach() if isinstance(y, Tensor) else np.asarray(y)
    if array.ndim != 1:
        raise DataError(
            sentence(
                "The labels have the wrong shape",
                expected="[patterns]",
                got=list(array.shape),
                do="Give one class a pattern: use y.argmax(1) for one-hot rows, y.ravel() for a column.",
            )
        )
    if isinstance(array, np.ndarray) and array.dtype.kind not in "biufc":
        return _from_labels(array)
    given = array if isinstance(array, Tensor) else _tensor(array, "The labels")
    if len(given) and (given.is_floating_point() or given.is_complex() or given.dtype == torch.bool):
        if given.isnan().any():
            raise _missing_label("nan", int(given.isnan().nonzero()[0]))
        raise _wrong_kind(array.dtype, given.tolist(), "y.long()" if array is given else "y.astype('int64')")
    numbers = given.long()
    if len(numbers) and int(numbers.min()) < 0:
        raise _out_of_range(int(given[int(numbers.argmin())].item()))
    return numbers, None


def _from_labels(given: Any) -> tuple[Tensor, tuple[Hashable, ...] | None]:
    """As `check_labels`, one label by one."""
    labels = [_plain(label) for label in given]
    for k, label in enumerate(labels):
        _check_label(label, k)
    if quantities := [label for label in labels if _is_quantity(label)]:
        raise _wrong_kind(type(quantities[0]).__name__, quantities, "[int(label) for label in y]")
    integers = [label for label in labels if isinstance(label, int)]
    if len(integers) == len(labels):
        if bad := [number for number in integers if not 0 <= number < 2**63]:
            raise _out_of_range(bad[0])
        return torch.tensor([int(number) for number in integers], dtype=torch.long), None
    if integers:
        other = next(label for label in labels if not isinstance(label, int))
        raise DataError(
            sentence(
                "The labels mix integers with other classes",
                expected="one kind",
                got=f"{integers[0]!r} and {other!r}",
                do="Use [str(label) for label in y].",
            )
        )
    distinct = _ordered(list(dict.fromkeys(labels)))
    places = {label: place for place, label in enumerate(distinct)}
    return torch.tensor([places[label] for label in labels], dtype=torch.long), tuple(distinct)


def _plain(label: Any) -> Any:
    """A label as Python's own value, so that it equals itself wherever it comes from."""
    if isinstance(label, Tensor | np.ndarray):
        return label.item() if label.ndim == 0 else label
    if isinstance(label, np.generic) and label.dtype.kind not in "mM":  # a date in ns would become an integer
        return label.item()
    return tuple(_plain(part) for part in label) if type(label) is tuple else label


def _check_label(label: Any, k: int) -> None:
    try:
        hash(label)
        hashable = not isinstance(label, Tensor)  # which is hashed by its place in memory
    except TypeError:
        hashable = False
    if not hashable:
        raise DataError(
            sentence(
                "A label cannot be a class",
                expected=CLASSES,
                got=f"{type(label).__name__} for pattern {k}",
                do="Give one class a pattern: tuple(label) for a class of several parts, "
                "the place of the 1 for one-hot rows.",
            )
        )
    if _is_missing(label):
        raise _missing_label(label, k)


def _is_quantity(label: Any) -> bool:
    return isinstance(label, bool) or (isinstance(label, Number) and not isinstance(label, int))


def _is_missing(label: Any) -> bool:
    """None, NaN and the like, which are not equal to themselves; also NaN within a tuple."""
    if isinstance(label, tuple):
        return any(part is not None and _is_missing(part) for part in label)
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas.NA does not say
        return True


def _ordered(distinct: list[Any]) -> list[Any]:
    """Labels sorted, where each is less than the next; else as they are (enums, sets, classes of several types)."""
    try:
        ordered = sorted(distinct)
        return ordered if all(a < b for a, b in pairwise(ordered)) else distinct
    except TypeError:
        return distinct


def _missing_label(label: object, k: int) -> DataError:
    return DataError(
        sentence(
            "A label is missing",
            expected="a class for each pattern",
            got=f"{label} for pattern {k}",
            do="Label these patterns or drop them.",
        )
    )


def _wrong_kind(kind: object, labels: list[Any], cast: str) -> DataError:
    fractions = [label for label in labels if not (isinstance(label, bool | float) and label == label // 1)]
    return DataError(
        sentence(
            f"Labels are {kind}",
            expected=CLASSES,
            got=(fractions or labels)[0],
            do="Turn quantities into classes first." if fractions else f"Use {cast}.",
        )
    )


def _out_of_range(number: int) -> DataError:
    return DataError(
        sentence(
            "A label is out of range",
            expected="0 or more" if number < 0 else "less than 2**63",
            got=number,
            do="Number the classes from 0 up.",
        )
    )


# Other forms


def _from_dataset(dataset: Dataset[Any]) -> Batch:
    """A batch from items (x, y), from the first to the last."""
    if isinstance(dataset, IterableDataset):
        items = iter(dataset)
    elif hasattr(dataset, "__len__"):
        items = (dataset[k] for k in range(len(dataset)))
    else:
        raise DataError(
            sentence(
                "The dataset has no length",
                expected="__len__ and __getitem__",
                got=type(dataset).__name__,
                do="Give it a __len__, or derive it from IterableDataset.",
            )
        )
    x: list[Tensor] = []
    y: list[Any] = []
    for pattern, label in _pairs(items, "item"):
        x.append(_tensor(pattern, f"Item {len(x)}"))
        y.append(label)
    return Batch(_stacked(x, "item"), y)


def _from_loader(loader: DataLoader[Any]) -> Batch:
    """A batch from minibatches (x, y), one after the other."""
    x: list[Tensor] = []
    y: list[Any] = []
    for patterns, given in _pairs(iter(loader), "minibatch"):
        labels = _uncollated(given) if loader.collate_fn is default_collate else given
        name = f"Minibatch {len(x)}"
        x.append(_tensor(patterns, name))
        sized = _is_array(labels) and getattr(labels, "ndim", 1) > 0 and x[-1].ndim > 0
        if not sized or len(labels) != len(x[-1]):
            raise DataError(
                sentence(
                    f"{name} has not one label for each pattern",
                    expected="patterns [n, …] and n labels",
                    got=f"patterns {list(x[-1].shape)} and {len(labels) if sized else 'one label'}",
                    do="Give the DataLoader a batch_size, or mend its collate_fn.",
                )
            )
        y.append(labels)
    if not x:
        raise _empty()
    _check_alike(x, "minibatch", 1)
    if all(isinstance(labels, Tensor) for labels in y):
        return Batch(torch.cat(x), torch.cat(y))
    return Batch(torch.cat(x), [label for labels in y for label in labels])


def _uncollated(labels: Any) -> Any:
    """Labels of several parts, which PyTorch collates part by part: [first parts, second parts, …]."""
    if not isinstance(labels, list) and not hasattr(labels, "_fields"):
        return labels
    parts = [_uncollated(part) for part in labels]
    rows = zip(*(part.tolist() if isinstance(part, Tensor) else part for part in parts), strict=True)
    return list(rows) if isinstance(labels, list) else [type(labels)(*row) for row in rows]


def _pairs(items: Iterator[Any], what: str) -> Iterator[tuple[Any, Any]]:
    """Pairs, each of them called `what`; what goes wrong is told with its place."""
    for k in count():
        try:
            item = next(items)
        except StopIteration:
            return
        except (EverlearnError, MemoryError):
            raise
        except Exception as error:
            raise DataError(
                sentence(
                    f"{what.capitalize()} {k} cannot be read",
                    expected="a pair (x, y)",
                    got=f"{type(error).__name__}: {error}",
                    do="Mend the dataset.",
                )
            ) from error
        if not _is_pair(item):
            raise DataError(
                sentence(
                    f"{what.capitalize()} {k} is not a pattern with its label",
                    expected="a pair (x, y)",
                    got=f"{len(item)} values" if isinstance(item, list | tuple) else type(item).__name__,
                    do="Let the dataset return (x, y).",
                )
            )
        yield item[0], item[1]


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
    elif _is_pair(value):
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


def _empty() -> DataError:
    return DataError(sentence("The batch is empty", expected="at least one pattern", got=0, do="Skip empty batches."))
