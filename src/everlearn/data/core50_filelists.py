"""CORe50's official file lists: the frames of each batch of a run, from folders or zips."""

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from everlearn.data.core50 import SITE
from everlearn.data.core50_frames import UNREADABLE, object_of, parse, unreadable
from everlearn.data.core50_protocols import Lists, Protocol
from everlearn.data.source import Array
from everlearn.errors import DataError, sentence

LINE_LIMIT = 1 << 24
"""No file list is longer than this many bytes; that of the whole training set has some 3 MB."""

ARCHIVES = ("batches_filelists", "batches_filelists_NICv2")
"""Where file lists lie, as folders or as zips; or right in the data folder."""


def from_lists(folder: Path, entry: Protocol, run: int) -> Lists | None:
    """The batches of a run by its file lists, None where there are none."""
    wanted = re.compile(rf"(?:.*/)?{entry.lists}/run{run - 1}/train_batch_(\d+)_filelist\.txt")
    found = {int(m[1]): (where, text) for m, where, text in _texts(folder, entry, run, wanted)}
    if not found:
        return None
    if sorted(found) != list(range(entry.batches)):
        missing = sorted(set(range(entry.batches)) - set(found))
        raise DataError(
            sentence(
                f"The file lists of {entry.lists}/run{run - 1} in {folder} are not whole",
                expected=f"train_batch_00 to train_batch_{entry.batches - 1:02d}",
                got=f"{len(found)} lists" + (f", without number {missing[0]}" if missing else ""),
                do="Unpack them again.",
            )
        )
    labels: dict[int, int] = {}
    return [(found[k][0], _frames(*found[k], labels)) for k in sorted(found)]


def _texts(
    folder: Path, entry: Protocol, run: int, wanted: re.Pattern[str]
) -> Iterator[tuple[re.Match[str], str, bytes]]:
    """The lists of the first place that has any: an unpacked folder, or else an archive."""
    for place in (folder, *(folder / name for name in ARCHIVES)):
        paths = sorted((place / entry.lists / f"run{run - 1}").glob("train_batch_*_filelist.txt"))
        if paths:
            for path in paths:
                if match := wanted.fullmatch(path.as_posix()):
                    yield match, str(path), _unpacked(path)
            return
    for path in (folder / f"{name}.zip" for name in ARCHIVES):
        if path.is_file():
            yield from _zipped(path, wanted)


def _unpacked(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return _text(str(path), file)
    except OSError as error:
        raise DataError(
            sentence(
                "This file list cannot be read",
                expected="a file that can be opened",
                got=f"{path} ({error.strerror or error})",
                do="Unpack the official lists again.",
            )
        ) from error


def _zipped(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str, bytes]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if match := wanted.fullmatch(member):
                    where = f"{path}:{member}"
                    with archive.open(member) as file:
                        yield match, where, _text(where, file)
    except DataError:  # a list that is too long
        raise
    except UNREADABLE as error:
        raise unreadable(path, error) from error


def _text(where: str, file: IO[bytes]) -> bytes:
    """All that is in a list; refuses what is too long to be one."""
    text = file.read(LINE_LIMIT + 1)
    if len(text) > LINE_LIMIT:
        raise DataError(
            sentence(
                f"{where} is too long for a file list",
                expected=f"at most {LINE_LIMIT:,} bytes",
                got="more",
                do="Get the official lists again.",
            )
        )
    return text


def _frames(where: str, text: bytes, labels: dict[int, int]) -> Array:
    """The frames of one list, of lines like `s11/o4/C_11_04_000.png 3`; an object has one label in all of a run."""
    frames = []
    for k, line in enumerate(text.decode("ascii", "replace").splitlines(), start=1):
        path, _, label = line.strip().partition(" ")
        if not path:
            continue
        frame = parse(path)
        good = label.strip().isdecimal() and len(label.strip()) < 5
        if frame is None or not good or labels.setdefault(int(object_of(frame)), int(label)) != int(label):
            raise DataError(
                sentence(
                    f"Line {k} of {where} makes no sense",
                    expected="a frame and the label of its object, like s11/o4/C_11_04_000.png 3",
                    got=repr(line[:80]),
                    do="Get the official lists again.",
                )
            )
        frames.append(frame)
    return np.array(frames, dtype=np.int64)


def no_lists(folder: Path, entry: Protocol) -> DataError:
    """That a protocol's lists are not there, and cannot be rebuilt."""
    return DataError(
        sentence(
            f"The orders of {entry.key} are not rebuilt",
            expected=f"{entry.lists}/run0 … run9, batches_filelists_NICv2.zip, or a LUP.pkl that has them, in {folder}",
            got="none of these",
            do=f"Run `everlearn data get core50`, or put {SITE}/data/batches_filelists_NICv2.zip there.",
        )
    )
