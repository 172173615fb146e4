"""Our own weights on disk: safetensors under the network's names, and how they were made as JSON in the header."""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save
from torch import Tensor

from everlearn._kit.files import write_atomically
from everlearn.errors import ConfigError, DataError, sentence
from everlearn.models import Network
from everlearn.weights.checks import bad_file, check_file
from everlearn.weights.importer import make_plan
from everlearn.weights.layout import OURS
from everlearn.weights.report import Report, TensorEntry
from everlearn.weights.state_dict import finite, metadata, read_safetensors

KEY = "everlearn.weights"
OTHERS = (".pth", ".pt", ".bin", ".caffemodel")
"""Ends of names that other people's weights have."""


def save_weights(
    path: str | os.PathLike[str],
    network: Network | Mapping[str, Tensor],
    *,
    about: Mapping[str, Any],
    half: bool = False,
    only: Collection[str] | None = None,
) -> None:
    """Write a network's weights, trunk and output layers, so that the file is the old one or the new one, whole.

    Args:
        path: the file to write; its name must not be that of another format, such as .pth.
        network: the network, or its weights by name.
        about: what a reader should know, such as the network's name, how the weights were made and their accuracy.
        half: as float16, in half the bytes, about three digits of each weight.
        only: the names of the tensors to write; by default all. What is left out is listed in the file, and starts
            fresh when it is loaded.
    """
    path = Path(path)
    check_name(path)
    tensors = network.state_dict() if isinstance(network, Network) else network
    named = {name: t for name, t in tensors.items() if isinstance(t, Tensor)}
    kept = {name: _on_disk(name, t, half) for name, t in named.items() if only is None or name in only}
    left_out = [name for name in named if name not in kept]
    try:
        header = json.dumps({"about": dict(about), "left_out": left_out}, ensure_ascii=False)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            sentence("`about` cannot be written", expected="values for JSON", got=error, do="Use plain values.")
        ) from error
    try:
        write_atomically(path, save(kept, metadata={KEY: header}))
    except OSError as error:
        raise bad_file(
            path,
            "the weights cannot be written",
            expected="a folder that is there, with room",
            got=error.strerror,
            do="Choose another path.",
        ) from error


def check_name(path: Path) -> None:
    """Refuse a name by which weights of ours would be taken for others'.

    >>> check_name(Path("mine.pth"))
    Traceback (most recent call last):
    everlearn.errors.ConfigError: Weights of ours are no .pth file: expected a name that ends otherwise, got mine.pth. \
E.g. mine.safetensors.
    """
    if path.suffix.lower() in OTHERS:
        raise ConfigError(
            sentence(
                f"Weights of ours are no {path.suffix} file",
                expected="a name that ends otherwise",
                got=path,
                do=f"E.g. {path.with_suffix('.safetensors')}.",
            )
        )


def load_weights(path: str | os.PathLike[str], network: Network) -> Report:
    """Copy what `save_weights` wrote into a network, in place, all or nothing; float16 becomes the network's type.

    The trunk must be the one that was saved. Output layers with another number of classes start fresh, and so does what
    was left out when the weights were saved; the report says so.

    Args:
        path: the file to read.
        network: what is written into.

    Returns:
        What became of every tensor.
    """
    path = Path(path)
    left_out = set(_header(path)["left_out"])
    plan = make_plan(network, read_safetensors(path), OURS)
    wrong = [entry for entry in plan.report.fresh if not _may_be_fresh(entry, left_out)] + plan.report.unused
    if wrong:
        raise DataError(
            sentence(
                f"{path}: these weights are of another network",
                expected="; ".join(f"{e.network} {list(e.network_shape or ())}" for e in wrong[:3] if e.network)
                or "no more",
                got="; ".join(f"{e.file} {list(e.file_shape or ())}" for e in wrong[:3] if e.file) or "none of these",
                do=f"The file says that it is of: {read_about(path).get('network', 'unknown')!r}. Build that network.",
            )
        )
    return plan.carry_out()


def read_about(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What was said about weights when they were saved.

    Args:
        path: a file that `save_weights` wrote.
    """
    about: dict[str, Any] = _header(Path(path))["about"]
    return about


def _may_be_fresh(entry: TensorEntry, left_out: Collection[str]) -> bool:
    name = entry.network or ""
    return name in left_out or (name.startswith("outputs.") and entry.file is not None)


def _on_disk(name: str, tensor: Tensor, half: bool) -> Tensor:
    value = tensor.detach().cpu()
    value = value.to(torch.float16, copy=True) if half and value.is_floating_point() else value.clone()
    if not finite(value):
        raise DataError(
            sentence(
                f"{name} cannot be saved",
                expected="finite values" + (", at most 65504 in half precision" if half else ""),
                got=f"the largest is {tensor.abs().max():g}",
                do="Save without half=True." if half else "Go back to weights that have not diverged.",
            )
        )
    return value.contiguous()


def _header(path: Path) -> dict[str, Any]:
    check_file(path)
    if path.suffix.lower() in OTHERS:
        raise bad_file(
            path,
            "these are not weights of ours",
            expected="a file that save_weights wrote",
            got=f"a {path.suffix} file",
            do="Import it first: everlearn weights FILE --model NAME --out NAME.safetensors.",
        )
    try:
        header = json.loads(metadata(path)[KEY])
        if isinstance(header["about"], dict) and all(isinstance(name, str) for name in header["left_out"]):
            return dict(header)
        raise KeyError("about")
    except DataError:  # damaged, which says more
        raise
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise bad_file(
            path,
            "these are not weights of ours",
            expected="a file that save_weights wrote",
            got=f"no such header ({error})",
            do="Other people's weights are imported by `everlearn weights`; a learner's own are saved by save_weights.",
        ) from error
