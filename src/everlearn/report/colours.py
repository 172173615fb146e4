"""The one colour scale of shares, and confusion matrices as small PNG images in it, one pixel a cell."""

import base64
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

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
    shares = shares if shares.size else np.full((1, 1), np.nan)  # no class at all: PNG has no empty images
    whole = np.where(np.isnan(shares), EMPTY, np.round(np.sqrt(np.nan_to_num(shares)) * (EMPTY - 1))).astype(np.uint8)
    image, file = Image.fromarray(whole), BytesIO()
    image.putpalette(colours().tobytes())
    image.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()
