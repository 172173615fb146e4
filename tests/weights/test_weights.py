"""Weights from files that nobody vouches for, and our own.

The .caffemodel files are encoded here byte by byte from the wire format's description: a tag is number × 8 + type;
the types are 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
"""

import argparse
import json
import os
import pickle
import re
import struct
import traceback
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file
from torch import Tensor, nn

from everlearn._kit import catalogue
from everlearn.cli import main
from everlearn.errors import ConfigError, DataError
from everlearn.learning.theta import Theta
from everlearn.models import Network, Output, cifarnet, wrap
from everlearn.weights import (
    CAFFE,
    NETWORKS,
    TORCHVISION,
    Known,
    Layout,
    TensorEntry,
    import_weights,
    load_weights,
    read_about,
    read_caffemodel,
    read_state_dict,
    save_weights,
)

# --- an encoder of our own -------------------------------------------------------------------------------------------


def varint(n: int) -> bytes:
    n %= 1 << 64  # negative numbers are in two's complement
    low, rest = n & 127, n >> 7
    return bytes([low | 128]) + varint(rest) if rest else bytes([low])


def number(field: int, value: int) -> bytes:
    return varint(8 * field) + varint(value)


def chunk(field: int, data: bytes) -> bytes:
    return varint(8 * field + 2) + varint(len(data)) + data


def floats(values: Sequence[float]) -> bytes:
    """Field 5, packed."""
    return chunk(5, struct.pack(f"<{len(values)}f", *values))


def loose(values: Sequence[float]) -> bytes:
    """Field 5, a tag for each value."""
    return b"".join(varint(8 * 5 + 5) + struct.pack("<f", value) for value in values)


def doubles(values: Sequence[float]) -> bytes:
    return chunk(8, struct.pack(f"<{len(values)}d", *values))


def shape(*dims: int) -> bytes:
    return chunk(7, chunk(1, b"".join(map(varint, dims))))


def legacy(*dims: int) -> bytes:
    return b"".join(number(k, n) for k, n in enumerate(dims, start=1))


def new(name: str, *blobs: bytes) -> bytes:
    """A LayerParameter: name 1, type 2, blobs 7, and a field that we do not read."""
    body = chunk(1, name.encode()) + chunk(2, b"Convolution") + b"".join(chunk(7, b) for b in blobs)
    return chunk(100, body + chunk(106, number(1, 4)))


def old(name: str, *blobs: bytes) -> bytes:
    """A V1LayerParameter: type 5, name 4, blobs 6."""
    return chunk(2, number(5, 4) + chunk(4, name.encode()) + b"".join(chunk(6, b) for b in blobs))


def blob(array: np.ndarray[Any, Any], *, old_way: bool = False) -> bytes:
    dims = (1,) * (4 - array.ndim) + array.shape if old_way else array.shape
    return (legacy if old_way else shape)(*dims) + floats(array.ravel().tolist())


def bulk(array: np.ndarray[Any, Any]) -> bytes:
    """A large blob the old way."""
    return legacy(*(1,) * (4 - array.ndim), *array.shape) + chunk(5, array.astype("<f4").tobytes())


def write(path: Path, *parts: bytes) -> Path:
    path.write_bytes(chunk(1, b"a net") + b"".join(parts))
    return path


# --- small networks with Caffe's names -------------------------------------------------------------------------------


class CaffeTrunk(nn.Module):
    """Two convolutions, one of them grouped, and fc6, as CaffeNet has them."""

    def __init__(self, hidden: int = 5, width: int = 4) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3)
        self.conv2 = nn.Conv2d(width, 6, 3, groups=2)
        self.fc6 = nn.Linear(6, hidden)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.fc6(self.conv2(self.conv1(x).relu()).relu().mean((2, 3)))
        return hidden.relu()


def caffe_network(classes: int = 3, hidden: int = 5, width: int = 4) -> Network:
    return Network(CaffeTrunk(hidden, width), [Output(nn.Linear(hidden, classes))])


class Inception(nn.Module):
    """The names of GoogLeNet, with three features."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1_7x7_s2 = nn.Conv2d(3, 4, 3)
        self.inception_3a_5x5_reduce = nn.Conv2d(4, 2, 1)
        self.loss1_conv = nn.Conv2d(2, 3, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = self.inception_3a_5x5_reduce(self.conv1_7x7_s2(x))
        top: Tensor = x.mean((2, 3))
        return self.loss1_conv(x).mean((2, 3)), top, top


def caffe_blobs(classes: int = 3, hidden: int = 5, width: int = 4, seed: int = 0) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    shapes = {
        "conv1": (width, 3, 3, 3),
        "conv2": (6, width // 2, 3, 3),
        "fc6": (hidden, 6),
        "fc8": (classes, hidden),
    }
    return {name: [rng.normal(size=s).astype("f"), rng.normal(size=s[0]).astype("f")] for name, s in shapes.items()}


def encoded(layers: dict[str, list[Any]], *, old_way: bool) -> list[bytes]:
    layer = old if old_way else new
    return [layer(name, *(blob(b, old_way=old_way) for b in blobs)) for name, blobs in layers.items()]


def frozen_copy(network: Network) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in network.state_dict().items()}


def assert_unchanged(network: Network, before: dict[str, Tensor]) -> None:
    after = network.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)


# --- reading .caffemodel ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old_way", [False, True])
def test_blobs_come_back_bit_for_bit(tmp_path: Path, old_way: bool) -> None:
    layers = caffe_blobs()
    path = write(tmp_path / "a.caffemodel", *encoded(layers, old_way=old_way))
    read = read_caffemodel(path)
    assert list(read) == list(layers)
    for name, blobs in layers.items():
        for k, wanted in enumerate(blobs):
            expected = (1,) * (4 - wanted.ndim) + wanted.shape if old_way else wanted.shape
            assert read[name][k].shape == expected
            assert read[name][k].dtype == np.float32
            assert read[name][k].tobytes() == wanted.tobytes()


def test_every_form_of_values_and_shapes(tmp_path: Path) -> None:
    """Packed and loose floats, several chunks, doubles, no shape (a scalar); data layers have no blobs."""
    unpacked_shape = chunk(7, number(1, 2) + number(1, 3))
    path = write(
        tmp_path / "a.caffemodel",
        new("data"),
        new("data"),  # one for each phase, as in files that train_val.prototxt made
        new("loose", unpacked_shape + loose([1, 2, 3, 4, 5, 6])),
        new("chunks", floats([1, 2]) + shape(4) + floats([3]) + loose([4])),
        new("doubles", shape(2) + doubles([0.5, 0.1])),
        new("both", shape(1) + floats([1]) + doubles([2])),  # Caffe takes the doubles
        old("scalar", floats([7])),
        new("diff too", shape(1) + floats([1]) + chunk(6, struct.pack("<f", float("nan")))),
    )
    read = {name: blobs[0] for name, blobs in read_caffemodel(path).items()}
    assert read["loose"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert read["chunks"].tolist() == [1, 2, 3, 4]
    assert read["doubles"].tolist() == [0.5, float(np.float32(0.1))]
    assert read["both"].tolist() == [2]
    assert (read["scalar"].shape, read["scalar"].item()) == ((), 7)
    assert sorted(read) == ["both", "chunks", "diff too", "doubles", "loose", "scalar"]


BAD_BLOBS = {
    "too few values": (shape(2, 3) + floats([1] * 5), "expected 6 values, got 5 values for the shape [2, 3]"),
    "too many": (legacy(1, 1, 1, 2) + floats([1] * 3), "expected 2 values, got 3"),
    "negative": (shape(-2, -3) + floats([1] * 6), "the shape [-2, -3]"),
    "zero": (shape(0, 3), "the shape [0, 3]"),
    "half a legacy shape": (number(1, 2) + number(2, 2) + floats([1] * 4), "the shape [2, 2, 0, 0]"),
    "absurd": (shape(1 << 62, 1 << 62) + floats([1]), f"expected {1 << 124} values"),
    "many axes": (shape(*[1] * 40) + floats([1]), "at most 32 axes, got 40"),
    "no values": (shape(2), "expected 2 values, got 0"),
    "NaN": (shape(2) + floats([1, float("nan")]), "1 that are NaN or infinite"),
    "infinite": (shape(2) + floats([float("inf"), float("-inf")]), "2 that are NaN or infinite"),
    "too large a double": (shape(1) + doubles([1e300]), "1 that are NaN or infinite"),
    "half a float": (chunk(5, b"abc"), "damaged or cut short"),
}


@pytest.mark.parametrize("layer", [new, old])
@pytest.mark.parametrize("case", BAD_BLOBS)
def test_bad_blobs_name_file_layer_and_what_to_do(tmp_path: Path, case: str, layer: Any) -> None:
    data, message = BAD_BLOBS[case]
    path = write(
        tmp_path / "bad.caffemodel", layer("fine", shape(1) + floats([1])), layer("fc6", shape() + floats([1]), data)
    )
    with pytest.raises(DataError) as caught:
        read_caffemodel(path)
    text = str(caught.value)
    assert message in text
    assert "bad.caffemodel: layer 'fc6', blob 1" in text
    assert text.endswith(("Fetch the file again from its official address.", "Get weights that have not diverged."))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no weights"),
        (b"name: 'CaffeNet'\nlayer {\n  name: 'data'\n}", "damaged or cut short"),
        (chunk(1, b"a net") + new("relu1"), "no weights"),
        (new("a", floats([1])) + old("a", floats([1])), "two with blobs"),
        (new("", floats([1])), "a layer's name"),
        (new("\x1b[2J", floats([1])), "printable"),  # a name that clears the terminal
        (chunk(100, b"") * 10_001, "at most 10000 layers, got 10001"),
        (new("many", *[b""] * 101), "at most 100 blobs, got 101"),
        (chunk(100, chunk(7, floats([1])) + b"\x0a\x05ab"), "layer 0 is damaged"),
    ],
)
def test_files_that_are_no_caffemodel(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.caffemodel"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_caffemodel(path)


def test_absent_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path / "absent.caffemodel", tmp_path):
        with pytest.raises(DataError, match="no such file"):
            read_caffemodel(path)
    with pytest.raises(DataError, match="no such file"):
        read_state_dict(tmp_path / "absent.pth")
    absent = tmp_path / "absent.safetensors"
    with pytest.raises(
        DataError, match=f"^{re.escape(str(absent))}: there is no such file: expected a file of weights"
    ):
        read_about(absent)
    path = write(tmp_path / "a.caffemodel", new("a", floats([1])))
    monkeypatch.setattr("everlearn.weights.caffemodel.LIMIT", 10)
    with pytest.raises(DataError, match="too long: expected at most 10 bytes"):
        read_caffemodel(path)


@pytest.mark.parametrize("old_way", [False, True])
def test_cut_short_at_every_byte(tmp_path: Path, old_way: bool) -> None:
    """Only between two layers can a cut not be seen; then a report shows what is missing."""
    layers = caffe_blobs(classes=2, hidden=2, width=2)
    records = encoded(layers, old_way=old_way)
    whole = write(tmp_path / "whole.caffemodel", *records).read_bytes()
    header = len(whole) - sum(map(len, records))
    borders = [header + sum(map(len, records[: k + 1])) for k in range(len(records))]
    path = tmp_path / "cut.caffemodel"
    unseen = []
    for length in range(len(whole) + 1):
        path.write_bytes(whole[:length])
        try:
            read = read_caffemodel(path)
        except DataError:
            continue
        unseen.append(length)
        assert list(read) == list(layers)[: len(unseen)]
        report = import_weights(caffe_network(2, 2, 2), read, CAFFE)
        homes = ["trunk.conv1", "trunk.conv2", "trunk.fc6", "outputs.0.layer"]
        missing = [f"{home}.{part}" for home in homes[len(unseen) :] for part in ("weight", "bias")]
        assert [(entry.network, entry.why) for entry in report.fresh] == [(m, "not in the file") for m in missing]
    assert unseen == borders


SMALL = chunk(1, b"n") + new("c", shape(2) + floats([1, 2])) + old("d", legacy(1, 1, 1, 1) + doubles([3]))


@settings(max_examples=250)
@given(st.one_of(st.binary(max_size=200), st.binary(max_size=60).map(lambda b: chunk(100, chunk(7, b)))))
def test_random_bytes_are_refused_or_well_formed(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    assert_refused_or_well_formed(tmp_path_factory.getbasetemp() / "random.caffemodel", content)


@settings(max_examples=250)
@given(st.lists(st.tuples(st.integers(0, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=4))
def test_damaged_bytes_are_refused_or_well_formed(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]]
) -> None:
    content = bytearray(SMALL)
    for place, value in changes:
        content[place] = value
    assert_refused_or_well_formed(tmp_path_factory.getbasetemp() / "damaged.caffemodel", bytes(content))


def assert_refused_or_well_formed(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    try:
        read = read_caffemodel(path)
    except DataError:
        return
    for name, blobs in read.items():
        assert name.isprintable()
        assert all(b.dtype == np.float32 and np.isfinite(b).all() and b.nbytes <= len(content) for b in blobs)


# --- reading state dicts ---------------------------------------------------------------------------------------------

TENSORS = {"conv1.weight": torch.arange(108.0).view(4, 3, 3, 3), "conv1.bias": torch.arange(4.0), "n": torch.tensor(7)}


def saved(path: Path, content: Any, *, zipped: bool = True) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=zipped)
    return path


def assert_tensors(read: dict[str, Tensor], wanted: dict[str, Tensor] = TENSORS) -> None:
    assert list(read) == list(wanted)
    assert all(torch.equal(read[name], wanted[name]) and read[name].dtype == wanted[name].dtype for name in wanted)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("suffix", [".pth", ".pt"])
def test_state_dicts_of_torch(tmp_path: Path, suffix: str, zipped: bool) -> None:
    path = tmp_path / f"a{suffix}"
    wrapped = {f"module.{name}": tensor for name, tensor in TENSORS.items()}
    parameters = {name: nn.Parameter(t, requires_grad=t.is_floating_point()) for name, t in TENSORS.items()}
    for content in (
        TENSORS,
        parameters,
        {"state_dict": wrapped, "epoch": 3},
        {"model": {"state_dict": TENSORS}},
        wrapped,
    ):
        read = read_state_dict(saved(path, content, zipped=zipped))
        assert_tensors(read)
        assert not any(tensor.requires_grad for tensor in read.values())
    assert_tensors(read_state_dict(saved(path, {"a": wrapped["module.n"], **wrapped})), {"a": TENSORS["n"], **wrapped})


def test_safetensors(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file({f"module.{name}": tensor for name, tensor in TENSORS.items()}, path)
    read = read_state_dict(path)
    assert_tensors({name: read[name] for name in TENSORS})
    save_file({"a": torch.tensor([1.0, 2.0]).to(torch.float8_e4m3fn)}, path)
    assert read_state_dict(path)["a"].float().tolist() == [1, 2]


FOREIGN = "the file holds something other than tensors: expected a state dict that torch.save wrote"
DAMAGED = "the file is damaged or cut short, or no file of this kind: expected a "
ALONE = "Save the state dict alone, with torch.save(model.state_dict(), path), or fetch a file that is one."
FETCH = "Fetch the file again from its official address."


def refusal(path: str | Path) -> str:
    """What is said of a file that is refused; no line of the traceback advises to switch the safety off."""
    with pytest.raises(DataError) as caught:
        read_state_dict(path)
    text = str(caught.value)
    assert text.isprintable()
    assert "weights_only" not in text + "".join(traceback.format_exception(caught.value))
    return text


class Evil:
    """What a pickle can do to whoever loads it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("content", [Evil(), {"conv1.weight": Evil()}, {"state_dict": TENSORS, "optimiser": Evil()}])
def test_a_pickle_that_runs_something_is_refused_and_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: Any, zipped: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    text = refusal(saved(Path("evil.pth"), content, zipped=zipped))
    assert text.startswith(f"evil.pth: {FOREIGN}")
    assert text.endswith(f", got one that holds {os.system.__module__}.system, which was not loaded. {ALONE}")
    Path("raw.pth").write_bytes(pickle.dumps(content))
    Path("raw.safetensors").write_bytes(pickle.dumps(content))
    for name in ("raw.pth", "raw.safetensors"):
        assert refusal(name).startswith(f"{name}: {DAMAGED}")
    assert not Path("executed").exists()
    Path("shout.pth").write_bytes(b"cos\n\x1b[2Jsystem\n.")  # the name of what it would run clears the terminal
    assert refusal("shout.pth").startswith(f"shout.pth: {DAMAGED}")
    pickle.loads(Path("raw.pth").read_bytes())  # the pickle is as bad as we say
    assert Path("executed").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "an empty dict"),
        ([TENSORS], "expected a dict of tensors, got list"),
        (torch.ones(3), "got Tensor"),
        ({"epoch": 3, **TENSORS}, "tensor 'epoch': expected a tensor, got int"),
        ({1: torch.ones(1)}, "a layer's name"),
        ({"a\nb": torch.ones(1)}, "printable"),
        ({"a": torch.tensor([1.0, float("nan")])}, "tensor 'a': expected finite values"),
        ({"a": torch.ones(1, dtype=torch.complex64)}, "dense real values"),
        ({"a": torch.eye(2).to_sparse()}, "dense real values"),
        ({"a": torch.ones(1).expand(1 << 20, 1 << 20)}, "at most the file's"),  # four bytes that pretend to be 4 TB
    ],
)
@pytest.mark.parametrize("zipped", [True, False])
def test_other_contents_are_refused(tmp_path: Path, content: Any, message: str, zipped: bool) -> None:
    with pytest.raises(DataError, match=message):
        read_state_dict(saved(tmp_path / "a.pth", content, zipped=zipped))


@pytest.mark.parametrize("zipped", [True, False])
def test_a_checkpoint_with_more_than_tensors_names_it(tmp_path: Path, zipped: bool) -> None:
    content = {"state_dict": TENSORS, "args": argparse.Namespace(epochs=3)}
    path = saved(tmp_path / "a.pth", content, zipped=zipped)
    assert refusal(path) == (
        f"{path}: {FOREIGN}, of tensors and plain values only, got one that holds argparse.Namespace, "
        f"which was not loaded. {ALONE}"
    )


@pytest.mark.parametrize("content", [b"<!DOCTYPE html>\n<p>Not found", b"\x80\x04garbage", b"PK\x03\x04", bytes(200)])
def test_files_that_are_no_state_dict_at_all(tmp_path: Path, content: bytes) -> None:
    for suffix in ("pth", "pt", "safetensors"):
        path = tmp_path / f"a.{suffix}"
        path.write_bytes(content)
        text = refusal(path)
        assert text.startswith(f"{path}: {DAMAGED}")
        assert text.endswith(FETCH)


def test_scripts_and_other_protocols_cause_no_warnings(tmp_path: Path) -> None:
    """Torch warns of both, with its advice; warnings are errors here."""
    path = tmp_path / "a.pt"
    torch.save(TENSORS, path, pickle_protocol=3)
    assert_tensors(read_state_dict(path))
    with zipfile.ZipFile(path, "a") as script:
        script.writestr("a/constants.pkl", b"")  # by which torch knows scripts
    assert refusal(path).startswith(f"{path}: {DAMAGED}")


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "a.pth", TENSORS)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(DataError, match="cannot be opened: expected a file that you may read, got no permission"):
        read_state_dict(path)


def test_a_dict_that_holds_itself(tmp_path: Path) -> None:
    knot: dict[str, Any] = {}
    knot["state_dict"] = knot
    with pytest.raises(DataError, match="tensor 'state_dict': expected a tensor, got dict"):
        read_state_dict(saved(tmp_path / "a.pth", knot))


def test_other_files_are_refused(tmp_path: Path) -> None:
    for name in ("a.h5", "a.pkl", "a"):
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(DataError, match="unknown kind of file"):
            read_state_dict(tmp_path / name)
    plain = zipfile.ZipFile(saved(tmp_path / "plain.pth", {"a": torch.zeros(10_000)}))
    with zipfile.ZipFile(tmp_path / "bomb.pth", "w", zipfile.ZIP_DEFLATED) as bomb:
        for entry in plain.infolist():
            bomb.writestr(entry.filename, plain.read(entry), zipfile.ZIP_DEFLATED)
    plain.close()
    with pytest.raises(DataError, match=r"bomb\.pth: the archive is compressed"):
        read_state_dict(tmp_path / "bomb.pth")


def test_cut_short_state_dicts(tmp_path: Path) -> None:
    """Every seventh length of each kind, and the last bytes; cut in the name of a class, too, it is called cut."""
    save_file(TENSORS, tmp_path / "a.safetensors")
    saved(tmp_path / "a.pth", TENSORS)
    saved(tmp_path / "a.pt", TENSORS, zipped=False)
    for suffix in ("safetensors", "pth", "pt"):
        whole = (tmp_path / f"a.{suffix}").read_bytes()
        path = tmp_path / f"part.{suffix}"
        for length in (*range(0, len(whole), 7), len(whole) - 2, len(whole) - 1):
            path.write_bytes(whole[:length])
            text = refusal(path)
            assert text.startswith(f"{path}: {DAMAGED}")
            assert text.endswith(FETCH)


# --- importing -------------------------------------------------------------------------------------------------------


def convolved(groups: int, x: Any, weight: Any, bias: Any) -> Any:
    """A convolution as loops: out channel o of group g sees the in channels of g."""
    n_out, n_in, height, width = weight.shape
    rows, columns = x.shape[1] - height + 1, x.shape[2] - width + 1
    y = np.zeros((n_out, rows, columns))
    for o in range(n_out):
        first = (o // (n_out // groups)) * n_in
        for r in range(rows):
            for c in range(columns):
                seen = x[first : first + n_in, r : r + height, c : c + width]
                y[o, r, c] = (seen * weight[o]).sum() + bias[o]
    return y


@pytest.mark.parametrize("old_way", [False, True])
def test_an_imported_network_computes_what_caffe_would(tmp_path: Path, old_way: bool) -> None:
    layers = caffe_blobs()
    network = caffe_network()
    path = write(tmp_path / "a.caffemodel", *encoded(layers, old_way=old_way))
    report = import_weights(network, read_caffemodel(path), CAFFE)
    x = np.random.default_rng(1).normal(size=(3, 7, 7)).astype("f")
    y = np.maximum(convolved(1, x, *layers["conv1"]), 0)
    y = np.maximum(convolved(2, y, *layers["conv2"]), 0).mean((1, 2))
    y = np.maximum(layers["fc6"][0] @ y + layers["fc6"][1], 0)
    y = layers["fc8"][0] @ y + layers["fc8"][1]
    got = network(torch.from_numpy(x)[None])[-1][0].detach().numpy()
    assert got == pytest.approx(y, rel=1e-4, abs=1e-4)
    assert sorted(report.taken) == sorted(network.state_dict())
    convolutions = ["trunk.conv1.weight", "trunk.conv2.weight"]
    reshaped = [name for name in network.state_dict() if name not in convolutions] if old_way else []
    assert [entry.network for entry in report.reshaped] == reshaped
    assert report.fresh == report.unused == []


def test_the_report_of_a_halved_fc6_exactly() -> None:
    """conv1 and conv2 as they are, fc6 halved from 10 to 5, 3 classes for 1000, and a layer that we do not have."""
    blobs = caffe_blobs(classes=1000, hidden=10)
    blobs["fc6"] = [blobs["fc6"][0][None, None], blobs["fc6"][1][None, None, None]]
    blobs["fc7"] = [np.ones((2, 2), "f")]
    network = caffe_network()
    before = frozen_copy(network)
    report = import_weights(network, blobs, CAFFE)
    assert report.matched == [
        TensorEntry("trunk.conv1.weight", (4, 3, 3, 3), "conv1[0]", (4, 3, 3, 3)),
        TensorEntry("trunk.conv1.bias", (4,), "conv1[1]", (4,)),
        TensorEntry("trunk.conv2.weight", (6, 2, 3, 3), "conv2[0]", (6, 2, 3, 3)),
        TensorEntry("trunk.conv2.bias", (6,), "conv2[1]", (6,)),
    ]
    assert report.reshaped == []
    assert report.fresh == [
        TensorEntry("trunk.fc6.weight", (5, 6), "fc6[0]", (1, 1, 10, 6), "another shape"),
        TensorEntry("trunk.fc6.bias", (5,), "fc6[1]", (1, 1, 1, 10), "another shape"),
        TensorEntry("outputs.0.layer.weight", (3, 5), "fc8[0]", (1000, 10), "another shape"),
        TensorEntry("outputs.0.layer.bias", (3,), "fc8[1]", (1000,), "another shape"),
    ]
    assert report.unused == [TensorEntry(None, None, "fc7[0]", (2, 2), "no such layer in the network")]
    assert str(report).splitlines() == [
        "in the network          shape    in the file  shape     fate",
        "----------------------  -------  -----------  --------  ------------------------------------",
        "trunk.conv1.weight      4×3×3×3  conv1[0]     4×3×3×3   matched",
        "trunk.conv1.bias        4        conv1[1]     4         matched",
        "trunk.conv2.weight      6×2×3×3  conv2[0]     6×2×3×3   matched",
        "trunk.conv2.bias        6        conv2[1]     6         matched",
        "trunk.fc6.weight        5×6      fc6[0]       1×1×10×6  fresh: another shape",
        "trunk.fc6.bias          5        fc6[1]       1×1×1×10  fresh: another shape",
        "outputs.0.layer.weight  3×5      fc8[0]       1000×10   fresh: another shape",
        "outputs.0.layer.bias    3        fc8[1]       1000      fresh: another shape",
        "—                       —        fc7[0]       2×2       unused: no such layer in the network",
        "",
        "4 matched, 0 reshaped, 4 fresh, 1 unused",
    ]
    told = json.loads(report.to_json())
    assert {fate: len(entries) for fate, entries in told.items()} == {
        "matched": 4,
        "reshaped": 0,
        "fresh": 4,
        "unused": 1,
    }
    assert told["fresh"][0] == {
        "network": "trunk.fc6.weight",
        "network_shape": [5, 6],
        "file": "fc6[0]",
        "file_shape": [1, 1, 10, 6],
        "why": "another shape",
    }
    after = network.state_dict()
    for entry in report.fresh:
        assert torch.equal(after[str(entry.network)], before[str(entry.network)])
    assert np.array_equal(after["trunk.conv2.weight"].numpy(), blobs["conv2"][0])


def test_googlenets_names_and_three_outputs() -> None:
    rng = np.random.default_rng(0)

    def layer(*dims: int) -> list[Any]:
        return [rng.normal(size=dims).astype("f"), rng.normal(size=dims[0]).astype("f")]

    blobs = {
        "conv1/7x7_s2": layer(4, 3, 3, 3),
        "inception_3a/5x5_reduce": layer(2, 4, 1, 1),
        "loss1/conv": layer(3, 2, 1, 1),
        "loss1/fc": layer(9, 3),
        "loss1/classifier": layer(5, 9),
        "loss2/classifier": layer(5, 2),
        "loss3/classifier": layer(5, 2),
    }
    network = Network(Inception(), [Output(nn.Linear(3, 5)), Output(nn.Linear(2, 5)), Output(nn.Linear(2, 5))])
    before = frozen_copy(network)
    report = import_weights(network, blobs, CAFFE)
    state = network.state_dict()
    assert np.array_equal(state["trunk.inception_3a_5x5_reduce.weight"], blobs["inception_3a/5x5_reduce"][0])
    assert np.array_equal(state["outputs.1.layer.weight"], blobs["loss2/classifier"][0])
    assert np.array_equal(state["outputs.2.layer.bias"], blobs["loss3/classifier"][1])
    # The side classifier sees other features: its bias would fit, but a layer is taken whole or not at all.
    assert torch.equal(state["outputs.0.layer.bias"], before["outputs.0.layer.bias"])
    assert [(entry.network, entry.why) for entry in report.fresh] == [
        ("outputs.0.layer.weight", "another shape"),
        ("outputs.0.layer.bias", "the rest of its layer does not fit"),
    ]
    assert [entry.file for entry in report.unused] == ["loss1/fc[0]", "loss1/fc[1]"]


def test_a_convolution_of_another_shape_is_an_error_and_changes_nothing() -> None:
    network = caffe_network()
    before = frozen_copy(network)
    blobs = caffe_blobs(width=8)
    with pytest.raises(DataError) as caught:
        import_weights(network, blobs, CAFFE)
    assert str(caught.value) == (
        "These weights do not fit the network: expected trunk.conv1.weight [4, 3, 3, 3]; trunk.conv1.bias [4]; "
        "trunk.conv2.weight [6, 2, 3, 3], got conv1[0] [8, 3, 3, 3]; conv1[1] [8]; conv2[0] [6, 4, 3, 3]. "
        "Take another network or file; or import with strict=False, and these layers start fresh."
    )
    assert_unchanged(network, before)
    report = import_weights(network, blobs, CAFFE, strict=False)
    assert [entry.network for entry in report.fresh][:2] == ["trunk.conv1.weight", "trunk.conv1.bias"]
    assert [entry.why for entry in report.fresh] == [
        "another shape",
        "another shape",
        "another shape",
        "the rest of its layer does not fit",
    ]
    assert sorted(report.taken)[:2] == ["outputs.0.layer.bias", "outputs.0.layer.weight"]
    assert torch.equal(network.state_dict()["trunk.conv2.bias"], before["trunk.conv2.bias"])


def test_a_layer_lacks_a_part_or_has_one_too_many() -> None:
    network = caffe_network()
    before = frozen_copy(network)
    lacking, extra = caffe_blobs(), caffe_blobs()
    lacking["conv1"].pop()
    extra["conv1"].append(np.ones(1, "f"))  # e.g. Caffe's batch norm: mean, variance and scale
    for blobs, message in (
        (lacking, r"expected trunk.conv1.bias \[4\], got nothing"),
        (extra, r"expected nothing, got conv1\[2\] \[1\]"),
    ):
        with pytest.raises(DataError, match=message):
            import_weights(network, blobs, CAFFE)
        assert_unchanged(network, before)
    report = import_weights(network, extra, CAFFE, strict=False)
    assert report.unused == [TensorEntry(None, None, "conv1[2]", (1,), "trunk.conv1 has no blob 2")]


def test_nothing_that_fits_is_an_error() -> None:
    network = caffe_network()
    with pytest.raises(DataError, match=r"names such as trunk.conv1.weight.*got names such as other\[0\]"):
        import_weights(network, {"other": [np.ones((2, 2), "f")]}, CAFFE)
    assert import_weights(network, {"other": [np.ones((2, 2), "f")]}, CAFFE, strict=False).taken == []
    halved = {"fc6": [np.ones((9, 6), "f"), np.ones(9, "f")]}
    with pytest.raises(DataError, match="No layer of the file fits"):
        import_weights(network, halved, CAFFE)


def test_layouts_that_cannot_be() -> None:
    network, blobs = caffe_network(), caffe_blobs()
    before = frozen_copy(network)
    with pytest.raises(ConfigError, match=r"'fc8' where the network has nothing.*'outputs.7.layer'"):
        import_weights(network, blobs, Layout({"fc8": "outputs.7.layer"}))
    with pytest.raises(DataError, match="'fc6' and 'fc8'"):
        import_weights(network, blobs, Layout({"fc8": "trunk.fc6"}))
    assert_unchanged(network, before)


def test_all_or_nothing_when_the_last_layer_is_bad() -> None:
    network = caffe_network()
    before = frozen_copy(network)
    tensors = {name: tensor.clone().double() for name, tensor in CaffeTrunk().state_dict().items()}
    tensors["fc6.bias"][0] = 1e300  # finite, but not as float32
    with pytest.raises(DataError, match=r"'fc6.bias'.*finite as torch.float32"):
        import_weights(network, tensors, TORCHVISION)
    assert_unchanged(network, before)
    tensors["fc6.bias"][0] = 1
    tensors["conv1.weight"] = tensors["conv1.weight"].round().to(torch.int8)  # quantised: other numbers
    with pytest.raises(DataError, match=r"conv1\.weight"):
        import_weights(network, tensors, TORCHVISION)
    assert_unchanged(network, before)


def test_weights_are_copied_in_place() -> None:
    """Θ stays one vector: parameters are views into it before and after."""
    network = caffe_network()
    theta = Theta(network)
    import_weights(network, caffe_blobs(), CAFFE)
    weight = network.get_parameter("trunk.conv1.weight")
    assert weight.untyped_storage().data_ptr() == theta.value.untyped_storage().data_ptr()
    assert np.array_equal(weight.detach().numpy(), caffe_blobs()["conv1"][0])
    assert theta.value[: theta.m_bar].sum() == pytest.approx(
        sum(b.sum() for name, blobs in caffe_blobs().items() if name != "fc8" for b in blobs), abs=1e-4
    )


class Residual(nn.Module):
    """torchvision's kind of names, with batch norm."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(4)
        self.layer1 = nn.Sequential(nn.Sequential(nn.Conv2d(4, 4, 3, padding=1)))
        self.fc = nn.Linear(4, classes)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.fc(self.layer1(self.bn1(self.conv1(x)).relu()).mean((2, 3)))
        return logits


def test_a_state_dict_into_a_wrapped_module(tmp_path: Path) -> None:
    x = torch.randn(5, 3, 8, 8)
    theirs = Residual()
    theirs(x)  # statistics of batch norm
    theirs.eval()
    path = saved(tmp_path / "a.pth", theirs.state_dict())
    network = wrap(Residual(), ["fc"], x)
    report = import_weights(network, read_state_dict(path), TORCHVISION)
    network.eval()
    assert torch.equal(network(x)[-1], theirs(x))
    assert len(report.matched) == len(theirs.state_dict()) == len(network.state_dict())

    other = wrap(Residual(classes=7), ["fc"], x)
    before = frozen_copy(other)
    report = import_weights(other, read_state_dict(path), TORCHVISION)
    assert [(entry.network, entry.file, entry.why) for entry in report.fresh] == [
        ("outputs.0.layer.weight", "fc.weight", "another shape"),
        ("outputs.0.layer.bias", "fc.bias", "another shape"),
    ]
    assert torch.equal(other.state_dict()["outputs.0.layer.weight"], before["outputs.0.layer.weight"])
    assert torch.equal(other.state_dict()["trunk.bn1.running_var"], theirs.state_dict()["bn1.running_var"])


def test_files_from_before_batch_norm_counted() -> None:
    theirs = Residual()
    tensors = {name: t for name, t in theirs.state_dict().items() if "num_batches" not in name}
    network = wrap(Residual(), ["fc"], torch.zeros(1, 3, 8, 8))
    report = import_weights(network, tensors, TORCHVISION)
    assert report.fresh == [TensorEntry("trunk.bn1.num_batches_tracked", (), None, None, "not in the file")]
    assert torch.equal(network.state_dict()["trunk.bn1.weight"], theirs.bn1.weight)
    del tensors["bn1.running_mean"]
    with pytest.raises(DataError, match=r"expected trunk.bn1.running_mean \[4\], got nothing"):
        import_weights(network, tensors, TORCHVISION)


# --- our own files ---------------------------------------------------------------------------------------------------

ABOUT = {"network": "a toy", "made": "by a test", "accuracy": 0.5}


def test_our_weights_come_back(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    network, other = caffe_network(), caffe_network()
    Theta(network)  # views of one memory can be saved
    save_weights(path, network, about=ABOUT)
    assert read_about(path) == ABOUT
    report = load_weights(path, other)
    assert_unchanged(other, frozen_copy(network))
    assert len(report.matched) == 8
    assert report.fresh == report.unused == []
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]
    assert list(read_state_dict(path)) == sorted(network.state_dict())  # any tool reads it by the network's names


def test_half_precision_keeps_three_digits_in_half_the_bytes(tmp_path: Path) -> None:
    """float16 has 11 bits: the error is at most 2⁻¹¹ of a weight, and 2⁻²⁵ near zero."""
    network = wrap(Residual(), ["fc"], torch.randn(4, 3, 8, 8))
    network.train()
    network(torch.randn(4, 3, 8, 8))
    whole, half = tmp_path / "whole.safetensors", tmp_path / "half.safetensors"
    save_weights(whole, network, about=ABOUT)
    save_weights(half, network, about=ABOUT, half=True)
    stored = read_state_dict(half)
    assert stored["trunk.conv1.weight"].dtype == torch.float16
    assert stored["trunk.bn1.num_batches_tracked"].dtype == torch.int64
    other = wrap(Residual(), ["fc"], torch.randn(4, 3, 8, 8))
    load_weights(half, other)
    for name, wanted in network.state_dict().items():
        got = other.state_dict()[name]
        assert got.dtype == wanted.dtype
        assert ((got - wanted).abs() <= 2**-11 * wanted.abs() + 2**-25).all()
    assert any(not torch.equal(other.state_dict()[name], t) for name, t in network.state_dict().items())
    values = sum(tensor.numel() for tensor in network.state_dict().values() if tensor.is_floating_point())
    assert whole.stat().st_size - half.stat().st_size == pytest.approx(2 * values, abs=64)


def test_what_half_precision_cannot_hold_is_not_saved(tmp_path: Path) -> None:
    network = caffe_network()
    path = tmp_path / "w.safetensors"
    save_weights(path, network, about=ABOUT)
    content = path.read_bytes()
    with torch.no_grad():
        network.get_parameter("trunk.fc6.bias")[0] = 70_000
    with pytest.raises(DataError, match=r"trunk\.fc6\.bias cannot be saved.*65504.*got the largest is 70000"):
        save_weights(path, network, about=ABOUT, half=True)
    with torch.no_grad():
        network.get_parameter("trunk.fc6.bias")[0] = float("nan")
    with pytest.raises(DataError, match="finite"):
        save_weights(path, network, about=ABOUT)
    with pytest.raises(ConfigError, match="values for JSON"):
        save_weights(path, caffe_network(), about={"a": torch.ones(1)})
    with pytest.raises(DataError, match="cannot be written"):
        save_weights(tmp_path / "absent" / "w.safetensors", caffe_network(), about=ABOUT)
    assert path.read_bytes() == content
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


def test_other_classes_start_fresh_and_other_trunks_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    network = caffe_network()
    save_weights(path, network, about=ABOUT)
    more = caffe_network(classes=9)
    report = load_weights(path, more)
    assert [entry.network for entry in report.fresh] == ["outputs.0.layer.weight", "outputs.0.layer.bias"]
    assert torch.equal(more.state_dict()["trunk.fc6.weight"], network.state_dict()["trunk.fc6.weight"])
    three = Network(CaffeTrunk(), [Output(nn.Linear(5, 3)), Output(nn.Linear(5, 3))])
    shallow = Network(nn.Sequential(nn.Flatten()), [Output(nn.Linear(5, 3))])
    for other in (caffe_network(hidden=7), caffe_network(width=8), three, shallow, cifarnet()):
        before = frozen_copy(other)
        with pytest.raises(DataError, match=r"another network.*it is of: 'a toy'\. Build that network"):
            load_weights(path, other)
        assert_unchanged(other, before)


def test_what_was_left_out_starts_fresh(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    network, other = caffe_network(), caffe_network()
    only = [name for name in network.state_dict() if "conv" in name]
    save_weights(path, network, about=ABOUT, only=only)
    before = frozen_copy(other)
    report = load_weights(path, other)
    assert report.taken == only
    assert torch.equal(other.state_dict()["trunk.fc6.weight"], before["trunk.fc6.weight"])


def test_damaged_files_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    network = caffe_network()
    before = frozen_copy(network)
    save_weights(path, network, about=ABOUT)
    whole = path.read_bytes()
    for length in (*range(0, len(whole), 11), len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"w\.safetensors") as told:
            load_weights(path, network)
        assert "not weights of ours" not in str(told.value)  # they are, and damaged
    tensors = frozen_copy(network)
    for header in (
        None,
        {"everlearn.weights": "["},
        {"everlearn.weights": "[]"},
        {"everlearn.weights": '{"about": 1}'},
    ):
        save_file(tensors, path, metadata=header)
        with pytest.raises(DataError, match="not weights of ours"):
            load_weights(path, network)
    good = {"everlearn.weights": json.dumps({"about": {}, "left_out": []})}
    save_file({**tensors, "trunk.fc6.bias": torch.full((5,), float("inf"))}, path, metadata=good)
    with pytest.raises(DataError, match=r"'trunk.fc6.bias': expected finite"):
        load_weights(path, network)
    assert_unchanged(network, before)


@pytest.mark.parametrize("suffix", [".pth", ".caffemodel"])
def test_other_people_s_weights_are_to_be_imported_first(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"theirs{suffix}"
    torch.save({"a": torch.zeros(1)}, path)
    with pytest.raises(DataError, match=rf"got a \{suffix} file. Import it first: everlearn weights FILE"):
        load_weights(path, cifarnet(3))


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_imports_a_caffemodel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(NETWORKS, "toy", Known(lambda classes: caffe_network(classes), 3))
    blobs = caffe_blobs(classes=1000, hidden=10)
    source = write(tmp_path / "bvlc.caffemodel", *encoded(blobs, old_way=True))
    out = tmp_path / "toy.safetensors"
    call = ["weights", str(source), "--model", "toy", "--out", str(out)]
    assert main(call) == 0
    text = capsys.readouterr()
    assert "trunk.fc6.weight        5×6      fc6[0]       1×1×10×6     fresh: another shape" in text.out
    assert "2 matched, 2 reshaped, 4 fresh, 0 unused" in text.out
    assert text.err == f"The weights: {out}\n"
    about = read_about(out)
    assert (about["network"], about["made"], about["classes"]) == ("toy", "imported from bvlc.caffemodel", 3)
    assert len(about["sha256"]) == 64
    network = caffe_network(classes=6)
    before = frozen_copy(network)
    report = load_weights(out, network)
    assert report.taken == [name for name in network.state_dict() if "conv" in name]
    assert np.array_equal(network.state_dict()["trunk.conv1.weight"].numpy(), blobs["conv1"][0])
    assert torch.equal(network.state_dict()["trunk.fc6.weight"], before["trunk.fc6.weight"])

    assert main([*call, "--json", "--half", "--classes", "1000"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [entry["network"] for entry in told["reshaped"]] == ["trunk.conv1.bias", "trunk.conv2.bias"]
    assert told["fresh"][2]["network_shape"] == [1000, 5]
    assert read_state_dict(out)["trunk.conv1.weight"].dtype == torch.float16


CAFFENET = {
    **{"conv1": (96, 3, 11, 11), "conv2": (256, 48, 5, 5), "conv3": (384, 256, 3, 3)},
    **{"conv4": (384, 192, 3, 3), "conv5": (256, 192, 3, 3)},
    **{"fc6": (64, 9216), "fc7": (64, 64), "fc8": (1000, 64)},
}
"""The layers of BVLC's CaffeNet in their order, and the shapes of their weights; there fc6 and fc7 have 4,096 rows."""


def googlenet_shapes() -> dict[str, tuple[int, ...]]:
    """The layers of BVLC's GoogLeNet in their order, and the shapes of their weights.

    A module's numbers: channels that enter, 1×1, 3×3 reduce, 3×3, 5×5 reduce, 5×5, pool projection.
    """
    modules = {
        "3a": (192, 64, 96, 128, 16, 32, 32),
        "3b": (256, 128, 128, 192, 32, 96, 64),
        "4a": (480, 192, 96, 208, 16, 48, 64),
        "4b": (512, 160, 112, 224, 24, 64, 64),
        "4c": (512, 128, 128, 256, 24, 64, 64),
        "4d": (512, 112, 144, 288, 32, 64, 64),
        "4e": (528, 256, 160, 320, 32, 128, 128),
        "5a": (832, 256, 160, 320, 32, 128, 128),
        "5b": (832, 384, 192, 384, 48, 128, 128),
    }
    shapes: dict[str, tuple[int, ...]] = {
        "conv1/7x7_s2": (64, 3, 7, 7),
        "conv2/3x3_reduce": (64, 64, 1, 1),
        "conv2/3x3": (192, 64, 3, 3),
    }
    for name, (entering, one, reduce_3, three, reduce_5, five, projection) in modules.items():
        module = f"inception_{name}"
        shapes |= {
            f"{module}/1x1": (one, entering, 1, 1),
            f"{module}/3x3_reduce": (reduce_3, entering, 1, 1),
            f"{module}/3x3": (three, reduce_3, 3, 3),
            f"{module}/5x5_reduce": (reduce_5, entering, 1, 1),
            f"{module}/5x5": (five, reduce_5, 5, 5),
            f"{module}/pool_proj": (projection, entering, 1, 1),
        }
        side = {"4a": ("loss1", 512), "4d": ("loss2", 528)}.get(name)
        if side:
            shapes[f"{side[0]}/conv"] = (128, side[1], 1, 1)
            shapes[f"{side[0]}/fc"] = (1024, 2048)
            shapes[f"{side[0]}/classifier"] = (1000, 1024)
    return {**shapes, "loss3/classifier": (1000, 1024)}


def bvlc(path: Path, shapes: dict[str, tuple[int, ...]]) -> dict[str, list[Any]]:
    """Write a file as BVLC's are; gives the weights and biases in it."""
    rng = np.random.default_rng(0)
    layers = {name: [rng.random(s, dtype="f"), rng.random(s[0], dtype="f")] for name, s in shapes.items()}
    write(path, *(old(name, *map(bulk, blobs)) for name, blobs in layers.items()))
    return layers


@pytest.mark.parametrize(
    ("model", "shapes", "left"),
    [("googlenet-128", googlenet_shapes(), ("loss1/fc", "loss2/fc")), ("caffenet-128-conv", CAFFENET, ("fc6", "fc7"))],
)
def test_the_command_leaves_the_layers_that_the_papers_network_is_without(
    model: str,
    shapes: dict[str, tuple[int, ...]],
    left: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every convolution is taken; the classifiers see other features, and start fresh."""
    source, out = tmp_path / "bvlc.caffemodel", tmp_path / "w.safetensors"
    layers = bvlc(source, shapes)
    assert main(["weights", str(source), "--model", model, "--json", "--out", str(out)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(entry["file"], entry["why"]) for entry in told["unused"]] == [
        (f"{name}[{k}]", "no such layer in the network") for name in left for k in range(2)
    ]
    network = NETWORKS[model].make(50)
    homes = {name: f"trunk.{name.replace('/', '_')}" for name, shape in shapes.items() if len(shape) == 4}
    trunk = [name for name in network.state_dict() if name.startswith("trunk.")]
    assert sorted(trunk) == sorted(f"{home}.{part}" for home in homes.values() for part in ("weight", "bias"))
    assert sorted(entry["network"] for entry in told["matched"] + told["reshaped"]) == sorted(trunk)
    assert {entry["network"] for entry in told["fresh"]} == set(network.state_dict()) - set(trunk)
    load_weights(out, network)
    state = network.state_dict()
    for name, home in homes.items():
        assert np.array_equal(state[f"{home}.weight"].numpy(), layers[name][0])
        assert np.array_equal(state[f"{home}.bias"].numpy(), layers[name][1])


def cut_after(layer: str, shapes: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    names = list(shapes)
    return {name: shapes[name] for name in names[: names.index(layer) + 1]}


@pytest.mark.parametrize(
    ("model", "shapes", "missing"),
    [
        (
            "caffenet-128",
            cut_after("conv3", CAFFENET),
            "the 5 convolutions and batch norms of the network, got a file without conv4, conv5.",
        ),
        (
            "googlenet-128",
            cut_after("inception_5a/5x5", googlenet_shapes()),
            "the 57 convolutions and batch norms of the network, got a file without inception_5a/pool_proj, "
            "inception_5b/1x1, inception_5b/3x3_reduce, inception_5b/3x3, inception_5b/5x5_reduce, inception_5b/5x5, "
            "inception_5b/pool_proj.",
        ),
        (
            "googlenet-128",
            cut_after("conv2/3x3", googlenet_shapes()),
            "inception_3a/5x5, inception_3a/pool_proj, inception_3b/1x1, inception_3b/3x3_reduce, and 46 more.",
        ),
    ],
)
def test_the_command_refuses_a_file_cut_between_two_layers(
    model: str,
    shapes: dict[str, tuple[int, ...]],
    missing: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """57 convolutions: 3 and 9 modules of 6; 54 without the first three, of which 8 are shown."""
    source, out = tmp_path / "cut.caffemodel", tmp_path / "w.safetensors"
    bvlc(source, shapes)
    assert main(["weights", str(source), "--model", model, "--out", str(out)]) == 1
    text = capsys.readouterr().err
    assert f"{source}: layers are missing: expected the " in text
    assert missing in text
    assert not out.exists()


@pytest.mark.parametrize(
    ("model", "shapes", "fresh"),
    [
        (
            "googlenet-128",
            {name: s for name, s in googlenet_shapes().items() if not name.startswith(("loss1", "loss2"))},
            {"trunk.loss1_conv", "trunk.loss2_conv", "outputs.0.layer", "outputs.1.layer", "outputs.2.layer"},
        ),
        ("caffenet-128", cut_after("conv5", CAFFENET), {"trunk.fc6", "trunk.fc7", "outputs.0.layer"}),
    ],
)
def test_the_command_takes_a_net_saved_for_prediction_and_convolutions_alone(
    model: str,
    shapes: dict[str, tuple[int, ...]],
    fresh: set[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, out = tmp_path / "a.caffemodel", tmp_path / "w.safetensors"
    bvlc(source, shapes)
    assert main(["weights", str(source), "--model", model, "--json", "--out", str(out)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {entry["network"].rpartition(".")[0] for entry in told["fresh"]} == fresh


def test_the_command_says_which_file_does_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All of ResNet-18's tensors with one axis more rows: the first eight are shown, the number of others is told."""
    theirs = NETWORKS["resnet-18"].make(50).trunk.state_dict()
    wide = {name: torch.cat([t, t]) if t.ndim else t for name, t in theirs.items()}
    source = saved(tmp_path / "wide.pth", wide)
    out = tmp_path / "w.safetensors"
    assert main(["weights", str(source), "--model", "resnet-18", "--out", str(out)]) == 1
    text = capsys.readouterr().err
    assert text.startswith(f"everlearn: {source}: These weights do not fit the network: expected trunk.")
    expected, got = text.partition(", got ")[::2]
    others = sum(1 for tensor in wide.values() if tensor.ndim) - 8
    for part in (expected, got.partition(". Give")[0]):
        assert part.count("; ") == 8
        assert part.endswith(f"; and {others} more")
    assert text.endswith(". Give --model the network that the file is of, or a file that is of resnet-18.\n")
    assert not out.exists()

    source = saved(tmp_path / "large.pth", {"conv1.weight": torch.full((64, 3, 7, 7), 1e300, dtype=torch.float64)})
    assert main(["weights", str(source), "--model", "resnet-18", "--out", str(out)]) == 1
    assert f"{source}: Tensor 'conv1.weight' cannot be taken" in capsys.readouterr().err


def test_the_command_imports_a_state_dict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theirs = cifarnet(seed=5)
    tensors = {name.removeprefix("trunk."): tensor for name, tensor in theirs.trunk.state_dict().items()}
    source = saved(tmp_path / "a.pth", {**tensors, "fc.weight": theirs.output_layers[0].layer.weight.detach()})
    out = tmp_path / "cifarnet.safetensors"
    assert main(["weights", str(source), "--model", "cifarnet", "--classes", "10", "--out", str(out)]) == 0
    assert "outputs.0.layer.weight  10×512" in capsys.readouterr().out
    network = cifarnet(classes=20)
    load_weights(out, network)
    ours = network.trunk.state_dict()
    assert all(torch.equal(ours[name], tensor) for name, tensor in tensors.items())


def test_the_command_refuses_a_state_dict_of_a_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """ResNet-18 has 20 convolutions, each with a batch norm: conv1, 16 in its 8 blocks and 3 shortcuts."""
    theirs = NETWORKS["resnet-18"].make(50).trunk.state_dict()
    out = tmp_path / "w.safetensors"
    shortcut = {name: tensor for name, tensor in theirs.items() if not name.startswith("layer4.0.downsample")}
    for part, missing in (
        ({"conv1.weight": theirs["conv1.weight"]}, "bn1, layer1.0.conv1, layer1.0.bn1, "),
        (shortcut, "layer4.0.downsample.0, layer4.0.downsample.1. It may be cut short, or a part: "),
        ({name: tensor for name, tensor in theirs.items() if tensor.ndim == 4}, "bn1, layer1.0.bn1, layer1.0.bn2, "),
    ):
        source = saved(tmp_path / "a.pth", part)
        assert main(["weights", str(source), "--model", "resnet-18", "--out", str(out)]) == 1
        expected = f"{source}: layers are missing: expected the 40 convolutions and batch norms of the network, "
        assert f"{expected}got a file without {missing}" in capsys.readouterr().err
        assert not out.exists()


@pytest.mark.parametrize(
    ("model", "left_out", "fresh"),
    [
        ("resnet-18", ("fc",), {"outputs.0.layer"}),
        ("caffenet-128", ("fc",), {"trunk.fc6", "trunk.fc7", "outputs.0.layer"}),
        (
            "googlenet-128",
            ("loss", "fc"),
            {"trunk.loss1_conv", "trunk.loss2_conv", "outputs.0.layer", "outputs.1.layer", "outputs.2.layer"},
        ),
    ],
)
def test_the_command_takes_a_state_dict_of_convolutions_alone(
    model: str, left_out: tuple[str, ...], fresh: set[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = NETWORKS[model].make(50).trunk.state_dict()
    part = {name: tensor for name, tensor in theirs.items() if not name.startswith(left_out)}
    source, out = saved(tmp_path / "a.pth", part), tmp_path / "w.safetensors"
    assert main(["weights", str(source), "--model", model, "--json", "--out", str(out)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {entry["network"].rpartition(".")[0] for entry in told["fresh"]} == fresh


def test_the_commands_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = saved(tmp_path / "a.pth", TENSORS)
    out = tmp_path / "o.safetensors"
    cases = [
        ([str(source), "--model", "huge"], "Unknown network"),
        ([str(source), "--model", "cifarnet"], f"{source}: No layer of the file fits"),
        ([str(source), "--model", "cifarnet", "--classes", "0"], "Too few classes"),
        ([str(tmp_path / "absent.caffemodel"), "--model", "cifarnet"], "no such file"),
        ([str(tmp_path / "absent"), "--model", "cifarnet"], "no such file"),
        ([str(tmp_path / "a.h5"), "--model", "cifarnet"], "unknown kind of file"),
    ]
    (tmp_path / "a.h5").write_bytes(b"x")
    for arguments, message in cases:
        assert main(["weights", *arguments, "--out", str(out)]) == 1
        assert message in capsys.readouterr().err
        assert not out.exists()


def test_every_network_with_weights_is_in_the_catalogue() -> None:
    assert set(NETWORKS) <= set(catalogue.MODELS)
    for known in NETWORKS.values():
        assert known.make(3).rows == 3
