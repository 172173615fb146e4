"""How a run is asked to stop: by signals, or by a thread beside it."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SAME = 1.0
"""Signals within so many seconds are one: who stops a machine tells every process, and parents tell theirs again."""


class Stop(threading.Event):
    """Whether somebody asked for a stop; `waits` is False where it need not wait for a step and a checkpoint."""

    waits = True

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Within, a signal stops at once, and so does one that has come before."""
        if self.is_set():
            raise KeyboardInterrupt
        self.waits = False
        try:
            yield
        finally:
            self.waits = True


@contextmanager
def stop_signals() -> Iterator[Stop]:
    """Ctrl-C and SIGTERM ask for a stop after the step at hand, with a checkpoint; a second one stops at once."""
    stop, first = Stop(), 0.0
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def ask(_number: int, _frame: FrameType | None) -> None:
        nonlocal first
        again = stop.is_set() and time.monotonic() - first > SAME
        if not stop.is_set():
            first = time.monotonic()
            stop.set()
        if again or not stop.waits:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
