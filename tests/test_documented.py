"""Every public function says what each of its arguments is, and every public class what its knobs are."""

import inspect
import re
from collections.abc import Iterator
from doctest import DocTestParser
from types import ModuleType
from typing import Any

import pytest

import everlearn

SELF_EVIDENT = {"self", "cls", "args", "kwargs"}


def public() -> Iterator[tuple[str, tuple[Any, list[Any]]]]:
    """Every public function, class and method by its name, and all whose docstrings document it."""
    seen: set[int] = set()
    for name in everlearn.__all__:
        value = getattr(everlearn, name)
        parts = [(name, value)]
        if isinstance(value, ModuleType):
            names = getattr(value, "__all__", [n for n in vars(value) if not n.startswith("_")])
            parts = [(f"{name}.{n}", getattr(value, n)) for n in names]
        for place, part in parts:
            if id(part) in seen or not getattr(part, "__module__", "").startswith("everlearn"):
                continue
            seen.add(id(part))
            if inspect.isclass(part):
                bases = [base for base in part.__mro__ if base.__module__.startswith("everlearn")]
                yield place, (part, [*bases, *(vars(base).get("__init__") for base in bases)])
                for method, kind in {n: k for base in reversed(bases) for n, k in vars(base).items()}.items():
                    function = kind.__func__ if isinstance(kind, classmethod | staticmethod) else kind
                    if not method.startswith("_") and inspect.isfunction(function):
                        yield f"{place}.{method}", (function, [vars(base).get(method) for base in bases])
            elif inspect.isfunction(part):
                yield place, (part, [part])


PUBLIC = dict(public())


def prose(value: Any) -> str:
    """A docstring without its examples: an argument that is only passed there is not explained.

    What dataclasses and named tuples without a docstring have is their signature, and counts as none.
    """
    words = getattr(value, "__doc__", None) or ""
    if inspect.isclass(value) and words.startswith(f"{value.__name__}("):
        return ""
    return "".join(part for part in DocTestParser().parse(words) if isinstance(part, str))


def lacking(value: Any, documented: list[Any]) -> list[str]:
    """The arguments that the documentation does not explain, as `name: …`, `name, other: …` or in backticks.

    That a word of its sentences happens to be the name of an argument is not enough.
    """
    words = "\n".join(map(prose, documented))
    try:
        names = list(inspect.signature(value).parameters)
    except ValueError:
        return []
    explained = r"(?<!\w){0}(?:, \w+)*:|`{0}(?!\w)"
    return [n for n in names if n not in SELF_EVIDENT and not re.search(explained.format(re.escape(n)), words)]


@pytest.mark.parametrize("name", PUBLIC)
def test_arguments_are_documented(name: str) -> None:
    assert not lacking(*PUBLIC[name])
