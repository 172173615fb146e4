"""A second device that every machine has: computed on the CPU, but kept apart from it as a GPU's memory is.

Tensors that are made for, or moved to, the device `meta` are marked as elsewhere, and say so when asked for it.
Operations on marked tensors give marked ones, and an operation that mixes marked and unmarked tensors is refused, just
where CUDA and MPS refuse it; so is float64, which MPS does not have. So a hard-coded CPU tensor fails here, and what is
computed can still be compared.
"""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

ELSEWHERE = torch.device("meta")
MAY_MIX = {"aten::copy_", "aten::set_", "aten::_to_copy", "aten::index_put_", "aten::index_put", "aten::index"}
"""Operations that take tensors of two devices: copies, and indices, which may lie on the CPU, but only they."""


class Elsewhere:
    """While it is entered, the device `meta` computes; also reports whether anything was computed there."""

    def __init__(self) -> None:
        self._marked: dict[int, Tensor] = {}  # by storage; held, so that no storage's place is used twice
        self.operations = 0
        self._modes = (_Dispatch(self), _Function(self))

    def __enter__(self) -> "Elsewhere":
        for mode in self._modes:
            mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: Any) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(*error)  # type: ignore[no-untyped-call]

    def has(self, tensor: Tensor) -> bool:
        return tensor.untyped_storage()._cdata in self._marked

    def mark(self, result: Any) -> Any:
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._marked[tensor.untyped_storage()._cdata] = tensor.detach()
        return result


class _Dispatch(TorchDispatchMode):
    def __init__(self, place: Elsewhere) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.place = place

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        wanted = kwargs.pop("device", None)
        tensors = [one for one in tree_leaves([args, kwargs]) if isinstance(one, Tensor)]
        marked = [one for one in tensors if self.place.has(one)]
        strangers = [one for one in tensors if not self.place.has(one) and one.dim()]
        name = func._schema.name
        if marked and strangers and name not in MAY_MIX:
            raise RuntimeError(f"{name}: {len(marked)} tensors are elsewhere, and {len(strangers)} on the CPU")
        if name.startswith("aten::index") and not self.place.has(args[0]):
            assert not marked, f"{name}: a tensor on the CPU is indexed by one that is elsewhere"
        if name == "aten::copy_" and not self.place.has(args[0]) and marked:
            marked = []  # written on the CPU
        if name.startswith("aten::index_put") and self.place.has(args[0]) and not self.place.has(args[2]):
            assert args[2].dim() == 0, f"{name}: values on the CPU are written elsewhere"
        result = func(*args, **kwargs)
        away = torch.device(wanted) == ELSEWHERE if wanted is not None else bool(marked)
        self.place.operations += bool(marked)
        if away and any(isinstance(one, Tensor) and one.dtype == torch.float64 for one in tree_leaves(result)):
            raise RuntimeError(f"{name}: float64 is not everywhere, MPS has none")
        return self.place.mark(result) if away else result


class _Function(TorchFunctionMode):
    """What PyTorch settles before it dispatches: a tensor's device, moves to the CPU, and values from Python."""

    def __init__(self, place: Elsewhere) -> None:
        super().__init__()
        self.place = place

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in (torch.tensor, torch.as_tensor) and torch.device(kwargs.get("device") or "cpu") == ELSEWHERE:
            made = func(*args, **{**kwargs, "device": "cpu"})  # PyTorch would leave out the values
            return self.place.mark(made.clone())
        own = args and isinstance(args[0], Tensor) and self.place.has(args[0])
        if own and func == Tensor.device.__get__:
            return ELSEWHERE
        if own and func is Tensor.new_tensor:
            return self.place.mark(func(*args, **kwargs).clone())
        if own and func is Tensor.numpy:
            raise TypeError("can't convert a tensor that is elsewhere to numpy")
        if own and (func is Tensor.cpu or (func is Tensor.to and _names_the_cpu(args[1:], kwargs))):
            return torch.tensor(args[0].tolist(), dtype=args[0].dtype).reshape(args[0].shape)
        return func(*args, **kwargs)


def _names_the_cpu(args: Any, kwargs: Any) -> bool:
    named = [one for one in (*args, *kwargs.values()) if isinstance(one, str | torch.device)]
    return any(torch.device(one).type == "cpu" for one in named)
