"""Networks by name, and patterns as they take them."""

from collections.abc import Callable, Mapping

import numpy as np

from everlearn import models
from everlearn._kit.catalogue import MODELS
from everlearn._kit.plugins import NETWORKS
from everlearn.benchmarks.pretraining import cifarnet_cifar10, efficientnet_lite0_imagenet, small_mini50
from everlearn.data.scaling import scaled
from everlearn.data.source import Source
from everlearn.errors import ConfigError, sentence
from everlearn.models import Network, cifarnet, small

SIDES = {"caffenet-128": 128, "caffenet-128-conv": 128, "googlenet-128": 128, "nin-128": 128}
SIDES |= {"caffenet": 227, "googlenet": 224, "efficientnet-lite0": 224, "efficientnet-lite0-imagenet": 224}
SIDES |= {"resnet-18": 224, "resnet-50": 224}
"""What a folder of images is scaled to for a network; for others, 32 pixels."""
ANY_SIDE = ("resnet-18", "resnet-50", "efficientnet-lite0", "efficientnet-lite0-imagenet")
"""Networks for RGB of 32 × 32 pixels and more."""
ANY_SHAPE = ("small",)


def for_network(name: str, source: Source) -> Source:
    """A source as a network takes it; networks of other packages take it as it is."""
    if name in ANY_SHAPE or (name in NETWORKS and name not in MODELS):
        return source
    return scaled(source, max(32, *source.shape[1:]) if name in ANY_SIDE else SIDES.get(name, 32))


def make_network(name: str, source: Source, seed: int) -> Network:
    """A network by name, for the patterns and classes of a source.

    Args:
        name: one of `everlearn list models`: ours, or one that another package brings by an entry point of the group
            `everlearn.networks`, a function (classes, input_shape, *, normalise, seed) -> Network.
        source: its classes are the network's rows; patterns that are bytes are normalised.
        seed: of the fresh weights.
    """
    classes, bytes_ = len(source.classes), source.train.x.dtype == np.uint8
    makers: Mapping[str, Callable[[], Network]] = {
        "small": lambda: small(classes, source.shape, normalise=bytes_, seed=seed),
        "small-mini50": lambda: small_mini50(classes, seed=seed),
        "cifarnet": lambda: cifarnet(classes, normalise=bytes_, seed=seed),
        "cifarnet-cifar10": lambda: cifarnet_cifar10(classes, normalise=bytes_, seed=seed),
        "caffenet-128": lambda: models.caffenet_128(classes, seed=seed),
        "caffenet-128-conv": lambda: models.caffenet_128(classes, fully_connected=False, seed=seed),
        "caffenet": lambda: models.caffenet(classes, seed=seed),
        "googlenet-128": lambda: models.googlenet_128(classes, seed=seed),
        "googlenet": lambda: models.googlenet(classes, seed=seed),
        "nin-128": lambda: models.nin_128(classes, seed=seed),
        "resnet-18": lambda: models.resnet_18(classes, source.shape, normalise=bytes_, seed=seed),
        "resnet-32": lambda: models.resnet_32(classes, normalise=bytes_, seed=seed),
        "resnet-50": lambda: models.resnet_50(classes, source.shape, normalise=bytes_, seed=seed),
        "efficientnet-lite0": lambda: models.efficientnet_lite0(classes, source.shape, normalise=bytes_, seed=seed),
        "efficientnet-lite0-imagenet": lambda: efficientnet_lite0_imagenet(
            classes, source.shape, normalise=bytes_, seed=seed
        ),
    }
    if name in makers:
        return makers[name]()
    if name in NETWORKS:
        network = _brought(name, NETWORKS.load(name)(classes, source.shape, normalise=bytes_, seed=seed))
        arguments = {"input_shape": list(source.shape), "normalise": bytes_}
        network.made = {"plugin": name, "package": NETWORKS.package(name), "arguments": arguments}
        return network
    expected = f"one of {[*makers, *NETWORKS.points]}"
    raise ConfigError(sentence("Unknown network", expected=expected, got=repr(name), do="Choose one."))


def _brought(name: str, network: object) -> Network:
    """A network of another package, or why it is none."""
    if not isinstance(network, Network):
        raise NETWORKS.refusal(name, f"its function gave a {type(network).__name__}, not a Network")
    return network
