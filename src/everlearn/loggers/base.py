"""What a logger is, and whether its package is there."""

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

from everlearn._kit.catalogue import LOGGERS
from everlearn.errors import ConfigError, sentence

Ending = Literal["finished", "stopped", "failed"]
Scalars = dict[str, float]
Pictures = dict[str, bytes]
"""PNGs by name."""

PACKAGES = {"tensorboard": ("tensorboard",), "mlflow": ("mlflow", "sqlalchemy", "alembic")}


@dataclass(frozen=True)
class About:
    """What a logger is told of a run before anything else.

    folder: the run's. benchmark, title: what it is called. params: the config by dotted name, as settled at the start;
    free: what of the config may be another when the run goes on.
    """

    folder: Path
    benchmark: str
    title: str
    params: dict[str, Any]
    free: dict[str, Any]


class Logger(Protocol):
    """Keeps the scalars and pictures of one run, each point once, however often the run is killed and goes on.

    It is made with what the run is about and with the steps that were made until its last checkpoint: those that were
    logged later are made again, and stand once too. Steps are counted from 1 over all batches. What was told before
    `flush` survives the death of the process, and flush comes before each checkpoint, so that no step is missing.
    """

    steps: int
    """The last step that is already there."""
    records: int
    """The last batch whose record is already there."""

    def __init__(self, about: About, made: int) -> None: ...

    def step(self, at: int, scalars: Scalars) -> None:
        """A step was made."""

    def record(self, i: int, scalars: Scalars, pictures: Pictures) -> None:
        """B_i was learnt and evaluated: all of it is there at once, or nothing."""

    def flush(self) -> None:
        """Make what was told so far safe."""

    def close(self, how: Ending) -> None:
        """The run has ended, for now or for good."""

    def drop(self) -> None:
        """It has failed: let go of what it holds, without another error."""


def check(names: Iterable[str]) -> None:
    """Refuse loggers that there are not, and those whose package is not installed."""
    for name in names:
        if name not in LOGGERS:
            raise ConfigError(
                sentence("Unknown logger", expected=f"one of {list(LOGGERS)}", got=repr(name), do="Mend --log.")
            )
        absent = [package for package in PACKAGES[name] if find_spec(package) is None]
        if absent:
            raise ConfigError(
                sentence(
                    f"--log {name} needs an extra",
                    expected=f"to find {', '.join(PACKAGES[name])}",
                    got=f"no {', '.join(absent)}",
                    do=f"pip install 'everlearn[{name}]'",
                )
            )
