"""CORe50's protocols: which training frames are in B_1, B_2, … of each of the ten runs.

The official file lists are taken where they lie in the data folder, else the official pickles, else, for NC, NI and
NIC, the orders rebuilt from the published recipe (`core50.json`). A class follows from a frame's name, so the labels of
the lists are only checked: in NC they number the objects in order of arrival, which permutes the rows of a head.
"""

import hashlib
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from everlearn.data import limited_pickle
from everlearn.data.cache import cached
from everlearn.data.core50 import SITE, Core50
from everlearn.data.core50_frames import (
    TEST_SESSIONS,
    arranged,
    in_words,
    object_of,
    official,
    parse,
    protocol,
    session_of,
)
from everlearn.data.core50_frames import name as name_of
from everlearn.data.source import Array
from everlearn.errors import DataError, sentence

RUNS = 10
LINE_LIMIT = 1 << 24
"""No file list is longer than this many bytes; that of the whole training set has some 3 MB."""


class _Protocol(NamedTuple):
    """A protocol: its number of batches, its folder of file lists, its key in the pickles."""

    batches: int
    lists: str
    key: str


PROTOCOLS = {
    "nc": _Protocol(9, "NC_inc", "nc"),
    "ni": _Protocol(8, "NI_inc", "ni"),
    "nic": _Protocol(79, "NIC_inc", "nic"),
    "nicv2-79": _Protocol(79, "NIC_v2_79", "nicv2_79"),
    "nicv2-196": _Protocol(196, "NIC_v2_196", "nicv2_196"),
    "nicv2-391": _Protocol(391, "NIC_v2_391", "nicv2_391"),
}
"""Protocols by name; 25x2 is cut from nc."""

ARCHIVES = ("batches_filelists", "batches_filelists_NICv2")
"""Where file lists lie, as folders or as zips; or right in the data folder."""


class Batches(NamedTuple):
    """The places of each batch's patterns in the training patterns, ascending, and where the order is from."""

    places: tuple[Array, ...]
    about: str


def batches(source: Core50, name: str, run: int) -> Batches:
    """B_1, B_2, … of a protocol's run, 1 to 10 (the official runs 0 to 9)."""
    _check_run(name, run)
    if name == "25x2":
        return _in_twos(source, batches(source, "nc", run))
    entry = PROTOCOLS[name]
    for read, about in ((_from_lists, "official file lists"), (_from_pickles, "official pickles")):
        found = read(source.folder, entry, run)
        if found is not None:
            places = tuple(_places(source, frames, where) for where, frames in found)
            _check_once(found)
            if not name.startswith("nicv2"):
                _check_whole(source, found, f"{about} of {name}, run {run - 1},")
            return Batches(places, f"orders from the {about}")
    if name.startswith("nicv2"):
        raise _no_lists(source.folder, entry)
    places = tuple(_rebuilt(source, name, run - 1))
    if not all(map(len, places)):
        raise DataError(
            sentence(
                "A batch of the stream would lack patterns",
                expected="frames of every session and object",
                got=f"none for B_{[len(part) for part in places].index(0) + 1} of {name}",
                do="Complete the images.",
            )
        )
    return Batches(places, "orders rebuilt from the published recipe, not compared with the official lists")


def _check_run(name: str, run: int) -> None:
    if name not in (*PROTOCOLS, "25x2") or not 1 <= run <= RUNS:
        raise DataError(
            sentence(
                "CORe50 has no such run",
                expected=f"run 1 to {RUNS} of {', '.join(PROTOCOLS)} or 25x2",
                got=f"run {run} of {name}",
                do="Choose one of them.",
            )
        )


def _in_twos(source: Core50, nc: Batches) -> Batches:
    """25 batches of two objects: those of NC's run, in order of arrival, two at a time."""
    order = [int(obj) for places in nc.places for obj in np.unique(source.objects[places])]
    pairs = [order[k : k + 2] for k in range(0, len(order), 2)]
    return Batches(tuple(np.flatnonzero(np.isin(source.objects, pair)) for pair in pairs), nc.about)


def _rebuilt(source: Core50, name: str, run: int) -> Iterator[Array]:
    """The batches by the published recipe."""
    recipe, session = protocol()[name], source.train.session
    if name == "ni":
        yield from (np.flatnonzero(session == s) for s in recipe[run])
    elif name == "nc":
        yield from (np.flatnonzero(np.isin(source.objects, recipe["groups"][g])) for g in recipe["orders"][run])
    else:
        for s, g in (recipe["units"][unit] for unit in recipe["orders"][run]):
            yield np.flatnonzero((session == s) & np.isin(source.objects, recipe["groups"][g]))


# --- file lists --------------------------------------------------------------------------------------

Lists = list[tuple[str, Array]]
"""The frames of each batch, with the name of the list that says so."""


def _from_lists(folder: Path, entry: _Protocol, run: int) -> Lists | None:
    """The batches of a run by its file lists, None where there are none."""
    wanted = re.compile(rf"(?:.*/)?{entry.lists}/run{run - 1}/train_batch_(\d+)_filelist\.txt")
    found = {int(m[1]): (where, text) for m, where, text in _texts(folder, entry, run, wanted)}
    if not found:
        return None
    if sorted(found) != list(range(entry.batches)):
        missing = sorted(set(range(entry.batches)) - set(found))
        raise DataError(
            sentence(
                f"The file lists of {entry.lists}/run{run - 1} in {folder} are not whole",
                expected=f"train_batch_00 to train_batch_{entry.batches - 1:02d}",
                got=f"{len(found)} lists" + (f", without number {missing[0]}" if missing else ""),
                do="Unpack them again.",
            )
        )
    labels: dict[int, int] = {}
    return [(found[k][0], _frames(*found[k], labels)) for k in sorted(found)]


def _texts(
    folder: Path, entry: _Protocol, run: int, wanted: re.Pattern[str]
) -> Iterator[tuple[re.Match[str], str, bytes]]:
    """The lists of the first place that has any: an unpacked folder, or else an archive."""
    for place in (folder, *(folder / name for name in ARCHIVES)):
        paths = sorted((place / entry.lists / f"run{run - 1}").glob("train_batch_*_filelist.txt"))
        if paths:
            for path in paths:
                if match := wanted.fullmatch(path.as_posix()):
                    yield match, str(path), _unpacked(path)
            return
    for path in (folder / f"{name}.zip" for name in ARCHIVES):
        if path.is_file():
            yield from _zipped(path, wanted)


def _unpacked(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            return _text(str(path), file)
    except OSError as error:
        raise DataError(
            sentence(
                "This file list cannot be read",
                expected="a file that can be opened",
                got=f"{path} ({error.strerror or error})",
                do="Unpack the official lists again.",
            )
        ) from error


def _zipped(path: Path, wanted: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str, bytes]]:
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.namelist():
                if match := wanted.fullmatch(member):
                    where = f"{path}:{member}"
                    with archive.open(member) as file:
                        yield match, where, _text(where, file)
    except (OSError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(
            sentence(
                "This archive cannot be read",
                expected="a whole .zip",
                got=f"{path} ({error})",
                do="Delete it and fetch it again.",
            )
        ) from error


def _text(where: str, file: IO[bytes]) -> bytes:
    """All that is in a list; refuses what is too long to be one."""
    text = file.read(LINE_LIMIT + 1)
    if len(text) > LINE_LIMIT:
        raise DataError(
            sentence(
                f"{where} is too long for a file list",
                expected=f"at most {LINE_LIMIT:,} bytes",
                got="more",
                do="Get the official lists again.",
            )
        )
    return text


def _frames(where: str, text: bytes, labels: dict[int, int]) -> Array:
    """The frames of one list, of lines like `s11/o4/C_11_04_000.png 3`; an object has one label in all of a run."""
    frames = []
    for k, line in enumerate(text.decode("ascii", "replace").splitlines(), start=1):
        path, _, label = line.strip().partition(" ")
        if not path:
            continue
        frame = parse(path)
        good = frame is not None and label.strip().isdecimal()
        if frame is None or not good or labels.setdefault(int(object_of(frame)), int(label)) != int(label):
            raise DataError(
                sentence(
                    f"Line {k} of {where} makes no sense",
                    expected="a frame and the label of its object, like s11/o4/C_11_04_000.png 3",
                    got=repr(line[:80]),
                    do="Get the official lists again.",
                )
            )
        frames.append(frame)
    return np.array(frames, dtype=np.int64)


def _no_lists(folder: Path, entry: _Protocol) -> DataError:
    return DataError(
        sentence(
            f"The orders of {entry.key} are published as file lists only",
            expected=f"{entry.lists}/run0 … run9, or batches_filelists_NICv2.zip, in {folder}",
            got="neither",
            do=f"Run `everlearn data get core50`, or put {SITE}/data/batches_filelists_NICv2.zip there.",
        )
    )


# --- pickles -----------------------------------------------------------------------------------------


def _from_pickles(folder: Path, entry: _Protocol, run: int) -> Lists | None:
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


def _looked_up(lup: Path, paths: Path, entry: _Protocol) -> dict[str, Array]:
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


# --- what every list must be -------------------------------------------------------------------------


def _places(source: Core50, frames: Array, where: str) -> Array:
    """Where a list's frames are among the training patterns, ascending; refuses a list that names absent ones."""
    order = np.argsort(source.frames)
    at = np.searchsorted(source.frames, frames, sorter=order).clip(max=len(order) - 1)
    places = order[at]
    absent = frames[source.frames[places] != frames]
    tested = absent[np.isin(session_of(absent), TEST_SESSIONS)]
    if len(absent) or not len(frames):
        what = "names frames of the test sessions" if len(tested) else "names frames that are not there"
        raise DataError(
            sentence(
                f"{where} {what if len(frames) else 'is empty'}",
                expected=f"frames among the {len(order):,} training frames",
                got=in_words((tested if len(tested) else absent).tolist()) or "none",
                do="Complete the images, or get the official lists again.",
            )
        )
    return np.sort(places)


def _check_once(lists: Lists) -> None:
    """Refuse lists that bring a frame twice."""
    every = np.concatenate([frames for _, frames in lists])
    owner = np.repeat(np.arange(len(lists)), [len(frames) for _, frames in lists])
    again = np.setdiff1d(np.arange(len(every)), np.unique(every, return_index=True)[1])
    if len(again):
        first = again[0]
        before = np.flatnonzero(every == every[first])[0]
        more = f"; {len(again):,} repeats in all lists" if len(again) > 1 else ""
        raise DataError(
            sentence(
                f"{lists[owner[first]][0]} brings a frame more than once",
                expected="each training frame in one batch, once",
                got=f"{name_of(int(every[first]))} again, after {lists[owner[before]][0]}{more}",
                do="Get the official lists again.",
            )
        )


def _check_whole(source: Core50, lists: Lists, called: str) -> None:
    """Refuse lists that leave out training frames, as one does that is cut at the end of a line.

    Where the source itself is a part of CORe50, its lists may be.
    """
    wanted, _ = arranged(official())
    if not np.isin(wanted, source.frames).all():
        return
    missing = wanted[~np.isin(wanted, np.concatenate([frames for _, frames in lists]))]
    if len(missing):
        raise DataError(
            sentence(
                f"The {called} in {source.folder} are not whole",
                expected=f"all {len(wanted):,} training frames",
                got=f"{len(missing):,} missing, {name_of(int(missing[0]))} first",
                do="Get the official lists again.",
            )
        )
