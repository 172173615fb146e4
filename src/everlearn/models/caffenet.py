"""CaffeNet, the paper's smaller network on CORe50, and the original that its weights come from."""

from collections import OrderedDict

from torch import nn

from everlearn.models.caffe import CaffeInput, Filler, filled, lrn, max_pool
from everlearn.models.described import described
from everlearn.models.network import Network, Output

FILLERS = {
    "trunk.conv1": Filler(0.01),
    "trunk.conv2": Filler(0.01, bias=1.0),
    "trunk.conv3": Filler(0.01),
    "trunk.conv4": Filler(0.01, bias=1.0),
    "trunk.conv5": Filler(0.01, bias=1.0),
    "trunk.fc6": Filler(0.005, bias=1.0),
    "trunk.fc7": Filler(0.005, bias=1.0),
    "outputs.0.layer": Filler(0.01),
}

CAFFE_LAYERS = {
    **{name: f"trunk.{name}" for name in ("conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7")},
    "fc8": "outputs.0.layer",
}
"""The module for each of Caffe's layers that has weights; fc6 and fc7 are absent with fully_connected=False."""


@described
def caffenet_128(classes: int = 50, *, fully_connected: bool = True, seed: int = 0) -> Network:
    """CaffeNet for 128×128 as the paper changed it (its Table 3); 25,509,298 weights with 50 classes.

    Against the original: conv1 has stride 2, conv2 padding 1, fc6 and fc7 2,048 neurons. Patterns are RGB from 0
    to 255.

    The learning rate of biases (twice) and their weight decay (none) are `Training`'s bias_eta and bias_decay, which
    the setting "caffenet/core50" sets.

    Args:
        classes: rows of the output layer.
        fully_connected: False leaves out fc6 and fc7 with their dropouts, so that the output layer stands on pool5's
            9,216 values.
        seed: of the initial weights.

    >>> sum(p.numel() for p in caffenet_128(fully_connected=False).parameters())
    2794930
    """
    return _caffenet(classes, size=128, stride=2, padding=1, neurons=2048 if fully_connected else 0, seed=seed)


@described
def caffenet(classes: int = 1000, *, seed: int = 0) -> Network:
    """The original CaffeNet for 227×227, for weights of others; 60,965,224 weights with 1,000 classes.

    Patterns are RGB from 0 to 255.

    Args:
        classes: rows of the output layer.
        seed: of the initial weights.
    """
    return _caffenet(classes, size=227, stride=4, padding=2, neurons=4096, seed=seed)


def _caffenet(classes: int, *, size: int, stride: int, padding: int, neurons: int, seed: int) -> Network:
    """conv1's stride, conv2's padding and the neurons of fc6 and fc7 (0: without them) are what the two differ in."""
    layers: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(3, 96, 11, stride=stride),
        relu1=nn.ReLU(inplace=True),
        pool1=max_pool(3, 2),
        norm1=lrn(),
        conv2=nn.Conv2d(96, 256, 5, padding=padding, groups=2),
        relu2=nn.ReLU(inplace=True),
        pool2=max_pool(3, 2),
        norm2=lrn(),
        conv3=nn.Conv2d(256, 384, 3, padding=1),
        relu3=nn.ReLU(inplace=True),
        conv4=nn.Conv2d(384, 384, 3, padding=1, groups=2),
        relu4=nn.ReLU(inplace=True),
        conv5=nn.Conv2d(384, 256, 3, padding=1, groups=2),
        relu5=nn.ReLU(inplace=True),
        pool5=max_pool(3, 2),
        flatten=nn.Flatten(),
    )
    if neurons:
        layers.update(
            fc6=nn.Linear(9216, neurons),
            relu6=nn.ReLU(inplace=True),
            drop6=nn.Dropout(0.5),
            fc7=nn.Linear(neurons, neurons),
            relu7=nn.ReLU(inplace=True),
        )
    output = Output(nn.Linear(neurons or 9216, classes), dropout=nn.Dropout(0.5) if neurons else None)
    network = Network(
        nn.Sequential(layers), [output], normalise=CaffeInput(), input_shape=(3, size, size), channels_last=True
    )
    return filled(network, FILLERS.__getitem__, seed)
