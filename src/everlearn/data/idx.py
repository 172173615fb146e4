"""MNIST and Fashion-MNIST: 70,000 grey pictures of 28×28 pixels each, in the idx format."""

import gzip
import math
import os
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from everlearn.data.folder import data_folder
from everlearn.data.source import Array, Patterns, Source
from everlearn.errors import DataError, sentence

UINT8 = 8  # the third byte of a file: the only kind of number in these sets
LIMIT = 1 << 31

DIGITS = tuple("0123456789")
CLOTHES = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")


def mnist(folder: str | os.PathLike[str] | None = None) -> Source:
    """MNIST: 60,000 + 10,000 handwritten digits, from four idx files in a folder.

    Args:
        folder: where the files are; by default they are looked for in the data folder, then in the system's.
    """
    return _source("mnist", folder, DIGITS, "Put the four files of MNIST there.")


def fashion_mnist(folder: str | os.PathLike[str] | None = None) -> Source:
    """Fashion-MNIST: 60,000 + 10,000 pieces of clothing, from four idx files in a folder.

    Args:
        folder: where the files are; by default they are looked for in the data folder, then in the system's.
    """
    do = "Put the four files there, or on Debian and Ubuntu run: apt install dataset-fashion-mnist"
    return _source("fashion-mnist", folder, CLOTHES, do)


def places(name: str) -> list[Path]:
    """Where a set is looked for: the data folder, then where the system's packages keep data sets."""
    shared = os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    return [data_folder() / name, *(Path(place, "datasets", name) for place in shared.split(":") if place)]


def _source(name: str, folder: str | os.PathLike[str] | None, classes: tuple[str, ...], do: str) -> Source:
    folders = places(name) if folder is None else [Path(folder)]
    train = _patterns(folders, "train", len(classes), do)
    test = _patterns(folders, "t10k", len(classes), do)
    if train.x.shape[1:] != test.x.shape[1:]:
        raise DataError(
            sentence(
                f"The training and test pictures of {name} differ",
                expected=list(train.x.shape[2:]),
                got=list(test.x.shape[2:]),
                do="Get all four files from one place.",
            )
        )
    return Source(name, train, test, classes)


def _patterns(folders: list[Path], part: str, classes: int, do: str) -> Patterns:
    """One part of a set: its pictures, and as many labels."""
    images = _find(folders, f"{part}-images", "idx3", do)
    labels = _find(folders, f"{part}-labels", "idx1", do)
    x, y = read_idx(images, axes=3), read_idx(labels, axes=1)
    if not 0 < len(x) == len(y) or y.max() >= classes:
        raise DataError(
            sentence(
                f"{labels} does not belong to {images}",
                expected=f"{len(x)} labels below {classes}, and at least one",
                got=f"{len(y)} labels up to {y.max(initial=0)}",
                do="Get both files from one place.",
            )
        )
    return Patterns(x[:, None], y.astype(np.int64))


def _find(folders: list[Path], stem: str, kind: str, do: str) -> Path:
    """The first file that is there under one of its usual names."""
    names = [f"{stem}{dot}{kind}-ubyte{zipped}" for zipped in ("", ".gz") for dot in ("-", ".")]
    for folder in folders:
        for name in names:
            if (folder / name).is_file():
                return folder / name
    raise DataError(
        sentence(
            "A file is missing",
            expected=f"{names[0]} or {names[2]}",
            got=f"none in {' or '.join(map(str, folders))}",
            do=do,
        )
    )


def read_idx(path: str | os.PathLike[str], axes: int) -> Array:
    """The array in an idx file of bytes, gzipped or not: 0, 0, 8, the number of axes, their lengths, the bytes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "labels").write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]))
    ...     read_idx(Path(folder, "labels"), axes=1)
    array([7, 8, 9], dtype=uint8)
    """
    path = Path(path)
    try:
        return _parse(path, axes)
    except DataError:
        raise
    except Exception as error:  # gzip and zlib have many ways to say that a file is damaged
        raise _damaged(path, "a whole file", f"{type(error).__name__}: {error}") from error


def _parse(path: Path, axes: int) -> Array:
    with open(path, "rb") as raw:
        zipped = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        with gzip.GzipFile(fileobj=raw) if zipped else nullcontext(raw) as file:
            magic = file.read(4)
            if magic != bytes([0, 0, UINT8, axes]):
                raise _damaged(path, f"the beginning {bytes([0, 0, UINT8, axes]).hex()}", magic.hex() or "no byte")
            header = file.read(4 * axes)
            if len(header) < 4 * axes:
                raise _damaged(path, f"{axes} lengths", f"{len(header)} bytes of them")
            shape = tuple(int(n) for n in np.frombuffer(header, ">u4"))
            count = math.prod(shape)
            if count > LIMIT:
                raise _damaged(path, f"at most {LIMIT} bytes", f"the shape {list(shape)}")
            content = file.read(count + 1)
    if len(content) != count:
        more = "more" if len(content) > count else f"only {len(content)}"
        raise _damaged(path, f"{count} bytes for the shape {list(shape)}", more)
    return np.frombuffer(content, np.uint8).reshape(shape).copy()


def _damaged(path: Path, expected: str, got: str) -> DataError:
    return DataError(sentence(f"{path} is no such idx file, or damaged", expected=expected, got=got, do="Replace it."))
