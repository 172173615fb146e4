"""Networks as a trunk and output layers."""

from everlearn.models.cifarnet import cifarnet
from everlearn.models.network import Network, Normalise, Output
from everlearn.models.small import small
from everlearn.models.wrap import wrap

__all__ = ["Network", "Normalise", "Output", "cifarnet", "small", "wrap"]
