"""Files from the network: resumed where they broke off, and checked before they get their name."""

import hashlib
import os
import re
import time
from dataclasses import dataclass
from pathlib import Path

import httpx
from tqdm import tqdm

from everlearn._kit.files import sync_folder
from everlearn.data.folder import locked, made, unwritable
from everlearn.errors import DataError, sentence

TRIES = 4
PAUSE = 0.5  # seconds before the second try; then twice as long each time
TIMEOUT = httpx.Timeout(30, connect=10)
PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})  # answers that may be another one soon


class _BrokenOffError(Exception):
    """A transfer that may go better next time."""


@dataclass(frozen=True)
class _File:
    """A file to fetch: from where, to where, and what it must be."""

    url: str
    path: Path
    algorithm: str
    checksum: str
    size: int | None
    progress: bool

    @property
    def part(self) -> Path:
        """Where the bytes gather until all are there."""
        return self.path.with_name(f"{self.path.name}.part")

    @property
    def have(self) -> int:
        """How many bytes are there."""
        return self.part.stat().st_size if self.part.exists() else 0


def download(
    url: str,
    path: str | os.PathLike[str],
    *,
    sha256: str | None = None,
    md5: str | None = None,
    size: int | None = None,
    progress: bool = True,
) -> Path:
    """Fetch a file to path, unless the right one is already there, and give its path.

    sha256 or md5: what its bytes must sum up to; size: how many there must be, if known. The bytes gather in
    `path.part`, which a later call continues; only the complete, checked file gets the name `path`.
    """
    algorithm, checksum = ("sha256", sha256) if sha256 else ("md5", md5)
    if not checksum or not url.startswith(("https://", "http://")):
        got = f"{url} with {algorithm} {checksum}"
        raise DataError(
            sentence("This cannot be fetched safely", expected="http(s) and a checksum", got=got, do="Give both.")
        )
    file = _File(url, Path(path), algorithm, checksum.lower(), size, progress)
    made(file.path.parent)
    with locked(file.path.with_name(f"{file.path.name}.lock")):
        if file.path.exists():
            _check(file, file.path)
        else:
            _fetch(file)
    return file.path


def _fetch(file: _File) -> None:
    """Transfer, with a few tries; then check, and give the file its name."""
    try:
        for k in range(TRIES):
            try:
                if not _complete(file):
                    _transfer(file)
                break
            except (_BrokenOffError, httpx.TransportError) as error:
                if k + 1 == TRIES:
                    raise _unreachable(file, f"{error}".rstrip(".") or type(error).__name__) from error
                time.sleep(PAUSE * 2**k)
        _check(file, file.part)
        os.replace(file.part, file.path)
    except OSError as error:
        raise unwritable(file.part, error) from error
    sync_folder(file.path.parent)


def _complete(file: _File) -> bool:
    """Whether all bytes are already there; an earlier call may have been killed just before the end."""
    return file.have > 0 and file.size in (None, file.have) and _digest(file, file.part) == file.checksum


def _transfer(file: _File) -> None:
    """One try: ask for what is missing, and append it."""
    have = file.have
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    hooks = {"request": [lambda request: _stay_safe(file, request)]}
    try:
        with (
            httpx.Client(timeout=TIMEOUT, follow_redirects=True, event_hooks=hooks) as client,
            client.stream("GET", file.url, headers=headers) as response,
        ):
            start = _start(file, response, have)
            total = _declared(file, response, start)
            _append(file, response, start, total)
    except (httpx.InvalidURL, httpx.TooManyRedirects) as error:
        raise _unreachable(file, str(error)) from error


def _stay_safe(file: _File, request: httpx.Request) -> None:
    """A redirection may lead to https, or stay with the scheme it began with; never from https to http."""
    if request.url.scheme not in ("https", httpx.URL(file.url).scheme):
        raise _unreachable(file, f"a redirection to {request.url}")


def _start(file: _File, response: httpx.Response, have: int) -> int:
    """From which byte on the answer continues the file."""
    status = response.status_code
    if status == 200:  # all of it, wherever we wanted to continue
        return 0
    if status == 206 and have:
        given = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
        if given and int(given[1]) == have:
            return have
    if status in (206, 416):  # not the bytes that we asked for
        file.part.unlink(missing_ok=True)
        raise _BrokenOffError(f"the answer {status} to a request for the bytes from {have} on")
    if status in PASSING:
        raise _BrokenOffError(f"the answer {status} {response.reason_phrase}")
    raise _unreachable(file, f"the answer {status} {response.reason_phrase}")


def _declared(file: _File, response: httpx.Response, start: int) -> int | None:
    """How long the whole file will be, as far as anyone says so; a wrong length is refused before it is fetched."""
    length = response.headers.get("Content-Length", "")
    total = start + int(length) if length.isdecimal() else None
    if file.size is not None and total not in (None, file.size):
        raise _wrong(file, file.part, f"{file.size} bytes", f"{total} bytes")
    return file.size or total


def _append(file: _File, response: httpx.Response, start: int, total: int | None) -> None:
    """Write the answer behind the first `start` bytes, with a bar on a terminal."""
    have = start
    bar = tqdm(
        total=total,
        initial=start,
        unit="B",
        unit_scale=True,
        unit_divisor=1024,
        desc=file.path.name,
        disable=None if file.progress else True,
    )
    with bar, open(file.part, "ab" if start else "wb") as part:
        for block in response.iter_raw():
            part.write(block)
            have += len(block)
            bar.update(len(block))
            if total is not None and have > total:
                break
        part.flush()
        os.fsync(part.fileno())
    if total is not None and have > total:
        raise _wrong(file, file.part, f"{total} bytes", f"at least {have} bytes")
    if total is not None and have < total:
        raise _BrokenOffError(f"{have} of {total} bytes")


def _digest(file: _File, path: Path) -> str:
    with open(path, "rb") as content:
        return hashlib.file_digest(content, lambda: hashlib.new(file.algorithm, usedforsecurity=False)).hexdigest()


def _check(file: _File, path: Path) -> None:
    """Refuse a file whose bytes are not the right ones."""
    got = _digest(file, path)
    if got != file.checksum:
        size = f", in {path.stat().st_size} bytes"
        raise _wrong(file, path, f"{file.algorithm} {file.checksum}", f"{file.algorithm} {got}{size}")


def _wrong(file: _File, path: Path, expected: str, got: str) -> DataError:
    """The error for wrong bytes; what we fetched ourselves is removed, what the user put there stays."""
    do = f"Delete {path}, or put the right file there."
    if path == file.part:
        path.unlink(missing_ok=True)
        do = f"What was fetched is removed; try again later, or put the right file at {file.path} by hand."
    return DataError(sentence(f"{path} is not what it should be", expected=expected, got=got, do=do))


def _unreachable(file: _File, got: str) -> DataError:
    """The error for a file that cannot be had."""
    return DataError(
        sentence(
            f"{file.path.name} cannot be fetched",
            expected=f"{file.url} to send it",
            got=got,
            do=f"Check the network and try again; or put the file at {file.path} by hand, "
            "or set $EVERLEARN_DATA to a folder that has it.",
        )
    )
