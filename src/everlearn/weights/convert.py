"""Other people's weights for a network of ours, as one file of ours: what `everlearn weights` does."""

import hashlib
from collections.abc import Callable, Container
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import nn

from everlearn import models
from everlearn.errors import ConfigError, sentence
from everlearn.models import Network, cifarnet
from everlearn.models.caffenet import CAFFE_LAYERS as CAFFENET
from everlearn.models.googlenet import CAFFE_LAYERS as GOOGLENET
from everlearn.models.nin import CAFFE_LAYERS as NIN
from everlearn.weights.caffemodel import read_caffemodel
from everlearn.weights.checks import bad_file, naming
from everlearn.weights.importer import Tensors, make_plan, some
from everlearn.weights.layout import CAFFE, TORCHVISION, Layout
from everlearn.weights.ours import check_name, save_weights
from everlearn.weights.report import Report
from everlearn.weights.state_dict import read_state_dict


@dataclass(frozen=True)
class Known:
    """make: the network for a number of classes; classes: the usual number; caffe, torch: layouts of files for it.

    A layout may be that of a larger network: layers of a file that this one has no place for are left.
    spare: convolutions of the network that a whole file may lack.
    """

    make: Callable[[int], Network]
    classes: int
    caffe: Layout = CAFFE
    torch: Layout = TORCHVISION
    spare: tuple[str, ...] = ()


SIDES = ("trunk.loss1_conv", "trunk.loss2_conv")
"""GoogLeNet's side heads are for training: a net that was saved for prediction has none."""

NETWORKS: dict[str, Known] = {
    "cifarnet": Known(cifarnet, 100),
    "caffenet-128": Known(models.caffenet_128, 50, caffe=Layout(CAFFENET)),
    "caffenet-128-conv": Known(partial(models.caffenet_128, fully_connected=False), 50, caffe=Layout(CAFFENET)),
    "caffenet": Known(models.caffenet, 1000, caffe=Layout(CAFFENET)),
    "googlenet-128": Known(models.googlenet_128, 50, caffe=Layout(GOOGLENET), spare=SIDES),
    "googlenet": Known(models.googlenet, 1000, caffe=Layout(GOOGLENET), spare=SIDES),
    "nin-128": Known(models.nin_128, 50, caffe=Layout(NIN)),
    "resnet-18": Known(models.resnet_18, 50),
    "resnet-32": Known(models.resnet_32, 100),
    "resnet-50": Known(models.resnet_50, 50),
    "efficientnet-lite0": Known(models.efficientnet_lite0, 1000, torch=Layout({"_fc": "outputs.0.layer"})),
}
"""The networks that weights can be imported for, by name."""


def convert(file: Path, model: str, out: Path, *, classes: int | None = None, half: bool = False) -> Report:
    """Import a file's weights into a fresh network of a name, and write what was taken as weights of ours.

    Layers that were left fresh are not written: whoever loads the file starts them afresh.

    Args:
        file: a .caffemodel, .safetensors, .pth or .pt file.
        model: the network's name in `NETWORKS`.
        out: the file to write.
        classes: rows of the output layers; by default the network's usual number.
        half: write float16, in half the bytes, about three digits of each weight.

    Returns:
        What became of every tensor.
    """
    if model not in NETWORKS:
        raise ConfigError(
            sentence("Unknown network", expected=f"one of {list(NETWORKS)}", got=repr(model), do="Choose one.")
        )
    if classes is not None and classes < 1:
        raise ConfigError(sentence("Too few classes", expected="1 or more", got=classes, do="Give --classes N."))
    check_name(out)
    known = NETWORKS[model]
    network = known.make(classes or known.classes)
    modules = {name for name, _ in network.named_modules()}
    caffe = file.suffix.lower() == ".caffemodel"
    tensors: Tensors = read_caffemodel(file) if caffe else read_state_dict(file)
    layout = (known.caffe if caffe else known.torch).within(modules)
    with naming(file):
        plan = make_plan(network, tensors, layout)
        plan.check(do=f"Give --model the network that the file is of, or a file that is of {model}.")
    _check_whole(file, plan.report, network, layout, known.spare)
    report = plan.carry_out()
    with open(file, "rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    about = {"network": model, "classes": network.rows, "made": f"imported from {file.name}", "sha256": digest}
    save_weights(out, network, about=about, half=half, only=report.taken)
    return report


def _check_whole(file: Path, report: Report, network: Network, layout: Layout, spare: Container[str]) -> None:
    """Refuse a file without convolutions or batch norms of the trunk.

    A .caffemodel that was cut between two layers can still be parsed, and a state dict may be of a part of a network.
    Fully connected and output layers may be missing: there are files of convolutions alone, and these layers mostly
    start fresh anyway.
    """
    kinds = (nn.Conv2d, nn.BatchNorm2d)
    layers = [name for name, module in network.trunk.named_modules(prefix="trunk") if isinstance(module, kinds)]
    due = [name for name in layers if name not in spare]
    parts = (entry.network.rpartition(".") for entry in report.fresh if entry.network)
    fresh = {layer for layer, _, part in parts if part != "num_batches_tracked"}  # which nothing depends on
    missing = [layout.layer(name) for name in due if name in fresh]
    if missing:
        raise bad_file(
            file,
            "layers are missing",
            expected=f"the {len(due)} convolutions and batch norms of the network",
            got=f"a file without {some(missing)}",
            do="It may be cut short, or a part: compare its checksum, and fetch the whole file.",
        )
