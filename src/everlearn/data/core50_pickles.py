"""CORe50's official pickles: LUP.pkl says which indices of paths.pkl are in which batch of a run."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from everlearn.data import limited_pickle
from everlearn.data.cache import cached
from everlearn.data.core50 import SITE
from everlearn.data.core50_frames import parse
from everlearn.data.core50_protocols import RUNS, Lists, Protocol
from everlearn.data.source import Array
from everlearn.errors import DataError, sentence


def from_pickles(folder: Path, entry: Protocol, run: int) -> Lists | None:
    """The batches of a run by LUP.pkl (which indices of paths.pkl are in which batch), None where there is none."""
    lup, paths = folder / "LUP.pkl", folder / "paths.pkl"
    if not (lup.is_file() and paths.is_file()):
        return None
    stats = [(path.stat().st_size, path.stat().st_mtime_ns) for path in (lup, paths)]
    digest = hashlib.sha256(repr(stats).encode()).hexdigest()[:16]
    target = folder / "cache" / f"LUP-{entry.key}-{digest}.npz"  # reading the pickles takes a while
    arrays = cached(target, lambda: _looked_up(lup, paths, entry))
    if not arrays:
        return None
    frames = np.split(arrays[f"frames{run - 1}"], arrays[f"ends{run - 1}"][:-1])
    return [(f"{lup}, {entry.key}, run {run - 1}, batch {k}", part) for k, part in enumerate(frames)]


def _looked_up(lup: Path, paths: Path, entry: Protocol) -> dict[str, Array]:
    """All runs of a protocol as numbers of frames and the ends of the batches; empty if the pickle has none of it."""
    names = _load(paths)
    runs = _load(lup)
    runs = runs.get(entry.key) if isinstance(runs, dict) else None
    if runs is None:
        return {}
    try:
        numbers = _numbers(names)
        arrays: dict[str, Array] = {}
        for run in range(RUNS):
            parts = [_at(numbers, runs[run][k], f"run {run}, batch {k}") for k in range(entry.batches)]
            arrays[f"frames{run}"] = np.concatenate(parts)
            arrays[f"ends{run}"] = np.cumsum([len(part) for part in parts])
            if len(runs[run]) != entry.batches + 1:  # the last is the test set
                raise ValueError(f"{len(runs[run]) - 1} batches in run {run}")
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise DataError(
            sentence(
                f"{lup} and {paths.name} hold something else",
                expected=f"LUP[{entry.key!r}][run][batch], {entry.batches} lists of indices of paths and the test's",
                got=f"{type(error).__name__}: {error}",
                do=f"Get the official files from {SITE}.",
            )
        ) from error
    return arrays


def _numbers(names: Any) -> Array:
    """The frames that paths.pkl names."""
    if not isinstance(names, list | tuple):
        raise ValueError(f"{_shown(names)} in paths.pkl, not a list")
    numbers = [parse(name) if isinstance(name, str) else None for name in names]
    if None in numbers:
        first = numbers.index(None)
        raise ValueError(f"entry {first} of paths.pkl is {_shown(names[first])}, which is no frame")
    return np.array(numbers, dtype=np.int64)


def _at(numbers: Array, indices: Any, where: str) -> Array:
    """The frames at these indices, which must be integers from 0 on; a bool is none."""
    if not isinstance(indices, list | tuple):
        raise ValueError(f"{_shown(indices)} in {where}, not a list")
    bad = [k for k in indices if type(k) is not int or not 0 <= k < len(numbers)]
    if bad:
        raise ValueError(f"index {_shown(bad[0])} in {where}, not an integer from 0 to {len(numbers) - 1}")
    return numbers[np.array(indices, dtype=np.int64)]


def _shown(value: object) -> str:
    """A value of a pickle; only its type, where the value may be endless."""
    if isinstance(value, str):
        return repr(value[:80])
    short = isinstance(value, float | None) or (isinstance(value, int) and value.bit_length() <= 64)
    return repr(value) if short else f"a value of type {type(value).__name__}"


def _load(path: Path) -> Any:
    """What is in a pickle of plain values; whatever is wrong with it, the error names the file."""
    try:
        with open(path, "rb") as file:
            return limited_pickle.load(file, limited_pickle.PLAIN)
    except (DataError, OSError) as error:
        shown = "".join(c if c.isprintable() else "?" for c in str(error))  # a hostile file's names may not be
        raise DataError(f"{path}: {shown}") from error
