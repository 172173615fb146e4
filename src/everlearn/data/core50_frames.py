"""CORe50's frames by number and by name, and the images of a folder or a zip."""

import json
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from everlearn.data.source import Array
from everlearn.errors import DataError, sentence

SESSIONS, OBJECTS, FRAMES = 11, 50, 300
TEST_SESSIONS = (3, 7, 10)
IMAGE_LIMIT = 1 << 20
"""No image that we read is longer than this many bytes; 128×128 pixels are 49,152 bytes before they are compressed."""

NAME = re.compile(r"(?:.*/)?s(\d{1,2})/o(\d{1,2})/C_(\d\d)_(\d\d)_(\d{3})\.png")


@cache
def protocol() -> Any:
    """Which frames there are, and the orders of the runs, from `core50.json`."""
    return json.loads(files("everlearn.data").joinpath("core50.json").read_text("utf-8"))


def number(session: int, obj: int, frame: int) -> int:
    """One number for a frame: session from 1, object and frame from 0.

    >>> number(11, 3, 0), name(number(11, 3, 0))
    (165900, 's11/o4/C_11_04_000.png')
    """
    return (session * OBJECTS + obj) * FRAMES + frame


def name(k: int) -> str:
    """The official name of frame number k."""
    session, obj, frame = int(session_of(k)), int(object_of(k)) + 1, k % FRAMES
    return f"s{session}/o{obj}/C_{session:02d}_{obj:02d}_{frame:03d}.png"


def session_of(k: Any) -> Any:
    """The sessions of frames."""
    return k // (OBJECTS * FRAMES)


def object_of(k: Any) -> Any:
    """The objects of frames, from 0; five of a category follow each other."""
    return k // FRAMES % OBJECTS


def parse(path: str) -> int | None:
    """The number of the frame with this name, whatever folders it lies in; None for anything else.

    >>> parse("core50_128x128/s1/o2/C_01_02_299.png") == number(1, 1, 299), parse("s1/o2/C_01_03_299.png")
    (True, None)
    """
    match = NAME.fullmatch(path)
    if match is None:
        return None
    session, obj, again, and_again, frame = map(int, match.groups())
    fits = (session, obj) == (again, and_again) and 1 <= session <= SESSIONS and 1 <= obj <= OBJECTS
    return number(session, obj - 1, frame) if fits and frame < FRAMES else None


def official() -> Array:
    """The numbers of all 164,866 frames."""
    begin = protocol()["begin"]
    videos = ((s, o, begin.get(f"s{s}/o{o + 1}", 0)) for s in range(1, SESSIONS + 1) for o in range(OBJECTS))
    return np.concatenate([np.arange(number(s, o, first), number(s, o, FRAMES - 1) + 1) for s, o, first in videos])


def arranged(frames: Iterable[int]) -> tuple[Array, Array]:
    """Training and test frames, each by session and within it by name (o1, o10, o11, …), as the official lists are."""
    numbers = np.fromiter(frames, dtype=np.int64)
    by_name = np.argsort(np.argsort([str(obj + 1) for obj in range(OBJECTS)]))
    numbers = numbers[np.lexsort((numbers % FRAMES, by_name[object_of(numbers)], session_of(numbers)))]
    test = np.isin(session_of(numbers), TEST_SESSIONS)
    return numbers[~test], numbers[test]


def in_words(frames: Iterable[int], *, most: int = 5) -> str:
    """Frames in words: whole sessions, whole videos, single files; not more than so many of them.

    >>> in_words([number(2, 0, 0), number(2, 0, 1)])
    's2/o1/C_02_01_000.png, s2/o1/C_02_01_001.png'
    """
    missing, every = np.array(sorted(frames), dtype=np.int64), official()
    words: list[str] = []
    for part_of, called in ((session_of, "session {}"), (lambda k: k // FRAMES, "video {}")):
        full = Counter(part_of(every).tolist())
        whole = [part for part, count in sorted(Counter(part_of(missing).tolist()).items()) if count == full[part]]
        words += [called.format(_called(part)) for part in whole]
        missing = missing[~np.isin(part_of(missing), whole)]
    words += [name(int(k)) for k in missing]
    more = f" and {len(words) - most} more" if len(words) > most else ""
    return ", ".join(words[:most]) + more


def _called(part: int) -> str:
    return str(part) if part <= SESSIONS else f"s{part // OBJECTS}/o{part % OBJECTS + 1}"


UNREADABLE = (OSError, zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError)
"""What Python raises for a damaged archive, or one that is encrypted or packed in a way unknown."""


def unreadable(archive: Path, error: Exception) -> DataError:
    """That an archive cannot be read."""
    return DataError(
        sentence(
            "This archive cannot be read",
            expected="a whole .zip",
            got=f"{archive} ({error})",
            do="Delete it and fetch it again.",
        )
    )


class Images(Protocol):
    """Where images lie, by frame number."""

    where: Path

    def frames(self) -> Iterator[int]:
        """The numbers of all frames there."""

    def content(self, frame: int) -> bytes:
        """The bytes of a frame's file."""


class Folder:
    """Images in a folder `sS/oO`."""

    def __init__(self, where: Path) -> None:
        self.where = where

    def frames(self) -> Iterator[int]:
        for session in range(1, SESSIONS + 1):
            for obj in range(1, OBJECTS + 1):
                video = self.where / f"s{session}" / f"o{obj}"
                names = (entry.name for entry in video.iterdir()) if video.is_dir() else ()
                yield from (k for k in (parse(f"s{session}/o{obj}/{entry}") for entry in names) if k is not None)

    def content(self, frame: int) -> bytes:
        with open(self.where / name(frame), "rb") as file:
            return file.read(IMAGE_LIMIT + 1)


class Zip:
    """Images in a zip, read without unpacking it."""

    def __init__(self, where: Path) -> None:
        self.where = where
        try:
            self._archive = zipfile.ZipFile(where)
        except UNREADABLE as error:
            raise unreadable(where, error) from error
        parsed = ((parse(member.filename), member) for member in self._archive.infolist())
        self._members = {frame: member for frame, member in parsed if frame is not None}

    def frames(self) -> Iterator[int]:
        return iter(self._members)

    def content(self, frame: int) -> bytes:
        with self._archive.open(self._members[frame]) as file:
            return file.read(IMAGE_LIMIT + 1)


def decode(content: bytes, size: int) -> Array:
    """A frame as uint8 [3, size, size]; raises whatever Pillow finds wrong, and ValueError for another size."""
    if len(content) > IMAGE_LIMIT:
        raise ValueError(f"more than {IMAGE_LIMIT:,} bytes")
    with Image.open(BytesIO(content), formats=("PNG",)) as image:
        if image.size != (size, size) or image.mode != "RGB":
            raise ValueError(f"{image.width}×{image.height} pixels of mode {image.mode}")
        return np.asarray(image).transpose(2, 0, 1)
