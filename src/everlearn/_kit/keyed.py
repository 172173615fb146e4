"""Random numbers by key.

Training draws no number from a running stream: whatever is random (the order of an epoch, new output rows, the
dropout masks of a step) comes from a generator seeded by (seed, purpose, position). So an extra pass can never shift
the training's numbers, and a resumed batch needs no generator's state.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def keyed_seed(seed: int, *key: str | int) -> int:
    """A 63-bit seed for this key.

    >>> keyed_seed(0, "order", 1) == keyed_seed(0, "order", 1) != keyed_seed(0, "order", 2)
    True
    """
    text = repr((int(seed), *key)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def keyed_generator(seed: int, *key: str | int) -> torch.Generator:
    """A fresh CPU generator for this key.

    >>> a, b = (torch.randperm(5, generator=keyed_generator(7, "order", 1)) for _ in range(2))
    >>> torch.equal(a, b)
    True
    """
    return torch.Generator().manual_seed(keyed_seed(seed, *key))


@contextmanager
def forked(device: torch.device) -> Iterator[None]:
    """Leave PyTorch's global generators, the CPU's and this device's, as they were before.

    >>> before = torch.get_rng_state()
    >>> with forked(torch.device("cpu")):
    ...     drawn = torch.rand(3)
    >>> torch.equal(torch.get_rng_state(), before)
    True
    """
    module: Any = (
        None if device.type == "cpu" else getattr(torch, device.type, None)
    )  # torch.cuda, torch.mps, torch.xpu
    with torch.random.fork_rng(devices=[]):
        if not hasattr(module, "get_rng_state"):
            yield
            return
        which = () if device.type == "mps" else (device,)  # there is only one
        before = module.get_rng_state(*which)
        try:
            yield
        finally:
            module.set_rng_state(before, *which)
