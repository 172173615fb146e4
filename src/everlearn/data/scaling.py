"""Patterns scaled to another size, and grey ones in colour, for networks that take nothing else."""

from dataclasses import replace

import numpy as np
import torch
from torch.nn.functional import interpolate

from everlearn.data.source import Patterns, Source

PIECE = 1024
"""Patterns scaled at once."""


def scaled(source: Source, side: int) -> Source:
    """A source with patterns of three channels and side × side pixels; the same source if it has those.

    Bilinear with antialiasing, bytes rounded; a grey pattern becomes three equal channels.

    >>> from everlearn import data
    >>> scaled(data.digits(), 32).shape
    (3, 32, 32)
    """
    if source.shape == (3, side, side) or source.shape[0] not in (1, 3):
        return source
    return replace(source, train=_scaled(source.train, side), test=_scaled(source.test, side))


def _scaled(patterns: Patterns, side: int) -> Patterns:
    found = np.empty((len(patterns), 3, side, side), dtype=patterns.x.dtype)
    for start in range(0, len(patterns), PIECE):
        x = torch.from_numpy(np.array(patterns.x[start : start + PIECE], dtype=np.float32))
        y = interpolate(x, size=(side, side), mode="bilinear", antialias=True)
        found[start : start + PIECE] = y.round_().clamp_(0, 255) if found.dtype == np.uint8 else y
    return replace(patterns, x=found)
