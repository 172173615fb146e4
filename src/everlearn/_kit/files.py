"""Files that are either the old one or the new one, whole, whatever happens."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def writing(path: Path, *, keep: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write to, which gets its name only when all is written and safe on disk.

    keep: a name for the file that was there; killed between the two renamings, that name is the only one.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            os.replace(path, keep)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_atomically(path: Path, data: bytes) -> None:
    """Write a whole file, or leave the old one."""
    with writing(path) as file:
        file.write(data)


def append(path: Path, data: bytes, *, sync: bool = False) -> None:
    """Append, in one write if the disk has room for it; a disk without room is an error, whatever part was written."""
    with open(path, "ab", buffering=0) as file:
        left = memoryview(data)
        while left:
            left = left[file.write(left) :]
        if sync:
            os.fsync(file.fileno())


def keep_whole_lines(path: Path) -> None:
    """Cut off half a last line, which a full disk or a power cut may leave."""
    data = path.read_bytes() if path.exists() else b""
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(path, whole)


def sweep(folder: Path) -> None:
    """Remove what writers that were killed have left; for one who knows that nobody is writing there."""
    for left in folder.glob(".*.tmp"):
        left.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make a new name in a folder survive a power cut, where the system can."""
    with suppress(OSError):  # Windows and some network drives cannot; the file itself is safe
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
