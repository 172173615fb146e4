"""A training batch B_i, checked at the door."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from everlearn.errors import DataError, sentence

Array = Tensor | NDArray[Any]

PATTERN_DTYPES = (torch.float32, torch.uint8)


@dataclass(frozen=True, eq=False, init=False)
class Batch:
    """B_i: n_i patterns and their classes.

    x: patterns [n_i, …], float32 or uint8; y: classes [n_i], integers from 0 up. NumPy arrays are taken too.

    >>> batch = Batch(torch.zeros(3, 1, 8, 8), torch.tensor([4, 4, 7]))
    >>> len(batch), batch.classes
    (3, [4, 7])
    """

    x: Tensor
    y: Tensor

    def __init__(self, x: Array, y: Array) -> None:
        object.__setattr__(self, "x", check_patterns(x))
        object.__setattr__(self, "y", check_labels(y))
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
            raise DataError(
                sentence("The batch is empty", expected="at least one pattern", got=0, do="Skip empty batches.")
            )

    def __len__(self) -> int:
        return len(self.y)

    @property
    def fingerprint(self) -> str:
        """Tells one batch from another: its shape, and a digest of all its labels and patterns."""
        digest = hashlib.blake2b(self.y.cpu().numpy().tobytes(), digest_size=8)
        for part in self.x.split(1024):
            digest.update(part.cpu().contiguous().numpy().data)
        return f"{list(self.x.shape)} {digest.hexdigest()}"

    @property
    def classes(self) -> list[int]:
        """The classes in this batch, ascending."""
        return list(self.counts)

    @property
    def counts(self) -> dict[int, int]:
        """The patterns of each class, classes ascending.

        >>> Batch(torch.zeros(3, 1, 8, 8), torch.tensor([7, 4, 7])).counts
        {4: 1, 7: 2}
        """
        classes, counts = self.y.unique(return_counts=True)
        return dict(zip(classes.tolist(), counts.tolist(), strict=True))


def _tensor(value: Any, what: str) -> Tensor:
    if isinstance(value, np.ndarray):
        try:
            tensor: Tensor = torch.from_numpy(value if value.flags.writeable else value.copy())
            return tensor
        except TypeError as error:
            raise DataError(
                sentence(
                    f"The {what} have a dtype that cannot be read",
                    expected="a numeric array",
                    got=value.dtype,
                    do="Convert them first.",
                )
            ) from error
    if isinstance(value, Tensor):
        return value.detach()
    raise DataError(
        sentence(
            f"The {what} are of a type that cannot be read",
            expected="a torch.Tensor or a NumPy array",
            got=type(value).__name__,
            do="Convert them first.",
        )
    )


def check_patterns(x: Array) -> Tensor:
    """Patterns as a tensor; refuses other dtypes and values that are not finite.

    >>> check_patterns(np.zeros((2, 4), dtype="float32")).shape
    torch.Size([2, 4])
    """
    patterns = _tensor(x, "patterns")
    if patterns.dtype not in PATTERN_DTYPES:
        raise DataError(
            sentence(
                "The patterns have the wrong dtype",
                expected="float32, or uint8 for a network that normalises",
                got=patterns.dtype,
                do='Convert them first, e.g. with x.float() or x.astype("float32").',
            )
        )
    if patterns.ndim < 2:
        raise DataError(
            sentence(
                "The patterns have the wrong shape",
                expected="[patterns, …]",
                got=list(patterns.shape),
                do="Add a leading dimension: x[None] for a single pattern.",
            )
        )
    if patterns.is_floating_point() and not torch.isfinite(patterns).all():
        bad = int((~torch.isfinite(patterns.flatten(1)).all(dim=1)).nonzero()[0])
        raise DataError(
            sentence(
                "The patterns hold NaN or infinite values",
                expected="finite values",
                got=f"the first bad one in pattern {bad}",
                do="Mend or drop these patterns.",
            )
        )
    return patterns


def check_labels(y: Array) -> Tensor:
    """Labels as int64; refuses fractions and negative classes.

    >>> check_labels(np.array([1, 2], dtype="uint8"))
    tensor([1, 2])
    """
    labels = _tensor(y, "labels")
    if labels.dtype.is_floating_point or labels.dtype.is_complex or labels.dtype == torch.bool:
        raise DataError(
            sentence(
                "The labels have the wrong dtype",
                expected="integers",
                got=labels.dtype,
                do="Convert them first, e.g. with y.long().",
            )
        )
    if labels.ndim != 1:
        raise DataError(
            sentence(
                "The labels have the wrong shape",
                expected="[patterns]",
                got=list(labels.shape),
                do="Give one class a pattern, not one-hot rows.",
            )
        )
    labels = labels.long()
    if len(labels) and int(labels.min()) < 0:
        raise DataError(
            sentence(
                "A label is out of range",
                expected="0 or more",
                got=int(labels.min()),
                do="Number the classes from 0 up.",
            )
        )
    return labels


def check_batch(batch: object) -> None:
    """Refuse what is no batch.

    >>> check_batch(([1.0], [0]))
    Traceback (most recent call last):
    everlearn.errors.DataError: This is no batch: expected a Batch, got tuple. Pass Batch(x, y).
    """
    if not isinstance(batch, Batch):
        raise DataError(
            sentence("This is no batch", expected="a Batch", got=type(batch).__name__, do="Pass Batch(x, y).")
        )
