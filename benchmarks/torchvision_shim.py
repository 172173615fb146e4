"""Declare the operators without which torchvision does not import beside a PyTorch that its wheel was not built for.

torchvision's wheel is for CUDA; beside a PyTorch for CPUs its library does not load, and its Python code then fails on
two operators that it wants to describe. Avalanche imports torchvision, and nothing measured here calls them.
"""

import torch

LIBRARY = torch.library.Library("torchvision", "FRAGMENT")


def declare() -> None:
    """Declare what is missing; torchvision's own come first, where its library loads."""
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
