"""Data: sources (downloaded, rendered or one's own), and the batches and labels that learners take."""

from everlearn.data.arrays import npz
from everlearn.data.cifar import cifar10, cifar100
from everlearn.data.core50 import Core50, core50
from everlearn.data.derived import cifar10_100, permuted_mnist, rotated_mnist
from everlearn.data.digits import digits
from everlearn.data.idx import fashion_mnist, mnist
from everlearn.data.images import image_folder
from everlearn.data.mini50 import mini50
from everlearn.data.source import Patterns, Source

__all__ = [
    "Core50",
    "Patterns",
    "Source",
    "cifar10",
    "cifar10_100",
    "cifar100",
    "core50",
    "digits",
    "fashion_mnist",
    "image_folder",
    "mini50",
    "mnist",
    "npz",
    "permuted_mnist",
    "rotated_mnist",
]
