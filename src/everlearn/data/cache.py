"""Arrays on disk: made once, whole or not at all, and never a pickle."""

import os
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from everlearn._kit import files
from everlearn.data.folder import made, unwritable
from everlearn.data.source import Array
from everlearn.errors import DataError, sentence


def cached(path: str | os.PathLike[str], make: Callable[[], Mapping[str, Array]]) -> dict[str, Array]:
    """The arrays in the file at path; where there is none, make() makes them, and they are written first.

    Two processes that make the same file at once both succeed, and the later file stays.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = cached(f"{folder}/a.npz", lambda: {"x": np.arange(3)})
    ...     again = cached(f"{folder}/a.npz", lambda: {"x": np.zeros(0)})
    >>> first["x"], again["x"]
    (array([0, 1, 2]), array([0, 1, 2]))
    """
    path = Path(path)
    if path.exists():
        return read(path, do="Delete it, and it is made again.")
    arrays = dict(make())
    write(path, arrays)
    return arrays


def read(path: Path, *, do: str) -> dict[str, Array]:
    """All arrays of a .npz file; do: what the user should do when it is damaged."""
    try:
        with open(path, "rb") as raw, np.load(raw, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except FileNotFoundError as error:
        raise DataError(
            sentence("There is no such file", expected="a .npz file", got=path, do="Check the path.")
        ) from error
    except Exception as error:  # numpy, zipfile and zlib have a dozen ways to say that a file is damaged
        raise DataError(
            sentence(
                "This file cannot be read, or is damaged",
                expected="a whole .npz file of plain arrays",
                got=f"{path} ({_reason(error)})",
                do=do,
            )
        ) from error


def _reason(error: Exception) -> str:
    """What an exception says, or its name if it says nothing."""
    return str(error).rstrip(".") or type(error).__name__


def write(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays as an uncompressed .npz file, whole or not at all."""
    with writing(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


@contextmanager
def writing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to, which gets its name only when all is written and safe on disk."""
    made(path.parent)
    try:
        with files.writing(path) as file:
            yield file
    except OSError as error:
        raise unwritable(path, error) from error
