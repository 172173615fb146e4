"""Who may change a learner now, and what others are answered meanwhile."""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from everlearn.errors import StateError, sentence

M = TypeVar("M")


class Turn:
    """A lock that one thread may take again: others wait. A copy of a learner has one of its own."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def __reduce__(self) -> tuple[Any, ...]:
        return Turn, ()


class Busy(Generic[M]):
    """One thread changes the learner; nobody waits, since others are answered from the moment before.

    Args:
        moment: gives what the learner is now, so that nobody will write into it.
    """

    def __init__(self, moment: Callable[[], M]) -> None:
        self._moment = moment
        self.lock = threading.Lock()  # held for moments only
        self.before: M | None = None
        self._thread: int | None = None
        self._inside = False

    @property
    def mine(self) -> bool:
        """Whether it is this thread that changes the learner."""
        return self._thread == threading.get_ident()

    @property
    def elsewhere(self) -> M | None:
        """The moment before, if another thread changes the learner now. `lock` must be held."""
        return None if self._thread is None or self.mine else self.before

    def __enter__(self) -> None:
        with self.lock:
            if self._thread is not None and (self._inside or not self.mine):  # not inside: interrupted as it entered
                raise StateError(
                    sentence(
                        "This learner is in the middle of a batch",
                        expected="one call of learn or load_state_dict at a time",
                        got="another one" + (" in on_step" if self.mine else ""),
                        do="Wait until it returns.",
                    )
                )
            self.before = self._moment()
            self._thread = threading.get_ident()
        self._inside = True

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self._thread, self._inside, self.before = None, False, None
