"""Caffe's .caffemodel files: a NetParameter message, of which only the blobs and their layers' names are read."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError
from numpy.typing import NDArray

from everlearn.weights.checks import bad_file, check_file, check_name

LIMIT = 1 << 30
"""No file that we read is longer than this many bytes; VGG's, the longest of the model zoo, are below 600 MB."""

MOST_AXES = 32
"""No blob of Caffe's has more axes."""

LEGACY = ("num", "channels", "height", "width")
"""The four numbers that were a blob's shape before there were shapes."""

MOST_LAYERS = 10_000
MOST_BLOBS = 100

_FIELDS: dict[str, list[tuple[str, int, str]]] = {
    "Net": [("layers", 2, "repeated bytes"), ("layer", 100, "repeated bytes")],
    "OldLayer": [("name", 4, "optional bytes"), ("blobs", 6, "repeated bytes")],
    "Layer": [("name", 1, "optional bytes"), ("blobs", 7, "repeated bytes")],
    "Blob": [
        *((name, number, "optional int64") for number, name in enumerate(LEGACY, start=1)),
        ("data", 5, "repeated float"),
        ("shape", 7, "optional Shape"),
        ("double_data", 8, "repeated double"),
    ],
    "Shape": [("dim", 1, "repeated int64")],
}
"""Name, number and kind of each field that we read, by message; all others are skipped.

A message inside another is bytes here, and read in its turn: so there are never more objects than we have counted, and
a small file of many empty layers cannot fill the memory.
"""


def _message_classes() -> dict[str, Any]:
    """A class for each kind of message."""
    file = descriptor_pb2.FileDescriptorProto(name="caffemodel.proto", package="caffemodel", syntax="proto2")
    kinds = descriptor_pb2.FieldDescriptorProto
    for message, fields in _FIELDS.items():
        described = file.message_type.add(name=message)
        for name, number, text in fields:
            label, kind = text.split()
            field = described.field.add(name=name, number=number, label=kinds.Label.Value(f"LABEL_{label.upper()}"))
            if kind in _FIELDS:
                field.type, field.type_name = kinds.TYPE_MESSAGE, f".caffemodel.{kind}"
            else:
                field.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"caffemodel.{name}")) for name in _FIELDS}


_MESSAGES = _message_classes()


def read_caffemodel(path: str | os.PathLike[str]) -> dict[str, list[NDArray[np.float32]]]:
    """The blobs of every layer that has any, by the layer's name, as float32.

    Both forms are read, today's `layer` and the older `layers` (in which BVLC's files are). A file that was cut short
    between two layers cannot be told from a whole one here: `convert` refuses it if a convolution is missing, and the
    report of `import_weights` shows what is.

    Args:
        path: a .caffemodel file.
    """
    path = Path(path)
    check_file(path, LIMIT)
    net = _parsed(path, "the file", "Net", path.read_bytes())
    found = [("OldLayer", net.layers), ("Layer", net.layer)]
    _check_count(path, "the file", "layers", MOST_LAYERS, sum(len(layers) for _, layers in found))
    blobs: dict[str, list[NDArray[np.float32]]] = {}
    for kind, layers in found:
        for k, data in enumerate(layers):
            layer = _parsed(path, f"layer {k}", kind, data)
            if layer.blobs:
                name = check_name(path, layer.name.decode("utf-8", errors="backslashreplace"))
                if name in blobs:
                    raise bad_file(path, f"layer {name!r}", expected="one layer of a name", got="two with blobs")
                blobs[name] = _arrays(path, f"layer {name!r}", layer.blobs)
    if not blobs:
        raise bad_file(
            path,
            "there are no weights in it",
            expected="a .caffemodel with layers that have blobs",
            got="no blobs",
            do="Give the .caffemodel, not the .prototxt, .solverstate or .h5; or fetch it again.",
        )
    return blobs


def _parsed(path: Path, what: str, kind: str, data: bytes) -> Any:
    try:
        return _MESSAGES[kind].FromString(data)
    except DecodeError as error:
        raise bad_file(
            path, f"{what} is damaged or cut short", expected="a binary .caffemodel, whole", got=error
        ) from error


def _check_count(path: Path, what: str, of: str, most: int, count: int) -> None:
    if count > most:
        raise bad_file(path, what, expected=f"at most {most} {of}", got=count)


def _arrays(path: Path, what: str, blobs: Sequence[bytes]) -> list[NDArray[np.float32]]:
    _check_count(path, what, "blobs", MOST_BLOBS, len(blobs))
    return [
        _array(path, f"{what}, blob {k}", _parsed(path, f"{what}, blob {k}", "Blob", data))
        for k, data in enumerate(blobs)
    ]


def _array(path: Path, what: str, blob: Any) -> NDArray[np.float32]:
    _check_count(path, what, "axes", MOST_AXES, len(blob.shape.dim))
    shape = _shape(blob)
    values = blob.double_data or blob.data
    if any(n < 1 for n in shape):
        raise bad_file(path, what, expected="axes of length 1 or more", got=f"the shape {list(shape)}")
    if math.prod(shape) != len(values):
        got = f"{len(values)} values for the shape {list(shape)}"
        raise bad_file(path, what, expected=f"{math.prod(shape)} values", got=got)
    with np.errstate(over="ignore"):  # a double that is too large for a float32 becomes infinite
        array = np.asarray(values).astype(np.float32).reshape(shape)
    if not np.isfinite(array).all():
        got = f"{np.count_nonzero(~np.isfinite(array))} that are NaN or infinite"
        raise bad_file(path, what, expected="finite values", got=got, do="Get weights that have not diverged.")
    return array


def _shape(blob: Any) -> tuple[int, ...]:
    """As Caffe reads it: the four old numbers where one of them is given, else the shape; none at all is a scalar."""
    if any(blob.HasField(name) for name in LEGACY):
        return tuple(getattr(blob, name) for name in LEGACY)
    return tuple(blob.shape.dim)
