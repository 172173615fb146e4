"""A learner's state on disk: one safetensors file, with the plain values as JSON in its header. Never a pickle."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from everlearn.errors import StateError, sentence
from everlearn.files import write_atomically

State = dict[str, Any]
"""A tree of dicts and lists with tensors, numbers, strings, booleans and None at its leaves."""


def save_state(path: str | os.PathLike[str], state: State) -> None:
    """Write a state so that the file is either the old one or the new one, whole, whatever happens."""
    path = Path(path)
    tensors: dict[str, Tensor] = {}
    tree = _strip(state, "", tensors)
    data = save(tensors, metadata={"everlearn": json.dumps(tree)})
    write_atomically(path, data)


def load_state(path: str | os.PathLike[str]) -> State:
    """Read what `save_state` wrote; a file that is something else is refused, and nothing in it is executed."""
    try:
        with safe_open(path, framework="pt") as file:
            header = (file.metadata() or {})["everlearn"]
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        tree: State = _fill(json.loads(header), tensors)
    except FileNotFoundError as error:
        raise StateError(
            sentence("There is no such state", expected="a file", got=str(path), do="Check the path.")
        ) from error
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise StateError(
            sentence(
                "This file is not a state, or it is damaged",
                expected="a safetensors file that save_state wrote",
                got=f"{path} ({error})",
                do="Use an earlier state.",
            )
        ) from error
    return tree


def _strip(node: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    """The tree with each tensor replaced by {"tensor": name}."""
    if isinstance(node, Tensor):
        tensors[name] = node.detach().contiguous().clone()
        return {"tensor": name}
    if isinstance(node, dict):
        return {"dict": {key: _strip(value, f"{name}/{key}", tensors) for key, value in node.items()}}
    if isinstance(node, list | tuple):
        return [_strip(value, f"{name}/{k}", tensors) for k, value in enumerate(node)]
    return node


def _fill(node: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(node, dict):
        if "tensor" in node:
            return tensors[node["tensor"]]
        return {key: _fill(value, tensors) for key, value in node["dict"].items()}
    return [_fill(value, tensors) for value in node] if isinstance(node, list) else node


def mapped(node: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """The same tree with a function applied to every tensor.

    >>> import torch
    >>> mapped({"a": [torch.ones(1), 2]}, lambda tensor: tensor + 1)
    {'a': [tensor([2.]), 2]}
    """
    if isinstance(node, Tensor):
        return function(node)
    if isinstance(node, dict):
        return {key: mapped(value, function) for key, value in node.items()}
    return [mapped(value, function) for value in node] if isinstance(node, list | tuple) else node
