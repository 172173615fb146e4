"""Knobs: the fields of a frozen or stateful dataclass that its user sets, and their checks."""

import types
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from math import isnan
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from everlearn.errors import ConfigError, sentence


def check(condition: bool, what: str, *, expected: object, got: object, do: str) -> None:
    """Raise a ConfigError unless the condition holds."""
    if not condition:
        raise ConfigError(sentence(what, expected=expected, got=got, do=do))


def knob_names(owner: Any) -> list[str]:
    """The knobs of a dataclass or of an instance of one; nothing else has any.

    >>> from everlearn.learning.training import Phase
    >>> knob_names(Phase)
    ['epochs', 'eta', 'schedule']
    """
    return [f.name for f in fields(owner) if f.init] if is_dataclass(owner) else []


def all_knobs(owner: Any, prefix: str) -> dict[str, Any]:
    """Every knob's value by its dotted name, those of the dataclasses within among them.

    >>> from everlearn.learning.training import Phase
    >>> all_knobs(Phase(epochs=2, eta=0.1), "training.first.")
    {'training.first.epochs': 2, 'training.first.eta': 0.1, 'training.first.schedule': ((0.0, 1.0),)}
    """
    out: dict[str, Any] = {}
    for name in knob_names(owner):
        value = getattr(owner, name)
        out |= all_knobs(value, f"{prefix}{name}.") if is_dataclass(value) else {f"{prefix}{name}": value}
    return out


def learnt_names(owner: Any) -> list[str]:
    """What a dataclass has learnt: the fields that its user does not set, whose names end in `_` and begin without.

    >>> from everlearn.regularisers import SI
    >>> learnt_names(SI)
    ['F_', 'theta_star_', 'consolidated_', 'F_i_', 'path_', 'theta_start_']
    """
    return [f.name for f in fields(owner) if not f.init and f.name.endswith("_") and not f.name.startswith("_")]


def flat(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A tree of dicts as one dict with dotted names; knobs keep their own dots.

    >>> flat({"run": 1, "knobs": {"si.lam": 2.0}})
    {'run': 1, 'knobs.si.lam': 2.0}
    """
    out: dict[str, Any] = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            out |= flat(value, f"{prefix}{name}.")
        else:
            out[f"{prefix}{name}"] = value
    return out


def check_types(owner: Any) -> None:
    """Raise a ConfigError unless every knob is of its declared type.

    >>> from everlearn.learning.training import Phase
    >>> Phase(epochs=2.5, eta=0.1)
    Traceback (most recent call last):
    everlearn.errors.ConfigError: A bad value for epochs of Phase: expected int, got 2.5. See its page in the docs.
    """
    hints = get_type_hints(type(owner))
    for name in knob_names(owner):
        value = getattr(owner, name)
        check(
            fits(value, hints[name]),
            f"A bad value for {name} of {type(owner).__name__}",
            expected=describe(hints[name]),
            got=repr(value),
            do="See its page in the docs.",
        )


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, for the types that knobs have. Numbers are no booleans, and never NaN.

    >>> fits(1, float), fits(True, float), fits([(0, 1)], tuple[tuple[float, float], ...]), fits(None, float | None)
    (True, False, True, True)
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return value in args
    if origin in (Union, types.UnionType):
        return any(fits(value, arg) for arg in args)
    if origin is tuple:
        if not isinstance(value, tuple | list):
            return False
        inner = args[:1] * len(value) if args[-1] is Ellipsis else args
        return len(inner) == len(value) and all(map(fits, value, inner))
    if origin is Sequence:
        return isinstance(value, Sequence) and not isinstance(value, str) and all(fits(v, args[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict)
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool) and not isnan(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def describe(hint: Any) -> str:
    """A type in words.

    >>> describe(Literal["update", "gradient"]), describe(float | None)
    ("one of ['update', 'gradient']", 'float or None')
    """
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return f"one of {list(args)}"
    if origin in (Union, types.UnionType):
        return " or ".join("None" if arg is type(None) else describe(arg) for arg in args)
    return hint.__name__ if isinstance(hint, type) and not args else str(hint)
