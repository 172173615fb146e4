"""Weights from other people's files into our networks, and our own on disk."""

from everlearn.weights.caffemodel import read_caffemodel
from everlearn.weights.convert import NETWORKS, Known, convert
from everlearn.weights.importer import import_weights
from everlearn.weights.layout import CAFFE, TORCHVISION, Layout
from everlearn.weights.ours import load_weights, read_about, save_weights
from everlearn.weights.report import Report, TensorEntry
from everlearn.weights.state_dict import read_state_dict

__all__ = [
    "CAFFE",
    "NETWORKS",
    "TORCHVISION",
    "Known",
    "Layout",
    "Report",
    "TensorEntry",
    "convert",
    "import_weights",
    "load_weights",
    "read_about",
    "read_caffemodel",
    "read_state_dict",
    "save_weights",
]
