"""mini50: a synthetic miniature in the shape of CORe50, rendered on the spot and cached.

It is not CORe50. 50 objects in 10 categories of 5 are seen in 11 sessions; sessions 3, 7 and 10 are the test set, as
there. The class is the object; object 5c + k is the k-th of category c.
"""

import numpy as np

from everlearn.data.cache import cached
from everlearn.data.folder import data_folder
from everlearn.data.render import VERSION, render
from everlearn.data.source import Patterns, Source

TEST_SESSIONS = (3, 7, 10)
FRAMES = 12


def mini50(seed: int = 0) -> Source:
    """The 50 objects: 4,800 training patterns from 8 sessions, 1,800 test patterns from 3 others, 3×32×32.

    Args:
        seed: of everything that is drawn; another seed gives other objects.
    """
    return _world("mini50", categories=10, frames=FRAMES, seed=seed)


def pretraining(seed: int = 0) -> Source:
    """100 other objects of 20 other categories in other sessions, to pre-train on, as ImageNet is to CORe50."""
    return _world("mini50-pretraining", categories=20, frames=6, seed=seed)


def _world(name: str, *, categories: int, frames: int, seed: int) -> Source:
    path = data_folder() / f"{name}-v{VERSION}-{seed}.npz"
    data = cached(path, lambda: render(categories, 5, frames, seed=seed, world=name))
    test = np.isin(data["session"], TEST_SESSIONS)
    train, held = (Patterns(data["x"][part], data["object"][part], data["session"][part]) for part in (~test, test))
    names = tuple(f"category {o // 5 + 1}, object {o % 5 + 1}" for o in range(5 * categories))
    return Source(name, train, held, names, synthetic=True)
