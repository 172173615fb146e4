"""GoogLeNet with its three output layers, the paper's larger network on CORe50, and the original."""

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from everlearn.models.caffe import CaffeInput, Filler, average_pool, filled, lrn, max_pool
from everlearn.models.described import described
from everlearn.models.network import Network, Output

INCEPTION = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
"""The channels of each inception module: 1×1, 3×3 reduce, 3×3, 5×5 reduce, 5×5, pool projection."""

PARTS = ("1x1", "3x3_reduce", "3x3", "5x5_reduce", "5x5", "pool_proj")
LOSS_WEIGHTS = (0.3, 0.3, 1.0)

_TRUNK = (
    *("conv1/7x7_s2", "conv2/3x3_reduce", "conv2/3x3"),
    *(f"inception_{name}/{part}" for name in INCEPTION for part in PARTS),
    *("loss1/conv", "loss1/fc", "loss2/conv", "loss2/fc"),
)
CAFFE_LAYERS = {
    **{name: f"trunk.{name.replace('/', '_')}" for name in _TRUNK},
    **{f"loss{k + 1}/classifier": f"outputs.{k}.layer" for k in range(3)},
}
"""The module for each of Caffe's layers that has weights; loss1/fc and loss2/fc are the original's alone."""


@described
def googlenet_128(classes: int = 50, *, seed: int = 0) -> Network:
    """GoogLeNet for 128×128 as the paper changed it (its Table 3); 6,363,078 weights with 50 classes.

    Against the original: conv1 has stride 1 and no padding, the side heads average over 6×6 and have no fully connected
    layer. Output layers 0 and 1 are the side heads (loss weight 0.3 each), output layer 2 predicts. Patterns are RGB
    from 0 to 255.

    The learning rate of biases (twice) and their weight decay (none) are `Training`'s bias_eta and bias_decay, which
    the setting "googlenet/core50" sets.

    Args:
        classes: rows of each output layer.
        seed: of the initial weights.

    >>> [(output.pn, output.loss_weight) for output in googlenet_128().output_layers]
    [(2048, 0.3), (2048, 0.3), (1024, 1.0)]
    """
    trunk = GoogLeNetTrunk(stride=1, padding=0, side_kernel=6, neurons=0)
    return _googlenet(trunk, classes, 128, (2048, 2048, 1024), (0.0, 0.0, 0.4), seed)


@described
def googlenet(classes: int = 1000, *, seed: int = 0) -> Network:
    """The original GoogLeNet for 224×224, for weights of others; 13,378,280 weights with 1,000 classes.

    Patterns are RGB from 0 to 255.

    Args:
        classes: rows of each output layer.
        seed: of the initial weights.
    """
    trunk = GoogLeNetTrunk(stride=2, padding=3, side_kernel=5, neurons=1024)
    return _googlenet(trunk, classes, 224, (1024, 1024, 1024), (0.7, 0.7, 0.4), seed)


def _googlenet(
    trunk: "GoogLeNetTrunk", classes: int, size: int, pn: tuple[int, ...], dropouts: tuple[float, ...], seed: int
) -> Network:
    outputs = [
        Output(nn.Linear(n, classes), dropout=nn.Dropout(p) if p else None, loss_weight=weight)
        for n, p, weight in zip(pn, dropouts, LOSS_WEIGHTS, strict=True)
    ]
    network = Network(trunk, outputs, normalise=CaffeInput(), input_shape=(3, size, size), channels_last=True)
    return filled(network, lambda name: Filler(bias=0.2 if name.startswith("trunk.") else 0.0), seed)


class GoogLeNetTrunk(nn.Module):
    """Everything below the three output layers; modules go by Caffe's names with _ for /.

    stride, padding: conv1's; side_kernel: of the side heads' averages; neurons: of the fully connected layer in each
    side head, 0 for none.
    """

    def __init__(self, *, stride: int, padding: int, side_kernel: int, neurons: int) -> None:
        super().__init__()
        self.conv1_7x7_s2 = nn.Conv2d(3, 64, 7, stride=stride, padding=padding)
        self.pool1_3x3_s2 = max_pool(3, 2)
        self.pool1_norm1 = lrn()
        self.conv2_3x3_reduce = nn.Conv2d(64, 64, 1)
        self.conv2_3x3 = nn.Conv2d(64, 192, 3, padding=1)
        self.conv2_norm2 = lrn()
        self.pool2_3x3_s2 = max_pool(3, 2)
        self.pool3_3x3_s2 = max_pool(3, 2)
        self.pool4_3x3_s2 = max_pool(3, 2)
        self.pool5_7x7_s1 = average_pool(7, 1)
        channels = 192
        for name in INCEPTION:
            channels = self._add_inception(name, channels)
        for side, entering in (("loss1", 512), ("loss2", 528)):
            self.add_module(f"{side}_ave_pool", average_pool(side_kernel, 3))
            self.add_module(f"{side}_conv", nn.Conv2d(entering, 128, 1))
            if neurons:
                self.add_module(f"{side}_fc", nn.Linear(2048, neurons))
        self.side_fc = neurons > 0

    def _add_inception(self, name: str, entering: int) -> int:
        """Add the convolutions of an inception module; gives the channels that leave it."""
        one, reduce_3, three, reduce_5, five, projection = INCEPTION[name]
        convolutions = {
            "1x1": nn.Conv2d(entering, one, 1),
            "3x3_reduce": nn.Conv2d(entering, reduce_3, 1),
            "3x3": nn.Conv2d(reduce_3, three, 3, padding=1),
            "5x5_reduce": nn.Conv2d(entering, reduce_5, 1),
            "5x5": nn.Conv2d(reduce_5, five, 5, padding=2),
            "pool": max_pool(3, 1, padding=1),
            "pool_proj": nn.Conv2d(entering, projection, 1),
        }
        for part, module in convolutions.items():
            self.add_module(f"inception_{name}_{part}", module)
        return one + three + five + projection

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = self.pool1_norm1(self.pool1_3x3_s2(self._relu("conv1_7x7_s2", x)))
        x = self._relu("conv2_3x3", self._relu("conv2_3x3_reduce", x))
        x = self.pool2_3x3_s2(self.conv2_norm2(x))
        x = self.pool3_3x3_s2(self._inception("3b", self._inception("3a", x)))
        x = self._inception("4a", x)
        first = self._side("loss1", x)
        x = self._inception("4d", self._inception("4c", self._inception("4b", x)))
        second = self._side("loss2", x)
        x = self.pool4_3x3_s2(self._inception("4e", x))
        x = self.pool5_7x7_s1(self._inception("5b", self._inception("5a", x)))
        return first, second, x.flatten(1)

    def _relu(self, name: str, x: Tensor) -> Tensor:
        """A layer and its ReLU."""
        return fn.relu(self.get_submodule(name)(x), inplace=True)

    def _inception(self, name: str, x: Tensor) -> Tensor:
        one, reduce_3, three, reduce_5, five, projection = (f"inception_{name}_{part}" for part in PARTS)
        parts = (
            self._relu(one, x),
            self._relu(three, self._relu(reduce_3, x)),
            self._relu(five, self._relu(reduce_5, x)),
            self._relu(projection, self.get_submodule(f"inception_{name}_pool")(x)),
        )
        return torch.cat(parts, dim=1)

    def _side(self, name: str, x: Tensor) -> Tensor:
        """What enters a side head's output layer."""
        side = self._relu(f"{name}_conv", self.get_submodule(f"{name}_ave_pool")(x)).flatten(1)
        return self._relu(f"{name}_fc", side) if self.side_fc else side
