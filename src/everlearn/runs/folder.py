"""A run's folder: its lock, config, records, events, predictions and checkpoints."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import RunError, sentence
from everlearn.files import write_atomically, writing
from everlearn.runs.config import Config
from everlearn.state import State, load_state, save_state


class RunFolder:
    """The files of one run. Whatever is killed at whatever moment, they can be read and the run goes on."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process a run; the system drops the lock when its holder dies."""
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / "lock", "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RunError(
                    sentence(
                        "This run is being learnt by another process",
                        expected="one process a run",
                        got=str(self.path),
                        do="Wait for it, or choose another folder.",
                    )
                ) from error
            yield

    # --- config -----------------------------------------------------------------------------------

    def settle(self, config: Config, about: dict[str, Any]) -> None:
        """Write the config of a new run, or refuse to go on with one that is another."""
        stored = self.config()
        if stored is not None:
            differences = config.differences(stored)
            if differences:
                raise RunError(
                    sentence(
                        "This folder holds another run",
                        expected="the same config",
                        got="; ".join(differences),
                        do=f"Choose another folder, or remove {self.path}.",
                    )
                )
        write_atomically(self.path / "config.json", json.dumps({**about, **config.to_json()}, indent=1).encode())

    def config(self) -> dict[str, Any] | None:
        """The stored config, None for a new run."""
        path = self.path / "config.json"
        return json.loads(path.read_text()) if path.exists() else None

    # --- records and events -------------------------------------------------------------------------

    def records(self) -> list[dict[str, Any]]:
        """One record a batch; a last line that was cut short is not there."""
        return read_lines(self.path / "records.jsonl")

    def append_record(self, record: dict[str, Any]) -> None:
        append_line(self.path / "records.jsonl", record, sync=True)

    def append_event(self, event: dict[str, Any]) -> None:
        append_line(self.path / "events.jsonl", event)

    def events(self) -> list[dict[str, Any]]:
        """The logged steps; a last line that was cut short is not there."""
        return read_lines(self.path / "events.jsonl")

    def keep_events(self, i: int, step: int) -> None:
        """Drop the events after this step of B_i, and half a last line: those steps are made again."""
        path = self.path / "events.jsonl"
        kept = [event for event in self.events() if (event["i"], event["step"]) <= (i, step)]
        if path.exists():
            write_atomically(path, b"".join(line_of(event) for event in kept))

    def mend_records(self) -> None:
        """Drop half a last line, so that the next one starts anew."""
        path = self.path / "records.jsonl"
        if path.exists():
            write_atomically(path, b"".join(line_of(record) for record in self.records()))

    # --- checkpoints and predictions ----------------------------------------------------------------

    def save_checkpoint(self, state: State) -> None:
        save_state(self.path / "checkpoint.safetensors", state)

    def checkpoint(self) -> State | None:
        path = self.path / "checkpoint.safetensors"
        return load_state(path) if path.exists() else None

    def save_predictions(self, i: int, predictions: dict[str, NDArray[Any]]) -> None:
        """Keep what was predicted for every test pattern after B_i."""
        for name, values in predictions.items():
            self._save_classes(f"{i:03d}-{name}", values)

    def save_truth(self, y: NDArray[Any]) -> None:
        """Keep the true class of every test pattern, so that predictions can be compared pattern by pattern."""
        self._save_classes("true", y)

    def _save_classes(self, name: str, classes: NDArray[Any]) -> None:
        folder = self.path / "predictions"
        folder.mkdir(exist_ok=True)
        with writing(folder / f"{name}.npy") as file:
            np.save(file, classes.astype(np.int16), allow_pickle=False)


def line_of(value: dict[str, Any]) -> bytes:
    """One line of JSON."""
    return (json.dumps(value, allow_nan=False, separators=(",", ":")) + "\n").encode()


def append_line(path: Path, value: dict[str, Any], *, sync: bool = False) -> None:
    """Append one line of JSON in one write."""
    with open(path, "ab", buffering=0) as file:
        file.write(line_of(value))
        if sync:
            os.fsync(file.fileno())


def read_lines(path: Path) -> list[dict[str, Any]]:
    """All whole lines of JSON; a last one that was cut short is left out."""
    if not path.exists():
        return []
    values = []
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        try:
            values.append(json.loads(line))
        except ValueError:
            break
    return values
