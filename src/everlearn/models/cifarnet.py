"""CifarNet, the network of Zenke et al. that the paper uses on iCIFAR-100."""

from torch import nn

from everlearn._kit.keyed import keyed_generator
from everlearn.models.described import described
from everlearn.models.network import Network, Normalise, Output

CIFAR_MEAN = (129.304, 124.070, 112.434)  # CIFAR-100's channel means
CIFAR_STD = (68.170, 65.392, 70.418)  # and standard deviations


@described
def cifarnet(classes: int = 100, *, normalise: bool = True, seed: int = 0) -> Network:
    """Four convolutions and two fully connected layers; 1,297,028 weights with 100 classes.

    Patterns are 3×32×32. Glorot weights and zero biases as in Zenke et al.; the paper's port starts the output rows at
    N(0, .005²), which a head's `init` does.

    Args:
        classes: rows of the output layer.
        normalise: take patterns from 0 to 255, uint8 or float; False takes floats as they are.
        seed: of the initial weights.

    >>> sum(p.numel() for p in cifarnet(classes=100).parameters())
    1297028
    """
    trunk = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(2304, 512),
        nn.ReLU(),
    )
    output = Output(nn.Linear(512, classes), dropout=nn.Dropout(0.5))
    return glorot(
        Network(
            trunk,
            [output],
            normalise=Normalise(CIFAR_MEAN, CIFAR_STD) if normalise else None,
            input_shape=(3, 32, 32),
            channels_last=True,
        ),
        seed,
    )


def glorot(network: Network, seed: int) -> Network:
    """Glorot's uniform weights and zero biases for every convolution and fully connected layer."""
    generator = keyed_generator(seed, "glorot")
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return network
