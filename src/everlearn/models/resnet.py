"""Residual networks: torchvision's ResNet-18 and ResNet-50, and the ResNet-32 of He et al. for CIFAR."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import sqrt
from typing import Literal

import torch
import torch.nn.functional as fn
from torch import Tensor, nn

from everlearn._kit.keyed import keyed_generator
from everlearn.errors import NetworkError, sentence
from everlearn.models.cifarnet import CIFAR_MEAN, CIFAR_STD
from everlearn.models.described import described
from everlearn.models.network import Network, Normalise, Output

IMAGENET_MEAN = (123.675, 116.28, 103.53)  # torchvision's .485, .456, .406 of 255
IMAGENET_STD = (58.395, 57.12, 57.375)  # and .229, .224, .225

Shortcut = Literal["A", "B"]
InputShape = tuple[int, int, int]


@described
def resnet_50(
    classes: int = 50, input_shape: InputShape | None = (3, 128, 128), *, normalise: bool = True, seed: int = 0
) -> Network:
    """ResNet-50, with bottlenecks; 25,557,032 weights with 1,000 classes.

    The trunk is torchvision's (the stride stands in the 3×3 convolution), with its names, so that `import_weights`
    takes its state dicts. The last average is over the whole map.

    Args:
        classes: rows of the output layer.
        input_shape: channels, height and width of a pattern: any size of 32×32 and more will do, and None accepts them
            all.
        normalise: take RGB from 0 to 255; False takes floats as they are.
        seed: of the initial weights.

    >>> sum(p.numel() for p in resnet_50(classes=1000).parameters())
    25557032
    """
    return _imagenet(Bottleneck, (3, 4, 6, 3), classes, input_shape, normalise, seed)


@described
def resnet_18(
    classes: int = 50, input_shape: InputShape | None = (3, 128, 128), *, normalise: bool = True, seed: int = 0
) -> Network:
    """ResNet-18, with basic blocks; 11,689,512 weights with 1,000 classes. See `resnet_50`.

    Args:
        classes: rows of the output layer.
        input_shape: channels, height and width of a pattern: any size of 32×32 and more will do, and None accepts them
            all.
        normalise: take RGB from 0 to 255; False takes floats as they are.
        seed: of the initial weights.

    >>> resnet_18().output_layers[0].pn
    512
    """
    return _imagenet(BasicBlock, (2, 2, 2, 2), classes, input_shape, normalise, seed)


@described
def resnet_32(
    classes: int = 100, *, shortcut: Shortcut = "A", last_relu: bool = True, normalise: bool = True, seed: int = 0
) -> Network:
    """The ResNet of He et al. for 32×32, n = 5; 464,154 weights with 10 classes.

    Args:
        classes: rows of the output layer.
        shortcut: where the map halves, `A` takes every second pixel and pads with channels of zeros, as He et al. and
            iCaRL do on CIFAR; `B` is a 1×1 convolution with batch norm.
        last_relu: False leaves out the last block's ReLU, as iCaRL does.
        normalise: take RGB from 0 to 255; False takes floats as they are.
        seed: of the initial weights.

    >>> sum(p.numel() for p in resnet_32(classes=10).parameters())
    464154
    """
    trunk = Residual(
        nn.Conv2d(3, 16, 3, padding=1, bias=False),
        BasicBlock,
        widths=(16, 32, 64),
        counts=(5, 5, 5),
        shortcut=shortcut,
    )
    if not last_relu:
        trunk.last_block.relu = nn.Identity()
    output = Output(nn.Linear(64, classes))
    normal = Normalise(CIFAR_MEAN, CIFAR_STD) if normalise else None
    return he(Network(trunk, [output], normalise=normal, input_shape=(3, 32, 32), channels_last=True), seed)


def _imagenet(
    block: "type[Block]",
    counts: Sequence[int],
    classes: int,
    input_shape: InputShape | None,
    normalise: bool,
    seed: int,
) -> Network:
    check_rgb(input_shape, least=32)
    stem = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
    trunk = Residual(stem, block, widths=(64, 128, 256, 512), counts=counts, pool=nn.MaxPool2d(3, 2, padding=1))
    output = Output(nn.Linear(512 * block.expansion, classes))
    normal = Normalise(IMAGENET_MEAN, IMAGENET_STD) if normalise else None
    return he(Network(trunk, [output], normalise=normal, input_shape=input_shape, channels_last=True), seed)


def check_rgb(input_shape: InputShape | None, *, least: int) -> None:
    """Refuse patterns that a network for RGB images cannot take."""
    if input_shape is not None and (input_shape[0] != 3 or min(input_shape[1:]) < least):
        raise NetworkError(
            sentence(
                "This network takes RGB images",
                expected=f"(3, height, width) of {least}×{least} and more",
                got=input_shape,
                do='Use "small" for other patterns, or enlarge them.',
            )
        )


class Residual(nn.Module):
    """A stem, stages of blocks that halve the map from the second stage on, and the average over the map.

    Modules go by torchvision's names: conv1, bn1, layer1.0.conv1, layer2.0.downsample.0 and so on.
    """

    def __init__(
        self,
        conv1: nn.Conv2d,
        block: "type[Block]",
        *,
        widths: Sequence[int],
        counts: Sequence[int],
        shortcut: Shortcut = "B",
        pool: nn.Module | None = None,
    ) -> None:
        super().__init__()
        self.conv1 = conv1
        self.bn1 = nn.BatchNorm2d(conv1.out_channels)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = pool or nn.Identity()
        self.stages = [f"layer{k + 1}" for k in range(len(widths))]
        entering = conv1.out_channels
        for stage, width, count in zip(self.stages, widths, counts, strict=True):
            blocks = nn.Sequential()
            for k in range(count):
                stride = 2 if k == 0 and stage != "layer1" else 1
                blocks.append(block(entering, width, stride, shortcut))
                entering = width * block.expansion
            self.add_module(stage, blocks)
        self.avgpool = nn.AdaptiveAvgPool2d(1)

    @property
    def last_block(self) -> "Block":
        stage = self.get_submodule(self.stages[-1])
        assert isinstance(stage, nn.Sequential)
        block = stage[-1]
        assert isinstance(block, Block)
        return block

    def forward(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for stage in self.stages:
            x = self.get_submodule(stage)(x)
        return torch.flatten(self.avgpool(x), 1)


class Block(nn.Module, ABC):
    """ReLU(residual(x) + shortcut(x)); the shortcut is the identity wherever shapes allow."""

    expansion = 1

    def __init__(self, entering: int, width: int, stride: int, shortcut: Shortcut) -> None:
        super().__init__()
        self.relu: nn.Module = nn.ReLU()
        leaving = width * self.expansion
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or entering != leaving:
            self.downsample = (
                nn.Sequential(nn.Conv2d(entering, leaving, 1, stride=stride, bias=False), nn.BatchNorm2d(leaving))
                if shortcut == "B"
                else PadShortcut(leaving - entering, stride)
            )

    @abstractmethod
    def residual(self, x: Tensor) -> Tensor:
        """The branch with the weights."""

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.relu(self.residual(x) + self.downsample(x))
        return out


class BasicBlock(Block):
    """Two 3×3 convolutions, each with batch norm."""

    def __init__(self, entering: int, width: int, stride: int, shortcut: Shortcut) -> None:
        super().__init__(entering, width, stride, shortcut)
        self.conv1 = nn.Conv2d(entering, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)

    def residual(self, x: Tensor) -> Tensor:
        out: Tensor = self.bn2(self.conv2(fn.relu(self.bn1(self.conv1(x)))))
        return out


class Bottleneck(Block):
    """1×1, 3×3 and 1×1 convolutions, each with batch norm; the last has four times the channels."""

    expansion = 4

    def __init__(self, entering: int, width: int, stride: int, shortcut: Shortcut) -> None:
        super().__init__(entering, width, stride, shortcut)
        self.conv1 = nn.Conv2d(entering, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * 4)

    def residual(self, x: Tensor) -> Tensor:
        x = fn.relu(self.bn1(self.conv1(x)))
        x = fn.relu(self.bn2(self.conv2(x)))
        out: Tensor = self.bn3(self.conv3(x))
        return out


class PadShortcut(nn.Module):
    """Option A: every `stride`-th pixel, and half of the new channels, all zero, on either side.

    >>> PadShortcut(2, stride=2)(torch.ones(1, 2, 4, 4))[0, :, 0, 0]
    tensor([0., 1., 1., 0.])
    """

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.channels, self.stride = channels, stride

    def forward(self, x: Tensor) -> Tensor:
        before = self.channels // 2
        return fn.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.channels - before))


def he(network: Network, seed: int) -> Network:
    """He's start: convolutions N(0, 2 / fan_out), batch norm the identity, output layers uniform ±1 / √pn.

    fan_out counts the weights that one input channel reaches, so a depthwise 3×3 convolution has 9.
    """
    for name, module in network.named_modules():
        generator = keyed_generator(seed, "he", name)
        if isinstance(module, nn.Conv2d):
            fan_out = module.out_channels // module.groups * module.weight[0, 0].numel()
            nn.init.normal_(module.weight, std=sqrt(2 / fan_out), generator=generator)
        elif isinstance(module, nn.Linear):
            bound = 1 / sqrt(module.in_features)
            for parameter in module.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
    return network
