"""Sources made from other sources: CIFAR-10 beside CIFAR-100, and MNIST permuted or rotated, a session each."""

from collections.abc import Callable

import numpy as np

from everlearn.data.cifar import cifar10, cifar100
from everlearn.data.idx import mnist
from everlearn.data.source import Array, Patterns, Source

SESSIONS = 10


def cifar10_100() -> Source:
    """CIFAR-10's ten classes, then CIFAR-100's hundred as classes 10 to 109."""
    first, second = cifar10(), cifar100()
    parts = [
        Patterns(np.concatenate([a.x, b.x]), np.concatenate([a.y, b.y + 10]))
        for a, b in ((first.train, second.train), (first.test, second.test))
    ]
    return Source("cifar-10/100", parts[0], parts[1], (*first.classes, *second.classes))


def permuted_mnist(sessions: int = SESSIONS, *, per_session: int = 10_000) -> Source:
    """MNIST with its pixels permuted, another way in each session; the first session is as it is.

    Args:
        sessions: how many.
        per_session: training patterns in each; the test has a sixth as many.
    """
    rng = np.random.default_rng(0)
    pixels = 28 * 28
    permutations = [np.arange(pixels), *(rng.permutation(pixels) for _ in range(sessions - 1))]

    def turn(x: Array, k: int) -> Array:
        permuted: Array = x.reshape(len(x), -1)[:, permutations[k]].reshape(x.shape)
        return permuted

    return _in_sessions("permuted-mnist", turn, sessions, per_session)


def rotated_mnist(sessions: int = SESSIONS, *, per_session: int = 10_000) -> Source:
    """MNIST rotated, by 180°/sessions more in each session.

    Args:
        sessions: how many.
        per_session: training patterns in each; the test has a sixth as many.
    """
    return _in_sessions("rotated-mnist", lambda x, k: rotated(x, 180.0 * k / sessions), sessions, per_session)


def rotated(x: Array, degrees: float) -> Array:
    """Square patterns [n, c, h, h] rotated about their centre, nearest pixel, zeros outside.

    >>> rotated(np.arange(4, dtype=np.uint8).reshape(1, 1, 2, 2), 90.0)[0, 0].tolist()
    [[1, 3], [0, 2]]
    """
    size = x.shape[-1]
    middle, angle = (size - 1) / 2, np.deg2rad(degrees)
    rows, columns = np.mgrid[:size, :size] - middle
    r = np.rint(np.cos(angle) * rows + np.sin(angle) * columns + middle).astype(int)
    c = np.rint(np.cos(angle) * columns - np.sin(angle) * rows + middle).astype(int)
    inside = (r >= 0) & (r < size) & (c >= 0) & (c < size)
    turned: Array = np.where(inside, x[..., r.clip(0, size - 1), c.clip(0, size - 1)], 0).astype(x.dtype)
    return turned


def _in_sessions(name: str, turn: Callable[[Array, int], Array], sessions: int, per_session: int) -> Source:
    base = mnist()
    parts = []
    for part, n in ((base.train, per_session), (base.test, max(1, per_session // 6))):
        chosen = [np.random.default_rng(k).permutation(len(part))[:n] for k in range(sessions)]
        x = np.concatenate([turn(part.x[places], k) for k, places in enumerate(chosen)])
        y = np.concatenate([part.y[places] for places in chosen])
        parts.append(Patterns(x, y, np.repeat(np.arange(1, sessions + 1), [len(c) for c in chosen])))
    return Source(name, parts[0], parts[1], base.classes)
