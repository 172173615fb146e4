"""scikit-learn's digits: 1,797 handwritten digits of 8×8 pixels, which come with the package."""

from importlib import import_module

import numpy as np

from everlearn.data.arrays import split
from everlearn.data.source import Source
from everlearn.errors import DataError, sentence

SHARE = 0.2
SEED = 0


def digits() -> Source:
    """The digits as float32 from −2 to 2, (pixel − 8) / 4; a fifth of each class, chosen by seed 0, is the test.

    >>> source = digits()
    >>> source.shape, len(source.train), len(source.test)
    ((1, 8, 8), 1438, 359)
    """
    try:
        datasets = import_module("sklearn.datasets")
    except ImportError as error:
        raise DataError(
            sentence(
                "The digits come with scikit-learn",
                expected="the package scikit-learn",
                got=f"none ({error})",
                do="Run: pip install everlearn[digits]",
            )
        ) from error
    x, y = datasets.load_digits(return_X_y=True)
    return split("digits", ((x.reshape(-1, 1, 8, 8) - 8) / 4).astype(np.float32), y, share=SHARE, seed=SEED)
