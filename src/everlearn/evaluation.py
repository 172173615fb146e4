"""Arrays in, numbers out."""

from typing import NamedTuple

from torch import Tensor

from everlearn.errors import DataError, sentence


class Accuracy(NamedTuple):
    """The share of patterns classified right, from scores over all rows and from scores over the classes seen."""

    all_rows: float
    seen: float


def accuracy(predicted: Tensor, y: Tensor) -> float:
    """The share of patterns whose predicted class is the true one.

    >>> import torch
    >>> accuracy(torch.tensor([1, 2, 3, 3]), torch.tensor([1, 2, 3, 4]))
    0.75
    """
    if predicted.shape != y.shape or not len(y):
        raise DataError(
            sentence(
                "Predictions and labels do not fit",
                expected="as many labels as predictions, and at least one",
                got=f"{list(predicted.shape)} and {list(y.shape)}",
                do="Give one label a pattern.",
            )
        )
    return float((predicted == y).double().mean())
