"""CORe50: its frames, its protocols, and a cache that survives anything, against official paths and real images."""

import errno
import gzip
import itertools
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from everlearn._kit.lines import read_lines
from everlearn.benchmarks import BENCHMARKS, benchmark_of, prepare
from everlearn.cli import main
from everlearn.data import (
    Core50,
    Patterns,
    Source,
    core50,
    core50_fetch,
    core50_filelists,
    core50_frames,
    core50_lists,
    mapped,
)
from everlearn.data.batch import check_patterns
from everlearn.data.core50_frames import Zip, arranged, name, number, object_of, official, parse, session_of
from everlearn.data.core50_lists import batches
from everlearn.data.core50_protocols import PROTOCOLS
from everlearn.data.source import Array
from everlearn.errors import ConfigError, DataError
from everlearn.runs import Config, run
from tests.toys import is_mapped

module = sys.modules["everlearn.data.core50"]
SHARED = Path(__file__).parents[3] / "shared" / "data" / "core50"
real_images = pytest.mark.skipif(not (SHARED / "images").is_dir(), reason="needs ../shared/data/core50/images")
real_paths = pytest.mark.skipif(
    not (SHARED / "paths.txt.gz").is_file(), reason="needs ../shared/data/core50/paths.txt.gz"
)
real_runs = pytest.mark.skipif(not (SHARED / "runs.json").is_file(), reason="needs ../shared/data/core50/runs.json")
RUNS = range(1, 11)
TRAINING = (1, 2, 4, 5, 6, 8, 9, 11)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty `core50` in a data folder of its own."""
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path))
    (tmp_path / "core50").mkdir()
    return tmp_path / "core50"


@pytest.fixture(scope="module")
def everything() -> Core50:
    """All of CORe50 but the pixels."""
    train, test = arranged(official())
    parts = [Patterns(np.zeros((len(k), 1, 1, 1), np.uint8), object_of(k), session_of(k)) for k in (train, test)]
    return Core50("core50", parts[0], parts[1], module.OBJECT_NAMES, frames=train)


def write(images: Path, frames: Iterator[int] | list[int], size: int = 32) -> None:
    """One-coloured images that tell their frame: red the session, green the object, blue the frame."""
    for k in frames:
        path = images / name(k)
        path.parent.mkdir(parents=True, exist_ok=True)
        colour = (int(session_of(k)), int(object_of(k)), k % 300 % 256)
        Image.new("RGB", (size, size), colour).save(path, compress_level=1)


def every(frames: int = 2) -> list[int]:
    return [number(s, o, f) for s in range(1, 12) for o in range(50) for f in range(frames)]


@pytest.fixture(scope="module")
def toy_images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two frames of every video, 32×32."""
    images = tmp_path_factory.mktemp("toy") / "core50_32x32"
    write(images, every())
    return images


@pytest.fixture
def toy(folder: Path, toy_images: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CORe50 whose videos have two frames, in the data folder."""
    (folder / "core50_32x32").symlink_to(toy_images)
    for place in (module, core50_frames, core50_lists):
        monkeypatch.setattr(place, "official", lambda: np.array(every()))
    return folder


@pytest.fixture
def own_images(toy: Path, toy_images: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its images in a folder that a test may damage, cached a hundred at a time."""
    monkeypatch.setattr(mapped, "CHUNK", 100 * 3 * 32 * 32)
    (toy / "core50_32x32").unlink()
    return Path(shutil.copytree(toy_images, toy / "core50_32x32"))


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many images have been decoded, one entry each."""
    count: list[int] = []
    real = core50_frames.decode

    def counted(content: bytes, size: int) -> Array:
        count.append(1)
        return real(content, size)

    monkeypatch.setattr(module, "decode", counted)
    return count


def message(call: Callable[[], object], *words: str) -> str:
    with pytest.raises(DataError) as error:
        call()
    for word in words:
        assert word in str(error.value)
    return str(error.value)


# --- frames ------------------------------------------------------------------------------------------


@real_paths
def test_the_frames_are_the_official_ones() -> None:
    with gzip.open(SHARED / "paths.txt.gz", "rt") as file:
        paths = file.read().split()
    assert sorted(name(int(k)) for k in official()) == paths
    assert sorted(k for k in map(parse, paths) if k is not None) == sorted(official().tolist())
    train, test = arranged(official())
    assert (len(train), len(test)) == (119_894, 44_972)
    assert set(session_of(train).tolist()) == set(TRAINING)
    assert set(session_of(test).tolist()) == {3, 7, 10}


def test_every_twentieth_test_frame_is_the_official_subset() -> None:
    """The official test_filelist_reduced.txt has 60,617 bytes; these are its first lines, its turns and its last."""
    _, test = arranged(official())
    chosen = [name(int(k)) for k in test[::20]]
    assert len(chosen) == 2249
    assert sum(len(f"{path} {object_of(parse(path))}\r\n") for path in chosen) == 60_617
    assert chosen[:2] == ["s3/o1/C_03_01_001.png", "s3/o1/C_03_01_021.png"]
    assert chosen[15] == "s3/o10/C_03_10_001.png"
    for path in (
        "s3/o16/C_03_16_003.png",
        "s3/o2/C_03_02_003.png",
        "s3/o38/C_03_38_007.png",
        "s10/o50/C_10_50_008.png",
    ):
        assert path in chosen
    assert chosen[-1] == "s10/o9/C_10_09_288.png"


def test_names_that_are_not_frames() -> None:
    for path in (
        "s12/o1/C_12_01_000.png",
        "s1/o51/C_01_51_000.png",
        "s1/o1/C_01_01_300.png",
        "s1/o1/._C_01_01_000.png",
    ):
        assert parse(path) is None
    assert parse("a/b/s1/o1/C_01_01_000.png") == number(1, 0, 0)


# --- protocols ---------------------------------------------------------------------------------------


def recipe() -> dict[str, list[list[tuple[int, ...]]]]:
    """The published recipe, run by run: legacy generator, seed 1, each run's order shuffled from the one before.

    NC and NI give the objects or sessions of each batch, NIC the session and then its objects.
    """
    generator = np.random.RandomState
    first = [5 * k for k in range(10)]
    groups = [first] + [[5 * k + (b + 1) // 2 for k in (range(5) if b % 2 else range(5, 10))] for b in range(1, 9)]
    static = generator(0)
    later = [o for o in range(50) if o % 5]
    static.shuffle(later)
    fives = [sorted(later[k : k + 5]) for k in range(0, 40, 5)]
    units = [(s, *five) for s in TRAINING for five in fives]
    units += [(s, *half) for s in TRAINING[1:] for half in (first[:5], first[5:])]
    static.shuffle(units)
    contents: dict[str, list[tuple[int, ...]]] = {
        "ni": [(s,) for s in TRAINING],
        "nc": [tuple(g) for g in groups],
        "nic": [(1, *first), *units],
    }
    runs: dict[str, list[list[tuple[int, ...]]]] = {}
    for protocol, batch in contents.items():
        rng, order = generator(1), list(range(len(batch)))
        runs[protocol] = []
        for _ in RUNS:
            fixed, moving = ([], order) if protocol == "ni" else (order[:1], order[1:])
            rng.shuffle(moving)
            order = [*fixed, *moving]
            runs[protocol].append([batch[k] for k in order])
    return runs


@pytest.mark.parametrize("protocol", ["nc", "ni", "nic", "25x2"])
def test_the_protocols_hold_every_training_image_once(protocol: str, everything: Core50, folder: Path) -> None:
    count = {"nc": 9, "ni": 8, "nic": 79, "25x2": 25}[protocol]
    sessions, objects, orders = everything.train.session, everything.objects, set()
    wanted = recipe()
    for r in RUNS:
        places, about = batches(everything, protocol, r)
        assert "rebuilt" in about
        assert len(places) == count
        assert np.array_equal(np.sort(np.concatenate(places)), np.arange(119_894))
        got = [(np.unique(sessions[p]).tolist(), np.unique(objects[p]).tolist()) for p in places]
        orders.add(repr(got))
        if protocol == "nc":
            assert got[0] == (list(TRAINING), [5 * k for k in range(10)])  # B_1 is the same in every run
            assert [tuple(o) for _, o in got] == wanted["nc"][r - 1]
        elif protocol == "ni":
            assert [tuple(s) for s, _ in got] == wanted["ni"][r - 1]
            assert all(o == list(range(50)) for _, o in got)
        elif protocol == "nic":
            assert got[0] == ([1], [5 * k for k in range(10)])
            assert [(s[0], *o) for s, o in got] == wanted["nic"][r - 1]
        else:
            arrival = [o for group in wanted["nc"][r - 1] for o in group]
            assert [sorted(arrival[k : k + 2]) for k in range(0, 50, 2)] == [o for _, o in got]
    assert len(orders) == 10


@real_runs
def test_the_shipped_orders_are_those_of_the_recipe(everything: Core50, folder: Path) -> None:
    runs = json.loads((SHARED / "runs.json").read_text())
    ours = recipe()
    for r in range(10):
        assert [s[0] - 1 for s in ours["ni"][r]] == runs["NI_session_order_per_run"][r]
        assert [list(o) for o in ours["nc"][r]] == runs["NC_per_run"][r]["objects_per_batch"]
        units = [(unit["session"] + 1, *sorted(unit["objects"])) for unit in runs["NIC_per_run"][r]]
        assert [tuple(map(int, unit)) for unit in ours["nic"][r]] == units


def test_there_are_ten_runs(everything: Core50) -> None:
    for r in (0, 11):
        message(partial(batches, everything, "nc", r), "run 1 to 10", f"run {r} of nc")


# --- file lists and pickles --------------------------------------------------------------------------


def listed(source: Core50, places: tuple[Array, ...], folder: Path) -> None:
    """Write batches as official file lists, with labels in order of arrival for NC and by object for the others."""
    folder.mkdir(parents=True)
    arrival = {} if folder.parent.name == "NC_inc" else {obj: obj for obj in range(50)}
    for k, part in enumerate(places):
        frames = source.frames[part][::-1].tolist()
        lines = [f"{name(f)} {arrival.setdefault(int(object_of(f)), len(arrival))}" for f in frames]
        (folder / f"train_batch_{k:02d}_filelist.txt").write_text("\r\n".join(lines) + "\r\n")


def backwards(source: Core50, protocol: str, r: int) -> tuple[Array, ...]:
    """Another order than the rebuilt one, so that one sees which was taken."""
    return tuple(reversed(batches(source, protocol, r).places))


def same(a: tuple[Array, ...], b: tuple[Array, ...]) -> bool:
    return len(a) == len(b) and all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


@pytest.mark.parametrize("archive", [False, True])
def test_file_lists_come_before_the_rebuilt_orders(archive: bool, toy: Path, tmp_path: Path) -> None:
    source = core50(32)
    wanted = backwards(source, "nc", 3)
    assert not same(wanted, batches(source, "nc", 3).places)
    lists = tmp_path / "made" / "batches_filelists" / "NC_inc" / "run2"
    listed(source, wanted, lists)
    if archive:
        shutil.make_archive(str(toy / "batches_filelists"), "zip", tmp_path / "made")
    else:
        shutil.copytree(tmp_path / "made", toy, dirs_exist_ok=True)
    got = batches(source, "nc", 3)
    assert same(got.places, wanted)
    assert got.about == "orders from the official file lists"
    assert "rebuilt" in batches(source, "nc", 4).about
    assert same(
        batches(source, "25x2", 3).places[-1:],
        (np.flatnonzero(np.isin(source.objects, [40, 45])),),  # the last two of NC's B_1, which now arrives last
    )


def test_nicv2_needs_its_file_lists(toy: Path) -> None:
    source = core50(32)
    message(lambda: batches(source, "nicv2-196", 1), "NIC_v2_196", "batches_filelists_NICv2.zip", "data get core50")
    units = np.array_split(np.random.default_rng(0).permutation(len(source.frames)), 196)
    wanted = tuple(np.sort(part) for part in units)
    listed(source, wanted, toy / "NIC_v2_196" / "run0")
    got = batches(source, "nicv2-196", 1)
    assert same(got.places, wanted)
    (toy / "NIC_v2_196" / "run0" / "train_batch_100_filelist.txt").unlink()
    message(lambda: batches(source, "nicv2-196", 1), "195 lists, without number 100")


def test_file_lists_that_cannot_be_meant(toy: Path) -> None:
    source = core50(32)
    folder = toy / "batches_filelists" / "NI_inc" / "run0"
    listed(source, batches(source, "ni", 1).places, folder)
    path = folder / "train_batch_02_filelist.txt"
    good = path.read_text()
    cases = {
        "s2/o4/C_02_04_007.png 3\n": ("names frames that are not there", "s2/o4/C_02_04_007.png"),
        "s3/o4/C_03_04_000.png 3\n": ("names frames of the test sessions", "s3/o4/C_03_04_000.png"),
        "s2/o4/C_02_04_000.png 49\n": ("Line 101", "makes no sense"),
        "../../secret.png 3\n": ("Line 101", "'../../secret.png 3'"),
    }
    for line, words in cases.items():
        path.write_text(good + line)
        message(lambda: batches(source, "ni", 1), *words, str(path))
    path.write_text("")
    message(lambda: batches(source, "ni", 1), "is empty", str(path))
    (toy / "batches_filelists.zip").write_bytes(b"PK no zip")
    message(lambda: batches(source, "nic", 1), "This archive cannot be read", "batches_filelists.zip")


def test_repeated_frames_are_named_with_their_list(toy: Path) -> None:
    """The last two lines of batch 1 again in batch 2, then the first line of batch 2 again in itself."""
    source = core50(32)
    folder = toy / "batches_filelists" / "NI_inc" / "run0"
    listed(source, batches(source, "ni", 1).places, folder)
    earlier, path = folder / "train_batch_01_filelist.txt", folder / "train_batch_02_filelist.txt"
    good, repeated = path.read_text(), earlier.read_text().splitlines()[-2:]
    path.write_text("\n".join([*repeated, good]))
    frame = repeated[0].split()[0]
    again = (f"{path} brings a frame more than once", f"got {frame} again, after {earlier}; 2 repeats in all lists")
    message(lambda: batches(source, "ni", 1), *again)
    path.write_text(good + good.splitlines()[0])
    text = message(lambda: batches(source, "ni", 1), f"got {good.split()[0]} again, after {path}. Get")
    assert "repeats" not in text


def test_file_lists_that_cannot_be_opened_are_named(toy: Path) -> None:
    source = core50(32)
    folder = toy / "batches_filelists" / "NI_inc" / "run0"
    listed(source, batches(source, "ni", 1).places, folder)
    path = folder / "train_batch_02_filelist.txt"
    path.unlink()
    path.mkdir()
    message(lambda: batches(source, "ni", 1), "This file list cannot be read", f"{path} (Is a directory)")
    path.rmdir()
    path.symlink_to("nowhere")
    message(lambda: batches(source, "ni", 1), "This file list cannot be read", f"{path} (No such file or directory)")


def test_an_encrypted_archive_of_lists_is_named(toy: Path, tmp_path: Path) -> None:
    source = core50(32)
    listed(source, batches(source, "ni", 1).places, tmp_path / "made" / "batches_filelists" / "NI_inc" / "run0")
    path = Path(shutil.make_archive(str(toy / "batches_filelists"), "zip", tmp_path / "made"))
    content = bytearray(path.read_bytes())
    for mark, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        for found in re.finditer(re.escape(mark), bytes(content)):
            content[found.start() + flags] |= 1
    path.write_bytes(content)
    message(lambda: batches(source, "ni", 1), "This archive cannot be read", "batches_filelists.zip", "encrypted")


def test_a_damaged_archive_is_named_wherever_it_is_damaged(toy: Path, tmp_path: Path) -> None:
    """Every byte of a list's two headers, and the first of its content: read all the same, or refused as damaged."""
    source = core50(32)
    listed(source, batches(source, "ni", 1).places, tmp_path / "made" / "batches_filelists" / "NI_inc" / "run0")
    path = Path(shutil.make_archive(str(toy / "batches_filelists"), "zip", tmp_path / "made"))
    whole, refused = path.read_bytes(), {"lists": 0, "images": 0}
    name = b"batches_filelists/NI_inc/run0/train_batch_02_filelist.txt"
    headers = whole.index(name) - 30, whole.rindex(name) - 46
    places = [*range(headers[0], headers[0] + 150), *range(headers[1], headers[1] + 46 + len(name))]
    for place, flip in itertools.product(places, (1, 0x08, 0xFF)):
        content = bytearray(whole)
        content[place] ^= flip
        path.write_bytes(content)
        for what, read in (("lists", lambda: batches(source, "ni", 1)), ("images", lambda: Zip(path))):
            try:
                read()
            except DataError as error:
                refused[what] += str(toy) in str(error)
    assert min(refused.values()) > 10


def test_a_label_of_thousands_of_digits_is_refused(toy: Path) -> None:
    """Python itself refuses to read such a number."""
    source = core50(32)
    folder = toy / "batches_filelists" / "NI_inc" / "run0"
    listed(source, batches(source, "ni", 1).places, folder)
    path = folder / "train_batch_02_filelist.txt"
    path.write_text(path.read_text().splitlines()[0] + "9" * 5000)
    message(lambda: batches(source, "ni", 1), f"Line 1 of {path} makes no sense")


@pytest.mark.parametrize("archive", [False, True])
def test_a_list_that_is_too_long_is_refused(archive: bool, toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the longest list's length, then a byte less."""
    source = core50(32)
    wanted = batches(source, "ni", 1).places
    folder = toy / "batches_filelists" / "NI_inc" / "run0"
    listed(source, wanted, folder)
    paths = sorted(folder.iterdir())
    most = max(path.stat().st_size for path in paths)
    where = next(str(path) for path in paths if path.stat().st_size == most)
    if archive:
        shutil.make_archive(str(toy / "batches_filelists"), "zip", toy, "batches_filelists")
        shutil.rmtree(toy / "batches_filelists")
        where = where.replace(f"{toy}/", f"{toy / 'batches_filelists.zip'}:")
    monkeypatch.setattr(core50_filelists, "LINE_LIMIT", most)
    assert same(batches(source, "ni", 1).places, wanted)
    monkeypatch.setattr(core50_filelists, "LINE_LIMIT", most - 1)
    message(lambda: batches(source, "ni", 1), f"{where} is too long", f"at most {most - 1:,} bytes, got more")


@pytest.mark.parametrize(
    ("protocol", "lists"), [("nc", "NC_inc"), ("ni", "NI_inc"), ("nic", "NIC_inc"), ("25x2", "NC_inc")]
)
def test_lists_that_leave_out_frames_are_refused(protocol: str, lists: str, toy: Path) -> None:
    """Three lines are cut from the end of the third list, which is written backwards: the first of them is last."""
    source = core50(32)
    places = batches(source, "nc" if protocol == "25x2" else protocol, 2).places
    folder = toy / "batches_filelists" / lists / "run1"
    listed(source, places, folder)
    assert batches(source, protocol, 2).about == "orders from the official file lists"
    path = folder / "train_batch_02_filelist.txt"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-3]))
    message(
        lambda: batches(source, protocol, 2),
        f"The official file lists of {protocol.replace('25x2', 'nc')}, run 1, in {toy} are not whole",
        f"expected all 800 training frames, got 3 missing, {name(int(source.frames[places[2][0]]))} first.",
    )


def test_pickles_that_leave_out_frames_are_refused(toy: Path) -> None:
    source = core50(32)
    paths, runs = looked_up(source, {r: backwards(source, "ni", r) for r in RUNS})
    gone = runs[3][5].pop()
    pickled(toy, paths, {"ni": runs})
    words = (f"The official pickles of ni, run 3, in {toy}", f"got 1 missing, {paths[gone]} first.")
    message(lambda: batches(source, "ni", 4), *words)
    assert batches(source, "ni", 5).about == "orders from the official pickles"


def test_a_part_of_the_images_may_have_lists_of_its_own(toy: Path, toy_images: Path) -> None:
    """Without one image, lists may leave out others; lists that name it are refused, as ever."""
    (toy / "core50_32x32").unlink()
    shutil.copytree(toy_images, toy / "core50_32x32")
    (toy / "core50_32x32" / name(number(1, 0, 0))).unlink()
    source = core50(32, complete=False)
    wanted = tuple(part[3:] for part in batches(source, "ni", 1).places)
    folder = toy / "batches_filelists" / "NI_inc" / "run0"
    listed(source, wanted, folder)
    assert same(batches(source, "ni", 1).places, wanted)
    with open(folder / "train_batch_00_filelist.txt", "a") as file:
        file.write(f"{name(number(1, 0, 0))} 0\n")
    message(lambda: batches(source, "ni", 1), "names frames that are not there", name(number(1, 0, 0)))


def test_more_images_than_the_official_ones_need_no_list(toy: Path, toy_images: Path) -> None:
    """A third frame of a video: the official lists do not name it, and are whole."""
    (toy / "core50_32x32").unlink()
    shutil.copytree(toy_images, toy / "core50_32x32")
    wanted = batches(core50(32), "ni", 1).places
    listed(core50(32), wanted, toy / "batches_filelists" / "NI_inc" / "run0")
    write(toy / "core50_32x32", [number(1, 0, 2)])
    source = core50(32, complete=False)
    assert len(source.frames) == 801
    assert sum(map(len, batches(source, "ni", 1).places)) == 800


@pytest.mark.parametrize("file", ["LUP.pkl", "paths.pkl"])
def test_pickles_that_cannot_be_read_are_named(file: str, toy: Path) -> None:
    source = core50(32)
    for path in (toy / "LUP.pkl", toy / "paths.pkl"):
        path.write_bytes(pickle.dumps([], protocol=2))
    whole = pickle.dumps(["s1/o1/C_01_01_000.png"] * 9, protocol=2)
    for content, words in (
        (b"cos\nsystem\n(S'true'\ntR.", "os.system"),
        (b"cos\n\x1b[2Jsystem\n.", "os.?[2Jsystem"),  # the name of what it would run clears the terminal
        (whole[:-5], "cannot be read"),
        (b"", "cannot be read"),
    ):
        (toy / file).write_bytes(content)
        text = message(lambda: batches(source, "nc", 1), f"{toy / file}: This pickle", words)
        assert text.isprintable()


def pickled(folder: Path, paths: object, lup: object) -> None:
    """Write paths.pkl and LUP.pkl."""
    for file, value in (("paths.pkl", paths), ("LUP.pkl", lup)):
        (folder / file).write_bytes(pickle.dumps(value, protocol=2))


def looked_up(source: Core50, wanted: dict[int, tuple[Array, ...]]) -> tuple[list[Any], list[list[list[Any]]]]:
    """Paths in some order, and each run's batches and test as indices of them, as in the official pickles."""
    train, test = arranged(every())
    paths = [name(int(k)) for k in np.random.default_rng(0).permutation(np.concatenate([train, test]))]
    index = {path: k for k, path in enumerate(paths)}
    runs = [[*(source.frames[part] for part in wanted[r]), test] for r in RUNS]
    return paths, [[[index[name(int(k))] for k in part] for part in parts] for parts in runs]


HUGE = 10**5000
"""An integer that Python does not even print."""


@pytest.mark.parametrize(
    ("index", "shown"),
    [
        (-1, "-1"),
        (1.7, "1.7"),
        (1.0, "1.0"),
        (True, "True"),
        (1100, "1100"),
        (None, "None"),
        ("7", "'7'"),
        (1 << 80, "a value of type int"),
        pytest.param(HUGE, "a value of type int", id="huge"),
        ([1], "a value of type list"),
    ],
)
def test_indices_are_integers_within_the_paths(index: object, shown: str, toy: Path) -> None:
    """There are 1,100 paths. The bad index is the second of batch 2 in the third run."""
    source = core50(32)
    paths, runs = looked_up(source, {r: backwards(source, "ni", r) for r in RUNS})
    runs[2][2][1] = index
    pickled(toy, paths, {"ni": runs})
    words = f"index {shown} in run 2, batch 2, not an integer from 0 to 1099"
    message(lambda: batches(source, "ni", 1), f"{toy / 'LUP.pkl'} and paths.pkl hold something else", words)
    assert not list((toy / "cache").glob("LUP*"))


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("s1/o2/C_01_03_000.png", "'s1/o2/C_01_03_000.png'"),
        ("\x1b[2J" + "x" * 200, repr("\x1b[2J" + "x" * 76)),
        (None, "None"),
        (["s1/o1/C_01_01_000.png"], "a value of type list"),
        pytest.param(HUGE, "a value of type int", id="huge"),
    ],
)
def test_a_path_that_is_no_frame_is_named(entry: object, shown: str, toy: Path) -> None:
    source = core50(32)
    paths, runs = looked_up(source, {r: backwards(source, "ni", r) for r in RUNS})
    paths[5] = paths[9] = entry
    pickled(toy, paths, {"ni": runs})
    text = message(lambda: batches(source, "ni", 1), "hold something else", f"entry 5 of paths.pkl is {shown}")
    assert text.isprintable()


def test_pickles_of_another_shape(toy: Path) -> None:
    source = core50(32)
    paths, runs = looked_up(source, {r: backwards(source, "ni", r) for r in RUNS})
    pickled(toy, dict.fromkeys(paths), {"ni": runs})
    message(lambda: batches(source, "ni", 1), "hold something else", "a value of type dict in paths.pkl, not a list")
    pickled(toy, paths, {"ni": [[dict.fromkeys(part) for part in parts] for parts in runs]})
    message(lambda: batches(source, "ni", 1), "a value of type dict in run 0, batch 0, not a list")
    pickled(toy, paths, {"ni": 7})
    message(lambda: batches(source, "ni", 1), "hold something else", "'int' object is not subscriptable")
    pickled(toy, tuple(paths), {"ni": tuple(tuple(tuple(part) for part in parts) for parts in runs)})
    assert same(batches(source, "ni", 4).places, tuple(reversed(tuple(core50_lists._rebuilt(source, "ni", 3)))))


def test_the_official_pickles(toy: Path) -> None:
    source = core50(32)
    wanted = {r: backwards(source, "nic", r) for r in RUNS}
    paths, runs = looked_up(source, wanted)
    lup = {"nic": runs}
    pickled(toy, paths, lup)
    for r in (1, 10):
        got = batches(source, "nic", r)
        assert same(got.places, wanted[r])
        assert got.about == "orders from the official pickles"
    assert "rebuilt" in batches(source, "nc", 1).about  # the pickle has no NC
    lup["nic"][4].pop()
    (toy / "LUP.pkl").write_bytes(pickle.dumps(lup, protocol=2))
    message(lambda: batches(source, "nic", 1), "hold something else", "78 batches in run 4")
    (toy / "LUP.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    message(lambda: batches(source, "nic", 1), "os.system")


# --- images ------------------------------------------------------------------------------------------


def put(folder: Path, size: int, archive: bool) -> dict[str, Array]:
    """The real images, as they are or scaled down, as a folder or as a zip with some rubbish; gives them by name."""
    stem, pixels = f"core50_{size}x{size}", {}
    for path in sorted((SHARED / "images").rglob("*.png")):
        relative = path.relative_to(SHARED / "images")
        target = folder / stem / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as image:
            image.resize((size, size), Image.Resampling.BOX).save(target)
        with Image.open(target) as image:
            pixels[relative.as_posix()] = np.array(image)
    if archive:
        rubbish = folder / "__MACOSX" / stem / "s1" / "o1" / "._C_01_01_000.png"
        rubbish.parent.mkdir(parents=True)
        rubbish.write_bytes(b"rubbish")
        with zipfile.ZipFile(folder / f"{stem}.zip", "w") as out:
            for path in sorted([*(folder / stem).rglob("*.png"), rubbish]):
                out.write(path, path.relative_to(folder))
        shutil.rmtree(folder / stem)
    return pixels


@real_images
@pytest.mark.parametrize("size", [128, 32])
@pytest.mark.parametrize("archive", [False, True])
def test_real_images_are_decoded_once(size: int, archive: bool, folder: Path, decoded: list[int]) -> None:
    pixels = put(folder, size, archive)
    source = core50(size, complete=False)
    assert len(decoded) == 90
    assert source.shape == (3, size, size)
    assert (len(source.train), len(source.test)) == (70, 20)  # sessions 1 to 9, ten images each; 3 and 7 are the test
    for part, frames in zip((source.train, source.test), arranged(map(number_of, pixels)), strict=True):
        assert is_mapped(part.x)
        for x, y, session, k in zip(part.x, part.y, part.session, frames, strict=True):
            path = name(int(k))
            assert np.array_equal(x, pixels[path].transpose(2, 0, 1))
            assert path.startswith(f"s{session}/o{y + 1}/")
    again = core50(size, complete=False, labels="category", test_every=7)
    assert len(decoded) == 90
    assert np.array_equal(again.train.x, source.train.x)
    assert np.array_equal(again.train.y, source.train.y // 5)
    assert again.classes[:2] == ("plug_adapter", "mobile_phone")
    assert source.classes[5] == "mobile_phone1"
    assert np.array_equal(again.test.x, source.test.x[::7])
    assert np.array_equal(again.test.y, source.test.y[::7] // 5)


def number_of(path: str) -> int:
    k = parse(path)
    assert k is not None
    return k


def test_a_whole_cache_needs_no_images(toy: Path, decoded: list[int]) -> None:
    source = core50(32)
    assert (len(source.train), len(source.test), len(decoded)) == (800, 300, 1100)
    (toy / "core50_32x32").unlink()
    again = core50(32, check=True)
    assert len(decoded) == 1100
    assert again.train.x[:, :, 5, 5].tolist() == [
        [s, o, k % 300] for s, o, k in zip(again.train.session, again.train.y, again.frames, strict=True)
    ]
    assert sorted(path.suffix for path in (toy / "cache").iterdir()) == [".npy", ".sums"]
    assert np.array_equal(np.load(next((toy / "cache").glob("*.npy"))), np.concatenate([source.train.x, source.test.x]))


def test_what_is_missing_is_named(toy: Path, toy_images: Path) -> None:
    (toy / "core50_32x32").unlink()
    message(lambda: core50(32), "not in", "Put core50_32x32.zip", "EVERLEARN_DATA")  # which `data get` does not fetch
    message(lambda: core50(128), "not in", "core50_128x128.zip", "everlearn data get core50", "EVERLEARN_DATA")
    shutil.copytree(toy_images, toy / "core50_32x32")
    shutil.rmtree(toy / "core50_32x32" / "s4")
    shutil.rmtree(toy / "core50_32x32" / "s5" / "o17")
    (toy / "core50_32x32" / "s7" / "o50" / "C_07_50_001.png").unlink()
    message(lambda: core50(32), "997 of them", "without session 4, video s5/o17, s7/o50/C_07_50_001.png")
    assert len(core50(32, complete=False).train) == 698
    shutil.rmtree(toy / "core50_32x32")
    (toy / "core50_32x32").mkdir()
    message(lambda: core50(32), "0 of them", "session 1, session 2, session 3, session 4, session 5 and 6 more")
    message(lambda: core50(32, complete=False), "no frames to train with", "0 and 0 frames")
    shutil.copytree(toy_images / "s1", toy / "core50_32x32" / "s1")
    message(lambda: core50(32, complete=False), "no frames to test with", "test sessions 3, 7, 10", "got 0 and 100")
    shutil.rmtree(toy / "core50_32x32" / "s1")
    (toy / "core50_32x32").rmdir()
    (toy / "core50_32x32.zip").write_bytes(b"PK\3\4 cut short")
    message(lambda: core50(32), "This archive cannot be read", "core50_32x32.zip")
    bad: list[dict[str, Any]] = [{"size": 64}, {"labels": "colour"}, {"test_every": 0}, {"workers": 0}]
    for choice in bad:
        message(partial(core50, **choice), f"CORe50 cannot be read with this {next(iter(choice))}")


def test_bad_images_are_named_and_the_others_kept(toy: Path, own_images: Path, decoded: list[int]) -> None:
    images = own_images
    train, _ = arranged(every())
    bad = [images / name(int(train[k])) for k in (350, 351, 399)]
    whole = bad[0].read_bytes()
    bad[0].write_bytes(whole[: len(whole) // 2])
    Image.new("RGB", (33, 32)).save(bad[1])
    Image.new("L", (32, 32)).save(bad[2])
    text = message(
        lambda: core50(32), "cannot be read", "33×32 pixels", "mode L", *(name(int(train[k])) for k in (350, 351, 399))
    )
    assert "more" not in text
    assert not list((toy / "cache").glob("*.npy"))
    write(images, [int(train[k]) for k in (350, 351, 399)])
    before = len(decoded)
    source = core50(32)
    assert len(decoded) - before == 1100 - 300
    assert source.train.x[350, :2, 0, 0].tolist() == [session_of(train[350]), object_of(train[350])]


def test_a_cache_begun_with_a_frame_that_was_then_removed_is_dropped(toy: Path, own_images: Path) -> None:
    """Without it there are other frames, whose cache has another name; one of all frames is never dropped."""
    train, _ = arranged(every())
    bad = own_images / name(int(train[350]))
    bad.write_bytes(b"")
    message(lambda: core50(32), "cannot be read", f"{name(int(train[350]))} (no PNG image)")
    begun = list((toy / "cache").glob("*.npy.part"))
    shutil.rmtree(own_images / "s11")
    message(lambda: core50(32, complete=False), "cannot be read")
    assert len(list((toy / "cache").glob("*.npy.part"))) == 2
    bad.unlink()
    for part in (toy / "cache").glob("*.npy.part"):
        part.with_suffix(".lock").touch()  # as a killed process leaves it
    assert len(core50(32, complete=False).train) == 699
    assert list((toy / "cache").glob("*.npy.part")) == begun


SLOW = """
import time
from everlearn.data import core50, mapped
import sys
module = sys.modules["everlearn.data.core50"]
real = module.decode
module.decode = lambda content, size: (time.sleep(0.002), real(content, size))[1]
mapped.CHUNK = 10 * 3 * 32 * 32
toys = list(module.Folder(module.data_folder() / "core50" / "core50_32x32").frames())
module.official = lambda: toys  # all that there is
core50(32, complete=False, workers=1)
"""


def test_a_killed_process_leaves_what_it_has_decoded(
    toy: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped, "CHUNK", 10 * 3 * 32 * 32)
    process = subprocess.Popen([sys.executable, "-c", SLOW], stderr=subprocess.PIPE)
    try:
        while not (sums := list((toy / "cache").glob("*.sums"))) or len(sums[0].read_bytes().splitlines()) < 12:
            assert process.poll() is None, process.stderr and process.stderr.read()
            time.sleep(0.005)
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    finished = len(mapped._finished(read_lines(sums[0])))
    assert 10 <= finished < 110
    assert not list((toy / "cache").glob("*.npy"))  # nothing half-made has the name of the whole
    part = next((toy / "cache").glob("*.part"))
    with open(part, "r+b") as file:  # and one finished chunk is damaged meanwhile
        file.seek(128 + 14 * 3 * 32 * 32 + 5)  # the header, and the fifteenth image
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))
    source = core50(32)
    assert len(decoded) == 1100 - 10 * (finished - 1)
    assert source.test.x[:, :, 9, 9].tolist() == [
        [s, y, k % 2] for k, (s, y) in enumerate(zip(source.test.session, source.test.y, strict=True))
    ]


def test_a_flipped_byte_is_noticed(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "CHUNK", 50 * 3 * 32 * 32)
    core50(32)
    path = next((toy / "cache").glob("*.npy"))
    stat = path.stat()
    with open(path, "r+b") as file:
        file.seek(-(500 * 3 * 32 * 32), os.SEEK_END)
        file.write(b"\xff")
    message(lambda: core50(32), "is damaged", "rows 600 to 649", "Delete it")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as when a disk forgets: nobody seems to have written
    message(lambda: core50(32, check=True), "rows 600 to 649")
    monkeypatch.setattr(mapped, "SAMPLE", 22)
    message(lambda: core50(32), "rows 600 to 649")
    with open(path, "ab") as file:
        file.truncate(1000)
    message(lambda: core50(32), "is damaged", "1,000 bytes")
    path.unlink()
    assert len(core50(32).train) == 800


def test_an_untouched_cache_is_opened_quickly(toy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "CHUNK", 50 * 3 * 32 * 32)
    core50(32)
    read: list[int] = []
    real = mapped._File.sum_of

    def counted(file: Any, path: Path, k: int) -> int:
        read.append(k)
        return real(file, path, k)

    monkeypatch.setattr(mapped._File, "sum_of", counted)
    core50(32)
    assert len(read) == mapped.SAMPLE
    os.utime(next((toy / "cache").glob("*.npy")))  # copied or restored: all is checked, once
    core50(32)
    assert len(read) == mapped.SAMPLE + 22
    core50(32)
    assert len(read) == 2 * mapped.SAMPLE + 22


def test_a_full_disk_loses_nothing(toy: Path, decoded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "CHUNK", 100 * 3 * 32 * 32)
    usage = shutil.disk_usage(toy)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=10_000))
        message(lambda: core50(32), "cannot be written to", "3,379,200 bytes to write, 10,000 free", "Make room")
    assert not decoded
    real, left = os.fsync, [7]

    def full(handle: int) -> None:
        left[0] -= 1
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        message(lambda: core50(32), "No space left on device", ".part", "Make room")
    assert not list((toy / "cache").glob("*.npy"))
    before = len(decoded)
    assert len(core50(32).train) == 800
    assert before - 200 <= 1100 - (len(decoded) - before) < before  # what was synced is not decoded again


@pytest.mark.parametrize("error", [KeyboardInterrupt, DataError])
def test_a_chunk_being_written_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """The disk is slow, and meanwhile the next one fails."""
    monkeypatch.setattr(mapped, "CHUNK", 10)
    real, failing = os.fsync, threading.Event()
    asked: list[int] = []

    def slow(handle: int) -> None:
        assert threading.current_thread() is threading.main_thread() or failing.wait(10)
        real(handle)

    def rows(start: int, stop: int) -> Array:
        asked.append(start)
        if asked == [0, 10]:
            failing.set()
            raise error
        return np.full((stop - start, 1), start, np.uint8)

    monkeypatch.setattr(os, "fsync", slow)
    with pytest.raises(error):
        mapped.mapped(tmp_path / "x.npy", (20, 1), rows)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.npy.part", "x.npy.sums"]
    assert mapped.mapped(tmp_path / "x.npy", (20, 1), rows)[:, 0].tolist() == [0] * 10 + [10] * 10
    assert asked == [0, 10, 10]


@pytest.mark.skipif(not mapped.NORESERVE, reason="only Linux sets room aside for what is mapped")
def test_a_file_longer_than_memory_can_be_mapped(tmp_path: Path) -> None:
    """With nothing but holes in it; and what is written into the map stays there."""
    size = 2 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    path = tmp_path / "long"
    with open(path, "wb") as file:
        file.truncate(size)
    x = mapped._map(path)
    assert len(x) == size
    x[-1] = 7
    assert mapped._map(path)[-1] == 0


def resident() -> int:
    """The bytes of this process that are its own in memory, without pages of files."""
    pages = Path("/proc/self/statm").read_text().split()
    return (int(pages[1]) - int(pages[2])) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_only_what_is_asked_for_comes_into_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array of 100 MB is made, opened, given to PyTorch and asked for a batch, within 20 MB."""
    monkeypatch.setattr(mapped, "CHUNK", 1 << 20)
    shape = (2048, 3, 128, 128)
    before = resident()
    x = mapped.mapped(tmp_path / "x.npy", shape, lambda a, b: np.full((b - a, *shape[1:]), a % 251, np.uint8))
    assert is_mapped(x)
    tensor = check_patterns(x[::2])
    assert tensor.data_ptr() == x.ctypes.data  # no copy of the test set
    batch = x[np.array([5, 2000])]
    assert not is_mapped(batch)
    assert batch.flags.writeable
    assert resident() - before < 20e6
    x[0] = 255  # whoever writes into it changes no file
    assert np.load(tmp_path / "x.npy", mmap_mode="r")[0, 0, 0, 0] == 0


# --- benchmarks --------------------------------------------------------------------------------------


def test_the_benchmarks_of_core50() -> None:
    names = [
        f"core50-{protocol}" for protocol in ("nc", "ni", "nic", "25x2", "whole", "nicv2-79", "nicv2-196", "nicv2-391")
    ]
    assert [n for n in BENCHMARKS if n.startswith("core50")] == names
    page = (Path(__file__).parents[2] / "docs" / "core50.md").read_text("utf-8")
    table = page.partition("## Benchmarks")[2].partition("Variants stand")[0]
    assert set(re.findall(r"`(core50-[^`]*)`", table)) == set(names)
    assert {f"core50-{protocol}" for protocol in PROTOCOLS} < set(names)
    chosen = benchmark_of("core50-nc")
    assert (chosen.network, chosen.setting) == ("caffenet-128", "caffenet/core50")
    chosen = benchmark_of("core50-nc+32px+categories")
    assert (chosen.network, chosen.setting) == ("cifarnet", None)
    for bad in ("core50-nc+huge", "digits+32px", "core51-nc+32px"):
        with pytest.raises(ConfigError, match="Unknown"):
            benchmark_of(bad)


def test_a_run_on_core50(toy: Path, tmp_path: Path) -> None:
    name_ = "core50-nc+32px+test20+categories"
    knobs = {"training.first.epochs": 1, "training.minibatch": 64}
    records = run(Config(name_, "naive", network="small", knobs=knobs, batches=2), tmp_path / "run")
    assert [r["of"] for r in records] == [9, 9]
    assert records[0]["classes"] == list(range(10))  # categories
    assert sum(records[0]["patterns"]) == 15  # 300 test frames, every 20th
    about = json.loads((tmp_path / "run" / "config.json").read_text())["about"]
    for words in ("nine batches", "categories", "every 20th", "rebuilt from the published recipe"):
        assert words in about
    stream, test, _ = prepare("core50-nc+32px", strategy="naive", run=2, held_out=0.25)
    held = set(np.unique(test.session).tolist())
    assert len(held) == 2  # whole sessions: every batch has all
    assert not held & set(np.unique(stream.source.train.session[np.concatenate(stream.indices)]).tolist())
    assert is_mapped(stream.source.train.x)
    stream, test, _ = prepare("core50-ni+32px", strategy="naive", run=2, held_out=0.25)
    sessions = [int(s) for places in stream.indices for s in np.unique(stream.source.train.session[places])]
    assert sessions == [s[0] for s in recipe()["ni"][1]]  # a batch is a session: a part of each class of it
    assert set(np.unique(test.session)) == set(sessions)
    assert (len(stream[0].x), len(test)) == (50, 400)


def test_getting_the_data(
    toy: Path, toy_images: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[str, str, str]] = []

    def download(url: str, path: Path, *, md5: str) -> None:
        asked.append((url, path.name, md5))
        if path.name.startswith("core50"):
            write(path.with_suffix(""), every(1), size=128)

    monkeypatch.setattr(core50_fetch, "download", download)
    monkeypatch.setattr(module, "official", lambda: np.array(every(1)))
    assert main(["data", "get", "core50"]) == 0
    assert capsys.readouterr().out.startswith("core50: 400 training and 150 test patterns")
    assert [n for _, n, _ in asked] == ["batches_filelists.zip", "batches_filelists_NICv2.zip", "core50_128x128.zip"]
    assert all(len(md5) == 32 and url.startswith("http") for url, _, md5 in asked)
    shutil.rmtree(toy / "core50_128x128")
    asked.clear()
    assert main(["data", "get", "core50"]) == 0
    assert [n for _, n, _ in asked] == ["batches_filelists.zip", "batches_filelists_NICv2.zip"]  # the cache is enough
    shutil.rmtree(toy / "cache")
    write(toy / "core50_128x128", every(1)[::5], size=128)
    core50(complete=False)
    shutil.rmtree(toy / "core50_128x128")
    asked.clear()
    assert main(["data", "get", "core50"]) == 0
    assert asked[-1][1] == "core50_128x128.zip"  # a cache of some images is not


def test_a_partial_source_is_told_what_it_lacks(folder: Path) -> None:
    write(folder / "core50_32x32", [number(s, o, 0) for s in (1, 3) for o in range(50)])
    source: Source = core50(32, complete=False)
    assert isinstance(source, Core50)
    message(lambda: core50_lists.batches(source, "ni", 1), "lack patterns", "B_1 of ni")
