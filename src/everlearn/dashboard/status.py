"""What a run is doing, and how long it may still take."""

from dataclasses import dataclass, field
from typing import Literal

QUIET, SILENT = 30.0, 300.0
"""Seconds without news after which a run that nobody is seen to learn is called quiet, and then stopped."""

WINDOW = 60.0
"""Seconds over which the pace is taken."""

Status = Literal["learning", "quiet", "stopped", "finished"]


def status(*, finished: bool, held: bool, was_held: bool, age: float) -> Status:
    """What a run is doing.

    held: whether a process of this machine holds its lock; was_held: whether one did while we watched. A lock that was
    let go before the end tells at once that the process is gone. A lock that was never held tells nothing, since the
    run may be another machine's: then only the age of the last news counts.

    >>> status(finished=False, held=True, was_held=True, age=900)
    'learning'
    >>> status(finished=False, held=False, was_held=True, age=1)
    'stopped'
    >>> [status(finished=False, held=False, was_held=False, age=age) for age in (5, 40, 301)]
    ['learning', 'quiet', 'stopped']
    """
    if finished:
        return "finished"
    if held:
        return "learning"
    if was_held or age >= SILENT:
        return "stopped"
    return "learning" if age < QUIET else "quiet"


@dataclass
class Pace:
    """Steps a second within one batch, from the times at which events were seen to arrive."""

    i: int = 0
    seen: list[tuple[float, int]] = field(default_factory=list)

    def note(self, time: float, i: int, step: int) -> None:
        """At this time of the writer's clock, this step of B_i had been made."""
        if i != self.i or (self.seen and step < self.seen[-1][1]):
            self.i, self.seen = i, []
        if not self.seen or step > self.seen[-1][1]:
            self.seen.append((time, step))
        while len(self.seen) > 2 and self.seen[-1][0] - self.seen[0][0] > WINDOW:
            self.seen.pop(0)

    @property
    def steps_per_second(self) -> float | None:
        """None until two events of the batch were seen.

        >>> pace = Pace()
        >>> for second in range(3):
        ...     pace.note(100.0 + second, 2, 10 * second)
        >>> pace.steps_per_second
        10.0
        """
        if len(self.seen) < 2 or self.seen[-1][0] <= self.seen[0][0]:
            return None
        (then, first), (now, last) = self.seen[0], self.seen[-1]
        return (last - first) / (now - then)


@dataclass(frozen=True)
class Left:
    """Seconds that may be left of the batch at hand and of the run, None where nothing tells."""

    batch: float | None
    run: float | None


def left(
    *, done: int, planned: int | None, seconds: float | None, step: tuple[int, int, int] | None, pace: float | None
) -> Left:
    """An estimate of the time left.

    done: batches recorded, of those planned. seconds: what the last recorded batch took, its test included.
    step: (i, step, steps) of the last event. pace: steps a second now. The batch at hand goes on at its pace, or takes
    as long as the last one; those to come take as long as the last one, or as the one at hand where the last was B_1,
    which is larger than the others in most streams.

    >>> left(done=2, planned=4, seconds=10.0, step=(3, 30, 40), pace=2.0)  # 10 steps at 2 a second; then 10 s
    Left(batch=5.0, run=15.0)
    >>> left(done=2, planned=4, seconds=10.0, step=(3, 30, 40), pace=None)  # a quarter of 10 s; then 10 s
    Left(batch=2.5, run=12.5)
    >>> left(done=1, planned=3, seconds=50.0, step=(2, 30, 40), pace=2.0)  # 5 s; then 40 steps at 2 a second
    Left(batch=5.0, run=25.0)
    >>> left(done=0, planned=None, seconds=None, step=(1, 30, 40), pace=2.0)
    Left(batch=5.0, run=None)
    """
    if step is None or step[0] <= done or step[2] <= 0:  # between two batches
        return Left(None, None if planned is None or seconds is None else (planned - done) * seconds)
    i, at, steps = step
    whole = steps / pace if pace else seconds
    if whole is None:
        return Left(None, None)
    batch = whole * max(0.0, 1 - at / steps)
    later = seconds if seconds is not None and done >= 2 else whole
    return Left(batch, None if planned is None else batch + max(0, planned - i) * later)
