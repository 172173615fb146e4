"""Θ as one vector: every weight of the network in one piece of memory, the shared weights Θ̄ first.

The network's parameters are views into `theta.value`, and their gradients, once `theta.grad` is asked for, views into
it, so a formula over all weights is one line and one pass. The layout is

    shared weights | shared biases | output weights | output biases

so Θ̄ = value[:m_bar], and weights that take other rates (biases) are contiguous.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor, nn

from everlearn.errors import NetworkError, StateError, sentence
from everlearn.models.network import Network

BLOCK = 2**18
"""Weights whose values, gradients and updates stay in a processor's cache together."""


def blocks(*vectors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """The same part of every vector, one part after the other: formulas of several passes then read memory once.

    Parts are views. A formula by elements gives the same whatever the parts are.

    >>> [len(a) for a, b in blocks(torch.zeros(BLOCK + 3), torch.ones(BLOCK + 3))]
    [262144, 3]
    """
    return zip(*(vector.split(BLOCK) for vector in vectors), strict=True)


Extend = Callable[[Tensor], Tensor]
"""Turns a vector laid out as Θ was before the output layers grew into one laid out as Θ is now, zeros for new rows."""


@dataclass(frozen=True)
class Segment:
    """One parameter of the network and its place in Θ."""

    name: str
    shape: torch.Size
    start: int
    shared: bool
    bias: bool

    @property
    def span(self) -> slice:
        return slice(self.start, self.start + self.shape.numel())


@dataclass(frozen=True)
class Region:
    """A contiguous part of Θ whose weights are treated alike."""

    span: slice
    shared: bool
    bias: bool


class Piece(NamedTuple):
    """A contiguous part of Θ that trains, with its part of the gradient and of v."""

    bias: bool
    value: Tensor
    grad: Tensor
    v: Tensor


class Theta:
    """Θ: `value`, its gradient `grad` (while a batch is being learnt) and SGD's last update `v`.

    Parameters that do not require a gradient when the network is handed over stay outside Θ and are never trained.
    """

    def __init__(self, network: Network) -> None:
        self.network = network
        self._names = {name for name, p in network.named_parameters() if p.requires_grad}
        fixed = [name for name, _ in network.outputs.named_parameters("outputs") if name not in self._names]
        if fixed:
            raise NetworkError(
                sentence(
                    "An output layer does not train",
                    expected="output layers whose parameters require a gradient",
                    got=f"{fixed} without",
                    do="Call requires_grad_() on them; a head's knobs say what is held fixed.",
                )
            )
        self.frozen = False
        self._lay_out()
        self.v = torch.zeros_like(self.value)
        self.is_open = False  # whether a batch is being learnt, so that there is a gradient
        self._trained: list[tuple[nn.Parameter, Segment]] = []
        self._vector: Tensor | None = None  # the gradient's, once it has been asked for
        self._gathered = False  # whether the gradient is in it

    def _parameters(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self.network.named_parameters() if name in self._names}

    def _lay_out(self) -> None:
        """Gather the network's parameters into one new vector, and make them views into it."""
        kinds = sorted(
            ((name.startswith("outputs."), name.endswith("bias"), name) for name in self._parameters()),
            key=lambda kind: kind[:2],  # stable: the network's own order within each part
        )
        parameters = self._parameters()
        self.segments: list[Segment] = []
        start = 0
        for is_output, bias, name in kinds:
            self.segments.append(Segment(name, parameters[name].shape, start, not is_output, bias))
            start += parameters[name].numel()
        self.regions: list[Region] = []
        for (shared, bias), group in groupby(self.segments, key=lambda s: (s.shared, s.bias)):
            members = list(group)
            self.regions.append(Region(slice(members[0].start, members[-1].span.stop), shared, bias))
        self._repoint(torch.cat([parameters[s.name].detach().reshape(-1) for s in self.segments]))

    @property
    def m(self) -> int:
        """All weights."""
        return len(self.value)

    @property
    def m_bar(self) -> int:
        """The shared weights, all but the output layers."""
        return sum(s.shape.numel() for s in self.segments if s.shared)

    @property
    def grad(self) -> Tensor:
        """∂L/∂Θ, zeros for what L does not depend on; put together when it is asked for, so that a step that asks for
        none is spared a pass over all weights.
        """
        if not self.is_open:
            raise StateError("Θ has no gradient between batches; open() it first.")
        if self._vector is None:
            self._vector = torch.zeros_like(self.value)
        if not self._gathered:
            for parameter, segment in self._trained:
                place = self.view(segment, self._vector)
                parameter.grad = place.zero_() if parameter.grad is None else place.copy_(parameter.grad)
            self._gathered = True
        return self._vector

    @property
    def held(self) -> list[Tensor]:
        """What there is of the gradient in memory, in one vector or parameter by parameter."""
        parts = [parameter.grad for parameter, _ in self._trained]
        return [part for part in (self._vector, *parts) if part is not None]

    def moving(self) -> Tensor:
        """The gradient of what trains: all of it, or that of the output layers."""
        return self.grad[self.m_bar if self.frozen else 0 :]

    def pieces(self) -> Iterator[Piece]:
        """What trains: a group at a time where the gradient is one vector, else a parameter at a time."""
        if self._gathered:
            for part in self.regions:
                if not (self.frozen and part.shared):
                    yield Piece(part.bias, *(whole[part.span] for whole in (self.value, self.grad, self.v)))
        else:
            for parameter, segment in self._trained:
                grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
                yield Piece(segment.bias, self.value[segment.span], grad.view(-1), self.v[segment.span])

    @staticmethod
    def view(segment: Segment, vector: Tensor) -> Tensor:
        """The part of a vector laid out as Θ that belongs to one parameter, in its shape."""
        return vector[segment.span].view(segment.shape)

    def output_views(self, vector: Tensor) -> list[Tensor]:
        """The output layers' parts of a vector laid out as Θ; each with a row a class."""
        return [self.view(s, vector) for s in self.segments if not s.shared]

    def open(self) -> None:
        """Give every weight a gradient; a frozen Θ̄ asks for none, so that nothing is propagated there."""
        self.check_aliasing()
        parameters = self._parameters()
        for segment in self.segments:
            parameter, trains = parameters[segment.name], not (self.frozen and segment.shared)
            parameter.requires_grad_(trains)
            parameter.grad = None
            if trains:
                self._trained.append((parameter, segment))
        self.is_open = True

    def backward(self, L: Tensor) -> None:
        """∂L/∂Θ in place of the last one."""
        for parameter, _ in self._trained:
            parameter.grad = None
        self._gathered = False
        L.backward()

    def close(self) -> None:
        """Drop the gradients."""
        self.is_open = self._gathered = False
        self._vector = None
        self._trained.clear()
        for parameter in self._parameters().values():
            parameter.requires_grad_(True)
            parameter.grad = None

    def check_aliasing(self) -> None:
        """Refuse a network whose parameters no longer are views into Θ."""
        parameters = self._parameters()
        for segment in self.segments:
            data = parameters[segment.name].data
            if data.data_ptr() != self.view(segment, self.value).data_ptr() or data.shape != segment.shape:
                raise StateError(
                    sentence(
                        "The network's weights were replaced behind the learner's back",
                        expected=f"{segment.name} to be a view into Θ",
                        got="another tensor",
                        do="Load weights before the learner is built, or copy into them in place; "
                        "choose the device when the learner is built.",
                    )
                )

    def leave_memory(self, *, everything: bool = False) -> None:
        """Go on in new memory, statistics too: whoever holds the old keeps it as it is now.

        Args:
            everything: the parameters outside Θ too, which no training writes into.
        """
        self.check_aliasing()
        self._repoint(self.value.clone())
        for buffer in self.network.buffers():
            buffer.data = buffer.data.clone()
        for name, parameter in self.network.named_parameters() if everything else ():
            if name not in self._names:
                parameter.data = parameter.data.clone()

    def repoint(self) -> None:
        """Make all parameters views into Θ again, wherever something was interrupted."""
        self._repoint(self.value)

    def _repoint(self, value: Tensor) -> None:
        """Make the network's parameters views into this vector."""
        self.value, parameters = value, self._parameters()
        for segment in self.segments:
            parameters[segment.name].data = self.view(segment, value)

    def set_rows(self, rows: int) -> Extend:
        """Give the output layers so many rows (new ones zero), and lay Θ out anew; v is extended by zeros."""
        old = self.segments
        for output in self.network.output_layers:
            output.set_rows(rows)
        self._lay_out()
        new = {segment.name: segment for segment in self.segments}

        def extend(vector: Tensor) -> Tensor:
            out = vector.new_zeros(self.m)
            for segment in old:
                kept = ... if segment.shared else slice(min(rows, segment.shape[0]))
                self.view(new[segment.name], out)[kept] = self.view(segment, vector)[kept]
            return out

        self.v = extend(self.v)
        return extend


class Scope:
    """What a regulariser sees: all of Θ, or Θ̄ alone."""

    def __init__(self, theta: Theta, *, shared_only: bool) -> None:
        self._theta = theta
        self.shared_only = shared_only

    @property
    def _span(self) -> slice:
        return slice(0, self._theta.m_bar if self.shared_only else self._theta.m)

    @property
    def value(self) -> Tensor:
        return self._theta.value[self._span]

    @property
    def grad(self) -> Tensor:
        return self._theta.grad[self._span]

    @property
    def v(self) -> Tensor:
        """SGD's last update: θ = θ − v."""
        return self._theta.v[self._span]

    @property
    def regions(self) -> list[Region]:
        return [part for part in self._theta.regions if part.shared or not self.shared_only]

    @property
    def segments(self) -> list[Segment]:
        return [segment for segment in self._theta.segments if segment.shared or not self.shared_only]

    def freeze(self, frozen: bool) -> None:
        """Freeze Θ̄, without any leftover momentum, or let it train."""
        self._theta.frozen = frozen
        if frozen:
            self._theta.v[: self._theta.m_bar] = 0.0
