"""A run that is learnt elsewhere, into a folder here."""

import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everlearn import errors
from everlearn._kit.lines import objects, whole_lines
from everlearn.benchmarks import absolute
from everlearn.errors import EverlearnError, RunError
from everlearn.runs.cluster.actor import End, News, weights_beside
from everlearn.runs.cluster.parcels import Change, deliver
from everlearn.runs.config import Config
from everlearn.runs.folder import RunFolder, room
from everlearn.runs.runner import OnProgress

ENVIRONMENT = ("EVERLEARN_DATA", "MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME")
Records = list[dict[str, Any]]


@dataclass(eq=False)
class Job:
    """A run to be learnt on the cluster into a folder here; its future gives the records."""

    config: Config
    path: Path
    checkpoint_every: float
    log: Sequence[str] = ()
    on_progress: OnProgress = lambda _step, _record: None
    future: "Future[Records]" = field(default_factory=Future)
    warned: list[str] = field(default_factory=list)
    deaths: int = 0
    held: ExitStack = field(default_factory=ExitStack)

    @property
    def shares(self) -> tuple[float, float]:
        """CPUs and GPUs."""
        return float(self.config.cpus or self.config.threads), float(self.config.gpus or 0)

    def order(self) -> str:
        """What the worker is told, as JSON."""
        environment = {name: os.environ[name] for name in ENVIRONMENT if os.environ.get(name)}
        if "EVERLEARN_DATA" in environment:
            environment["EVERLEARN_DATA"] = os.path.abspath(os.path.expanduser(environment["EVERLEARN_DATA"]))
        return json.dumps(
            {
                "config": self.config.to_json(),
                "benchmark": absolute(self.config.benchmark),
                "checkpoint_every": self.checkpoint_every,
                "log": list(self.log),
                "argv": sys.argv[1:],
                "environment": environment,
            }
        )

    def take(self, news: News) -> None:
        """Bring the folder up to date, and tell of new records."""
        parcel, path = news["parcel"], self.path / "records.jsonl"
        changes = {change.name: change for change in parcel["changes"]}
        if any(name.startswith("checkpoint") for name in changes):
            self.deaths = 0
        records = changes.get(path.name, Change(path.name, 0, b""))
        told = path.read_bytes().count(b"\n") if records.offset is None and path.exists() else 0
        with room(self.path):
            deliver(self.path, parcel)
        new = whole_lines(records.data)[told:]  # a disk that is full over there may cut the last one
        for _, record in objects(new, damaged="refuse"):
            self.on_progress(None, record)

    def end(self, end: End) -> None:
        """The run has ended over there."""
        self.warned, words = [self._here(told, end) for told in end["warned"]], self._here(end["error"], end)
        if end["how"] == "done":
            self.succeed()
        elif end["how"] == "stopped":
            self.fail(KeyboardInterrupt())
        else:
            kinds = {kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type)}
            kind = kinds.get(end["kind"])
            known = kind is not None and issubclass(kind, EverlearnError)
            self.fail(kind(words) if kind and known else RunError(f"its worker failed. {words}"))

    def _here(self, words: str, end: End) -> str:
        """Words from over there with the names that files have here."""
        if not end["place"]:
            return words
        there = weights_beside(Path(end["place"]))
        return words.replace(str(there), self.config.weights or str(there)).replace(end["place"], str(self.path))

    def succeed(self) -> None:
        self.held.close()
        try:
            self.future.set_result(RunFolder(self.path).records())
        except (EverlearnError, OSError) as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        self.held.close()
        with suppress(InvalidStateError):  # it has an end already
            self.future.set_exception(error)
