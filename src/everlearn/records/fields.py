"""Fields of JSON objects, checked where they enter."""

import math
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from everlearn._kit.lines import Json, objects, parsed, whole_lines
from everlearn.errors import DataError, sentence

T = TypeVar("T")


def number(x: Any) -> float:
    """a finite number"""
    if isinstance(x, bool) or not isinstance(x, int | float) or not math.isfinite(x):
        raise TypeError
    return float(x)


def finite(x: Any) -> float | None:
    """a number; one that is not finite counts as none"""
    return number(x) if not isinstance(x, float) or math.isfinite(x) else None


def share(x: Any) -> float:
    """a number from 0 to 1"""
    if not 0 <= number(x) <= 1:
        raise ValueError
    return float(x)


def shares(x: Any) -> tuple[float, ...]:
    """a list of numbers from 0 to 1"""
    return tuple(share(one) for one in _list(x))


def count(x: Any) -> int:
    """a whole number, 0 or more, below 2**53"""
    if isinstance(x, bool) or not isinstance(x, int) or not 0 <= x < 2**53:
        raise TypeError
    return x


def texts(x: Any) -> tuple[str, ...]:
    """a list of texts"""
    return tuple(text(one) for one in _list(x))


def counts(x: Any) -> tuple[int, ...]:
    """a list of whole numbers, 0 or more"""
    return tuple(count(one) for one in _list(x))


def position(x: Any) -> int:
    """a whole number, 1 or more"""
    if count(x) < 1:
        raise ValueError
    return int(x)


def groups(x: Any) -> tuple[tuple[int, ...], ...]:
    """a list of lists of classes"""
    return tuple(counts(one) for one in _list(x))


def text(x: Any) -> str:
    """a text"""
    if not isinstance(x, str):
        raise TypeError
    return x


def matrix(x: Any) -> NDArray[np.int64]:
    """a square list of lists of counts"""
    rows = [_list(row) for row in _list(x)]
    if any(len(row) != len(rows) for row in rows):
        raise ValueError
    array = np.array(rows).reshape(len(rows), len(rows))
    if rows and (not np.issubdtype(array.dtype, np.integer) or array.min() < 0):
        raise TypeError
    return array.astype(np.int64)


def mapping(x: Any) -> Json:
    """a JSON object"""
    if not isinstance(x, dict):
        raise TypeError
    return x


def bytes_by_name(x: Any) -> dict[str, int]:
    """a JSON object of whole numbers"""
    return {name: count(value) for name, value in mapping(x).items()}


def numbers_by_name(x: Any) -> dict[str, float]:
    """a JSON object of finite numbers"""
    return {name: number(value) for name, value in mapping(x).items()}


def _list(x: Any) -> list[Any]:
    if not isinstance(x, list):
        raise TypeError
    return x


class Fields:
    """A JSON object and where it stands, for messages."""

    def __init__(self, data: Mapping[str, Any], where: str) -> None:
        self.data, self.where = data, where

    def need(self, name: str, read: Callable[[Any], T]) -> T:
        """A field that must be there and be right."""
        return self._read(name, read)

    def may(self, name: str, read: Callable[[Any], T], default: T) -> T:
        """A field that may be absent or null, but not wrong."""
        return default if self.data.get(name) is None else self._read(name, read)

    def _read(self, name: str, read: Callable[[Any], T]) -> T:
        try:
            return read(self.data[name])
        except (KeyError, TypeError, ValueError, OverflowError):
            got = reprlib.repr(self.data[name]) if name in self.data else "nothing"
            raise DataError(
                sentence(
                    f"The field {name!r} of {self.where} is wrong",
                    expected=read.__doc__,
                    got=got,
                    do="Repeat the run, or move its folder elsewhere to report on the others.",
                )
            ) from None


def read_object(path: Path, where: str) -> Json:
    """The one JSON object in a file."""
    data = parsed(path.read_bytes())
    if data is None:
        raise _damaged(where)
    return data


def read_objects(path: Path, where: str, *, strict: bool = True) -> list[tuple[Json, str]]:
    """The JSON objects of a file, one a line, each with where it stands. A last line cut short is left out.

    strict: whether another line that cannot be read is an error, or is left out too.
    """
    lines = whole_lines(path.read_bytes())
    found = objects(lines, damaged="refuse" if strict else "skip", error=lambda k: _damaged(f"{where}, line {k},"))
    return [(data, f"{where}, line {k}") for k, data in found]


def _damaged(where: str) -> DataError:
    return DataError(
        sentence(
            f"{where} cannot be read",
            expected="a JSON object",
            got="something else",
            do="Repeat the run, or move its folder elsewhere to report on the others.",
        )
    )
