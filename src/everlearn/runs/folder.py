"""A run's folder: its lock, config, records, events, predictions and checkpoints."""

import errno
import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn._kit import locks
from everlearn._kit.files import sweep, write_atomically
from everlearn._kit.lines import append_line, line_of, read_lines
from everlearn._kit.state import State
from everlearn.errors import RunError, sentence
from everlearn.loggers import forget
from everlearn.runs.checkpoints import Checkpoints
from everlearn.runs.config import Config

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def one_process(folder: Path, problem: str, *, expected: str) -> Iterator[None]:
    """Let one process into a folder, and refuse others; the system drops the lock when its holder dies."""
    with usable(folder):
        folder.mkdir(parents=True, exist_ok=True)
        lock = locks.opened(folder / "lock")
    with lock as file:
        with usable(folder):
            taken = locks.take(file)
        if not taken:
            do = "Wait for it, or choose another folder."
            raise RunError(sentence(problem, expected=expected, got=str(folder), do=do))
        yield


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Say what is wrong with a folder that cannot be made or written to."""
    try:
        yield
    except OSError as error:
        raise RunError(
            sentence(
                "This folder cannot be used",
                expected="a folder that can be made and written to",
                got=f"{folder} ({error.strerror})",
                do="Choose another folder, or make room there.",
            )
        ) from error


@contextmanager
def room(place: Path | str) -> Iterator[None]:
    """Say what to do about a full disk. place: where the run is written."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise RunError(
            sentence(
                "The disk is full",
                expected="room for the run",
                got=f"{error.filename or place} ({error.strerror})",
                do="Make room and give the same command again: it goes on from the last checkpoint, if there is one.",
            )
        ) from error


class RunFolder:
    """The files of one run. Whatever is killed at whatever moment, they can be read and the run goes on.

    Args:
        path: the folder, which need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        self.checkpoints = Checkpoints(self.path)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process a run. What a killed one left is removed."""
        with one_process(self.path, "This run is being learnt by another process", expected="one process a run"):
            sweep(self.path)
            sweep(self.path / "predictions")
            with room(self.path):
                yield

    # --- config -----------------------------------------------------------------------------------

    def refuse_other(self, config: Config) -> dict[str, Any] | None:
        """The stored config, None for a run that has learnt nothing yet; refused if it is of another run, or lost.

        Where nothing was learnt, what another config has logged is forgotten.

        Args:
            config: the run that is to be learnt here.
        """
        stored, learnt = self.config(), self._learnt()
        if not learnt:
            if stored is not None and config.differences(stored):
                forget(self.path)
            return None
        if stored is None:
            raise RunError(
                sentence(
                    "This run's config is lost",
                    expected=f"{self.path / 'config.json'} beside {learnt}",
                    got="no such file, so nobody knows what is learnt there",
                    do=f"Bring it back from a backup, or remove {self.path} to learn anew.",
                )
            )
        if differences := config.differences(stored):
            raise RunError(
                sentence(
                    "This folder holds another run",
                    expected="the same config",
                    got="; ".join(differences),
                    do=f"Choose another folder, or remove {self.path}.",
                )
            )
        return stored

    def _learnt(self) -> str:
        """The names of files that say that something was learnt here."""
        names = ("checkpoint.safetensors", "checkpoint-before.safetensors", "records.jsonl")
        return ", ".join(name for name in names if (self.path / name).exists())

    def save_config(self, config: dict[str, Any]) -> None:
        """Write what the run is.

        Args:
            config: plain values, for JSON.
        """
        write_atomically(self.path / "config.json", json.dumps(config, indent=1).encode())

    def config(self) -> dict[str, Any] | None:
        """The stored config, None for a new run."""
        path = self.path / "config.json"
        if not path.exists():
            return None
        try:
            stored: dict[str, Any] = dict(json.loads(path.read_bytes()))
        except (ValueError, TypeError) as error:
            raise RunError(
                sentence(
                    "This run's config is damaged",
                    expected=f"{path} as it was written",
                    got=str(error),
                    do=f"Bring it back from a backup, or remove {self.path} to learn anew.",
                )
            ) from error
        return stored

    # --- records and events -------------------------------------------------------------------------

    def records(self) -> list[dict[str, Any]]:
        """One record a batch; a last line that was cut short is not there."""
        return read_lines(self.path / "records.jsonl")

    def append_record(self, record: dict[str, Any]) -> None:
        """Write a batch's record behind the others, down to the disk.

        Args:
            record: plain values, for JSON.
        """
        append_line(self.path / "records.jsonl", record, sync=True)

    def append_event(self, event: dict[str, Any]) -> None:
        """Write a logged step behind the others.

        Args:
            event: plain values, for JSON.
        """
        append_line(self.path / "events.jsonl", event)

    def events(self) -> list[dict[str, Any]]:
        """The logged steps; a last line that was cut short is not there."""
        return read_lines(self.path / "events.jsonl")

    def keep_events(self, i: int, step: int) -> None:
        """Drop the events after this step of B_i, and half a last line: those steps are made again.

        Args:
            i: the number of the batch (1-based).
            step: the last step within it that is kept (1-based).
        """
        path = self.path / "events.jsonl"
        kept = [event for event in self.events() if (event["i"], event["step"]) <= (i, step)]
        if path.exists():
            write_atomically(path, b"".join(line_of(event) for event in kept))

    def keep_records(self, i: int, *, last_may_lack: bool) -> list[dict[str, Any]]:
        """Drop the records after B_i, and half a last line; those until B_i must be there.

        Args:
            i: the number of the last batch that is kept (1-based).
            last_may_lack: whether B_i's own record may be missing, since it is still to be written.

        Returns:
            The records kept.
        """
        path = self.path / "records.jsonl"
        kept = [record for record in self.records() if record["i"] <= i]
        if [record["i"] for record in kept] not in ([*range(1, i + 1)], [*range(1, i + 1 - last_may_lack)]):
            raise RunError(
                sentence(
                    "Records are lost",
                    expected=f"one for each of the {i} batches that the last checkpoint has learnt",
                    got=f"{path} with those of {[record['i'] for record in kept]}",
                    do=f"Bring the file back from a backup, or remove {self.path} to learn anew.",
                )
            )
        if path.exists():
            write_atomically(path, b"".join(line_of(record) for record in kept))
        return kept

    # --- checkpoints and predictions ----------------------------------------------------------------

    def save_checkpoint(self, state: State) -> None:
        """Write a checkpoint; the one before it is kept too.

        Args:
            state: the run's: the learner's, and what is still to be recorded.
        """
        self.checkpoints.save(state)

    def take_checkpoint(self) -> State | None:
        """The newest whole one, to go on from it; None where there is none yet."""
        return self.checkpoints.take()

    def save_predictions(self, i: int, predictions: dict[str, NDArray[Any]]) -> None:
        """Keep what was predicted for every test pattern after B_i.

        Args:
            i: the number of the batch (1-based).
            predictions: the predicted class of each test pattern, by kind (`seen`, `all_rows`, `mt`).
        """
        for name, values in predictions.items():
            self._save_classes(f"{i:03d}-{name}", values)

    def save_truth(self, y: NDArray[Any]) -> None:
        """Keep the true class of every test pattern, so that predictions can be compared pattern by pattern.

        Args:
            y: the classes, [n].
        """
        self._save_classes("true", y)

    def _save_classes(self, name: str, classes: NDArray[Any]) -> None:
        folder = self.path / "predictions"
        folder.mkdir(exist_ok=True)
        content = BytesIO()  # to a file of the system's, numpy's errors would not tell that the disk is full
        np.save(content, classes.astype(np.int16), allow_pickle=False)
        write_atomically(folder / f"{name}.npy", content.getvalue())


def is_finished(config: Config, path: Path) -> bool:
    """Whether a run's folder has all its records, so that nothing is left to learn."""
    folder = RunFolder(path)
    stored = folder.config()
    if stored is None or config.differences(stored) or stored.get("batches") != config.batches:
        return False
    records = folder.records()
    return bool(records) and len(records) >= min(records[0]["of"], config.batches or records[0]["of"])
