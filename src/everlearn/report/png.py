"""Confusion matrices as small PNG images, one pixel a cell."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

_ANCHORS = ((255, 255, 255), (219, 233, 246), (158, 202, 225), (84, 156, 206), (28, 100, 172), (8, 45, 105))
EMPTY = 63
"""The colour of a class without a test pattern."""


def colours() -> NDArray[np.uint8]:
    """The one colour scale, [64, 3]: from white at 0 to dark blue at 62, and grey for nothing at 63."""
    at = np.linspace(0, EMPTY - 1, len(_ANCHORS))
    scale = [np.interp(np.arange(EMPTY), at, [anchor[k] for anchor in _ANCHORS]) for k in range(3)]
    return np.vstack([np.stack(scale, axis=1).round(), [[205, 205, 205]]]).astype(np.uint8)


def by_row(confusion: NDArray[np.int64], totals: NDArray[np.int64]) -> NDArray[np.float64]:
    """Shares of each true class's test patterns; a class without any has NaN.

    >>> by_row(np.array([[3, 1], [0, 0]]), np.array([4, 0])).tolist()
    [[0.75, 0.25], [nan, nan]]
    """
    sums = totals[:, None]
    shares: NDArray[np.float64] = np.divide(confusion, sums, out=np.full(confusion.shape, np.nan), where=sums > 0)
    return shares


def picture(shares: NDArray[np.float64]) -> str:
    """Shares from 0 to 1 as a data URI. The scale goes by the square root, so that what is faint can be seen too."""
    whole = np.where(np.isnan(shares), EMPTY, np.round(np.sqrt(np.nan_to_num(shares)) * (EMPTY - 1))).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(encode(whole)).decode()


def encode(index: NDArray[np.uint8]) -> bytes:
    """Indices into the colour scale, [height, width], as a PNG file.

    >>> file = encode(np.array([[0, 62, 63], [5, 6, 7]], dtype=np.uint8))
    >>> file[1:4], struct.unpack(">II", file[16:24])  # width, height
    (b'PNG', (3, 2))
    >>> zlib.decompress(file[file.index(b"IDAT") + 4 : file.index(b"IEND") - 8]).hex(" ", 4)
    '00003e3f 00050607'
    """
    height, width = index.shape
    lines = b"".join(b"\0" + line.tobytes() for line in index)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)  # eight bits, by palette
    chunks = {b"IHDR": header, b"PLTE": colours().tobytes(), b"IDAT": zlib.compress(lines, 9), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, data) for kind, data in chunks.items())


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
