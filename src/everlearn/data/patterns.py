"""Patterns in whatever form they are given, checked and as one tensor."""

from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from everlearn.errors import DataError, sentence

Array = Tensor | NDArray[Any] | Sequence[Any]
"""Patterns or labels as they may be given: a tensor, an array, or lists."""


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
        given = stacked([as_tensor(pattern, f"Pattern {k}") for k, pattern in enumerate(x)], "pattern")
    else:
        given = as_tensor(x, "The patterns")
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


def is_array(value: Any) -> bool:
    """Whether this can hold patterns or labels. Tensors and pandas columns have `__array__` too."""
    return hasattr(value, "__array__") or (isinstance(value, Sequence) and not isinstance(value, str | bytes))


def as_tensor(value: Any, name: str) -> Tensor:
    """What is called `name` as a tensor of its own dtype; numbers in lists have none, and become float64."""
    if isinstance(value, Tensor):
        return value.detach()
    if not is_array(value) and not isinstance(value, Number):
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


def stacked(parts: list[Tensor], what: str) -> Tensor:
    """One tensor of many patterns, each of them called `what`."""
    if not parts:
        raise no_patterns()
    check_alike(parts, what, 0)
    return torch.stack(parts)


def check_alike(parts: list[Tensor], what: str, start: int) -> None:
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


def no_patterns() -> DataError:
    """Says that there is nothing to learn from."""
    return DataError(sentence("The batch is empty", expected="at least one pattern", got=0, do="Skip empty batches."))
