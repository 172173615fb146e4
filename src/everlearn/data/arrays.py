"""Arrays of one's own as a source, and what all sources do with labels and shares."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from everlearn.data.cache import read
from everlearn.data.source import Array, Patterns, Source
from everlearn.errors import DataError, sentence

Indices = NDArray[np.int64]
Channels = Literal["first", "last"]

CHANNEL_COUNTS = (1, 2, 3, 4)  # an axis this short is taken for the channels, if no other could be


def npz(
    path: str | os.PathLike[str],
    *,
    test: str | os.PathLike[str] | None = None,
    test_share: float = 0.2,
    seed: int = 0,
    channels: Channels | None = None,
) -> Source:
    """A source from a .npz file of patterns x and labels y.

    x: uint8 or float32, [n, height, width], [n, height, width, channels] or [n, channels, height, width];
    y: integers or strings, one for each pattern. The test patterns are x_test and y_test beside x_train and y_train;
    or x and y of a second file; or else a share of each class.

    Args:
        path: the file.
        test: a second file with the test patterns.
        test_share: the share of each class that is tested on, where no test patterns are given.
        seed: of that choice.
        channels: `first` or `last`, the axis that they are on, where the shape leaves it open.
    """
    path = Path(path)
    arrays = _read(path)
    train = _pair(path, arrays, ("", "_train"), channels)
    if test is not None:
        held_out = _pair(Path(test), _read(Path(test)), ("", "_test"), channels)
    elif "x_test" in arrays:
        held_out = _pair(path, arrays, ("_test",), channels)
    else:
        return split(path.stem, *train, share=test_share, seed=seed)
    y, y_test, classes = named(train[1], held_out[1], path)
    if train[0].shape[1:] != held_out[0].shape[1:] or train[0].dtype != held_out[0].dtype:
        raise DataError(
            sentence(
                f"The training and test patterns of {path} differ",
                expected=f"test patterns {train[0].dtype}{list(train[0].shape[1:])}",
                got=f"{held_out[0].dtype}{list(held_out[0].shape[1:])}",
                do="Prepare both in the same way.",
            )
        )
    return Source(path.stem, Patterns(train[0], y), Patterns(held_out[0], y_test), classes)


def split(name: str, x: Array, labels: Array, *, share: float, seed: int) -> Source:
    """A source whose test patterns are a share of each class.

    >>> split("toy", np.zeros((8, 1, 2, 2), "uint8"), np.array(["b", "a"] * 4), share=0.25, seed=0).classes
    ('a', 'b')
    """
    y, _, classes = named(labels, labels, name)
    train, test = stratified(y, share, seed)
    return Source(name, Patterns(x[train], y[train]), Patterns(x[test], y[test]), classes)


def stratified(y: Array, share: float, seed: int) -> tuple[Indices, Indices]:
    """Where the training and the test patterns are, when the test takes the same share of each class.

    Each class keeps at least one pattern on both sides. The choice depends on the seed, the class and its size only.

    >>> train, test = stratified(np.array([0, 0, 0, 0, 0, 1, 1]), 0.2, seed=0)
    >>> len(train), len(test)
    (5, 2)
    """
    if not 0 < share < 1 or seed < 0:
        got = f"{share} and seed {seed}"
        raise DataError(
            sentence("No such share", expected="0 < share < 1, seed ≥ 0", got=got, do="A fifth is test_share=0.2.")
        )
    chosen = np.zeros(len(y), dtype=bool)
    for c in np.unique(y):
        places = np.flatnonzero(y == c)
        if len(places) < 2:
            raise DataError(
                sentence(
                    f"Class {c} cannot be split into training and test",
                    expected="at least 2 patterns",
                    got=len(places),
                    do="Add patterns to it, leave it out, or give the test patterns yourself.",
                )
            )
        count = min(max(round(share * len(places)), 1), len(places) - 1)
        # RandomState: NumPy has promised that its numbers never change.
        chosen[np.random.RandomState([seed, int(c)]).permutation(places)[:count]] = True
    return np.flatnonzero(~chosen), np.flatnonzero(chosen)


def named(train: Array, test: Array, where: object) -> tuple[Indices, Indices, tuple[str, ...]]:
    """Labels as classes 0 to k−1 in ascending order, and what they were called.

    >>> named(np.array([7, 3, 7]), np.array([3, 7]), "toy")
    (array([1, 0, 1]), array([0, 1]), ('3', '7'))
    """
    names, y = np.unique(train, return_inverse=True)
    differing = sorted(set(names.tolist()) ^ set(np.unique(test).tolist()), key=str)
    if differing:
        raise DataError(
            sentence(
                f"The training and test classes of {where} differ",
                expected="the same classes in both",
                got=f"{_some(differing)} in one only",
                do="Add what is missing, or leave these classes out.",
            )
        )
    classes = tuple(name.decode(errors="replace") if isinstance(name, bytes) else str(name) for name in names.tolist())
    return y.astype(np.int64), np.searchsorted(names, test).astype(np.int64), classes


def _some(values: Sequence[object]) -> str:
    """The first few of many values."""
    return ", ".join(map(repr, values[:5])) + (f" and {len(values) - 5} more" if len(values) > 5 else "")


def _read(path: Path) -> dict[str, Array]:
    return read(path, do="Write it with numpy.savez(path, x=…, y=…), without objects.")


def _pair(
    path: Path, arrays: dict[str, Array], endings: tuple[str, ...], channels: Channels | None
) -> tuple[Array, Array]:
    """Checked patterns and labels: x and y with the first of the endings that there is."""
    for ending in endings:
        if {f"x{ending}", f"y{ending}"} <= set(arrays):
            x = _check_patterns(_channels_first(arrays[f"x{ending}"], channels, path), path)
            _check_labels(arrays[f"y{ending}"], len(x), path)
            return x, arrays[f"y{ending}"]
    expected = " or ".join(f"x{ending} and y{ending}" for ending in endings)
    raise DataError(
        sentence(f"{path} lacks arrays", expected=expected, got=sorted(arrays), do="Name the arrays in numpy.savez.")
    )


def _channels_first(x: Array, channels: Channels | None, path: Path) -> Array:
    """The patterns as [n, channels, height, width]."""
    if x.ndim == 3:
        return x[:, None]
    if x.ndim == 4:
        first, last = (x.shape[axis] in CHANNEL_COUNTS for axis in (1, 3))
        if channels is None and first != last:
            channels = "first" if first else "last"
        if channels is not None:
            return x if channels == "first" else x.transpose(0, 3, 1, 2)
    raise DataError(
        sentence(
            f"The shape of the patterns in {path} is not clear",
            expected="[n, height, width], or 4 axes of which the second or the last counts 1 to 4 channels",
            got=list(x.shape),
            do='Say channels="first" or channels="last", or reshape x.',
        )
    )


def _check_patterns(x: Array, path: Path) -> Array:
    """The patterns in this machine's byte order and one piece, if they can be learnt from."""
    if x.dtype.newbyteorder("=") not in (np.uint8, np.float32) or not x.size:
        raise DataError(
            sentence(
                f"The patterns in {path} cannot be learnt from",
                expected="uint8 or float32, and at least one number",
                got=f"{x.dtype}{list(x.shape)}",
                do='Convert with x.astype("float32").',
            )
        )
    if x.dtype != np.uint8 and not np.isfinite(x).all():
        bad = np.flatnonzero(~np.isfinite(x).all(axis=(1, 2, 3)))
        raise DataError(
            sentence(
                f"The patterns in {path} are not all finite",
                expected="no NaN and no infinity",
                got=f"some in {len(bad)} patterns, the first at {bad[0]}",
                do="Leave these patterns out, or fill the gaps.",
            )
        )
    return np.ascontiguousarray(x, dtype=x.dtype.newbyteorder("="))


def _check_labels(y: Array, count: int, path: Path) -> None:
    if y.ndim != 1 or len(y) != count or y.dtype.kind not in "iuUS":
        raise DataError(
            sentence(
                f"The labels in {path} do not fit",
                expected=f"{count} integers or strings, one for each pattern",
                got=f"{y.dtype}{list(y.shape)}",
                do="Give y one axis, as long as x's first.",
            )
        )
