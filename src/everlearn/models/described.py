"""Networks that say how they were made, so that a file can have them made again."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from everlearn.models.network import Network

P = ParamSpec("P")
OF_THE_START = ("classes", "seed")
"""Arguments that only say how a network starts: a file has the weights themselves."""


def described(maker: Callable[P, Network]) -> Callable[P, Network]:
    """A maker whose networks have `made`: its name in `everlearn.models`, and the arguments that shape the network.

    Args:
        maker: a function that takes plain values by name, and gives a network.

    >>> from everlearn.models import small
    >>> small(classes=10, input_shape=(1, 8, 8)).made
    {'maker': 'small', 'arguments': {'input_shape': [1, 8, 8], 'width': 16, 'normalise': False}}
    """
    signature = inspect.signature(maker)

    @wraps(maker)
    def make(*args: P.args, **kwargs: P.kwargs) -> Network:
        network = maker(*args, **kwargs)
        given = signature.bind(*args, **kwargs)
        given.apply_defaults()
        shaping = {name: _plain(value) for name, value in given.arguments.items() if name not in OF_THE_START}
        network.made = {"maker": maker.__name__, "arguments": shaping}
        return network

    return make


def _plain(value: Any) -> Any:
    """As JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value
