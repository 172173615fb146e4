"""A run in several processes: the first one alone has the folder, the others are told what it holds."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from everlearn._kit.state import State, load_state, save_state
from everlearn.learning.parallel import Ranks
from everlearn.runs.config import Config
from everlearn.runs.folder import RunFolder


class Elsewhere(RunFolder):
    """The folder as all processes but the first see it: nothing to read, and nothing is written."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        yield

    def refuse_other(self, config: Config) -> dict[str, Any] | None:
        return None

    def save_config(self, config: dict[str, Any]) -> None:
        """The first process does it."""

    def config(self) -> dict[str, Any] | None:
        return None

    def records(self) -> list[dict[str, Any]]:
        return []

    def append_record(self, record: dict[str, Any]) -> None:
        """The first process does it."""

    def append_event(self, event: dict[str, Any]) -> None:
        """The first process does it."""

    def events(self) -> list[dict[str, Any]]:
        return []

    def keep_events(self, i: int, step: int) -> None:
        """The first process does it."""

    def keep_records(self, i: int, *, last_may_lack: bool) -> list[dict[str, Any]]:
        return []

    def save_checkpoint(self, state: State) -> None:
        """The first process does it."""

    def take_checkpoint(self) -> State | None:
        return None

    def save_predictions(self, i: int, predictions: dict[str, NDArray[Any]]) -> None:
        """The first process does it."""

    def save_truth(self, y: NDArray[Any]) -> None:
        """The first process does it."""


def folder_of(path: Path, ranks: Ranks) -> RunFolder:
    """The run's folder for this process."""
    return RunFolder(path) if ranks.first else Elsewhere(path)


def same_state(state: State | None, ranks: Ranks) -> State | None:
    """The first process's state for all; as the bytes of a state's file, since they need not share a disk."""
    if ranks.size == 1:
        return state
    with tempfile.TemporaryDirectory() as folder:
        path, data = Path(folder, "state.safetensors"), b""
        if ranks.first and state is not None:
            save_state(path, state)
            data = path.read_bytes()
        data = ranks.from_first(data)
        if ranks.first or not data:
            return state
        path.write_bytes(data)
        return load_state(path)
