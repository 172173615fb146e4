"""One process at a time: a lock on a file, which the system drops when its holder dies.

`filelock` locks an open file: by `flock` on Linux and macOS, by `LockFileEx` on Windows. The file is opened here, so
that its content is never touched and no link is followed: a link of the lock's name may lead to somebody's only copy.
"""

import errno
import os
from io import FileIO
from pathlib import Path

import filelock


def opened(path: Path) -> FileIO:
    """A file to lock, made if need be. A symbolic link is an OSError.

    Closing the file drops its lock.
    """
    if path.is_symlink():  # systems without O_NOFOLLOW would go to its target
        raise OSError(errno.ELOOP, "its lock is a symbolic link", str(path))
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666), "r+b", buffering=0)


def take(file: FileIO, *, wait: bool = False) -> bool:
    """Lock an open file until it is closed; False if somebody else holds it. wait: until nobody does.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     with opened(Path(here, "lock")) as one, opened(Path(here, "lock")) as two:
    ...         take(one), take(two)
    (True, False)
    """
    return filelock.lock_descriptor(file.fileno(), blocking=wait)
