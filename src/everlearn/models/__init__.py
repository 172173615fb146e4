"""Networks, one kind a file: a trunk and output layers. `wrap` makes one of any module."""

from everlearn.models.caffe import CaffeInput
from everlearn.models.caffenet import caffenet, caffenet_128
from everlearn.models.cifarnet import cifarnet
from everlearn.models.efficientnet import efficientnet_lite0
from everlearn.models.googlenet import googlenet, googlenet_128
from everlearn.models.network import Network, Normalise, Output
from everlearn.models.nin import nin_128
from everlearn.models.resnet import resnet_18, resnet_32, resnet_50
from everlearn.models.small import small
from everlearn.models.wrap import wrap

__all__ = [
    "CaffeInput",
    "Network",
    "Normalise",
    "Output",
    "caffenet",
    "caffenet_128",
    "cifarnet",
    "efficientnet_lite0",
    "googlenet",
    "googlenet_128",
    "nin_128",
    "resnet_18",
    "resnet_32",
    "resnet_50",
    "small",
    "wrap",
]
