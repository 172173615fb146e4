"""What a worker of the cluster does: it learns runs in a folder of its own, and tells what changes there."""

import json
import os
import queue
import socket
import sys
import tempfile
import threading
import time
import traceback
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import torch

import everlearn
from everlearn._kit.allocation import keep_memory
from everlearn._kit.state import State
from everlearn.errors import EverlearnError
from everlearn.runs.cluster.parcels import Outbox, Parcel, nothing, unpack
from everlearn.runs.config import Config
from everlearn.runs.folder import RunFolder, room
from everlearn.runs.runner import Runner
from everlearn.runs.stopping import Stop
from everlearn.runs.worker import heard

EVENTS_EVERY = 1.0  # seconds between two parcels with nothing but events, for pages that watch


class End(TypedDict):
    """How a run ended: done, stopped or failed; with the error's class and words, and what loggers warned of.

    place: the run's folder over there, which those words may name; empty if there was none.
    """

    how: str
    kind: str
    error: str
    warned: list[str]
    place: str


class News(TypedDict):
    """What a worker tells: what changed in the run's folder, and at last how the run ended."""

    parcel: Parcel
    end: End | None


def versions() -> dict[str, str]:
    """What must be the same everywhere for the same bits."""
    return {"everlearn": everlearn.__version__, "torch": torch.__version__}


class Actor:
    """A Ray actor: one process of the cluster.

    It learns one run after the other, each in a thread beside the one that answers. Runs are numbered, so that a late
    `stop` cannot stop the next run.
    """

    def __init__(self) -> None:
        keep_memory()
        self._news: queue.Queue[News] = queue.Queue(maxsize=1)  # who learns waits for who listens
        self._stops: defaultdict[int, Stop] = defaultdict(Stop)

    def hello(self) -> dict[str, Any]:
        """Who is there."""
        return {"pid": os.getpid(), "versions": versions()}

    def learn(self, number: int, order: str, files: dict[str, bytes], weights: bytes | None) -> News:
        """Go on with a run from its files, and give its first news."""
        stop = self._stops[number]
        threading.Thread(target=self._learn, args=(json.loads(order), files, weights, stop), daemon=True).start()
        return self.news()

    def news(self) -> News:
        """Wait until there is something to tell."""
        return self._news.get()

    def stop(self, number: int) -> None:
        """Ask for a checkpoint after the step at hand, and the end."""
        self._stops[number].set()

    def _learn(self, order: dict[str, Any], files: dict[str, bytes], weights: bytes | None, stop: Stop) -> None:
        warned: list[str] = []
        parcel = nothing()
        how, kind, error, place = "done", "", "", ""
        try:
            with tempfile.TemporaryDirectory(prefix="everlearn-") as root, heard(warned):
                folder = Path(root, "run")
                place = str(folder)
                with room(f"{socket.gethostname()}, {tempfile.gettempdir()}"):
                    unpack(folder, files)
                    outbox = Outbox(folder)
                    try:
                        self._run(order, Posted(outbox, self._news), weights, stop)
                    finally:
                        parcel = outbox.parcel()
        except KeyboardInterrupt:
            how = "stopped"
        except EverlearnError as problem:
            how, kind, error = "failed", _kind(problem), str(problem)
        except BaseException:  # nothing may be left unsaid: the other side waits
            how, error = "failed", traceback.format_exc()[-2000:]
        self._news.put(News(parcel=parcel, end=End(how=how, kind=kind, error=error, warned=warned, place=place)))

    def _run(self, order: dict[str, Any], folder: "Posted", weights: bytes | None, stop: Stop) -> None:
        sys.argv = ["everlearn", *order["argv"]]
        for name, value in order["environment"].items():
            os.environ.setdefault(name, value)  # what this machine says of itself comes first
        config = Config(**order["config"])
        here = replace(config, benchmark=order["benchmark"])
        if weights is not None:
            path = weights_beside(folder.path)
            path.write_bytes(weights)
            here = replace(here, weights=str(path))
        torch.set_num_threads(config.threads)
        runner = Runner(here, folder.path, order["checkpoint_every"], lambda *_: None, stop, order["log"])
        runner.config, runner.folder = config, folder  # the folder tells what was asked for, not where it lay here
        runner.run()


def _kind(error: EverlearnError) -> str:
    """The name by which the other side knows an error's class: one in `everlearn.errors`."""
    return next(kind.__name__ for kind in type(error).__mro__ if kind.__module__ == EverlearnError.__module__)


def weights_beside(folder: Path) -> Path:
    """Where the file lies that the network of a run in this folder starts from."""
    return folder.parent / "weights.safetensors"


class Posted(RunFolder):
    """A run's folder that posts what changes: at the first step, with checkpoints and records, events now and then."""

    def __init__(self, outbox: Outbox, news: "queue.Queue[News]") -> None:
        super().__init__(outbox.folder)
        self._outbox, self._news, self._posted = outbox, news, 0.0

    def save_checkpoint(self, state: State) -> None:
        super().save_checkpoint(state)
        self._post(self._outbox.parcel())

    def append_record(self, record: dict[str, Any]) -> None:
        super().append_record(record)
        self._post(self._outbox.parcel())

    def append_event(self, event: dict[str, Any]) -> None:
        super().append_event(event)
        if self._news.empty() and time.monotonic() - self._posted >= EVENTS_EVERY:
            self._post(self._outbox.grown("events.jsonl") if self._posted else self._outbox.parcel())

    def _post(self, parcel: Parcel) -> None:
        self._news.put(News(parcel=parcel, end=None))
        self._posted = time.monotonic()
