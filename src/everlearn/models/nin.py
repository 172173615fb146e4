"""NiN, the Network in Network of Lin et al., which the paper tried on CORe50."""

from collections import OrderedDict

from torch import nn

from everlearn.models.caffe import CaffeInput, Filler, filled, max_pool
from everlearn.models.described import described
from everlearn.models.network import Network, Output

FILLERS = {
    "trunk.conv1": Filler(0.01),
    "trunk.conv2": Filler(0.05),
    "trunk.conv3": Filler(0.01),
    "trunk.conv4_1024": Filler(0.05),
    "trunk.cccp7_1024": Filler(0.05),
    **{f"trunk.cccp{k}": Filler(0.05) for k in range(1, 7)},
    "outputs.0.layer": Filler(0.01),
}

CAFFE_LAYERS = {
    **{name: f"trunk.{name}" for name in ("conv1", "cccp1", "cccp2", "conv2", "cccp3", "cccp4")},
    **{name: f"trunk.{name}" for name in ("conv3", "cccp5", "cccp6")},
    "conv4-1024": "trunk.conv4_1024",
    "cccp7-1024": "trunk.cccp7_1024",
    "cccp8-1024": "outputs.0.layer",
}
"""The module for each of Caffe's layers that has weights."""


@described
def nin_128(classes: int = 50, *, seed: int = 0) -> Network:
    """NiN for 128×128: conv1 has stride 2, and the last average is over 7×7; 6,621,426 weights with 50 classes.

    The output layer is the last 1×1 convolution. What follows it is its tail: a ReLU, then the average over the map. So
    consolidated rows (CWR, CWR+, AR1) act before the ReLU, and their zero start needs the heads' `bias="fixed"` (the
    default), since a ReLU passes no gradient at 0. Patterns are RGB from 0 to 255.

    The paper gives no hyperparameters for NiN; bias_eta=2 and bias_decay=0 of `Training` are Caffe's.

    Args:
        classes: rows of the output layer.
        seed: of the initial weights.

    >>> nin_128().output_layers[0].tail
    Sequential(
      (0): ReLU()
      (1): AdaptiveAvgPool2d(output_size=1)
      (2): Flatten(start_dim=1, end_dim=-1)
    )
    """
    layers: OrderedDict[str, nn.Module] = OrderedDict()

    def add(name: str, layer: nn.Conv2d) -> None:
        layers[name] = layer
        layers[f"{name}_relu"] = nn.ReLU(inplace=True)

    add("conv1", nn.Conv2d(3, 96, 11, stride=2))
    add("cccp1", nn.Conv2d(96, 96, 1))
    add("cccp2", nn.Conv2d(96, 96, 1))
    layers["pool1"] = max_pool(3, 2)
    add("conv2", nn.Conv2d(96, 256, 5, padding=2))
    add("cccp3", nn.Conv2d(256, 256, 1))
    add("cccp4", nn.Conv2d(256, 256, 1))
    layers["pool2"] = max_pool(3, 2)
    add("conv3", nn.Conv2d(256, 384, 3, padding=1))
    add("cccp5", nn.Conv2d(384, 384, 1))
    add("cccp6", nn.Conv2d(384, 384, 1))
    layers["pool3"] = max_pool(3, 2)
    layers["drop"] = nn.Dropout(0.5)
    add("conv4_1024", nn.Conv2d(384, 1024, 3, padding=1))
    add("cccp7_1024", nn.Conv2d(1024, 1024, 1))
    tail = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    output = Output(nn.Conv2d(1024, classes, 1), tail=tail)
    network = Network(
        nn.Sequential(layers), [output], normalise=CaffeInput(), input_shape=(3, 128, 128), channels_last=True
    )
    return filled(network, FILLERS.__getitem__, seed)
