"""Weights that others have learnt, from the state dict of a plain module."""

from collections.abc import Mapping

from torch import Tensor

from everlearn.errors import NetworkError, sentence
from everlearn.models.network import Network


def load_module_state(network: Network, state: Mapping[str, Tensor], output: str = "fc") -> Network:
    """Copy the state dict of a plain module, whose last layer is called `output`, into a network of one output layer.

    All other names must be the trunk's. The output layer is copied too where it has as many rows; else the network's
    own stays. Nothing is copied unless everything fits. For `resnet_18` and `resnet_50` any state dict of torchvision's
    models of that name will do, for example `load_module_state(resnet_50(1000), torch.load(path, weights_only=True))`.
    """
    mine = network.state_dict()
    theirs = {_renamed(name, output): tensor for name, tensor in state.items()}
    rows = theirs.get("outputs.0.layer.weight")
    if rows is not None and len(rows) != network.rows:
        theirs = {name: tensor for name, tensor in theirs.items() if not name.startswith("outputs.")}
    for name in mine:
        if name.startswith("outputs."):
            theirs.setdefault(name, mine[name])
    differ = [name for name in {**mine, **theirs} if _shape(mine, name) != _shape(theirs, name)]
    if differ:
        name = differ[0]
        raise NetworkError(
            sentence(
                f"These weights are of another network ({len(differ)} of {len(mine)} names differ)",
                expected=f"{name} of shape {_shape(mine, name)}",
                got=_shape(theirs, name),
                do="Build the network that they were learnt by, or name its last layer by output=.",
            )
        )
    network.load_state_dict(theirs)
    return network


def _renamed(name: str, output: str) -> str:
    """A module's name for a weight as our network calls it."""
    return f"outputs.0.layer{name[len(output) :]}" if name.startswith(f"{output}.") else f"trunk.{name}"


def _shape(state: Mapping[str, Tensor], name: str) -> list[int] | None:
    return list(state[name].shape) if name in state else None
