"""Lines of JSON, one object each: how they are written, and how they are read while somebody writes them.

A line is whole when its newline is there. Whoever is killed while writing leaves at most half a last line, and every
reader leaves that out.
"""

import json
import math
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

from everlearn._kit.files import append

Json = dict[str, Any]
Damaged = Literal["stop", "skip", "refuse"]

LONGEST = 64 << 20
"""Bytes of a line beyond which a file counts as damaged."""

_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


# --- writing ---------------------------------------------------------------------------------------------


def line_of(value: Json) -> bytes:
    r"""One line of JSON.

    >>> line_of({"i": 1, "lam": [0.5, None]})
    b'{"i":1,"lam":[0.5,null]}\n'
    """
    return (json.dumps(value, allow_nan=False, separators=(",", ":")) + "\n").encode()


def append_line(path: Path, value: Json, *, sync: bool = False) -> None:
    """Append one line of JSON, in one write if the disk has room for it."""
    append(path, line_of(value), sync=sync)


# --- reading ---------------------------------------------------------------------------------------------


def whole_lines(data: bytes) -> list[bytes]:
    r"""The lines that have their newline, without it.

    >>> whole_lines(b'{"i": 1}\n{"i": 2}\n{"i"')
    [b'{"i": 1}', b'{"i": 2}']
    """
    return data.split(b"\n")[:-1]


def parsed(line: bytes, *, finite: bool = False) -> Json | None:
    """The JSON object in a line, None where there is none. finite: whether NaN and infinities become null.

    >>> parsed(b'{"loss": NaN, "eta": 1e999, "i": 3}', finite=True), parsed(b'[1]'), parsed(b'{"i": ')
    ({'loss': None, 'eta': None, 'i': 3}, None, None)
    """
    try:
        found = json.loads(line, parse_constant=_none, parse_float=_finite) if finite else json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _none(_: str) -> None:
    return None


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


def _no_object(k: int) -> Exception:
    return ValueError(f"Line {k} is not a JSON object.")


def objects(
    lines: Iterable[bytes], *, damaged: Damaged = "stop", error: Callable[[int], Exception] = _no_object
) -> Iterator[tuple[int, Json]]:
    """The JSON objects in whole lines, each with its line's number, from 1.

    Args:
        lines: without their newlines, as `whole_lines` and `Tail` give them.
        damaged: what a line without an object does. "stop": nothing after it is read, as in a journal whose writer was
            killed. "skip": it is left out. "refuse": it raises `error`, unless it is blank.
        error: the exception for the damaged line of a number.

    >>> lines = [b'{"i": 1}', b'', b'[2]', b'{"i": 3}']
    >>> list(objects(lines)), list(objects(lines, damaged="skip"))
    ([(1, {'i': 1})], [(1, {'i': 1}), (4, {'i': 3})])
    >>> list(objects(lines, damaged="refuse"))
    Traceback (most recent call last):
    ValueError: Line 3 is not a JSON object.
    """
    for k, line in enumerate(lines, start=1):
        value = parsed(line)
        if value is not None:
            yield k, value
        elif damaged == "stop":
            return
        elif damaged == "refuse" and line.strip():
            raise error(k)


def read_lines(path: Path, *, damaged: Damaged = "stop") -> list[Json]:
    """The JSON objects of a file, one a line; none where there is no file. damaged: as in `objects`."""
    if not path.exists():
        return []
    return [value for _, value in objects(whole_lines(path.read_bytes()), damaged=damaged)]


# --- files that somebody else is writing -------------------------------------------------------------------


def opened(path: Path) -> BinaryIO:
    """A regular file, not a link to one and not a pipe that would never answer."""
    file = os.fdopen(os.open(path, os.O_RDONLY | _NO_LINK), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(f"{path.name} is no regular file")
    return file


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
        return anew, whole_lines(whole)

    def _goes_on(self, file: BinaryIO, now: tuple[int, int, int]) -> bool:
        assert self._known is not None
        if now[0] != self._known[0] or now[1] <= self._known[1]:
            return False
        file.seek(self.offset - len(self._end))
        return file.read(len(self._end)) == self._end

    def _forget(self) -> None:
        self.offset, self._known, self._end = 0, None, b""
