"""Arrays larger than memory: made chunk by chunk into one file, once, and from then on mapped from it.

While it is made the array is called `NAME.npy.part`; it gets its name `NAME.npy` only when it is whole. Beside it lies
`NAME.npy.sums`, a line of JSON for each finished chunk with its CRC-32. A chunk is written and synced before its line
is, so a process may be killed at any moment: the next one checks the finished chunks and makes only the others.
"""

import mmap
import os
import platform
import shutil
import sys
import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from tqdm import tqdm

from everlearn._kit.files import sync_folder, write_atomically
from everlearn._kit.lines import append_line, line_of, read_lines
from everlearn.data.folder import locked, made, unwritable
from everlearn.data.source import Array
from everlearn.errors import DataError, sentence

CHUNK = 1 << 24
"""About so many bytes are made, synced and summed at a time."""

SAMPLE = 4
"""So many chunks are checked whenever the file is opened and looks untouched."""

NORESERVE = 0x4000 if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64") else 0
"""Linux's MAP_NORESERVE, which Python 3.11 has no name for: a file may be mapped that is longer than memory."""

Shape = tuple[int, ...]
Rows = Callable[[int, int], Iterable[Array]]


def mapped(
    path: Path,
    shape: Shape,
    rows: Rows,
    *,
    unit: str = "row",
    whole: bool = False,
    spoilt_by: tuple[type[Exception], ...] = (),
) -> Array:
    """The uint8 array of this shape in the .npy file at path, mapped into memory; made first where there is none.

    rows(start, stop) makes rows, as an array or one after another; unit: what the progress bar calls one; spoilt_by:
    errors of rows() after which the chunks finished before are of no use. When a file is opened, its length is checked;
    then all its chunks, if its time is another than when they were last all checked, or if `whole` asks for it; else a
    random few of them. Nothing is read but what is checked. The map is private: who writes into it changes no file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     x = mapped(Path(folder, "x.npy"), (3, 2), lambda start, stop: np.full((stop - start, 2), 7, np.uint8))
    ...     x[1:].tolist()
    [[7, 7], [7, 7]]
    """
    file = _File(path, shape)
    if not path.exists():
        made(path.parent)
        with locked(path.with_name(f"{path.name}.lock")):
            if not path.exists():
                _make(file, rows, unit, spoilt_by)
    return _opened(file, whole)


@dataclass(frozen=True)
class _File:
    """Where an array lies, and how it is cut into chunks."""

    path: Path
    shape: Shape

    @property
    def part(self) -> Path:
        """Its name until it is whole."""
        return self.path.with_name(f"{self.path.name}.part")

    @property
    def sums(self) -> Path:
        """A line for each finished chunk."""
        return self.path.with_name(f"{self.path.name}.sums")

    @property
    def header(self) -> bytes:
        """The beginning of a .npy file."""
        out = BytesIO()
        np.lib.format.write_array_header_2_0(out, {"descr": "|u1", "fortran_order": False, "shape": self.shape})
        return out.getvalue()

    @property
    def row(self) -> int:
        """The bytes of a row."""
        return int(np.prod(self.shape[1:]))

    @property
    def size(self) -> int:
        """The bytes of the whole file."""
        return len(self.header) + self.shape[0] * self.row

    @property
    def chunks(self) -> list[tuple[int, int]]:
        """The first row of each chunk, and the row after its last."""
        n, step = self.shape[0], max(1, CHUNK // self.row)
        return [(start, min(start + step, n)) for start in range(0, n, step)]

    @property
    def first_line(self) -> dict[str, Any]:
        """What the sums belong to."""
        return {"shape": list(self.shape), "chunks": len(self.chunks)}

    def sum_of(self, path: Path, k: int) -> int:
        """The CRC-32 of chunk k as it is on disk."""
        start, stop = self.chunks[k]
        with open(path, "rb") as content:
            content.seek(len(self.header) + start * self.row)
            return zlib.crc32(content.read((stop - start) * self.row))


# --- making ------------------------------------------------------------------------------------------


def _make(file: _File, rows: Rows, unit: str, spoilt_by: tuple[type[Exception], ...]) -> None:
    """Make the chunks that are not there yet, and give the file its name."""
    try:
        done = _begin(file)
        missing = [k for k in range(len(file.chunks)) if k not in done]
        _check_room(file, missing)
        _fill(file, rows, missing, unit)
        os.replace(file.part, file.path)
        sync_folder(file.path.parent)
        append_line(file.sums, {"checked": _stamp(file.path)}, sync=True)
    except spoilt_by:
        file.part.unlink(missing_ok=True)
        file.sums.unlink(missing_ok=True)
        raise
    except OSError as error:
        raise unwritable(file.part, error) from error


def _begin(file: _File) -> dict[int, int]:
    """The sums of the chunks that are really there; whatever else an earlier process left is dropped."""
    done: dict[int, int] = {}
    if file.part.exists() and (lines := read_lines(file.sums)) and lines[0] == file.first_line:
        done = {k: crc for k, crc in _finished(lines).items() if file.sum_of(file.part, k) == crc}
    else:
        file.part.write_bytes(file.header)
    lines = [file.first_line, *({"chunk": k, "crc32": crc} for k, crc in done.items())]
    write_atomically(file.sums, b"".join(map(line_of, lines)))
    return done


def _check_room(file: _File, missing: list[int]) -> None:
    """Say at once that the disk is too small, rather than after an hour."""
    need = sum((stop - start) * file.row for start, stop in (file.chunks[k] for k in missing))
    free = shutil.disk_usage(file.part.parent).free
    if need > free:
        raise unwritable(file.part, ValueError(f"{need:,} bytes to write, {free:,} free"))


def _fill(file: _File, rows: Rows, missing: Iterable[int], unit: str) -> None:
    """Make each chunk while the one before it is written; whatever happens, that one is written to its end."""
    left = {k: file.chunks[k] for k in missing}
    n, count = file.shape[0], sum(stop - start for start, stop in left.values())
    with (
        open(file.part, "r+b") as part,
        tqdm(total=n, initial=n - count, unit=unit, desc=file.path.stem, disable=None) as bar,
        ThreadPoolExecutor(1) as writer,
    ):
        written: Future[None] | None = None
        for k, (start, stop) in left.items():
            data = np.empty((stop - start, *file.shape[1:]), dtype=np.uint8)
            for i, row in zip(range(stop - start), rows(start, stop), strict=True):
                data[i] = row
                bar.update()
            if written is not None:
                written.result()
            written = writer.submit(_write, file, part, k, data)
        if written is not None:
            written.result()


def _write(file: _File, part: BinaryIO, k: int, data: Array) -> None:
    """Write and sync a chunk, then its line; so a line is there only if its chunk is."""
    part.seek(len(file.header) + file.chunks[k][0] * file.row)
    part.write(data.data)
    part.flush()
    os.fsync(part.fileno())
    append_line(file.sums, {"chunk": k, "crc32": zlib.crc32(data.data)}, sync=True)


# --- opening -----------------------------------------------------------------------------------------


def _opened(file: _File, whole: bool) -> Array:
    """Map the file, if what is checked of it is as it was made."""
    _check(file, whole)
    try:
        return _map(file.path)[len(file.header) :].reshape(file.shape)
    except OSError as error:
        raise DataError(
            sentence(
                "This file cannot be mapped into memory",
                expected=f"{file.size:,} bytes of address space",
                got=f"{file.path} ({error})",
                do="Allow processes more virtual memory (ulimit -v, vm.overcommit_memory).",
            )
        ) from error


def _map(path: Path) -> Array:
    """The bytes of a file, private: pages come when they are read, and room for them is not set aside before."""
    with open(path, "rb") as content:
        if NORESERVE:
            flags, prot = mmap.MAP_PRIVATE | NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
            return np.frombuffer(mmap.mmap(content.fileno(), 0, flags=flags, prot=prot), np.uint8)
        return np.frombuffer(mmap.mmap(content.fileno(), 0, access=mmap.ACCESS_COPY), np.uint8)


def _check(file: _File, whole: bool) -> None:
    """Check the length and all chunks, or a few of them where nobody has touched the file since all were checked."""
    lines, stamp = read_lines(file.sums), _stamp(file.path)
    sums = _finished(lines)
    if stamp[0] != file.size or lines[:1] != [file.first_line] or len(sums) != len(file.chunks):
        raise _damaged(file, f"{stamp[0]:,} bytes, and sums of {len(sums)} chunks")
    untouched = [line["checked"] for line in lines if "checked" in line][-1:] == [stamp]
    few = np.random.default_rng().permutation(len(sums))[:SAMPLE].tolist()
    for k in few if untouched and not whole else sorted(sums):
        if file.sum_of(file.path, k) != sums[k]:
            start, stop = file.chunks[k]
            raise _damaged(file, f"rows {start} to {stop - 1} with other bytes than were written")
    if not untouched:
        with suppress(OSError):  # where nothing can be written, all is checked again next time
            append_line(file.sums, {"checked": stamp}, sync=True)


def _stamp(path: Path) -> list[int]:
    stat = path.stat()
    return [stat.st_size, stat.st_mtime_ns]


def _damaged(file: _File, got: str) -> DataError:
    return DataError(
        sentence(
            f"{file.path} is damaged",
            expected=f"{file.size:,} bytes with the sums of {file.sums.name}",
            got=got,
            do="Delete it, and it is made again from the images.",
        )
    )


# --- sums --------------------------------------------------------------------------------------------


def _finished(lines: list[dict[str, Any]]) -> dict[int, int]:
    return {line["chunk"]: line["crc32"] for line in lines if "chunk" in line}
