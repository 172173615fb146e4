"""Real data: arrays, pickles of others, CIFAR, idx files, folders of images; whole, or refused by name."""

import errno
import gzip
import hashlib
import io
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from everlearn._kit import locks
from everlearn.data import images, limited_pickle, mapped
from everlearn.data.arrays import npz, stratified
from everlearn.data.cache import cached
from everlearn.data.cifar import CIFAR10, CIFAR100, Archive, cifar10, cifar100
from everlearn.data.digits import digits
from everlearn.data.folder import data_folder, locked
from everlearn.data.idx import fashion_mnist, mnist, places, read_idx
from everlearn.data.images import decode, image_folder
from everlearn.data.source import Array
from everlearn.errors import DataError
from tests.data.test_download import Server, well
from tests.toys import is_mapped

SHARED = Path(__file__).parents[3] / "shared" / "data"


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder of this test's own."""
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "system"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "data"


# The data folder


def test_where_data_lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("EVERLEARN_DATA", "~/mine")
    assert data_folder() == tmp_path / "home" / "mine"
    monkeypatch.delenv("EVERLEARN_DATA")
    assert data_folder() == tmp_path / "xdg" / "everlearn"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_folder() == tmp_path / "home" / ".cache" / "everlearn"
    assert data_folder().is_dir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path / "file" / "data"))
    with pytest.raises(DataError, match=r"cannot be written to.*Not a directory.*EVERLEARN_DATA"):
        data_folder()
    monkeypatch.setenv("EVERLEARN_DATA", "~nobody-of-this-name/data")
    with pytest.raises(DataError, match=r"~nobody-of-this-name/data \(Could not determine home"):
        data_folder()


@pytest.mark.parametrize("there", [True, False])
def test_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    """Where the disk has locks, only one is ever inside; where it has none, work goes on all the same."""
    inside, together = [], []
    if not there:
        monkeypatch.setattr(locks, "take", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))

    def enter(k: int) -> None:
        with locked(tmp_path / "lock"):
            inside.append(k)
            together.append(len(inside))
            time.sleep(0.002)
            inside.remove(k)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(enter, range(40)))
    assert len(together) == 40
    assert not there or set(together) == {1}
    assert names(tmp_path) == []
    with pytest.raises(DataError, match="No such file or directory"), locked(tmp_path / "nothing" / "lock"):
        pass


def test_a_lock_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("my only copy")
    (tmp_path / "lock").symlink_to(tmp_path / "mine")
    with (
        pytest.raises(DataError, match=r"cannot be written to.*its lock is a symbolic link"),
        locked(tmp_path / "lock"),
    ):
        pass
    assert (tmp_path / "mine").read_text() == "my only copy"


# The cache


def test_a_cache_is_made_once(folder: Path) -> None:
    calls = []

    def make() -> dict[str, Array]:
        calls.append(1)
        return {"x": np.arange(6).reshape(2, 3), "names": np.array(["a", "bc"]), "empty": np.zeros((0, 4))}

    first, again = cached(folder / "a" / "b.npz", make), cached(folder / "a" / "b.npz", make)
    assert calls == [1]
    assert list(again) == ["x", "names", "empty"]
    for name, array in first.items():
        np.testing.assert_array_equal(again[name], array, strict=True)
    assert names(folder / "a") == ["b.npz"]


def test_a_damaged_cache_is_named(folder: Path) -> None:
    path = folder / "b.npz"
    cached(path, lambda: {"x": np.arange(100)})
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[500] ^= 1
    pickled = io.BytesIO()
    np.savez(pickled, x=np.array([{}], dtype=object))
    for content in (b"", whole[:300], whole[:-1], bytes(flipped), b"text", pickled.getvalue()):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"b\.npz.*Delete it, and it is made again"):
            cached(path, dict)
    with pytest.raises(ValueError, match="Object arrays"):
        cached(folder / "objects.npz", lambda: {"x": np.array([{}], dtype=object)})
    assert names(folder) == ["b.npz"]


def test_a_full_disk_leaves_nothing_half_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"b\.npz \(No space left on device\). Make room"):
        cached(folder / "b.npz", lambda: {"x": np.arange(6)})
    assert names(folder) == []


def test_a_write_that_fails_half_way_leaves_nothing(folder: Path) -> None:
    """The system itself refuses to let the file grow past 4,096 bytes."""
    code = """
import resource, sys, numpy
from everlearn.data.cache import cached
from everlearn.errors import DataError
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    cached(sys.argv[1], lambda: {"x": numpy.arange(10_000)})
except DataError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code, folder / "b.npz"], capture_output=True, text=True)
    assert "b.npz (File too large)" in done.stdout, done.stderr
    assert done.stderr == ""
    assert names(folder) == []


def test_two_processes_make_one_cache(folder: Path) -> None:
    """Each waits, while it makes the arrays, until the other makes them too."""
    code = """
import pathlib, sys, time, numpy
from everlearn.data.cache import cached
path, me, other = map(pathlib.Path, sys.argv[1:])
def make():
    me.touch()
    while not other.exists():
        time.sleep(0.01)
    return {"x": numpy.arange(100_000)}
assert cached(path, make)["x"].sum() == cached(path, dict)["x"].sum() == 4_999_950_000
"""
    data_folder()
    pairs = [("1", "2"), ("2", "1")]
    running = [
        subprocess.Popen([sys.executable, "-c", code, folder / "b.npz", folder / me, folder / other])
        for me, other in pairs
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    assert names(folder) == ["1", "2", "b.npz"]


# Pickles of others


class Reduced:
    """Pickles as a call."""

    def __init__(self, function: Callable[..., object], *arguments: object) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


def marker(path: Path) -> list[bytes]:
    """Pickles that would make a folder at path, in various ways."""
    text = str(path).encode()
    harmful: list[object] = [
        Reduced(os.mkdir, str(path)),
        Reduced(os.system, f"mkdir {path}"),
        Reduced(eval, f"__import__('os').mkdir({str(path)!r})"),
        Reduced(exec, f"import os; os.mkdir({str(path)!r})"),
        {b"data": [Reduced(subprocess.call, ["mkdir", str(path)])]},
    ]
    by_hand = [
        b"cos\nmkdir\n(V" + text + b"\ntR.",
        b"(S'" + text + b"'\nios\nmkdir\n.",
        b"(cos\nmkdir\nV" + text + b"\no.",
        b"\x80\x04\x8c\x02os\x8c\x05mkdir\x93\x8c" + bytes([len(text)]) + text + b"\x85R.",
        b"\x80\x04\x8c\x05numpy\x8c\x0bos.path.abc\x93.",
        b"cbuiltins\ngetattr\n(cos\npath\nVjoin\ntR.",
        b"cnumpy\nload\n(V" + text + b"\ntR.",
        b"cnumpy.lib.npyio\nDataSource\n(tR.",
        b"cnumpy.core.multiarray\nscalar\n(tR.",
        b"ccopyreg\n_reconstructor\n(tR.",
    ]
    return [pickle.dumps(each, protocol) for each in harmful for protocol in (0, 2, 4)] + by_hand


@pytest.mark.parametrize("allowed", [limited_pickle.CIFAR, limited_pickle.PLAIN])
def test_hostile_pickles_run_nothing(tmp_path: Path, allowed: frozenset[limited_pickle.Name]) -> None:
    path = tmp_path / "executed"
    pickle.loads(marker(path)[0])  # the standard library does run them
    path.rmdir()
    for content in marker(path):
        with pytest.raises(DataError, match=r"a name that it must not: expected only .*, got \w+"):
            limited_pickle.load(content, allowed, encoding="bytes")
        assert not path.exists()


def test_the_refused_name_is_told() -> None:
    with pytest.raises(DataError, match=r"expected only plain values, got os\.system\. Do not open it"):
        limited_pickle.load(b"cos\nsystem\n.", limited_pickle.PLAIN)
    with pytest.raises(DataError, match=r"numpy\._core\.multiarray\._reconstruct, .*, got numpy\.frombuffer\."):
        limited_pickle.load(io.BytesIO(b"cnumpy\nfrombuffer\n."), limited_pickle.CIFAR)


def test_names_that_are_given_are_found() -> None:
    value = Reduced(complex, 1, 2)
    assert limited_pickle.load(pickle.dumps(value), {("builtins", "complex")}) == 1 + 2j
    assert limited_pickle.load(b"cnumpy.core.numeric\nasarray\n.", {("numpy.core.numeric", "asarray")}) is np.asarray


ARRAYS = [
    np.arange(24, dtype="u1").reshape(2, 3, 4),
    np.asfortranarray(np.arange(6, dtype="<i8").reshape(2, 3)),
    np.arange(6, dtype=">i4").reshape(2, 3),
    np.array(3.5, dtype="f4"),
    np.array([True, False]),
    np.zeros((0, 5), dtype="f8"),
]


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
def test_arrays_come_back(array: Array, protocol: int) -> None:
    back = limited_pickle.load(pickle.dumps({b"data": array}, protocol), limited_pickle.CIFAR)[b"data"]
    native = array.astype(array.dtype.newbyteorder("="))
    np.testing.assert_array_equal(np.asarray(back), native, strict=True)
    assert not back.flags.writeable


def python2(data: Array, key: bytes, labels: list[int]) -> bytes:
    """A pickle as Python 2 and NumPy 1 wrote it in 2009, by hand."""
    rows, columns = data.shape
    shape = b"J" + struct.pack("<i", rows) + b"J" + struct.pack("<i", columns) + b"\x86"
    dtype = (
        b"cnumpy\ndtype\nq\x05U\x02u1q\x06K\x00K\x01\x87Rq\x07(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
    )
    array = (
        b"cnumpy.core.multiarray\n_reconstruct\nq\x03cnumpy\nndarray\nq\x04K\x00\x85U\x01b\x87R(K\x01" + shape + dtype
    )
    content = array + b"\x89T" + struct.pack("<i", data.size) + data.tobytes() + b"tb"
    numbers = b"](" + b"".join(bytes([ord("K"), label]) for label in labels) + b"e"
    return b"\x80\x02}q\x01(U\x04dataq\x02" + content + b"U" + bytes([len(key)]) + key + numbers + b"u."


def test_a_pickle_of_2009_comes_back() -> None:
    data = np.arange(3072, dtype="u1").reshape(1, 3072)
    back = limited_pickle.load(python2(data, b"labels", [7]), limited_pickle.CIFAR, encoding="bytes")
    assert back[b"labels"] == [7]
    np.testing.assert_array_equal(np.asarray(back[b"data"]), data, strict=True)
    assert (
        limited_pickle.load(python2(data, b"l", [7]), limited_pickle.CIFAR, encoding="latin1")["data"].sum()
        == data.sum()
    )


def test_arrays_that_could_harm_are_refused() -> None:
    """NumPy's own unpickling trusts kinds, flags and shapes; an array of objects is memory that a pickle may write."""
    harmful = [
        pickle.dumps(np.array([None, "x"]), 2),
        pickle.dumps(np.zeros(2, dtype=[("a", "i4")]), 2),
        pickle.dumps(np.array(["text"]), 2),
        pickle.dumps(np.arange(3), 2).replace(b"i8", b"O8"),
        pickle.dumps(np.arange(3, dtype="u1"), 2).replace(b"K\x03\x85", b"J\xff\xff\xff\x7f\x85"),
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(I0\ntVb\ntR(I1\n(I0\ntcnumpy\ndtype\n(Vu1\ntRI00\n(ltb.",
        b"cnumpy\nndarray\n((I4000000000\nI4000000000\nttR.",
        b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\ndtype\n(I9\ntVb\ntR.",
        b"c_codecs\nencode\n(Vabc\nVzlib\ntR.",
        b"cnumpy\ndtype\n(Vi8\ntR(I3\nV<\nN(Va\ntNI-1\nI-1\nI63\ntb.",
        b"cnumpy\ndtype\n}(Vx\nI1\nub.",
    ]
    for content in harmful[:-1]:
        with pytest.raises(DataError, match="This pickle cannot be read"):
            limited_pickle.load(content, limited_pickle.CIFAR)
    limited_pickle.load(harmful[-1], limited_pickle.CIFAR)  # writes on a stand-in that is thrown away
    assert not hasattr(limited_pickle._Dtype, "x")


def test_bombs_are_refused_before_memory_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    bombs = [
        b"\x80\x04\x8e" + struct.pack("<q", 1 << 60) + b"x.",  # bytes of an exabyte
        b"\x80\x04\x8d" + struct.pack("<q", 1 << 40) + b"x.",
        b"\x80\x05\x96" + struct.pack("<q", 1 << 40) + b"x.",
        b"\x80\x02]r" + struct.pack("<I", (1 << 32) - 1) + b".",  # a memo of 64 GB
        b"]p1000000000\n.",
        b"\x80\x04\x95" + struct.pack("<q", 1 << 62) + b"].",
        b"\x80\x02\x8b" + struct.pack("<i", (1 << 31) - 1) + b"x.",
        b"I" + b"9" * 10_000 + b"\n.",
    ]
    for content in bombs:
        with pytest.raises(DataError, match="This pickle cannot be read"):
            limited_pickle.load(content, limited_pickle.CIFAR)
    monkeypatch.setattr(limited_pickle, "LIMIT", 100)
    assert limited_pickle.load(pickle.dumps(b"x" * 50), limited_pickle.PLAIN) == b"x" * 50
    for source in (pickle.dumps(b"x" * 100), io.BytesIO(pickle.dumps(b"x" * 100))):
        with pytest.raises(DataError, match="got more than 100 bytes"):
            limited_pickle.load(source, limited_pickle.PLAIN)


def test_truncated_pickles_are_refused() -> None:
    whole = pickle.dumps({b"data": np.arange(6, dtype="u1"), b"labels": [1, 2]}, 2)
    for k in range(len(whole)):
        with pytest.raises(DataError, match="This pickle cannot be read"):
            limited_pickle.load(whole[:k], limited_pickle.CIFAR)


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_pickles_give_a_value_or_a_data_error(changes: list[tuple[int, int]]) -> None:
    content = bytearray(python2(np.arange(12, dtype="u1").reshape(3, 4), b"labels", [1, 2, 3]))
    for place, value in changes:
        content[place % len(content)] = value
    read: object = None
    with suppress(DataError):
        read = limited_pickle.load(bytes(content), limited_pickle.CIFAR, encoding="bytes")
    plain = (
        dict,
        list,
        tuple,
        set,
        frozenset,
        str,
        bytes,
        bytearray,
        int,
        float,
        bool,
        np.ndarray,
        np.dtype,
        type(None),
    )
    assert isinstance(read, plain)


# Arrays of one's own


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


X = np.arange(10 * 6 * 5, dtype=np.float32).reshape(10, 6, 5)
Y = np.array([3, 7] * 5)


def test_npz_takes_a_share_of_each_class(tmp_path: Path) -> None:
    path = save(tmp_path / "mine.npz", x=X, y=Y)
    source = npz(path, test_share=0.4, seed=1)
    assert (source.name, source.classes, source.shape, source.synthetic) == ("mine", ("3", "7"), (1, 6, 5), False)
    assert source.train.x.dtype == np.float32
    assert np.bincount(source.train.y).tolist() == [3, 3]
    assert np.bincount(source.test.y).tolist() == [2, 2]
    together = np.concatenate([source.train.x, source.test.x])
    assert sorted(together[:, 0, 0, 0].tolist()) == X[:, 0, 0].tolist()
    for part in (source.train, source.test):  # every pattern kept its label
        assert [Y[int(first) // 30] for first in part.x[:, 0, 0, 0]] == [(3, 7)[c] for c in part.y]
    np.testing.assert_array_equal(npz(path, test_share=0.4, seed=1).test.x, source.test.x)
    assert any(not np.array_equal(npz(path, test_share=0.4, seed=k).test.x, source.test.x) for k in range(2, 5))


@given(st.lists(st.integers(2, 30), min_size=1, max_size=5), st.floats(0.01, 0.99), st.integers(0, 2**32 - 1))
def test_stratified_splits(counts: list[int], share: float, seed: int) -> None:
    y = np.repeat(np.arange(len(counts)), counts)
    train, test = stratified(y, share, seed)
    assert sorted([*train, *test]) == list(range(len(y)))
    for c, count in enumerate(counts):
        taken = int((y[test] == c).sum())
        assert 1 <= taken <= count - 1
        assert abs(taken - share * count) <= 1


def test_a_split_is_the_same_for_ever() -> None:
    """These numbers must never change: they decide what a published accuracy was measured on."""
    assert stratified(np.array([0] * 10 + [1] * 10), 0.3, seed=0)[1].tolist() == [3, 6, 7, 10, 14, 19]


def test_npz_with_test_patterns(tmp_path: Path) -> None:
    both = npz(save(tmp_path / "a.npz", x_train=X, y_train=Y, x_test=X[:2], y_test=Y[:2]))
    second = save(tmp_path / "b.npz", x=X[:2], y=Y[:2])
    for source in (both, npz(save(tmp_path / "c.npz", x=X, y=Y), test=second)):
        assert (len(source.train), len(source.test), source.test.y.tolist()) == (10, 2, [0, 1])
    with pytest.raises(DataError, match=r"classes of .* differ: .*, got 7 in one only"):
        npz(tmp_path / "c.npz", test=save(tmp_path / "d.npz", x=X[:1], y=Y[:1]))
    with pytest.raises(DataError, match=r"expected test patterns float32\[1, 6, 5\], got float32\[1, 5, 5\]"):
        npz(tmp_path / "c.npz", test=save(tmp_path / "e.npz", x=X[:2, :5], y=Y[:2]))


def test_npz_labels_keep_their_names(tmp_path: Path) -> None:
    for y in (np.array(["cup", "ant"] * 5), np.array([b"cup", b"ant"] * 5)):
        source = npz(save(tmp_path / "a.npz", x=X, y=y))
        assert source.classes == ("ant", "cup")
        assert source.train.y.dtype == np.int64


@pytest.mark.parametrize(
    ("shape", "channels", "result"),
    [
        ((10, 6, 5, 3), None, (3, 6, 5)),
        ((10, 3, 6, 5), None, (3, 6, 5)),
        ((10, 1, 6, 5), None, (1, 6, 5)),
        ((10, 3, 6, 3), "first", (3, 6, 3)),
        ((10, 3, 6, 3), "last", (3, 3, 6)),
        ((10, 6, 5, 7), "last", (7, 6, 5)),
        ((10, 3, 6, 3), None, None),
        ((10, 6, 5, 7), None, None),
        ((10, 30), None, None),
        ((), None, None),
    ],
)
def test_npz_channels(tmp_path: Path, shape: tuple[int, ...], channels: Any, result: tuple[int, ...] | None) -> None:
    x = np.random.default_rng(0).integers(0, 255, shape, dtype=np.uint8)
    path = save(tmp_path / "a.npz", x=x, y=Y)
    if result is None:
        with pytest.raises(DataError, match=r'shape of the patterns.*not clear.*got \[.*channels="first"'):
            npz(path, channels=channels)
        return
    source = npz(path, channels=channels)
    assert source.shape == result
    assert source.train.x.flags.c_contiguous
    first = x[stratified(Y == 7, 0.2, 0)[0][0]]
    moved = first if first.shape == result else np.moveaxis(first, -1, 0)
    np.testing.assert_array_equal(source.train.x[0], moved)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X}, r"lacks arrays: expected x and y or x_train and y_train, got \['x'\]"),
        ({"x_train": X, "y_train": Y, "x_test": X}, "expected x_test and y_test"),
        ({"x": X, "y": Y[:9]}, r"labels .* do not fit: expected 10 integers or strings.*got int64\[9\]"),
        ({"x": X, "y": Y[:, None]}, r"got int64\[10, 1\]"),
        ({"x": X, "y": Y + 0.5}, r"got float64\[10\]"),
        ({"x": X.astype("f8"), "y": Y}, r"expected uint8 or float32.*got float64\[10, 1, 6, 5\]"),
        ({"x": X[:0], "y": Y[:0]}, "at least one number"),
        ({"x": X.astype(object), "y": Y}, "Object arrays cannot be loaded.*without objects"),
        ({"x": np.where(X == 31, np.nan, X), "y": Y}, "not all finite: .*some in 1 patterns, the first at 1"),
        ({"x": np.where(X == 31, np.inf, X), "y": Y}, "not all finite"),
        ({"x": X, "y": np.arange(10)}, "Class 0 cannot be split.*at least 2 patterns, got 1"),
    ],
)
def test_npz_refusals(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        npz(save(tmp_path / "a.npz", **arrays))


def test_npz_refuses_what_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file: .*nothing\.npz"):
        npz(tmp_path / "nothing.npz")
    (tmp_path / "text.npz").write_text("text")
    np.save(tmp_path / "single.npy", X)
    with pytest.raises(DataError, match=r"text\.npz"):
        npz(tmp_path / "text.npz")
    with pytest.raises(DataError, match=r"single\.npy"):
        npz(tmp_path / "single.npy")
    path = save(tmp_path / "a.npz", x=X.astype(">f4"), y=Y)
    assert npz(path).train.x.dtype == np.dtype("=f4")
    for share, seed in ((0.0, 0), (1.0, 0), (0.2, -1)):
        with pytest.raises(DataError, match="No such share"):
            npz(path, test_share=share, seed=seed)


# Digits


def test_digits() -> None:
    source = digits()
    assert source.shape == (1, 8, 8)
    assert source.train.x.dtype == np.float32
    assert (len(source.train), len(source.test), source.classes) == (1438, 359, tuple("0123456789"))
    assert (source.train.x.min(), source.train.x.max()) == (-2.0, 2.0)
    share = np.bincount(source.test.y) / (np.bincount(source.test.y) + np.bincount(source.train.y))
    assert np.abs(share - 0.2).max() < 0.005
    np.testing.assert_array_equal(digits().test.x, source.test.x)


def test_digits_without_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.delitem(sys.modules, "sklearn.datasets", raising=False)
    with pytest.raises(DataError, match=r"scikit-learn.*pip install everlearn\[digits\]"):
        digits()


# CIFAR


def rows(count: int, classes: int, key: bytes, seed: int) -> dict[bytes, Any]:
    """A member as CIFAR's are."""
    rng = np.random.default_rng(seed)
    labels = [k % classes for k in range(count)]
    data = rng.integers(0, 256, (count, 3072), dtype=np.uint8)
    return {b"data": data, key: labels, b"batch_label": b"a batch", b"filenames": [b"x.png"] * count}


def tar(members: dict[str, bytes]) -> bytes:
    """An archive of these members, between some that must be left alone."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name in ("../escaped", "/escaped"):
            archive.addfile(tarfile.TarInfo(name))
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/"
        archive.addfile(link)
    return buffer.getvalue()


def served(archive: Archive, server: Server) -> Archive:
    """The archive, as if the local server were its official address."""
    md5 = hashlib.md5(server.content, usedforsecurity=False).hexdigest()
    return replace(archive, url=server.url, md5=md5, size=len(server.content))


def test_cifar10_is_fetched_once_and_converted(folder: Path, tmp_path: Path) -> None:
    parts = {name: rows(4, 10, b"labels", k) for k, name in enumerate(CIFAR10.train + CIFAR10.test)}
    with Server(tar({name: pickle.dumps(part, 2) for name, part in parts.items()}), well) as server:
        archive = served(CIFAR10, server)
        with ThreadPoolExecutor(2) as pool:
            source, other = pool.map(cifar10, [archive, archive])
        assert len(server.ranges) == 1
    assert names(folder / "cifar10") == ["test.npz", "train.npz"]
    assert names(tmp_path) == ["data"]
    again = cifar10(archive)  # the server is gone
    for each in (source, other, again):
        assert (each.name, each.shape, len(each.train), len(each.test)) == ("cifar10", (3, 32, 32), 20, 4)
        assert each.classes[3] == "cat"
        expected = np.concatenate([parts[name][b"data"] for name in CIFAR10.train]).reshape(-1, 3, 32, 32)
        np.testing.assert_array_equal(each.train.x, expected, strict=True)
        assert each.train.y.tolist() == [0, 1, 2, 3] * 5
    with np.load(folder / "cifar10" / "test.npz", allow_pickle=False) as arrays:
        assert (arrays["x"].dtype, arrays["x"].shape, arrays["y"].dtype) == (np.uint8, (4, 32, 32, 3), np.int64)
        assert arrays["x"][1, 2, 3].tolist() == parts[CIFAR10.test[0]][b"data"][1, [67, 1091, 2115]].tolist()


def test_cifar100_of_2009(folder: Path) -> None:
    parts = {CIFAR100.train[0]: rows(100, 100, b"fine_labels", 0), CIFAR100.test[0]: rows(3, 3, b"fine_labels", 1)}
    contents = {name: python2(part[b"data"], b"fine_labels", part[b"fine_labels"]) for name, part in parts.items()}
    with Server(tar(contents), well) as server:
        source = cifar100(served(CIFAR100, server))
    assert source.train.y.tolist() == list(range(100))
    np.testing.assert_array_equal(source.test.x.reshape(3, 3072), parts[CIFAR100.test[0]][b"data"])
    assert names(folder / "cifar100") == ["test.npz", "train.npz"]


def test_cifar_archives_that_are_something_else(folder: Path) -> None:
    good = pickle.dumps(rows(2, 10, b"labels", 0), 2)
    bad = rows(2, 10, b"labels", 0)
    cases: list[tuple[bytes, str]] = [
        (tar(dict.fromkeys(CIFAR10.train, good)), "lacks members: .*none called cifar-10-batches-py/test_batch"),
        (tar(dict.fromkeys(CIFAR10.train + CIFAR10.test, pickle.dumps(bad | {b"labels": [1]}, 2))), "something else"),
        (tar(dict.fromkeys(CIFAR10.train + CIFAR10.test, pickle.dumps([1, 2], 2))), "something else"),
        (tar(dict.fromkeys(CIFAR10.train + CIFAR10.test, b"cos\nsystem\n(Vtouch x\ntR.")), r"got os\.system"),
        (tar(dict.fromkeys(CIFAR10.train + CIFAR10.test, good))[:-100], "This archive cannot be read"),
        (b"no archive at all", "This archive cannot be read"),
    ]
    for k, (content, message) in enumerate(cases):
        with Server(content, well) as server, pytest.raises(DataError, match=message):
            cifar10(replace(served(CIFAR10, server), name=f"case{k}"))
        assert names(folder / f"case{k}") == ["file.bin"]


def test_cifar_arrays_are_used_as_they_are_or_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = folder / "cifar100"
    home.mkdir(parents=True)
    x, y = np.zeros((2, 32, 32, 3), np.uint8), np.array([0, 99])
    save(home / "test.npz", x=x, y=y)
    save(home / "train.npz", x=x, y=y)
    assert cifar100().train.y.tolist() == [0, 99]
    cases: list[dict[str, Any]] = [
        {"x": x, "y": y + 1},
        {"x": x, "y": y - 1},
        {"x": x, "y": y[:1]},
        {"x": x.astype("f4"), "y": y},
        {"x": x.reshape(2, 3, 32, 32), "y": y},
        {"x": x},
        {"x": x[:0], "y": y[:0]},
    ]
    for arrays in cases:
        save(home / "train.npz", **arrays)
        with pytest.raises(DataError, match=r"train\.npz holds something else: .*below 100, got x .*Delete it"):
            cifar100()
    (home / "train.npz").write_bytes(b"damaged")
    with pytest.raises(DataError, match=r"train\.npz.*Delete it"):
        cifar100()
    monkeypatch.setattr("everlearn.data.download.PAUSE", 0.0)
    with pytest.raises(DataError, match=r"put the file at .*cifar10.cifar-10-python\.tar\.gz by hand"):
        cifar10(replace(CIFAR10, url="http://127.0.0.1:1/cifar-10-python.tar.gz"))


def test_cifar_class_names() -> None:
    assert len(CIFAR10.classes) == len(set(CIFAR10.classes)) == 10
    assert len(CIFAR100.classes) == len(set(CIFAR100.classes)) == 100
    assert list(CIFAR100.classes) == sorted(CIFAR100.classes)


@pytest.mark.skipif(not (SHARED / "cifar100").is_dir(), reason="needs the real CIFAR-100 in ../shared/data/cifar100")
def test_real_cifar100(folder: Path) -> None:
    sheets = {part: sorted((SHARED / "cifar100").glob(f"*.{part}.webp")) for part in ("train", "test")}
    for k, path in enumerate(sheets["train"]):
        assert CIFAR100.classes[k].startswith(path.name[3:].partition(".")[0])
    chosen, wide = (0, 47, 99), {"train": 20, "test": 10}
    (folder / "cifar100").mkdir(parents=True)
    for part, count in (("train", 500), ("test", 100)):
        tiles = []
        for c in chosen:
            sheet = np.asarray(Image.open(sheets[part][c]).convert("RGB"))
            corners = [divmod(k, wide[part]) for k in range(count)]
            tiles += [sheet[32 * row : 32 * row + 32, 32 * column : 32 * column + 32] for row, column in corners]
        save(folder / "cifar100" / f"{part}.npz", x=np.stack(tiles), y=np.repeat(chosen, count))
    source = cifar100()
    assert (source.shape, len(source.train), len(source.test)) == ((3, 32, 32), 1500, 300)
    assert [source.classes[c] for c in np.unique(source.test.y)] == ["apple", "maple_tree", "worm"]
    red, green, _ = source.train.x[source.train.y == 0].mean(axis=(0, 2, 3))  # apples
    assert red > green + 10


# idx files


def write_idx(path: Path, array: Array, *, magic: bytes = b"\0\0\x08") -> bytes:
    content = magic + bytes([array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape) + array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return content


def write_set(home: Path, ending: str = "", dot: str = "-", classes: int = 10) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", 20), ("t10k", 10)):
        arrays[part] = rng.integers(0, 256, (count, 28, 28), dtype=np.uint8)
        write_idx(home / f"{part}-images{dot}idx3-ubyte{ending}", arrays[part])
        write_idx(home / f"{part}-labels{dot}idx1-ubyte{ending}", np.arange(count, dtype=np.uint8) % classes)
    return arrays


@pytest.mark.parametrize(("ending", "dot"), [("", "-"), (".gz", "-"), ("", "."), (".gz", ".")])
def test_mnist_and_fashion_mnist(folder: Path, tmp_path: Path, ending: str, dot: str) -> None:
    arrays = write_set(folder / "mnist", ending, dot)
    source = mnist()
    assert (source.name, source.shape, source.classes) == ("mnist", (1, 28, 28), tuple("0123456789"))
    np.testing.assert_array_equal(source.train.x[:, 0], arrays["train"], strict=True)
    np.testing.assert_array_equal(source.test.x[:, 0], arrays["t10k"], strict=True)
    assert source.test.y.tolist() == list(range(10))
    assert source.train.x.flags.writeable
    write_set(tmp_path / "elsewhere", ending, dot)
    assert fashion_mnist(tmp_path / "elsewhere").classes[9] == "Ankle boot"
    with pytest.raises(DataError, match=r"missing: expected train-images-idx3-ubyte .*fashion-mnist.*apt install"):
        fashion_mnist()
    write_set(tmp_path / "system" / "datasets" / "fashion-mnist", ending, dot)  # as Debian's package does
    assert len(fashion_mnist().train) == 20


def test_the_systems_places(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_DATA_DIRS")
    assert [str(place) for place in places("fashion-mnist")] == [
        str(folder / "fashion-mnist"),
        "/usr/local/share/datasets/fashion-mnist",
        "/usr/share/datasets/fashion-mnist",
    ]


def test_damaged_idx_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a-file"
    array = np.arange(12, dtype=np.uint8).reshape(3, 2, 2)
    whole = write_idx(path, array)
    np.testing.assert_array_equal(read_idx(path, axes=3), array, strict=True)
    zipped = gzip.compress(whole)
    flipped = bytearray(zipped)
    flipped[-6] ^= 1  # in the checksum
    damaged = [whole[:k] for k in range(len(whole))] + [zipped[:k] for k in range(len(zipped))]
    damaged += [whole + b"\0", gzip.compress(whole + b"\0"), zipped + b"garbage", bytes(flipped)]
    damaged += [b"\0\0\x0d" + whole[3:], b"\1" + whole[1:], whole[:4] + b"\xff" * 12 + whole[16:]]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"a-file is no such idx file, or damaged: expected .*, got .*Replace it"):
            read_idx(path, axes=3)
    path.write_bytes(whole)
    with pytest.raises(DataError, match="expected the beginning 00000801, got 00000803"):
        read_idx(path, axes=1)
    with pytest.raises(DataError, match="FileNotFoundError"):
        read_idx(tmp_path / "nothing", axes=1)


def test_idx_files_that_do_not_belong_together(tmp_path: Path) -> None:
    write_set(tmp_path / "a")
    write_idx(tmp_path / "a" / "train-labels-idx1-ubyte", np.zeros(19, np.uint8))
    with pytest.raises(DataError, match=r"train-labels.* does not belong to .*train-images.*expected 20 .*got 19"):
        mnist(tmp_path / "a")
    write_set(tmp_path / "b", classes=11)
    with pytest.raises(DataError, match="20 labels up to 10"):
        mnist(tmp_path / "b")
    write_set(tmp_path / "c")
    write_idx(tmp_path / "c" / "t10k-images-idx3-ubyte", np.zeros((10, 27, 28), np.uint8))
    with pytest.raises(DataError, match=r"differ: expected \[28, 28\], got \[27, 28\]"):
        mnist(tmp_path / "c")


# Folders of images


def picture(path: Path, colour: tuple[int, int, int] = (200, 100, 50), size: tuple[int, int] = (40, 40)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def gallery(root: Path, count: int = 4) -> Path:
    for k in range(count):
        picture(root / "red" / f"{k}.png", (200 + k, 0, 0))
        picture(root / "blue" / f"{k}.PNG", (0, 0, 200 + k))
    return root


def test_an_image_folder(tmp_path: Path, folder: Path) -> None:
    root = gallery(tmp_path / "gallery")
    for name in ("a.JPG", "b.jpeg", "c.bmp", "d.webp"):
        picture(root / "red" / name, (250, 0, 0))
    picture(root / "red" / "nested" / "e.png")
    picture(root / ".hidden" / "f.png")
    (root / "red" / "._a.JPG").write_bytes(b"no image")
    (root / "red" / "notes.txt").write_text("no image")
    (root / "notes.txt").write_text("no class")
    source = image_folder(root, size=(8, 12), test_share=0.25, seed=3, workers=2)
    assert (source.name, source.classes, source.shape) == ("gallery", ("blue", "red"), (3, 8, 12))
    assert np.bincount(source.train.y).tolist() == [3, 6]
    assert np.bincount(source.test.y).tolist() == [1, 2]
    for part in (source.train, source.test):
        assert part.x.dtype == np.uint8
        assert part.x[part.y == 0, 2].min() >= 200
        assert part.x[part.y == 1, 0].min() >= 200
    assert [name.rpartition(".")[2] for name in names(folder / "images")] == ["npy", "sums"]


def test_patterns_are_their_images_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part by class and file name, whatever the chunks; mapped, and as a plain decode of each file has it."""
    root, random = tmp_path / "noise", np.random.default_rng(0)
    for k in range(40):
        path = root / "abc"[k % 3] / f"{k:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.integers(0, 256, (9, 9, 3), dtype=np.uint8)).save(path)
    files = sorted(root.glob("*/*.png"))
    x, y = np.stack([decode(file, (6, 5)) for file in files]), np.array(["abc".index(f.parent.name) for f in files])
    monkeypatch.setattr(mapped, "CHUNK", 7 * 3 * 6 * 5)
    for share, seed in ((0.2, 0), (0.5, 3)):
        source = image_folder(root, size=(6, 5), test_share=share, seed=seed)
        for part, chosen in zip((source.train, source.test), stratified(y, share, seed), strict=True):
            assert is_mapped(part.x)
            np.testing.assert_array_equal(part.x, x[chosen])
            np.testing.assert_array_equal(part.y, y[chosen])
    source = image_folder(root, size=(6, 5), test=root)
    np.testing.assert_array_equal(source.train.x, x)
    np.testing.assert_array_equal(source.test.x, x)


def test_an_image_folder_with_test_images(tmp_path: Path) -> None:
    root = tmp_path / "two"
    gallery(root / "train", 3)
    gallery(root / "test", 2)
    gallery(tmp_path / "else", 1)
    source = image_folder(root, size=(4, 4))
    assert (source.name, len(source.train), len(source.test), source.test.y.tolist()) == ("two", 6, 4, [0, 0, 1, 1])
    assert len(image_folder(root / "train", size=(4, 4), test=tmp_path / "else").test) == 2
    gallery(root / "val", 1)
    with pytest.raises(DataError, match=r"expected train and test, got test, train, val.*test=path / "):
        image_folder(root)
    picture(tmp_path / "else" / "green" / "0.png")
    with pytest.raises(DataError, match="got 'green' in one only"):
        image_folder(root / "train", test=tmp_path / "else")


def test_train_and_test_may_be_classes(tmp_path: Path) -> None:
    for name in ("train", "test", "tram"):
        for k in range(2):
            picture(tmp_path / "vehicles" / name / f"{k}.png")
    assert image_folder(tmp_path / "vehicles", size=(4, 4)).classes == ("test", "train", "tram")


def test_image_folders_that_lack_something(tmp_path: Path) -> None:
    root = gallery(tmp_path / "gallery")
    (root / "empty").mkdir()
    with pytest.raises(DataError, match=r"gallery/empty is empty: expected images \(\.jpg, .*got none"):
        image_folder(root)
    with pytest.raises(DataError, match="expected a folder of images for each class, got none"):
        image_folder(root / "red")
    with pytest.raises(DataError, match=r"This folder cannot be read: .*nothing"):
        image_folder(tmp_path / "nothing")
    for size in ((0, 4), (4, -1), (4.0, 4), (4, 4, 4)):
        with pytest.raises(DataError, match="No such size"):
            image_folder(root, size=size)  # type: ignore[arg-type]


def test_images_are_scaled_and_cut_around_the_centre(tmp_path: Path) -> None:
    wide = np.zeros((20, 60, 3), np.uint8)
    wide[:, :20], wide[:, 20:40], wide[:, 40:] = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    Image.fromarray(wide).save(tmp_path / "wide.png")
    Image.fromarray(wide.transpose(1, 0, 2)).save(tmp_path / "tall.png")
    for name in ("wide", "tall"):
        x = decode(tmp_path / f"{name}.png", (10, 10))
        assert x[:, 3:7, 3:7].reshape(3, -1).T.tolist() == [[0, 255, 0]] * 16
    x = decode(tmp_path / "wide.png", (10, 30))  # nothing to cut
    assert x[:, 5, [2, 15, 27]].T.tolist() == [[255, 0, 0], [0, 255, 0], [0, 0, 255]]
    checks = np.indices((64, 64)).sum(axis=0) % 2 * 255
    Image.fromarray(checks.astype(np.uint8)).save(tmp_path / "checks.png")
    grey = decode(tmp_path / "checks.png", (8, 8)).astype(int)
    assert np.abs(grey - 127).max() <= 3  # antialiased: neither black nor white is left


def test_exif_orientation_is_honoured(tmp_path: Path) -> None:
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[:16, :16], pixels[16:, 16:] = (255, 0, 0), (0, 0, 255)
    upright = Image.fromarray(pixels)
    upright.save(tmp_path / "upright.png")
    turned, exif = upright.transpose(Image.Transpose.ROTATE_90), Image.Exif()
    exif[0x0112] = 6  # to be seen upright, turn it clockwise by 90°
    turned.save(tmp_path / "turned.png", exif=exif)
    expected = decode(tmp_path / "upright.png", (8, 8))
    np.testing.assert_array_equal(decode(tmp_path / "turned.png", (8, 8)), expected)
    turned.save(tmp_path / "lost.png")
    assert not np.array_equal(decode(tmp_path / "lost.png", (8, 8)), expected)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "CMYK"])
def test_other_modes_become_rgb(tmp_path: Path, mode: str) -> None:
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    Image.new("RGB", (16, 16), (255, 255, 255)).convert(mode).save(path)
    assert decode(path, (4, 4)).min() >= 250
    if mode == "P":
        image = Image.new("P", (16, 16))
        image.putpalette([9, 8, 7] * 256)
        image.save(path, transparency=bytes(range(256)))
        assert decode(path, (4, 4))[:, 0, 0].tolist() == [9, 8, 7]


def test_images_that_cannot_be_read_are_named(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = gallery(tmp_path / "gallery")
    bad = root / "red" / "bad.jpg"
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    contents = [b"", b"text", b"%!PS-Adobe-3.0 EPSF-3.0"]
    for kind in ("JPEG", "PNG", "BMP", "WEBP", "GIF"):
        buffer = io.BytesIO()
        noise.save(buffer, kind)
        contents.append(buffer.getvalue() if kind == "GIF" else buffer.getvalue()[: len(buffer.getvalue()) // 2])
    for content in contents:
        bad.write_bytes(content)
        with pytest.raises(DataError, match=r"This image cannot be read: .*red/bad\.jpg \(.*Replace it, or remove it"):
            image_folder(root)
    Image.fromarray(np.full((9, 9), 1000, np.uint16)).save(root / "red" / "deep.png")
    bad.unlink()
    with pytest.raises(DataError, match=r"8 bits a channel.*deep\.png \(mode I;16"):
        image_folder(root)
    (root / "red" / "deep.png").unlink()
    assert names(folder / "images") == []
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1599)
    with pytest.raises(DataError, match=r"at most 1599 pixels, got .*\.(png|PNG) \(.*1599"):
        image_folder(root)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(DataError, match="bomb"):
        image_folder(root)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bomb_is_refused_where_pillow_only_warns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1599)
    with pytest.raises(DataError, match="40×40 pixels, more than 1599"):
        decode(picture(tmp_path / "a.png"), (8, 8))


def test_images_are_decoded_once(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = gallery(tmp_path / "gallery")
    decoded: list[str] = []

    def counting(path: Path, size: images.Size) -> Array:
        decoded.append(path.name)
        return decode(path, size)

    def count() -> int:
        decoded.clear()
        image_folder(root, size=(4, 4))
        return len(decoded)

    monkeypatch.setattr(images, "decode", counting)
    assert (count(), count()) == (8, 0)
    picture(root / "red" / "0.png", (1, 2, 3))
    os.utime(root / "red" / "0.png", ns=(1, 1))
    assert (count(), count()) == (8, 0)
    (root / "red" / "3.png").rename(root / "red" / "4.png")
    assert (count(), count()) == (8, 0)
    image_folder(root, size=(4, 5))
    image_folder(root, size=(4, 4), test_share=0.5, seed=7)  # another share: the same patterns in another order
    assert len(decoded) == 16
    assert len(list((folder / "images").glob("*.npy"))) == 5


def test_what_was_decoded_before_an_interruption_is_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = gallery(tmp_path / "gallery", 20)
    decoded: list[str] = []

    def interrupted(path: Path, size: images.Size) -> Array:
        if len(decoded) == 25:
            raise KeyboardInterrupt
        return counting(path, size)

    def counting(path: Path, size: images.Size) -> Array:
        decoded.append(path.name)
        return decode(path, size)

    monkeypatch.setattr(mapped, "CHUNK", 10 * 3 * 4 * 4)
    monkeypatch.setattr(images, "decode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        image_folder(root, size=(4, 4), workers=1)
    assert [name.rpartition(".")[2] for name in names(folder / "images")] == ["part", "sums"]
    decoded.clear()
    monkeypatch.setattr(images, "decode", counting)
    source = image_folder(root, size=(4, 4))
    assert len(decoded) == 20  # the two chunks of ten that were whole are not made again
    assert source.train.x[source.train.y == 1, 0].min() >= 200
    assert [name.rpartition(".")[2] for name in names(folder / "images")] == ["npy", "sums"]


def test_a_bad_image_leaves_no_cache_begun(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mended, the folder has another; a full disk is no fault of the images, and what there was room for stays."""
    root = gallery(tmp_path / "gallery", 20)
    monkeypatch.setattr(mapped, "CHUNK", 3 * 4 * 4)
    bad = root / "red" / "19.png"
    whole = bad.read_bytes()
    bad.write_bytes(b"")
    with pytest.raises(DataError, match="This image cannot be read"):
        image_folder(root, size=(4, 4))
    assert names(folder / "images") == []
    bad.write_bytes(whole)
    real, left = os.fsync, [9]

    def full(handle: int) -> None:
        left[0] -= 1
        if not left[0]:
            raise OSError(28, "No space left on device")
        real(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(DataError, match=r"\.part \(No space left on device\)"):
            image_folder(root, size=(4, 4))
    assert [name.rpartition(".")[2] for name in names(folder / "images")] == ["part", "sums"]
    assert len(image_folder(root, size=(4, 4)).train) == 32


def test_a_passing_fault_costs_nothing(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A drive that does not answer, or no memory, says nothing of the images: what was decoded is kept."""
    root = gallery(tmp_path / "gallery", 20)
    monkeypatch.setattr(mapped, "CHUNK", 10 * 3 * 4 * 4)
    usual = Image.open
    opened: list[Path] = []

    def fault(at: int, error: Exception) -> None:
        opened.clear()

        def open_(path: Path, **named: Any) -> Any:
            opened.append(path)
            if len(opened) == at:
                raise error
            return usual(path, **named)

        monkeypatch.setattr(Image, "open", open_)

    for at, error in ((25, OSError(5, "Input/output error")), (5, MemoryError())):
        fault(at, error)
        with pytest.raises(
            DataError, match=r"could not be read this time: .*(Input/output error|MemoryError).*goes on"
        ):
            image_folder(root, size=(4, 4), workers=1)
        assert [name.rpartition(".")[2] for name in names(folder / "images")] == ["part", "sums"]
    fault(0, MemoryError())
    assert len(image_folder(root, size=(4, 4)).train) == 32
    assert len(opened) == 20  # two chunks of ten were whole


@pytest.mark.skipif(not (SHARED / "caltech").is_dir(), reason="needs the photographs in ../shared/data/caltech")
def test_real_photographs() -> None:
    source = image_folder(SHARED / "caltech")
    assert (source.name, source.shape, len(source.classes)) == ("caltech", (3, 32, 32), 30)
    assert np.bincount(source.train.y).tolist() == [40] * 30
    assert np.bincount(source.test.y).tolist() == [20] * 30
    assert source.classes[0] == "airplanes"
    assert 60 < source.train.x.mean() < 200
    assert source.train.x.std(axis=(1, 2, 3)).min() > 1  # no photograph is blank
    assert len(np.unique(source.train.x.reshape(1200, -1), axis=0)) >= 1195
