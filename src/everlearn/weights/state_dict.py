"""State dicts of PyTorch, from .safetensors and from torchvision's .pth and .pt; no pickle of theirs is executed."""

import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from everlearn.weights.checks import bad_file, check_file, check_name

NESTS = ("state_dict", "model")
"""Under which keys checkpoints keep a state dict."""

DEEPEST = 3
"""How many of them may lie inside each other: a pickled dict can hold itself."""

WRAPPER = "module."
"""What nn.DataParallel puts before every name."""

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def read_state_dict(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a file by name, checked: dense, finite, none larger than the file.

    A state dict inside a checkpoint ({"state_dict": …} or {"model": …}) is found, and "module." before every name is
    dropped.
    """
    path = Path(path)
    readers = {".safetensors": _raw_safetensors, ".pth": _read_pickle, ".pt": _read_pickle}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise bad_file(
            path,
            "unknown kind of file",
            expected=f".caffemodel or one of {', '.join(readers)}",
            got=repr(path.suffix),
            do="Rename it to what it is.",
        )
    size = check_file(path)
    return _without_wrapper(_checked(path, size, _state_dict_in(path, reader(path))))


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a .safetensors file by name, checked as those of a state dict are."""
    size = check_file(path)
    return _checked(path, size, _raw_safetensors(path))


def metadata(path: Path) -> dict[str, str]:
    """The text in the header of a .safetensors file."""
    check_file(path)
    try:
        with safe_open(path, framework="pt") as file:
            return file.metadata() or {}
    except (SafetensorError, OSError) as error:
        raise _unreadable(path, "a whole safetensors file", error) from error


def _raw_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise _unreadable(path, "a whole safetensors file", error) from error


def _read_pickle(path: Path) -> Any:
    """What torch.load gives with only tensors and plain values allowed; anything else in the pickle is an error."""
    expected = "a state dict that torch.save wrote, of tensors and plain values only"
    try:
        zipped = zipfile.is_zipfile(path)
        if zipped and any(entry.compress_type != zipfile.ZIP_STORED for entry in zipfile.ZipFile(path).infolist()):
            raise bad_file(path, "the archive is compressed", expected=expected, got="what torch.save never writes")
        return torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except Exception as error:  # a damaged or hostile pickle can raise almost anything
        raise _unreadable(path, expected, error) from error


def _unreadable(path: Path, expected: str, error: Exception) -> Exception:
    reason = f"{type(error).__name__}: {error}".split("\n")[0][:300].rstrip(":. ")
    return bad_file(path, "the file cannot be read, or is not safe to", expected=expected, got=reason)


def _state_dict_in(path: Path, content: Any) -> Mapping[Any, Any]:
    for _ in range(DEEPEST):
        inner = [
            content[key] for key in NESTS if isinstance(content, Mapping) and isinstance(content.get(key), Mapping)
        ]
        content = inner[0] if inner else content
    if not isinstance(content, Mapping) or not content:
        got = "an empty dict" if isinstance(content, Mapping) else type(content).__name__
        raise bad_file(path, "there are no weights in it", expected="a dict of tensors", got=got)
    return content


def _checked(path: Path, size: int, content: Mapping[Any, Any]) -> dict[str, Tensor]:
    tensors = {}
    for key, tensor in content.items():
        name = check_name(path, key)
        what = f"tensor {name!r}"
        if not isinstance(tensor, Tensor):
            raise bad_file(
                path,
                what,
                expected="a tensor",
                got=type(tensor).__name__,
                do="Save the state dict alone, or under 'state_dict'.",
            )
        if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex() or tensor.is_meta:
            got = f"{tensor.dtype}, {tensor.layout}"
            raise bad_file(path, what, expected="dense real values", got=got, do="Convert it first.")
        if tensor.numel() * tensor.element_size() > size:  # a few bytes, shown as a tensor of any size
            raise bad_file(path, what, expected=f"at most the file's {size} bytes", got=f"shape {list(tensor.shape)}")
        if not finite(tensor):
            raise bad_file(
                path, what, expected="finite values", got="NaN or infinity", do="Get weights that have not diverged."
            )
        tensors[name] = tensor.detach()
    return tensors


def finite(tensor: Tensor) -> bool:
    """Whether no value is NaN or infinite.

    >>> finite(torch.tensor([1.0, 2.0])), finite(torch.tensor([1.0, float("nan")])), finite(torch.tensor([1]))
    (True, False, True)
    """
    if not tensor.is_floating_point():
        return True
    known = tensor if tensor.dtype in FLOATS else tensor.float()  # eight bits
    return bool(torch.isfinite(known).all())


def _without_wrapper(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    if all(name.startswith(WRAPPER) for name in tensors):
        return {name.removeprefix(WRAPPER): tensor for name, tensor in tensors.items()}
    return tensors
