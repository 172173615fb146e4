"""How values are spread over powers of ten: a few numbers that stay when the tensor is gone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

Json = dict[str, Any]

CHUNK = 1 << 20
"""Values looked at together, so that a histogram of millions of weights needs little memory."""


def decades(first: int, last: int) -> list[float]:
    """Edges from one power of ten to another, four in each.

    >>> decades(-1, 0)
    [0.1, 0.177828, 0.316228, 0.562341, 1.0]
    """
    return [float(f"{edge:.6g}") for edge in np.logspace(first, last, 4 * (last - first) + 1)]


EDGES = decades(-12, 2)
"""For F̂, which is clipped."""

WIDE = decades(-12, 8)
"""For F and F^i, which are not: SI's is thousands where a weight came back to where it began."""


def _rounded_up(edges: Sequence[float], dtype: torch.dtype) -> Tensor:
    """The least values of a type that are not below the edges: its values lie among them as among the edges."""
    exact = torch.tensor(list(edges), dtype=torch.float64)
    near = exact.to(dtype)
    return torch.where(near.double() < exact, torch.nextafter(near, torch.full_like(near, torch.inf)), near)


def histogram(values: Tensor, edges: Sequence[float] = WIDE) -> Json:
    """Counts between edges, a bin's lower edge included; the shares that are zero and negative, and the largest value.

    Positive values beyond the edges are in no bin; `max` tells of those above.

    >>> found = histogram(torch.tensor([0.0, -1.0, 0.2, 0.1]), edges=decades(-1, 0))
    >>> found["counts"], found["zero"], found["negative"]
    ([1, 1, 0, 0], 0.25, 0.25)
    """
    flat = values.detach().reshape(-1)
    flat = flat if flat.dtype == torch.float64 else flat.float()
    bins, counts = _rounded_up(edges, flat.dtype), torch.zeros(len(edges) + 1, dtype=torch.int64)
    for chunk in flat.split(CHUNK):
        places = torch.bucketize(chunk.cpu(), bins, out_int32=True, right=True)
        counts += torch.bincount(places, minlength=len(counts))
    n = max(1, flat.numel())
    return {
        "edges": list(edges),
        "counts": counts[1:-1].tolist(),
        "zero": (flat.numel() - int(torch.count_nonzero(flat))) / n,
        "negative": int(torch.count_nonzero(flat < 0)) / n,
        "max": float(flat.max()) if flat.numel() else 0.0,
    }
