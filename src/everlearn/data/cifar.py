"""CIFAR-10 and CIFAR-100: 60,000 colour photographs of 32×32 pixels each."""

import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from everlearn.data import limited_pickle
from everlearn.data.cache import read, write
from everlearn.data.folder import data_folder, locked, made
from everlearn.data.source import Array, Patterns, Source
from everlearn.errors import DataError, sentence

MEMBER_LIMIT = 1 << 28
"""No member that we read is longer than this many bytes; CIFAR-100's is the longest, with 155 MB."""


@dataclass(frozen=True)
class Archive:
    """An official archive: where it is, what it sums up to, and which of its members hold what."""

    name: str
    url: str
    md5: str
    size: int | None
    train: tuple[str, ...]
    test: tuple[str, ...]
    labels: bytes
    classes: tuple[str, ...]


NAMES10 = "airplane automobile bird cat deer dog frog horse ship truck"

NAMES100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""

CIFAR10 = Archive(
    name="cifar10",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
    md5="c58f30108f718f92721af3b95e74349a",
    size=170_498_071,
    train=tuple(f"cifar-10-batches-py/data_batch_{k}" for k in range(1, 6)),
    test=("cifar-10-batches-py/test_batch",),
    labels=b"labels",
    classes=tuple(NAMES10.split()),
)

CIFAR100 = Archive(
    name="cifar100",
    url="https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz",
    md5="eb9058c3a382ffc7106e4002c42a8d85",
    size=169_001_437,
    train=("cifar-100-python/train",),
    test=("cifar-100-python/test",),
    labels=b"fine_labels",
    classes=tuple(NAMES100.split()),
)


def cifar10(archive: Archive = CIFAR10) -> Source:
    """CIFAR-10: 50,000 + 10,000 patterns of 10 classes; fetched once (170 MB) if they are not in the data folder.

    Args:
        archive: where it is fetched from, and what it must hold; by default the official one.
    """
    return _source(archive)


def cifar100(archive: Archive = CIFAR100) -> Source:
    """CIFAR-100: 50,000 + 10,000 patterns of 100 classes; fetched once (169 MB) if they are not in the data folder.

    Args:
        archive: where it is fetched from, and what it must hold; by default the official one.
    """
    return _source(archive)


def _source(archive: Archive) -> Source:
    """The arrays in the data folder, put there from the archive if need be."""
    folder = made(data_folder() / archive.name)
    paths = [folder / "train.npz", folder / "test.npz"]
    if not all(path.exists() for path in paths):
        with locked(folder / ".lock"):
            if not all(path.exists() for path in paths):
                _convert(archive, *paths)
    train, test = (_patterns(path, len(archive.classes)) for path in paths)
    return Source(archive.name, train, test, archive.classes)


def _patterns(path: Path, classes: int) -> Patterns:
    """Patterns from x uint8 [n, 32, 32, 3] and y int64, exactly."""
    do = "Delete it, and it is made again from the official archive."
    arrays = read(path, do=do)
    x, y = arrays.get("x", np.zeros(0)), arrays.get("y", np.zeros(0))
    fits = x.dtype == np.uint8 and y.dtype == np.int64 and x.shape == (len(y), 32, 32, 3) and y.shape == (len(x),)
    if not (fits and len(y) and 0 <= y.min() <= y.max() < classes):
        raise DataError(
            sentence(
                f"{path} holds something else",
                expected=f"x uint8[n, 32, 32, 3] and y int64[n] below {classes}",
                got=", ".join(f"{name} {array.dtype}{list(array.shape)}" for name, array in arrays.items()),
                do=do,
            )
        )
    return Patterns(np.ascontiguousarray(x.transpose(0, 3, 1, 2)), y)


def _convert(archive: Archive, train: Path, test: Path) -> None:
    """Fetch the archive, write its arrays, and remove it."""
    from everlearn.data.download import download  # httpx is slow to import, and seldom needed

    path = train.parent / archive.url.rpartition("/")[2]
    download(archive.url, path, md5=archive.md5, size=archive.size)
    members = _members(path, archive.train + archive.test)
    for target, names in ((train, archive.train), (test, archive.test)):
        parts = [_rows(members[name], archive.labels, f"{path}:{name}") for name in names]
        write(target, {"x": np.concatenate([x for x, _ in parts]), "y": np.concatenate([y for _, y in parts])})
    path.unlink()


def _members(path: Path, names: tuple[str, ...]) -> dict[str, bytes]:
    """The named members of an archive, read without extracting anything to disk."""
    members: dict[str, bytes] = {}
    do = f"Delete {path}, and it is fetched again."
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                file = archive.extractfile(member) if member.name in names and member.isreg() else None
                if file is not None and member.size <= MEMBER_LIMIT:
                    members[member.name] = file.read()
    except Exception as error:  # tarfile, gzip and zlib have many ways to say that a file is damaged
        raise DataError(
            sentence("This archive cannot be read", expected="a whole .tar.gz", got=f"{path} ({error})", do=do)
        ) from error
    missing = [name for name in names if name not in members]
    if missing:
        raise DataError(
            sentence(f"{path} lacks members", expected=", ".join(names), got=f"none called {missing[0]}", do=do)
        )
    return members


def _rows(content: bytes, labels: bytes, where: str) -> tuple[Array, Array]:
    """Patterns [n, 32, 32, 3] and labels from one member: rows of 1,024 red, 1,024 green and 1,024 blue values."""
    rows = limited_pickle.load(content, limited_pickle.CIFAR, encoding="bytes")
    data: Any = rows.get(b"data") if isinstance(rows, dict) else None
    y: Any = rows.get(labels) if isinstance(rows, dict) else None
    fits = isinstance(data, np.ndarray) and isinstance(y, list) and all(type(label) is int for label in y)
    if not fits or data.dtype != np.uint8 or data.shape != (len(y), 3072):
        raise DataError(
            sentence(
                f"{where} holds something else",
                expected=f"data uint8[n, 3072] and a list {labels.decode()} of n numbers",
                got=f"data {getattr(data, 'shape', None)} and {type(y).__name__}",
                do="Get the official archive.",
            )
        )
    return np.asarray(data).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1), np.array(y, dtype=np.int64)
