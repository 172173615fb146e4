"""Where a file's layers belong in a network."""

from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Layout:
    """How layers are called in a file and in a network.

    layers: the layers that have a place of their own, the output layers above all: name in the file → module in the
    network; prefix: before the name of every other layer, in which "/" becomes "_".

    >>> CAFFE.home("inception_3a/5x5_reduce"), CAFFE.home("loss3/classifier")
    ('trunk.inception_3a_5x5_reduce', 'outputs.2.layer')
    """

    layers: Mapping[str, str] = field(default_factory=dict)
    prefix: str = "trunk"

    def home(self, layer: str) -> str:
        """The module in the network for a layer of the file.

        Args:
            layer: its name in the file.
        """
        plain = ".".join(part for part in (self.prefix, layer.replace("/", "_")) if part)
        return self.layers.get(layer, plain)

    def layer(self, home: str) -> str:
        """What a file calls a module of the network.

        Args:
            home: the module's name in the network.

        >>> CAFFE.layer("outputs.2.layer"), TORCHVISION.layer("trunk.layer1.0.conv1")
        ('loss3/classifier', 'layer1.0.conv1')
        """
        named = {place: layer for layer, place in self.layers.items()}
        return named.get(home, home.removeprefix(f"{self.prefix}."))

    def within(self, modules: Container[str]) -> "Layout":
        """Without the places that a network of these modules lacks.

        Args:
            modules: the names of the network's modules.

        >>> CAFFE.within(["trunk.conv1", "outputs.0.layer"]).layers
        {'fc8': 'outputs.0.layer', 'loss1/classifier': 'outputs.0.layer'}
        """
        return replace(self, layers={layer: home for layer, home in self.layers.items() if home in modules})


CAFFE = Layout(
    {
        "fc8": "outputs.0.layer",
        "loss1/classifier": "outputs.0.layer",
        "loss2/classifier": "outputs.1.layer",
        "loss3/classifier": "outputs.2.layer",
    }
)
"""Caffe's names: CaffeNet has one output layer, GoogLeNet three."""

TORCHVISION = Layout({"fc": "outputs.0.layer", "classifier": "outputs.0.layer"})
"""torchvision's names, with the output layer that most of its networks have; others name theirs, e.g. classifier.6."""

OURS = Layout(prefix="")
"""The network's own names."""
