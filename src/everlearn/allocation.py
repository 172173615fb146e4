"""Memory that a step frees is kept for the next one, instead of going to the system and coming back as new pages.

A step of training allocates and frees the same large tensors again and again. glibc's allocator returns them to the
system, which clears every page before it hands it out again: about an eighth of CifarNet's time on a CPU. While a batch
is learnt or patterns are predicted, the allocator keeps what is freed; afterwards all of it is given back. Values do
not change. `EVERLEARN_ALLOCATOR=system` in the environment switches this off; C libraries other than glibc are left
alone.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

TRIM_THRESHOLD, MMAP_THRESHOLD, MMAP_MAX = -1, -3, -4  # mallopt's names in malloc.h
LARGEST = 2**31 - 1

_lock = threading.Lock()
_inside = 0


@cache
def _glibc() -> Any:
    """The C library, if it is glibc."""
    try:
        library = ctypes.CDLL(None)
        return library if hasattr(library, "gnu_get_libc_version") and hasattr(library, "mallopt") else None
    except (OSError, TypeError):  # Windows
        return None


def _keep(library: Any) -> None:
    library.mallopt(MMAP_MAX, 0)  # large blocks come from the heap too
    library.mallopt(TRIM_THRESHOLD, LARGEST)  # whose end is not given back


def _give_back(library: Any) -> None:
    library.mallopt(MMAP_MAX, 65536)  # glibc's own
    library.mallopt(MMAP_THRESHOLD, 2**25)  # the values that its own tuning ends at in a program like this
    library.mallopt(TRIM_THRESHOLD, 2**26)
    library.malloc_trim(0)


@contextmanager
def kept_memory() -> Iterator[None]:
    """Keep what is freed until the outermost of these ends.

    >>> with kept_memory(), kept_memory():
    ...     len(bytearray(10**6))
    1000000
    """
    library = None if os.environ.get("EVERLEARN_ALLOCATOR") == "system" else _glibc()
    if library is None:
        yield
        return
    _count(+1, library, _keep)
    try:
        yield
    finally:
        _count(-1, library, _give_back)


def _count(change: int, library: Any, at_the_edge: Callable[[Any], None]) -> None:
    """Go in or out; the first in and the last out turn the allocator's knobs."""
    global _inside
    with _lock:
        edge = _inside == 0 if change > 0 else _inside == 1
        _inside += change
        if edge:
            at_the_edge(library)
