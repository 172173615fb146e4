"""What every reader of weights checks, and how it says what is wrong."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from everlearn.errors import DataError, sentence

FETCH = "Fetch the file again from its official address."


def bad_file(path: Path, what: str, *, expected: object, got: object, do: str = FETCH) -> DataError:
    """An error about a file of weights.

    >>> str(bad_file(Path("a.pth"), "tensor 'fc.bias'", expected="finite values", got="NaN", do="Get another."))
    "a.pth: tensor 'fc.bias': expected finite values, got NaN. Get another."
    """
    return DataError(sentence(f"{path}: {what}", expected=expected, got=printable(got), do=do))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors about what came from a file say which.

    >>> with naming(Path("a.pth")):
    ...     raise DataError("These weights do not fit.")
    Traceback (most recent call last):
    everlearn.errors.DataError: a.pth: These weights do not fit.
    """
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def printable(value: object) -> str:
    """A text from a file that may be shown: control characters could make a terminal do things.

    >>> printable("a\\x1b[2Jb")
    'a?[2Jb'
    """
    return "".join(c if c.isprintable() else "?" for c in str(value))


def check_file(path: Path, limit: int | None = None) -> int:
    """The size of a file in bytes; what is not a readable file, or is longer than the limit, is refused."""
    if not path.is_file():
        raise bad_file(path, "there is no such file", expected="a file of weights", got="none", do="Check the path.")
    if not os.access(path, os.R_OK):
        raise bad_file(
            path,
            "the file cannot be opened",
            expected="a file that you may read",
            got="no permission",
            do="Change its permissions.",
        )
    size = path.stat().st_size
    if limit is not None and size > limit:
        raise bad_file(path, "the file is too long", expected=f"at most {limit} bytes", got=size)
    return size


def check_name(path: Path, name: object) -> str:
    """A name that can be shown as it is."""
    if isinstance(name, str) and 0 < len(name) <= 500 and name.isprintable():
        return name
    raise bad_file(path, "a layer's name", expected="up to 500 printable characters", got=ascii(name)[:80])
