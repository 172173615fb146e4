"""Which runs are being learnt by a process of this machine, without touching their locks.

A run holds `flock` on its file `lock`. To try the lock would be to hold it for a moment, in which a run that starts
would be refused. Linux lists all locks in /proc/locks; elsewhere nothing is known of them.
"""

import os
import re
from pathlib import Path

_LINE = re.compile(r"FLOCK\s+ADVISORY\s+WRITE\s+-?\d+\s+([0-9a-f]+):([0-9a-f]+):(\d+)\s")
Held = frozenset[tuple[int, int, int]]


def held(table: Path = Path("/proc/locks")) -> Held | None:
    """The files that are locked, by device (major and minor) and inode; None where the system does not tell."""
    try:
        return read(table.read_text())
    except OSError:
        return None


def read(text: str) -> Held:
    """The locks in Linux's table.

    >>> sorted(read("2: FLOCK  ADVISORY  WRITE 21648 fe:00:2163268 0 EOF"))
    [(254, 0, 2163268)]
    """
    return frozenset((int(major, 16), int(minor, 16), int(inode)) for major, minor, inode in _LINE.findall(text))


def is_held(file: os.stat_result, locks: Held | None) -> bool:
    """Whether a file is locked. Where devices have no numbers of their own (overlays, btrfs), the inode decides."""
    if not locks:
        return False
    device = os.major(file.st_dev), os.minor(file.st_dev)
    if (*device, file.st_ino) in locks:
        return True
    return device[0] == 0 and any(lock[0] == 0 and lock[2] == file.st_ino for lock in locks)
