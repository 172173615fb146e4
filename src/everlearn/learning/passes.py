"""Extra passes over a batch: predictions and gradients with the network as it is, in evaluation mode.

They draw no random numbers and change nothing in the network, so training goes on as if they had not been.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from everlearn.learning.loss import Loss
from everlearn.learning.parallel import ALONE, Ranks
from everlearn.learning.theta import Scope, Theta
from everlearn.models.network import Network


@contextmanager
def evaluation_mode(network: Network) -> Iterator[None]:
    """Everything in evaluation mode, and back to each module's own mode afterwards."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def logits(network: Network, x: Tensor, minibatch: int, ranks: Ranks = ALONE) -> list[Tensor]:
    """Every output layer's logits for all patterns, each [n, rows]; several processes share the minibatches out."""
    device = next(network.parameters()).device
    with evaluation_mode(network), torch.no_grad():
        parts = ranks.map(lambda part: network(part.to(device)), x.split(minibatch))
    return [torch.cat(output) for output in zip(*parts, strict=True)]


def outputs(network: Network, x: Tensor, minibatch: int, function: Callable[[Tensor], Tensor]) -> Tensor:
    """A function of all patterns, by minibatches, for a network that is in evaluation mode and stays so."""
    device = next(network.parameters()).device
    with torch.no_grad():
        return torch.cat([function(part.to(device)) for part in x.split(minibatch)])


def features(network: Network, x: Tensor, minibatch: int, ranks: Ranks = ALONE) -> tuple[Tensor, ...]:
    """What enters every output layer, for all patterns."""
    device = next(network.parameters()).device
    with evaluation_mode(network), torch.no_grad():
        parts = ranks.map(lambda part: network.features(part.to(device)), x.split(minibatch))
    return tuple(torch.cat(output) for output in zip(*parts, strict=True))


def gradient(theta: Theta, scope: Scope, loss: Loss, x: Tensor, y: Tensor, ranks: Ranks = ALONE) -> Tensor:
    """∂L/∂θ over a scope, for all patterns at once; the gradient of the step at hand stays as it is."""
    parameters = dict(theta.network.named_parameters())
    segments = [s for s in scope.segments if not (theta.frozen and s.shared)]
    with evaluation_mode(theta.network), torch.enable_grad():
        every = torch.arange(len(y), device=x.device)
        L = ranks.mean(every, lambda idx: loss(theta.network(x.index_select(0, idx)), y[idx]))
        trained = [parameters[s.name] for s in segments]
        found = (
            torch.autograd.grad(L, trained, allow_unused=True) if trained and L.requires_grad else [None] * len(trained)
        )
    out = torch.zeros_like(scope.value)
    for segment, part in zip(segments, found, strict=True):
        if part is not None:
            theta.view(segment, out).copy_(part)
    return ranks.sum(out)


class Gradients:
    """Gradients of L_cross over the patterns of B_i, at the weights as they are, as vectors laid out like Θ.

    x, y: patterns and their rows; order: a random order of the patterns, so that minibatches are fair samples of B_i.
    ranks: the processes that share the work out.
    """

    def __init__(
        self,
        theta: Theta,
        scope: Scope,
        loss: Loss,
        x: Tensor,
        y: Tensor,
        order: Tensor,
        ranks: Ranks = ALONE,
    ) -> None:
        self._theta, self._scope, self._loss = theta, scope, loss
        self._x, self._y, self._order, self._ranks = x, y, order, ranks

    def __len__(self) -> int:
        return len(self._y)

    def minibatches(self, size: int) -> Iterator[Tensor]:
        """The mean gradient of each minibatch; n_i patterns are shared out as evenly as they go."""
        network = self._theta.network
        with evaluation_mode(network):
            for part in self._order.tensor_split(-(-len(self) // size)):
                L = self._ranks.mean(part, lambda idx: self._loss(network(self._x.index_select(0, idx)), self._y[idx]))
                self._theta.backward(L)
                self._ranks.sum_(self._theta.moving, L)
                yield self._scope.grad

    def squares(self, chunk: int) -> Tensor:
        """The sum over all patterns of each one's squared gradient; `chunk` gradients are held at once."""
        total = torch.zeros_like(self._scope.value)
        for rows in self._examples(chunk):
            total += rows.square().sum(dim=0)
        return self._ranks.sum(total)

    def _examples(self, chunk: int) -> Iterator[Tensor]:
        """The gradient of each pattern of this process's share apart, in matrices of at most `chunk` rows."""
        network, theta = self._theta.network, self._theta
        segments = self._scope.segments
        values = {s.name: theta.view(s, theta.value) for s in segments}

        def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
            return self._loss(functional_call(network, parameters, (x[None],)), y[None])

        gradients = vmap(grad(loss), in_dims=(None, 0, 0))
        with evaluation_mode(network), network.laid_out(torch.contiguous_format):  # all that vmap can do
            for part in filter(len, self._ranks.share(self._order).split(chunk)):  # a share may be empty
                by_name = gradients(values, self._x[part], self._y[part])
                yield torch.cat([by_name[s.name].reshape(len(part), -1) for s in segments], dim=1).detach()
