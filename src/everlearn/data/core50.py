"""CORe50: 50 objects of 10 categories, a video of each in 11 sessions; 164,866 photographs.

Sessions 3, 7 and 10 are the test set. The images are decoded once, into an array on disk that is mapped into memory.
"""

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from PIL import UnidentifiedImageError

from everlearn.data.core50_frames import (
    TEST_SESSIONS,
    Folder,
    Images,
    Zip,
    arranged,
    decode,
    in_words,
    object_of,
    official,
    session_of,
)
from everlearn.data.core50_frames import name as name_of
from everlearn.data.folder import data_folder, is_locked
from everlearn.data.mapped import Rows, mapped
from everlearn.data.source import Array, Patterns, Source
from everlearn.errors import DataError, sentence

NAMES = "plug_adapter mobile_phone scissor light_bulb can glass ball marker cup remote_control"
CATEGORIES = tuple(NAMES.split())
OBJECT_NAMES = tuple(f"{category}{k}" for category in CATEGORIES for k in range(1, 6))
SIZES = (128, 32)
SITE = "https://vlomonaco.github.io/core50"
VERSION = 1  # of how an image becomes a pattern: older caches are not used

Labels = Literal["object", "category"]


@dataclass(frozen=True, eq=False)
class Core50(Source):
    """CORe50 as a source, with what its protocols need.

    frames: the number of each training frame (`core50_frames.number`); folder: where the official lists are looked for.
    """

    frames: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    folder: Path = Path()

    @property
    def objects(self) -> Array:
        """The object of each training pattern, whatever the classes are."""
        objects: Array = object_of(self.frames)
        return objects


def core50(
    size: int = 128,
    *,
    labels: Labels = "object",
    test_every: int = 1,
    complete: bool = True,
    workers: int | None = None,
    check: bool = False,
) -> Core50:
    """CORe50 from the data folder: 119,894 training and 44,972 test patterns, mapped from a cache on disk.

    `core50/core50_128x128` (a folder) or `core50/core50_128x128.zip` is read there once, and not needed again.
    size: 128, or 32 for `core50_32x32`. labels: the 50 objects, or their 10 categories. test_every: 20 keeps every 20th
    test pattern, which are the 2,249 of the official `test_filelist_reduced.txt`. complete: demand all official
    frames; False takes those that are there. workers: threads that decode, by default one for each processor. check:
    check the whole cache, not only what looks touched.
    """
    _check_choices(size, labels, test_every, workers)
    folder = data_folder() / "core50"
    stem = f"core50_{size}x{size}"
    images = None if complete else _images(folder, stem)
    train, test = arranged(official() if images is None else images.frames())
    if images is not None and not (len(train) and len(test)):
        raise _one_sided(images, len(train), len(test))
    numbers = np.concatenate([train, test])
    key = hashlib.sha256(np.array([VERSION, size, *numbers], dtype="<i8").tobytes()).hexdigest()[:16]
    whole = complete or len(numbers) == len(official())
    path = folder / "cache" / (f"{stem}-{key}.npy" if whole else f"{stem}-some-{key}.npy")
    if images is None and not path.exists():
        images = _images(folder, stem)
        _check_complete(images, numbers)
    with _decoder(images, numbers, size, workers) as rows:
        x = mapped(path, (len(numbers), 3, size, size), rows, unit="image", whole=check)
    if not whole:
        _drop_begun(path.parent, f"{stem}-some-")
    parts = (
        (x[: len(train)], train),
        (x[len(train) :: test_every], test[::test_every]),
    )
    patterns = [Patterns(x, _classes(frames, labels), session_of(frames)) for x, frames in parts]
    classes = OBJECT_NAMES if labels == "object" else CATEGORIES
    return Core50("core50", patterns[0], patterns[1], classes, frames=train, folder=folder)


def _drop_begun(cache: Path, start: str) -> None:
    """Remove caches of some frames that were begun and never ended, since by now there are other frames.

    Caches of all frames are left: who goes on with one needs what is decoded.
    """
    for part in cache.glob(f"{start}*.npy.part"):
        whole = part.with_suffix("")
        if not is_locked(whole.with_name(f"{whole.name}.lock")):
            part.unlink(missing_ok=True)
            whole.with_name(f"{whole.name}.sums").unlink(missing_ok=True)


def _classes(frames: Array, labels: Labels) -> Array:
    classes: Array = object_of(frames) if labels == "object" else object_of(frames) // 5
    return classes


def _check_choices(size: int, labels: str, test_every: int, workers: int | None) -> None:
    choices = (
        ("size", size, size in SIZES, "128 or 32"),
        ("labels", labels, labels in ("object", "category"), '"object" or "category"'),
        ("test_every", test_every, isinstance(test_every, int) and test_every >= 1, "1 or more"),
        ("workers", workers, workers is None or (isinstance(workers, int) and workers >= 1), "1 or more, or None"),
    )
    for called, got, good, expected in choices:
        if not good:
            raise DataError(
                sentence(
                    f"CORe50 cannot be read with this {called}", expected=expected, got=repr(got), do="Choose one."
                )
            )


def _images(folder: Path, stem: str) -> Images:
    """The images of a folder, or else of a zip."""
    if (folder / stem).is_dir():
        return Folder(folder / stem)
    if (folder / f"{stem}.zip").is_file():
        return Zip(folder / f"{stem}.zip")
    raise _absent(folder, stem, f"the folder {stem}, or {stem}.zip", "neither")


def _absent(folder: Path, stem: str, expected: str, got: str) -> DataError:
    fetch = "Run `everlearn data get core50`, or p" if stem == "core50_128x128" else "P"  # only these are fetched
    return DataError(
        sentence(
            f"CORe50's images are not in {folder}",
            expected=expected,
            got=got,
            do=f"{fetch}ut {stem}.zip from {SITE} there by hand; $EVERLEARN_DATA names another place.",
        )
    )


def _one_sided(images: Images, train: int, test: int) -> DataError:
    """That there are no training frames, or no test frames."""
    sessions = ", ".join(map(str, TEST_SESSIONS))
    return DataError(
        sentence(
            f"{images.where} has no frames to {'test' if train else 'train'} with",
            expected=f"some of the test sessions {sessions}, and some of the others",
            got=f"{test} and {train} frames",
            do="Unpack more of CORe50's sessions there.",
        )
    )


def _check_complete(images: Images, wanted: Array) -> None:
    """Refuse a part of CORe50, and say which part is missing."""
    missing = np.setdiff1d(wanted, np.fromiter(images.frames(), dtype=np.int64))
    if len(missing):
        raise DataError(
            sentence(
                f"{images.where} is not all of CORe50",
                expected=f"{len(wanted):,} official frames",
                got=f"{len(wanted) - len(missing):,} of them, without {in_words(missing.tolist())}",
                do="Fetch or unpack it again; in Python, everlearn.data.core50(complete=False) takes what there is.",
            )
        )


@contextmanager
def _decoder(images: Images | None, frames: Array, size: int, workers: int | None) -> Iterator[Rows]:
    """What decodes rows of the cache, with threads: Pillow lets others run while it decodes."""
    pool = ThreadPoolExecutor(workers or os.cpu_count() or 1)

    def one(frame: int) -> Array | str:
        assert images is not None  # a cache that is whole is never made
        try:
            return decode(images.content(frame), size)
        except Exception as error:  # Pillow and zipfile have many ways to say that a file is damaged
            damage = "no PNG image" if isinstance(error, UnidentifiedImageError) else f"{type(error).__name__}: {error}"
            return f"{name_of(frame)} ({damage})"

    def rows(start: int, stop: int) -> Array:
        done = list(pool.map(one, frames[start:stop].tolist()))
        bad = [result for result in done if isinstance(result, str)]
        if bad:
            raise _unreadable(images, bad, size)
        return np.stack([result for result in done if not isinstance(result, str)])

    try:
        yield rows
    finally:
        pool.shutdown(cancel_futures=True)


def _unreadable(images: Images | None, bad: list[str], size: int) -> DataError:
    more = f" and {len(bad) - 5} more" if len(bad) > 5 else ""
    return DataError(
        sentence(
            f"Images in {images and images.where} cannot be read",
            expected=f"whole PNG images of {size}×{size} RGB pixels",
            got=", ".join(bad[:5]) + more,
            do="Replace them; what is already decoded is kept.",
        )
    )
