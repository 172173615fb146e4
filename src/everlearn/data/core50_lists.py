"""CORe50's protocols: which training frames are in B_1, B_2, … of each of the ten runs.

The official file lists are taken where they lie in the data folder, else the official pickles, else, for NC, NI and
NIC, the orders rebuilt from the published recipe (`core50.json`). A class follows from a frame's name, so the labels of
the lists are only checked: in NC they number the objects in order of arrival, which permutes the rows of a head.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from everlearn.data.core50 import Core50
from everlearn.data.core50_filelists import from_lists, no_lists
from everlearn.data.core50_frames import TEST_SESSIONS, arranged, in_words, official, protocol, session_of
from everlearn.data.core50_frames import name as name_of
from everlearn.data.core50_pickles import from_pickles
from everlearn.data.core50_protocols import PROTOCOLS, RUNS, Lists
from everlearn.data.source import Array
from everlearn.errors import DataError, sentence


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
    for read, about in ((from_lists, "official file lists"), (from_pickles, "official pickles")):
        found = read(source.folder, entry, run)
        if found is not None:
            places = tuple(_places(source, frames, where) for where, frames in found)
            _check_once(found)
            if not name.startswith("nicv2"):
                _check_whole(source, found, f"{about} of {name}, run {run - 1},")
            return Batches(places, f"orders from the {about}")
    if name.startswith("nicv2"):
        raise no_lists(source.folder, entry)
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
    if name not in (*PROTOCOLS, "25x2") or not isinstance(run, int) or not 1 <= run <= RUNS:
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
