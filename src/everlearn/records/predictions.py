"""The predictions that a run kept, pattern by pattern: arrays of classes, read without trust."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import DataError, sentence
from everlearn.records.reading import Run

Classes = NDArray[np.int64]


def predicted(run: Run, i: int, kind: str = "seen") -> Classes | None:
    """The predicted class of every test pattern after B_i, −1 for none; None where it was not kept."""
    return _read(run, f"{i:03d}-{kind}")


def truth(run: Run) -> Classes | None:
    """The true class of every test pattern; None where it was not kept."""
    return _read(run, "true")


def _read(run: Run, name: str) -> Classes | None:
    path = None if run.folder is None else run.folder / "predictions" / f"{name}.npy"
    return None if path is None or not path.is_file() else read_classes(path)


def read_classes(path: Path) -> Classes:
    """A list of classes from a .npy file. The file is mapped, so that a header cannot promise more than is there."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError, OverflowError, SyntaxError) as error:
        raise _damaged(path, error) from None
    if not isinstance(found, np.ndarray) or found.ndim != 1 or not np.issubdtype(found.dtype, np.integer):
        raise _damaged(path, f"{type(found).__name__} of {getattr(found, 'dtype', 'arrays')}")
    return found.astype(np.int64)


def _damaged(path: Path, got: object) -> DataError:
    return DataError(
        sentence(
            f"predictions/{path.name} cannot be read",
            expected="a .npy file of one whole number a test pattern",
            got=got,
            do="Repeat the run, or move its folder elsewhere.",
        )
    )
