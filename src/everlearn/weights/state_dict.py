"""State dicts of PyTorch, from .safetensors and from torchvision's .pth and .pt; no pickle of theirs is executed."""

import os
import re
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from everlearn.errors import DataError
from everlearn.weights.checks import bad_file, check_file, check_name

NESTS = ("state_dict", "model")
"""Under which keys checkpoints keep a state dict."""

DEEPEST = 3
"""How many of them may lie inside each other: a pickled dict can hold itself."""

WRAPPER = "module."
"""What nn.DataParallel puts before every name."""

PICKLED = "a state dict that torch.save wrote, of tensors and plain values only"

DAMAGED = "the file is damaged or cut short, or no file of this kind"

FOREIGN = re.compile(r"GLOBAL ([\w.]{1,200}) (?:was not an allowed global|whose module)", re.ASCII)
"""How torch.load names a function or class that it did not load; what is no plain name is damage."""

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def read_state_dict(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """The tensors of a file by name, checked: dense, finite, none larger than the file.

    A state dict inside a checkpoint ({"state_dict": …} or {"model": …}) is found, and "module." before every name is
    dropped.

    Args:
        path: a .safetensors, .pth or .pt file.
    """
    path = Path(path)
    size = check_file(path)
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
        raise _unreadable(path, error) from error


def _raw_safetensors(path: Path) -> dict[str, Tensor]:
    try:
        with safe_open(path, framework="pt") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = f"{type(error).__name__}: {error}".split("\n")[0][:300].rstrip(":. ")
    return bad_file(path, DAMAGED, expected="a whole safetensors file", got=reason)


def _read_pickle(path: Path) -> Any:
    """What torch.load gives with only tensors and plain values allowed; anything else in the pickle is an error."""
    with open(path, "rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about what we read or refuse anyway
        try:
            zipped = zipfile.is_zipfile(path)
            if zipped:
                _check_stored(path)
            return torch.load(path if zipped else file, map_location="cpu", weights_only=True, mmap=zipped)
        except DataError:
            raise
        except Exception as error:  # a damaged or hostile pickle can raise almost anything
            at_end = not file.read(1)
            raise _refused(path, error, at_end) from None  # torch's text advises to switch the safety off


def _check_stored(path: Path) -> None:
    """Refuse a compressed archive, which can be far larger than it looks."""
    with zipfile.ZipFile(path) as archive:
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
            raise bad_file(path, "the archive is compressed", expected=PICKLED, got="what torch.save never writes")


def _refused(path: Path, error: Exception, at_end: bool) -> DataError:
    """Why torch.load refused a pickle, in our own words: it names something to load, or is not whole.

    at_end: the file ended there; then the name is one that was cut.
    """
    named = FOREIGN.search(str(error)) if isinstance(error, UnpicklingError) and not at_end else None
    if named is None:
        return bad_file(path, DAMAGED, expected=PICKLED, got="what torch.load cannot read")
    return bad_file(
        path,
        "the file holds something other than tensors",
        expected=PICKLED,
        got=f"one that holds {named[1]}, which was not loaded",
        do="Save the state dict alone, with torch.save(model.state_dict(), path), or fetch a file that is one.",
    )


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
