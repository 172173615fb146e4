"""Any user's module with named output layers, as a Network."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from everlearn.errors import NetworkError, sentence
from everlearn.models.network import Network, Output


def wrap(
    module: nn.Module,
    outputs: Sequence[str],
    example: Tensor,
    *,
    loss_weights: Sequence[float] | None = None,
    normalise: nn.Module | None = None,
) -> Network:
    """Split a module into trunk and output layers.

    An `nn.Dropout` directly before an output layer is found and stays on when the trunk is frozen; a functional dropout
    cannot be seen, so use the module.

    The module is taken over, not copied: its output layers are replaced by identities.

    Args:
        module: its forward returns the logits, or a tuple of logits, one for each output layer.
        outputs: the dotted names of the output layers, in the order in which forward returns them; the last one
            predicts.
        example: one or more patterns, [n, …], to see once how they flow.
        loss_weights: each output's share in the loss; by default 1.
        normalise: what patterns pass first, such as `Normalise`; by default nothing.

    >>> module = nn.Sequential(nn.Flatten(), nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    >>> net = wrap(module, ["4"], torch.zeros(1, 1, 2, 2))
    >>> net.output_layers[0].dropout, net.rows
    (Dropout(p=0.5, inplace=False), 3)
    """
    modules = dict(module.named_modules())
    absent = [name for name in outputs if name not in modules]
    if absent or not outputs:
        raise NetworkError(
            sentence(
                "There is no such output layer",
                expected="dotted names of submodules",
                got=absent or "no name",
                do=f"Choose from: {', '.join(name for name in modules if name)}.",
            )
        )
    weights = list(loss_weights or [1.0] * len(outputs))
    if len(weights) != len(outputs):
        raise NetworkError(
            sentence(
                "Loss weights and output layers do not fit",
                expected=f"{len(outputs)} weights",
                got=len(weights),
                do="Give one loss weight for each output layer.",
            )
        )
    dropouts = _dropouts_before(module, modules, outputs, normalise(example) if normalise else example)
    heads = [
        Output(modules[name], dropout=modules[dropout] if dropout else None, loss_weight=weight)
        for name, dropout, weight in zip(outputs, dropouts, weights, strict=True)
    ]
    for name in (*outputs, *(d for d in dropouts if d)):
        module.set_submodule(name, nn.Identity())
    return Network(module, heads, normalise=normalise, input_shape=tuple(example.shape[1:]))


def _dropouts_before(
    module: nn.Module, modules: dict[str, nn.Module], outputs: Sequence[str], example: Tensor
) -> list[str]:
    """The name of the dropout that feeds each output layer, or ''; refuses a layer that is not an output."""
    fed_by: dict[int, str] = {}
    entering: dict[str, int] = {}
    leaving: dict[str, Tensor] = {}
    hooks = []
    was_training = module.training
    module.eval()
    for name, part in modules.items():
        if isinstance(part, nn.Dropout | nn.Dropout1d | nn.Dropout2d | nn.AlphaDropout):
            part.train()

            def after_dropout(_m: nn.Module, _x: object, y: Tensor, name: str = name) -> None:
                fed_by[y.untyped_storage().data_ptr()] = name
                kept_alive.append(y)

            hooks.append(part.register_forward_hook(after_dropout))
        if name in outputs:

            def after_output(_m: nn.Module, x: tuple[Tensor, ...], y: Tensor, name: str = name) -> None:
                entering[name] = x[0].untyped_storage().data_ptr()
                leaving[name] = y

            hooks.append(part.register_forward_hook(after_output))
    kept_alive: list[Tensor] = []  # so that no storage's address is used twice
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            returned = module(example)
    finally:
        for hook in hooks:
            hook.remove()
        module.train(was_training)
    returned = returned if isinstance(returned, tuple) else (returned,)
    expected = [leaving.get(name) for name in outputs]
    if len(returned) != len(expected) or any(a is not b for a, b in zip(returned, expected, strict=True)):
        raise NetworkError(
            sentence(
                "These layers are not the outputs of the module",
                expected="a forward that returns the output layers' values as they are, in this order",
                got=f"{len(returned)} returned values that are not those of {list(outputs)}",
                do="Where something follows the last rows (NiN's ReLU and average), build a Network from a trunk "
                "and Output(layer, tail=…) instead.",
            )
        )
    return [fed_by.get(entering[name], "") for name in outputs]
