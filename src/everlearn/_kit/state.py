"""A learner's state on disk: one safetensors file, with the plain values as JSON in its header. Never a pickle.

The header also holds a SHA-256 of the whole file, itself counted as zeros, so that no flipped byte goes unnoticed. It
takes about 1 ms a MB. Files of before there was one are read as they are.
"""

import errno
import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from everlearn._kit.files import writing
from everlearn.errors import StateError, sentence

State = dict[str, Any]
"""A tree of dicts and lists with tensors, numbers, strings, booleans and None at its leaves."""

BLANK = "0" * 64  # what stands for the checksum while it is taken


def save_state(path: str | os.PathLike[str], state: State, *, keep: str | os.PathLike[str] | None = None) -> None:
    """Write a state so that the file is either the old one or the new one, whole, whatever happens.

    Args:
        path: the file to write.
        state: dicts and lists with tensors, numbers, strings, booleans and None at their leaves.
        keep: where the old file goes; by default it is overwritten.
    """
    tensors: dict[str, Tensor] = {}
    tree = {"sha256": BLANK, **_strip(state, "", tensors)}
    data = save(tensors, metadata={"everlearn": json.dumps(tree)})
    header = 8 + int.from_bytes(data[:8], "little")
    digest = hashlib.sha256(data).hexdigest()
    with writing(Path(path), keep=None if keep is None else Path(keep)) as file:
        file.write(data[:header].replace(BLANK.encode(), digest.encode(), 1))
        file.write(memoryview(data)[header:])


def load_state(path: str | os.PathLike[str]) -> State:
    """Read what `save_state` wrote; a file that is something else is refused, and nothing in it is executed.

    Args:
        path: the file to read.

    Returns:
        The state, with its tensors on the CPU.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tree = json.loads((file.metadata() or {})["everlearn"])
            _verify(path, tree)
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118, not the mapped file
        state: State = _fill(tree, tensors)
    except FileNotFoundError as error:
        raise StateError(
            sentence("There is no such state", expected="a file", got=str(path), do="Check the path.")
        ) from error
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise _damaged(path, error) from error
    except (SafetensorError, LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    return state


def _verify(path: str | os.PathLike[str], tree: State) -> None:
    """Refuse a file whose checksum is another."""
    if tree.keys() == {"dict"}:
        return  # of before there was a checksum
    written = tree["sha256"]
    with open(path, "rb") as file:
        length = file.read(8)
        header = file.read(int.from_bytes(length, "little"))
        digest = hashlib.sha256(length + header.replace(written.encode(), BLANK.encode(), 1))
        while piece := file.read(1 << 20):
            digest.update(piece)
    if digest.hexdigest() != written:
        raise ValueError(f"its checksum is {digest.hexdigest()[:8]}…, and was {written[:8]}… when it was written")


def _damaged(path: str | os.PathLike[str], error: Exception) -> StateError:
    return StateError(
        sentence(
            "This file is not a state, or it is damaged",
            expected="a safetensors file that save_state wrote",
            got=f"{os.fspath(path)} ({error})",
            do="Use an earlier state.",
        )
    )


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
