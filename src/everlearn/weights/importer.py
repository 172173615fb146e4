"""Weights of a file into a network: everything is checked first, then all is copied or nothing."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from everlearn.errors import ConfigError, DataError, sentence
from everlearn.models import Network
from everlearn.weights.layout import Layout
from everlearn.weights.report import Report, TensorEntry
from everlearn.weights.state_dict import finite

Tensors = Mapping[str, Tensor] | Mapping[str, list[NDArray[np.float32]]]
"""What the readers give: tensors by name, or lists of blobs by layer."""

OPTIONAL = "num_batches_tracked"
"""A batch norm's counter, which files of before PyTorch 0.4.1 do not have."""

MOST_SHOWN = 8
"""An error shows so many of the tensors that do not fit."""


@dataclass(frozen=True)
class Offer:
    """A tensor of a file, and what it is called there."""

    name: str
    tensor: Tensor


@dataclass
class Plan:
    """What an import would do: the report of it, the copies to make, and the layers that should fit but do not."""

    report: Report = field(default_factory=Report)
    copies: list[tuple[Tensor, Tensor]] = field(default_factory=list)
    misfits: list[TensorEntry] = field(default_factory=list)

    def check(self, *, do: str | None = None) -> None:
        """Refuse weights that do not fit, or of which nothing does; do: what the user should do, default for Python."""
        if self.misfits:
            raise DataError(
                sentence(
                    "These weights do not fit the network",
                    expected=some((_told(e.network, e.network_shape) for e in self.misfits), "; "),
                    got=some((_told(e.file, e.file_shape) for e in self.misfits), "; "),
                    do=do or "Take another network or file; or import with strict=False, and these layers start fresh.",
                )
            )
        if not self.report.taken:
            raise DataError(
                sentence(
                    "No layer of the file fits one of the network",
                    expected=_such_as(entry.network for entry in self.report.fresh),
                    got=_such_as(entry.file for entry in (*self.report.unused, *self.report.fresh)),
                    do=do or "Take the network that the file is of, or a layout that says where its layers belong.",
                )
            )

    def carry_out(self) -> Report:
        """Copy, in place: parameters stay the same memory."""
        with torch.no_grad():
            for target, value in self.copies:
                target.copy_(value)
        return self.report


def import_weights(network: Network, tensors: Tensors, layout: Layout, *, strict: bool = True) -> Report:
    """Copy a file's weights into a network, in place, and report what became of every tensor.

    A layer is taken whole or not at all. Fully connected and output layers of another shape start fresh: halved
    fc6 and fc7, another number of classes. Any other layer of another shape is an error, and so is a file of which
    nothing fits, unless strict=False. Leading axes of length 1, which Caffe's older blobs have, are dropped. The order
    of a file's input channels is kept: Caffe's networks take BGR, and ours of their kind turn it so themselves.

    Args:
        network: what is written into.
        tensors: from `read_caffemodel` or `read_state_dict`.
        layout: where its layers belong, `CAFFE`, `TORCHVISION` or one of your own.
        strict: refuse weights that do not fit; False leaves those layers fresh.

    >>> from everlearn.models import Output
    >>> from everlearn.weights import TORCHVISION
    >>> network = Network(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), [Output(nn.Linear(2, 3))])
    >>> report = import_weights(network, {"1.weight": torch.ones(2, 4), "1.bias": torch.zeros(2)}, TORCHVISION)
    >>> report.taken, [entry.network for entry in report.fresh]
    (['trunk.1.weight', 'trunk.1.bias'], ['outputs.0.layer.weight', 'outputs.0.layer.bias'])
    """
    plan = make_plan(network, tensors, layout)
    if strict:
        plan.check()
    return plan.carry_out()


def make_plan(network: Network, tensors: Tensors, layout: Layout) -> Plan:
    """What importing would do; nothing is changed yet."""
    offers = _offers(network, tensors, layout)
    wanted: dict[str, dict[str, Tensor]] = {}
    for name, tensor in network.state_dict().items():
        layer, _, part = name.rpartition(".")
        if isinstance(tensor, Tensor):
            wanted.setdefault(layer, {})[part] = tensor
    plan = Plan()
    for layer, parts in wanted.items():
        may_start_fresh = layer.startswith("outputs.") or isinstance(network.get_submodule(layer), nn.Linear)
        _plan_layer(plan, layer, parts, offers.pop(layer, {}), may_start_fresh)
    left = [offer for parts in offers.values() for offer in parts.values()]
    plan.report.unused += [_entry(None, None, offer, "no such layer in the network") for offer in left]
    return plan


def _plan_layer(
    plan: Plan, layer: str, parts: dict[str, Tensor], offers: dict[str, Offer], may_start_fresh: bool
) -> None:
    """Take one layer whole, or leave it fresh with the reasons."""
    why = {part: _misfit(target, offers.get(part)) for part, target in parts.items()}
    extra = [_entry(None, None, offers[part], f"{layer} has no {part}") for part in offers if part not in parts]
    entries = {part: _entry(f"{layer}.{part}", parts[part], offers.get(part), why[part]) for part in parts}
    wrong = [entries[part] for part in parts if why[part] and not (part == OPTIONAL and part not in offers)]
    plan.report.unused += extra
    if not offers or wrong or extra:
        fresh = [
            entry if entry.why else replace(entry, why="the rest of its layer does not fit")
            for entry in entries.values()
        ]
        plan.report.fresh += fresh
        plan.misfits += [] if may_start_fresh or not offers else [*wrong, *extra]
        return
    for part, entry in entries.items():
        if part in offers:
            plan.copies.append((parts[part], _fitted(parts[part], offers[part])))
        same = entry.file_shape == entry.network_shape
        fate = plan.report.fresh if entry.why else plan.report.matched if same else plan.report.reshaped
        fate.append(entry)


def _offers(network: Network, tensors: Tensors, layout: Layout) -> dict[str, dict[str, Offer]]:
    """The file's tensors by module of the network and part of it."""
    offers: dict[str, dict[str, Offer]] = {}
    came_from: dict[str, str] = {}
    modules = [name for name, _ in network.named_modules()]
    for layer, part, offer in _parts(tensors):
        home = layout.home(layer)
        if came_from.setdefault(home, layer) != layer:
            raise DataError(
                sentence(
                    "Two layers of the file have one place in the network",
                    expected=f"one layer for {home}",
                    got=f"{came_from[home]!r} and {layer!r}",
                    do="Give a layout that says which of them belongs there.",
                )
            )
        if layer in layout.layers and home not in modules:
            raise ConfigError(
                sentence(
                    f"The layout puts {layer!r} where the network has nothing",
                    expected=f"one of {[name for name in modules if name.startswith('outputs.')]} or of the trunk",
                    got=repr(home),
                    do="Correct the layout.",
                )
            )
        offers.setdefault(home, {})[part] = offer
    return offers


def _parts(tensors: Tensors) -> Iterable[tuple[str, str, Offer]]:
    """Layer, part and tensor; a Caffe layer's first blob is its weight, the second its bias."""
    for name, value in tensors.items():
        if isinstance(value, Tensor):
            layer, _, part = name.rpartition(".")
            yield layer, part, Offer(name, value)
        else:
            for k, blob in enumerate(value):
                yield (
                    name,
                    ("weight", "bias")[k] if k < 2 else f"blob {k}",
                    Offer(f"{name}[{k}]", torch.from_numpy(blob)),
                )


def _misfit(target: Tensor, offer: Offer | None) -> str:
    """Why a tensor cannot be taken, or ''."""
    if offer is None:
        return "not in the file"
    extra = offer.tensor.dim() - target.dim()
    found = tuple(offer.tensor.shape)
    if extra < 0 or found[extra:] != tuple(target.shape) or any(n != 1 for n in found[:extra]):
        return "another shape"
    return "" if offer.tensor.is_floating_point() == target.is_floating_point() else "another kind of numbers"


def _fitted(target: Tensor, offer: Offer) -> Tensor:
    value = offer.tensor.reshape(target.shape).to(target.device, target.dtype)
    if not finite(value):
        raise DataError(
            sentence(
                f"Tensor {offer.name!r} cannot be taken",
                expected=f"values that are finite as {target.dtype}",
                got=f"some that are not, from {offer.tensor.dtype}",
                do="Get weights that have not diverged.",
            )
        )
    return value


def _entry(name: str | None, target: Tensor | None, offer: Offer | None, why: str = "") -> TensorEntry:
    return TensorEntry(
        name,
        None if target is None else tuple(target.shape),
        None if offer is None else offer.name,
        None if offer is None else tuple(offer.tensor.shape),
        why,
    )


def _told(name: str | None, shape: tuple[int, ...] | None) -> str:
    return "nothing" if name is None else f"{name} {list(shape or ())}"


def some(texts: Iterable[str], between: str = ", ") -> str:
    """The first texts of many, and how many more there are.

    >>> some(map(str, range(11)))
    '0, 1, 2, 3, 4, 5, 6, 7, and 3 more'
    """
    every = list(texts)
    more = [f"and {len(every) - MOST_SHOWN} more"] if len(every) > MOST_SHOWN else []
    return between.join([*every[:MOST_SHOWN], *more])


def _such_as(names: Iterable[str | None]) -> str:
    """The first names of many.

    >>> _such_as(["a", None, "b", "c", "d"])
    'names such as a, b, c'
    """
    found = [name for name in names if name]
    return f"names such as {', '.join(found[:3])}" if found else "no names"
