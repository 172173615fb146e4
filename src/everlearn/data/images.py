"""A folder of images, one subfolder for each class, as a source."""

import hashlib
import json
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from everlearn.data.arrays import named, stratified
from everlearn.data.folder import data_folder
from everlearn.data.mapped import mapped
from everlearn.data.source import Array, Patterns, Source
from everlearn.errors import DataError, sentence

ENDINGS = (".jpg", ".jpeg", ".png", ".bmp", ".webp")
FORMATS = ("JPEG", "PNG", "BMP", "WEBP")  # by content: a file that lies about its kind is no surprise to Pillow
VERSION = 2  # of how images become a cache: older ones are not used

Size = tuple[int, int]


class SpoiltError(DataError):
    """An image is no image: once it is replaced or removed, the folder is another."""


def image_folder(
    path: str | os.PathLike[str],
    *,
    size: Size = (32, 32),
    test: str | os.PathLike[str] | None = None,
    test_share: float = 0.2,
    seed: int = 0,
    workers: int | None = None,
) -> Source:
    """A source from CLASS/*.jpg, jpeg, png, bmp or webp, decoded once into the data folder and mapped from there.

    An image is turned as its EXIF says, made RGB, scaled until it just covers the size, and cut around its centre. The
    test images are in test/CLASS beside train/CLASS; or in a second folder; or else a share of each class. Folders
    inside a class are not read.

    Args:
        path: the folder.
        size: height and width of a pattern.
        test: a second folder with the test images.
        test_share: the share of each class that is tested on, where no test patterns are given.
        seed: of that choice.
        workers: threads that decode; by default one for each processor.
    """
    path = Path(path).resolve()
    _check_size(size)
    parts = _subfolders(path)
    if test is None and {"train", "test"} <= set(parts) and not _images(path / "train") + _images(path / "test"):
        if len(parts) > 2:
            do = 'Name two: image_folder(path / "train", test=path / "val").'
            raise DataError(
                sentence(f"{path} has more than two parts", expected="train and test", got=", ".join(parts), do=do)
            )
        path, test = path / "train", path / "test"
    files, labels = _found(path)
    name = path.parent.name if path.name == "train" else path.name
    if test is None:
        y, _, classes = named(labels, labels, name)
        places = stratified(y, test_share, seed)
        ordered = [files[k] for part in places for k in part.tolist()]  # each part in one piece, to be had without copy
        x = _decoded(path, ordered, size, workers)
        n = len(places[0])
        return Source(name, Patterns(x[:n], y[places[0]]), Patterns(x[n:], y[places[1]]), classes)
    test = Path(test).resolve()
    test_files, test_labels = _found(test)
    y, y_test, classes = named(labels, test_labels, path)
    x, x_test = _decoded(path, files, size, workers), _decoded(test, test_files, size, workers)
    return Source(name, Patterns(x, y), Patterns(x_test, y_test), classes)


def _check_size(size: Size) -> None:
    if len(size) != 2 or not all(isinstance(side, int) and side > 0 for side in size):
        raise DataError(
            sentence("No such size", expected="height and width in pixels", got=size, do="For example, size=(32, 32).")
        )


def _subfolders(folder: Path) -> list[str]:
    """The names of a folder's visible folders, sorted."""
    try:
        return sorted(entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        got = f"{folder} ({error.strerror})"
        raise DataError(
            sentence("This folder cannot be read", expected="a folder of images", got=got, do="Check the path.")
        ) from error


def _images(folder: Path) -> list[Path]:
    """A folder's visible images, sorted."""
    visible = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    return sorted(entry for entry in visible if entry.suffix.lower() in ENDINGS and entry.is_file())


def _found(folder: Path) -> tuple[list[Path], Array]:
    """All images of a folder's classes, and the class name of each."""
    files: list[Path] = []
    labels: list[str] = []
    for name in _subfolders(folder):
        found = _images(folder / name)
        if not found:
            raise _empty(folder / name, f"images ({', '.join(ENDINGS)})")
        files += found
        labels += [name] * len(found)
    if not files:
        raise _empty(folder, "a folder of images for each class")
    return files, np.array(labels)


def _empty(folder: Path, expected: str) -> DataError:
    do = "Add some, or remove the folder; folders inside a class are not read."
    return DataError(sentence(f"{folder} is empty", expected=expected, got="none", do=do))


def _decoded(folder: Path, files: list[Path], size: Size, workers: int | None) -> Array:
    """These images of a folder as [n, 3, height, width], decoded with threads: Pillow lets others run meanwhile."""
    path = data_folder() / "images" / f"{folder.name}-{size[0]}x{size[1]}-{_key(folder, size, files)}.npy"
    pool = ThreadPoolExecutor(workers or os.cpu_count() or 1)

    def rows(start: int, stop: int) -> Iterable[Array]:
        return pool.map(lambda file: decode(file, size), files[start:stop])

    try:
        return mapped(path, (len(files), 3, *size), rows, unit="image", spoilt_by=(SpoiltError,))
    finally:
        pool.shutdown(cancel_futures=True)


def _key(folder: Path, size: Size, files: list[Path]) -> str:
    """What the cached patterns depend on: place, size, order, and each file's name, length and time."""
    stats = [
        (str(file.relative_to(folder)), stat.st_size, stat.st_mtime_ns) for file in files for stat in [file.stat()]
    ]
    return hashlib.sha256(json.dumps([VERSION, str(folder), size, stats]).encode()).hexdigest()[:16]


def decode(path: Path, size: Size) -> Array:
    """One image as uint8 [3, height, width]."""
    limit = Image.MAX_IMAGE_PIXELS or 0
    try:
        with Image.open(path, formats=FORMATS) as image:
            if image.width * image.height > limit > 0:
                raise ValueError(f"{image.width}×{image.height} pixels, more than {limit}")
            if image.mode[0] in "IF":
                raise ValueError(f"mode {image.mode}, more than 8 bits a channel")
            ImageOps.exif_transpose(image, in_place=True)  # without a copy of what is upright already
            opaque = image.convert("RGBA") if "transparency" in image.info else image
            rgb = opaque if opaque.mode == "RGB" else opaque.convert("RGB")
            fitted = ImageOps.fit(rgb, (size[1], size[0]), Image.Resampling.BICUBIC)
    except Exception as error:  # Pillow has many ways to say that an image is damaged
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno is not None):
            raise DataError(
                sentence(
                    "An image could not be read this time",
                    expected="files that can be opened, and memory to decode them in",
                    got=f"{path} ({str(error) or type(error).__name__})",
                    do="Check the drive and the rights; the same call again goes on with what was decoded.",
                )
            ) from error
        raise SpoiltError(
            sentence(
                "This image cannot be read",
                expected=f"a whole JPEG, PNG, BMP or WebP image of 8 bits a channel and at most {limit} pixels",
                got=f"{path} ({error})",
                do="Replace it, or remove it.",
            )
        ) from error
    return np.ascontiguousarray(np.asarray(fitted).transpose(2, 0, 1))
