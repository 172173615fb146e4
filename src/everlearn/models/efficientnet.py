"""EfficientNet-Lite0, small enough for a CPU."""

import torch.nn.functional as fn
from torch import Tensor, nn

from everlearn.models.described import described
from everlearn.models.network import Network, Normalise, Output
from everlearn.models.resnet import InputShape, check_rgb, he

STAGES = (
    # repeats, kernel, stride of the first, expansion, channels
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)


@described
def efficientnet_lite0(
    classes: int = 1000,
    input_shape: InputShape | None = (3, 224, 224),
    *,
    normalise: bool = True,
    seed: int = 0,
) -> Network:
    """EfficientNet-Lite0: EfficientNet-B0 without squeeze-and-excitation, ReLU6 for swish; 4,652,008 weights.

    The stochastic depth of the original training is left out. With ImageNet's weights:
    `everlearn.pretraining.efficientnet_lite0_imagenet`.

    Args:
        classes: rows of the output layer.
        input_shape: channels, height and width of a pattern: any size of 32×32 and more will do, and None accepts them
            all.
        normalise: take RGB from 0 to 255, (x − 127) / 128; False takes floats as they are.
        seed: of the initial weights.

    >>> sum(p.numel() for p in efficientnet_lite0().parameters())
    4652008
    """
    check_rgb(input_shape, least=32)
    output = Output(nn.Linear(1280, classes), dropout=nn.Dropout(0.2))
    normal = Normalise([127.0] * 3, [128.0] * 3) if normalise else None
    return he(Network(EfficientNetTrunk(), [output], normalise=normal, input_shape=input_shape), seed)


class SameConv(nn.Conv2d):
    """A convolution with TensorFlow's "same" padding: ⌈size / stride⌉ windows, an odd pixel of padding at the end.

    >>> import torch
    >>> SameConv(1, 1, 3, stride=2)(torch.zeros(1, 1, 224, 224)).shape[-1]
    112
    """

    def __init__(self, entering: int, leaving: int, kernel: int, *, stride: int = 1, groups: int = 1) -> None:
        super().__init__(entering, leaving, kernel, stride=stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        (kernel, _), (stride, _) = self.kernel_size, self.stride
        padding: list[int] = []
        for size in (x.shape[-1], x.shape[-2]):
            total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            padding += [total // 2, total - total // 2]
        return super().forward(fn.pad(x, padding) if any(padding) else x)


def batch_norm(channels: int) -> nn.BatchNorm2d:
    """TensorFlow's ε and momentum for EfficientNet."""
    return nn.BatchNorm2d(channels, eps=1e-3, momentum=0.01)


class EfficientNetTrunk(nn.Module):
    """Everything below the output layer, with the names of the package's state dict."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = SameConv(3, 32, 3, stride=2)
        self._bn0 = batch_norm(32)
        self._blocks = nn.Sequential()
        entering = 32
        for repeats, kernel, stride, expansion, leaving in STAGES:
            for k in range(repeats):
                self._blocks.append(InvertedBottleneck(entering, leaving, kernel, stride if k == 0 else 1, expansion))
                entering = leaving
        self._conv_head = SameConv(entering, 1280, 1)
        self._bn1 = batch_norm(1280)

    def forward(self, x: Tensor) -> Tensor:
        x = fn.relu6(self._bn0(self._conv_stem(x)))
        x = self._blocks(x)
        x = fn.relu6(self._bn1(self._conv_head(x)))
        return x.mean(dim=(2, 3))


class InvertedBottleneck(nn.Module):
    """1×1 convolution to more channels, depthwise convolution, 1×1 back; added to what came in where shapes allow."""

    def __init__(self, entering: int, leaving: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        inner = entering * expansion
        self.expands, self.adds = expansion > 1, stride == 1 and entering == leaving
        if self.expands:
            self._expand_conv = SameConv(entering, inner, 1)
            self._bn0 = batch_norm(inner)
        self._depthwise_conv = SameConv(inner, inner, kernel, stride=stride, groups=inner)
        self._bn1 = batch_norm(inner)
        self._project_conv = SameConv(inner, leaving, 1)
        self._bn2 = batch_norm(leaving)

    def forward(self, x: Tensor) -> Tensor:
        h = fn.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        h = fn.relu6(self._bn1(self._depthwise_conv(h)))
        out: Tensor = self._bn2(self._project_conv(h))
        return x + out if self.adds else out
