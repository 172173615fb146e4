"""Arrays in, numbers out: confusion matrices, accuracies, transfer and forgetting. No PyTorch here.

R_ij is the accuracy on the test patterns of B_j's classes after B_i has been learnt, and b_j that of the untrained
learner.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import DataError, sentence

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


class Accuracy(NamedTuple):
    """The share of patterns classified right, from scores over all rows and from scores over the classes seen.

    Args:
        all_rows: predicted among all rows of the head.
        seen: predicted among the classes seen so far.
    """

    all_rows: float
    seen: float


def accuracy(predicted: NDArray[Any], y: NDArray[Any]) -> float:
    """The share of patterns whose predicted class is the true one.

    Args:
        predicted: the predicted class of each pattern, [n]; −1 for none.
        y: the true class of each, [n].

    Returns:
        A share from 0 to 1.

    >>> accuracy(np.array([1, 2, 3, 3]), np.array([1, 2, 3, 4]))
    0.75
    """
    _check_fit(predicted, y)
    return float((predicted == y).mean())


def confusion(y: NDArray[Any], predicted: NDArray[Any], order: Sequence[int]) -> Counts:
    """How often class a (row) was taken for class b (column), classes in this order.

    A pattern without a prediction (−1) is in no column, so a row may sum to less than its class has patterns.

    Args:
        y: the true class of each pattern, [n].
        predicted: the predicted class of each, [n].
        order: the class of each row and column.

    Returns:
        Counts, [classes, classes].

    >>> confusion(np.array([7, 7, 2, 2]), np.array([7, 2, 2, -1]), order=[7, 2])
    array([[1, 1],
           [0, 1]])
    """
    _check_fit(predicted, y)
    place = {c: k for k, c in enumerate(order)}
    given = np.isin(predicted, list(order))
    rows, columns = ([place[int(c)] for c in part[given]] for part in (y, predicted))
    counts = np.zeros((len(order), len(order)), dtype=np.int64)
    np.add.at(counts, (rows, columns), 1)
    return counts


def totals(y: NDArray[Any], order: Sequence[int]) -> list[int]:
    """The patterns of each class, classes in this order.

    Args:
        y: the true class of each pattern, [n].
        order: the classes to count, in the order of the result.

    >>> totals(np.array([7, 7, 2]), order=[2, 7])
    [1, 2]
    """
    return [int((y == c).sum()) for c in order]


def accuracy_on(counts: Counts, patterns: Sequence[int], order: Sequence[int], classes: Sequence[int]) -> float:
    """The accuracy on the patterns of these classes, from a confusion matrix and the patterns of each class.

    Args:
        counts: a confusion matrix, [classes, classes]: rows true, columns predicted.
        patterns: the test patterns of each class, in the same order.
        order: the class of each row and column.
        classes: the classes whose patterns count.

    Returns:
        A share from 0 to 1.

    >>> accuracy_on(np.array([[1, 1], [0, 1]]), patterns=[2, 2], order=[7, 2], classes=[7])
    0.5
    """
    rows = [k for k, c in enumerate(order) if c in set(classes)]
    total = sum(patterns[k] for k in rows)
    if not total:
        raise DataError(
            sentence(
                "There is nothing to measure on",
                expected="test patterns of these classes",
                got=f"none of {list(classes)}",
                do="Choose classes that the test set has.",
            )
        )
    return float(counts[rows, rows].sum() / total)


def by_batch(
    counts: Counts, patterns: Sequence[int], order: Sequence[int], batches: Sequence[Sequence[int]]
) -> list[float]:
    """The accuracy on the classes of each batch: a row of R.

    Args:
        counts: a confusion matrix, [classes, classes]: rows true, columns predicted.
        patterns: the test patterns of each class, in the same order.
        order: the class of each row and column.
        batches: the classes of each batch, B_1 first.

    Returns:
        A share from 0 to 1 for each batch.

    >>> by_batch(np.array([[1, 1], [0, 1]]), patterns=[2, 2], order=[7, 2], batches=[[7], [2], [2, 7]])
    [0.5, 0.5, 0.5]
    """
    return [accuracy_on(counts, patterns, order, classes) for classes in batches]


def backward_transfer(R: Floats) -> float | None:
    """The mean over j < i of R_ij − R_jj after the last batch i: what learning more did to old batches.

    Args:
        R: the accuracies R_ij, a row for each batch learnt so far, a column for each batch of the stream.

    Returns:
        None after the first batch, where there is nothing to compare.

    >>> round(backward_transfer(np.array([[0.9, 0.0], [0.5, 0.8]])), 6)  # 0.5 − 0.9
    -0.4
    """
    i = len(R) - 1
    return None if i < 1 else float(np.mean([R[i, j] - R[j, j] for j in range(i)]))


def forward_transfer(R: Floats, b: Floats) -> float | None:
    """The mean over j > 1 of R_{j−1,j} − b_j: what a batch gained before it was learnt, against no learning at all.

    Args:
        R: the accuracies R_ij, a row for each batch learnt so far, a column for each batch of the stream.
        b: the accuracies b_j of the untrained learner, one for each batch of the stream.

    Returns:
        None after the first batch, where there is nothing to compare.

    >>> round(forward_transfer(np.array([[0.9, 0.3], [0.5, 0.8]]), np.array([0.1, 0.1])), 6)  # 0.3 − 0.1
    0.2
    """
    i = len(R) - 1
    return None if i < 1 else float(np.mean([R[j - 1, j] - b[j] for j in range(1, i + 1)]))


def forgetting(R: Floats) -> float | None:
    """The mean over j < i of (the best accuracy that B_j ever had, minus what it has now).

    Args:
        R: the accuracies R_ij, a row for each batch learnt so far, a column for each batch of the stream.

    Returns:
        None after the first batch, where there is nothing to compare.

    >>> round(forgetting(np.array([[0.9, 0.0], [0.5, 0.8]])), 6)
    0.4
    """
    i = len(R) - 1
    return None if i < 1 else float(np.mean([R[:i, j].max() - R[i, j] for j in range(i)]))


def _check_fit(predicted: NDArray[Any], y: NDArray[Any]) -> None:
    if predicted.shape != y.shape or not len(y):
        raise DataError(
            sentence(
                "Predictions and labels do not fit",
                expected="as many labels as predictions, and at least one",
                got=f"{list(predicted.shape)} and {list(y.shape)}",
                do="Give one label a pattern.",
            )
        )
