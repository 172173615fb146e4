"""McNemar's test: whether two learners are right equally often on the same patterns."""

import math

import numpy as np


def mid_p(b: int, c: int) -> float:
    """The two-sided mid-p value of McNemar's exact test.

    b, c: patterns on which only the one, or only the other, is right. If both are right equally often, b is binomial
    with n = b + c and 1/2. With k = min(b, c), p = 2·P(X ≤ k) − P(X = k): half of the observed point's weight, since
    the exact test is too shy. One for b = c, and where the two never differ.

    >>> round(mid_p(1, 5), 12)  # 2·(1 + 6)/64 − 6/64
    0.125
    >>> mid_p(0, 0), mid_p(3, 3)
    (1.0, 1.0)
    """
    n, k = b + c, min(b, c)
    if n == 0:
        return 1.0
    below = np.arange(1, k + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log((n - below + 1) / below))]) - n * math.log(2)
    weights = np.exp(logs)
    return float(min(1.0, 2 * weights.sum() - weights[-1]))
