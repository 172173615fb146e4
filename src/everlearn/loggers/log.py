"""All loggers of one run. One that fails is left out: what is learnt never depends on it."""

import re
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from everlearn.errors import LogWarning, sentence
from everlearn.loggers import base, values
from everlearn.loggers.base import About, Ending, Logger, Pictures
from everlearn.loggers.pictures import Painter


class Log:
    """The loggers of a run in progress, by name.

    events and records: what the run's folder holds until the checkpoint it goes on from. What a logger lacks of them
    (it was not asked for then, or had failed) is filled in. at: the batch and the step of that checkpoint.
    last: the batch after which the run ends.
    """

    def __init__(
        self,
        names: Sequence[str],
        about: About,
        *,
        events: Sequence[dict[str, Any]] = (),
        records: Sequence[dict[str, Any]] = (),
        at: tuple[int, int] = (0, 0),
        last: int = 0,
    ) -> None:
        base.check(names)
        self._last, self._painter = last, Painter()
        self._steps = {event["i"]: event["steps"] for event in events}
        self._before = (0, 0)
        self._paints = True
        made = max(self._global(*at), len(records))  # a run that was published has records, but no events
        self._loggers: dict[str, Logger] = {}
        for name in dict.fromkeys(names):
            with self._guarded(name):
                self._loggers[name] = _kind(name)(about, made)
        for event in events if self._loggers else ():
            self._step(event)
        for record in records if self._loggers else ():
            self.record(record)
        self.flush()

    def _global(self, i: int, step: int) -> int:
        """Steps over all batches, until this one of B_i; sys.maxsize is the last of a batch."""
        if self._before[0] != i:
            self._before = i, sum(steps for j, steps in self._steps.items() if j < i)
        return self._before[1] + (self._steps.get(i, 0) if step == sys.maxsize else step)

    def step(self, event: dict[str, Any]) -> None:
        """A step was made; what is told of it is what an event holds."""
        if self._loggers:
            self._steps[event["i"]] = event["steps"]
            self._step(event)

    def _step(self, event: dict[str, Any]) -> None:
        at, scalars = self._global(event["i"], event["step"]), values.of_step(event)
        for name, logger in [*self._loggers.items()]:
            if at > logger.steps:
                with self._guarded(name):
                    logger.step(at, scalars)

    def record(self, record: dict[str, Any]) -> None:
        """A batch was learnt and evaluated."""
        if not self._loggers:
            return
        i = record["i"]
        with self._guarded(None):
            self._painter.add(record)
        lacking = {name: logger for name, logger in self._loggers.items() if i > logger.records}
        pictures = self._pictures(last=i == self._last) if lacking else {}
        scalars = values.of_record(record)
        for name, logger in lacking.items():
            with self._guarded(name):
                logger.record(i, scalars, pictures)

    def _pictures(self, *, last: bool) -> Pictures:
        with self._guarded(None):
            return self._painter.pictures(last=last) if self._paints else {}
        return {}

    def flush(self) -> None:
        """Make what was told so far safe, before a checkpoint says that it need not be told again."""
        for name, logger in [*self._loggers.items()]:
            with self._guarded(name):
                logger.flush()

    def close(self, how: Ending) -> None:
        """The run has ended, for now or for good."""
        for name, logger in [*self._loggers.items()]:
            with self._guarded(name):
                logger.close(how)
        self._loggers = {}

    @contextmanager
    def _guarded(self, name: str | None) -> Iterator[None]:
        """Without the logger that fails here, or without pictures (None), the run goes on; it is said once."""
        try:
            yield
        except Exception as error:  # whatever it is, learning matters more
            if name is not None:
                failed = self._loggers.pop(name, None)
                if failed is not None:
                    failed.drop()
                _warn(f"--log {name} fails and is left out from now on", "a place that can be written", error)
            elif self._paints:
                self._paints = False
                _warn("The log's pictures are left out from now on", "records that can be drawn", error)


def forget(folder: Path) -> None:
    """Let the next run in this folder have logs of its own."""
    shutil.rmtree(folder / "tensorboard", ignore_errors=True)
    (folder / "mlflow" / "run.json").unlink(missing_ok=True)  # the run that failed stays in the store


def _warn(what: str, expected: str, error: Exception) -> None:
    words = sentence(
        what,
        expected=expected,
        got=re.sub(r"//[^/@\s]+@", "//", " ".join(f"{type(error).__name__}: {error}".split()))[:500],  # no passwords
        do="Learning goes on, and records.jsonl holds everything; the same command again fills in what is missing.",
    )
    warnings.warn(words, LogWarning, stacklevel=2)


def _kind(name: str) -> Callable[[About, int], Logger]:
    if name == "tensorboard":
        from everlearn.loggers.tensorboard import TensorBoard

        return TensorBoard
    from everlearn.loggers.mlflow import MLflow

    return MLflow
