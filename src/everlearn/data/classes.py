"""Classes in whatever form they are given: checked, numbered, and in order."""

from collections.abc import Hashable
from itertools import pairwise
from numbers import Number
from typing import Any

import numpy as np
import torch
from torch import Tensor

from everlearn.data.patterns import Array, as_tensor, is_array
from everlearn.errors import DataError, sentence

CLASSES = "integers from 0 up, strings or other hashable classes"


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
    if not is_array(y):
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
    given = array if isinstance(array, Tensor) else as_tensor(array, "The labels")
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
