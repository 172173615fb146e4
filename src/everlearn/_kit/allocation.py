"""Memory that a step frees is kept for the next one, instead of going to the system and coming back as new pages.

A step of training allocates and frees the same large tensors again and again. glibc's allocator returns them to the
system, which clears every page before it hands it out again: about an eighth of CifarNet's time on a CPU. Our commands
therefore ask it, in their own processes, to keep what is freed, and give it back between batches. A program that uses
the library is left alone; it may call `keep_memory` itself, once, at its start. Values do not change.

`EVERLEARN_ALLOCATOR=system` switches it off. So do settings of one's own for glibc's allocator (`MALLOC_…`,
`GLIBC_TUNABLES`), and other C libraries have no such knobs.
"""

import ctypes
import os
from functools import cache
from typing import Any

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # mallopt's names in malloc.h
LARGEST = 2**31 - 1
OWN = ("MALLOC_", "GLIBC_TUNABLES")

_kept = False


@cache
def _glibc() -> Any:
    """The C library, if it is glibc."""
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt") else None
    except (OSError, TypeError):  # Windows
        return None


def keep_memory() -> bool:
    """Keep freed memory in this process from now on; gives whether it will be."""
    global _kept
    if os.environ.get("EVERLEARN_ALLOCATOR") == "system" or any(name.startswith(OWN) for name in os.environ):
        return False
    library = _glibc()
    if library is None:
        return False
    library.mallopt(MMAP_MAX, 0)  # large blocks come from the heap too
    library.mallopt(TRIM_THRESHOLD, LARGEST)  # whose end is not given back
    _kept = True
    return True


def give_back() -> None:
    """Return to the system what is free by now, if this process keeps memory."""
    if _kept:
        _glibc().malloc_trim(0)
