"""The last two checkpoints of a run, so that one may be damaged."""

import os
import warnings
from pathlib import Path

from everlearn._kit.state import State, load_state, save_state
from everlearn.errors import RunError, RunWarning, StateError, sentence


class Checkpoints:
    """`checkpoint.safetensors`, and the one before it.

    A third is there only while it is written. Until it is whole and safe on disk, the other two stay as they are.
    """

    def __init__(self, folder: Path) -> None:
        self.newest, self.before = folder / "checkpoint.safetensors", folder / "checkpoint-before.safetensors"

    def save(self, state: State) -> None:
        """Make this the newest."""
        save_state(self.newest, state, keep=self.before)

    def read(self) -> State | None:
        """The newest that is whole, None where there is none yet."""
        found = self._whole()
        return None if found is None else found[1]

    def take(self) -> State | None:
        """Read it, to go on from it: a damaged one after it is dropped, since it will be made again."""
        found = self._whole()
        if found is None:
            return None
        path, state = found
        if path != self.newest:
            os.replace(path, self.newest)
        return state

    def _whole(self) -> tuple[Path, State] | None:
        damage: list[str] = []
        for path in (self.newest, self.before):
            if path.exists():  # killed between two renamings, a run has only the one before
                try:
                    state = _of_now(load_state(path))
                except StateError as error:
                    damage.append(str(error))
                    continue
                if damage:
                    warnings.warn(_gone_back(path, damage[0]), RunWarning, stacklevel=4)
                return path, state
        if damage:
            raise RunError(
                sentence(
                    "No checkpoint of this run is whole",
                    expected=f"{self.newest.name} or {self.before.name} as it was written",
                    got=" | ".join(damage),
                    do="Bring one back from a backup, or remove both if the run had finished: its records are enough; "
                    f"else remove {self.newest.parent} to learn anew.",
                )
            )
        return None


def _gone_back(path: Path, damage: str) -> str:
    return sentence(
        "The newest checkpoint is damaged",
        expected="the file as it was written",
        got=damage,
        do=f"The run goes on from the one before it, {path}: what came later is learnt again, and comes out the same.",
    )


def _of_now(state: State) -> State:
    """A checkpoint of 0.1.0, which had the batch's number in the learner's state alone, as it is written now."""
    if "i" in state:
        return state
    return {**state, "i": state["learner"]["i"], "within": bool(state["before"])}
