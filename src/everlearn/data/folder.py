"""Where data lives on this machine, and how two processes keep out of each other's way there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from everlearn._kit import locks
from everlearn.errors import DataError, sentence


def data_folder() -> Path:
    """The folder of all downloaded and cached data, made if need be.

    $EVERLEARN_DATA, else $XDG_CACHE_HOME/everlearn, else ~/.cache/everlearn.

    >>> import tempfile, unittest.mock
    >>> with tempfile.TemporaryDirectory() as here, unittest.mock.patch.dict(os.environ, EVERLEARN_DATA=here):
    ...     data_folder() == Path(here)
    True
    """
    named, cache = os.environ.get("EVERLEARN_DATA"), os.environ.get("XDG_CACHE_HOME")
    folder = Path(named) if named else Path(cache or "~/.cache") / "everlearn"
    try:
        folder = folder.expanduser()
    except RuntimeError as error:
        raise unwritable(folder, error) from error
    return made(folder)


def made(folder: Path) -> Path:
    """The folder itself, made if need be."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(folder, error) from error
    return folder


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Only one process at a time comes in; others wait. The lock file at path goes when its holder leaves.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     with locked(Path(here, "lock")):
    ...         os.listdir(here)
    ...     os.listdir(here)
    ['lock']
    []
    """
    while True:
        try:
            file = locks.opened(path)
        except OSError as error:
            raise unwritable(path, error) from error
        with file:
            with suppress(OSError):  # some network drives have no locks
                locks.take(file, wait=True)
            if not _is(path, file.fileno()):
                continue  # the one before us has removed it: what we hold is no longer the lock
            try:
                yield
            finally:
                with suppress(OSError):  # Windows keeps a file that is open
                    path.unlink()
            return


def is_locked(path: Path) -> bool:
    """Whether somebody is inside `locked(path)`; a lock file that a killed process left says nothing.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     with locked(Path(here, "lock")):
    ...         is_locked(Path(here, "lock"))
    ...     Path(here, "lock").touch()
    ...     is_locked(Path(here, "lock"))
    True
    False
    """
    try:
        with open(path, "rb", buffering=0) as file:
            return not locks.take(file)
    except FileNotFoundError:
        return False
    except OSError:  # a network drive that has no locks
        return True


def _is(path: Path, handle: int) -> bool:
    """Whether the open file is still the one at path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def unwritable(path: Path, error: Exception) -> DataError:
    """The error for a place that cannot be written to: a full disk, no right, no folder."""
    reason = (isinstance(error, OSError) and error.strerror) or str(error).rstrip(".")
    return DataError(
        sentence(
            "This place cannot be written to",
            expected="room, and the right to write",
            got=f"{path} ({reason})",
            do="Make room, or set $EVERLEARN_DATA to a folder of yours that has some.",
        )
    )
