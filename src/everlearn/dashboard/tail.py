"""Files that somebody else is writing: whole lines only, each read once, and nothing but regular files."""

import json
import math
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

LONGEST = 64 << 20
"""Bytes of a line beyond which a file counts as damaged."""


def opened(path: Path) -> BinaryIO:
    """A regular file, not a link to one and not a pipe that would never answer."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path.name} is no regular file")
    return file


def parsed(data: bytes) -> dict[str, Any] | None:
    """The JSON object in a line, None where there is none; numbers that are not finite become null.

    >>> parsed(b'{"loss": NaN, "eta": 1e999, "i": 3}'), parsed(b'[1]'), parsed(b'{"i": ')
    ({'loss': None, 'eta': None, 'i': 3}, None, None)
    """
    try:
        found = json.loads(data, parse_constant=lambda _: None, parse_float=_finite)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def last_line(path: Path, block: int = 1 << 15) -> bytes | None:
    """The last whole line of a file, read from its end; None where there is none.

    A last line without its newline is still being written, and is not there yet.
    """
    with opened(path) as file:
        size = file.seek(0, os.SEEK_END)
        while True:
            start = max(0, size - block)
            file.seek(start)
            text = file.read(size - start)
            end = text.rfind(b"\n")
            before = text.rfind(b"\n", 0, max(end, 0))
            if end >= 0 and (before >= 0 or start == 0):
                return text[before + 1 : end]
            if start == 0 or block > LONGEST:
                return None
            block *= 8


class Tail:
    """The lines of a growing file.

    `read` gives the whole lines since the last call, and whether the file began anew: because it shrank, was replaced
    (runs that go on replace theirs), or was written over in place.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.offset = 0
        self._known: tuple[int, int, int] | None = None  # inode, size, time of the last change
        self._end = b""  # the last bytes before offset: another text there is another file

    def read(self) -> tuple[bool, list[bytes]]:
        """Whether it began anew, and the new whole lines; an absent file has none."""
        try:
            file = opened(self.path)
        except OSError:
            anew = self.offset > 0
            self._forget()
            return anew, []
        with file:
            about = os.fstat(file.fileno())
            known = (about.st_ino, about.st_size, about.st_mtime_ns)
            if known == self._known:
                return False, []
            anew = self._known is not None and not self._goes_on(file, known)
            if anew:
                self._forget()
            self._known = known
            file.seek(self.offset)
            text = file.read(known[1] - self.offset)
        whole = text[: text.rfind(b"\n") + 1]
        self.offset += len(whole)
        self._end = (self._end + whole)[-64:]
        return anew, whole.split(b"\n")[:-1]

    def _goes_on(self, file: BinaryIO, now: tuple[int, int, int]) -> bool:
        assert self._known is not None
        if now[0] != self._known[0] or now[1] <= self._known[1]:
            return False
        file.seek(self.offset - len(self._end))
        return file.read(len(self._end)) == self._end

    def _forget(self) -> None:
        self.offset, self._known, self._end = 0, None, b""
