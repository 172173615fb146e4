"""A small, fast network for patterns of 8×8 to 32×32."""

from torch import nn

from everlearn.errors import NetworkError, sentence
from everlearn.models.cifarnet import glorot
from everlearn.models.described import described
from everlearn.models.network import Network, Normalise, Output


@described
def small(
    classes: int,
    input_shape: tuple[int, int, int] = (1, 28, 28),
    *,
    width: int = 16,
    normalise: bool = False,
    seed: int = 0,
) -> Network:
    """Two convolutions and one fully connected layer, no dropout.

    Args:
        classes: rows of the output layer.
        input_shape: channels, height and width of a pattern, of 4×4 and more.
        width: channels of the first convolution.
        normalise: take bytes, (x − 127.5) / 64; False takes floats as they are.
        seed: of the initial weights, Glorot's.

    >>> net = small(classes=10, input_shape=(1, 8, 8))
    >>> sum(p.numel() for p in net.parameters())
    13706
    """
    channels, height, breadth = input_shape
    if min(height, breadth) < 4:
        raise NetworkError(
            sentence(
                "The patterns are too small for this network",
                expected="at least 4×4",
                got=f"{height}×{breadth}",
                do="Enlarge the patterns, or wrap a network of your own with everlearn.models.wrap.",
            )
        )
    trunk = nn.Sequential(
        nn.Conv2d(channels, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(2 * width * (height // 4) * (breadth // 4), 4 * width),
        nn.ReLU(),
    )
    bytes_to_floats = Normalise([127.5] * channels, [64.0] * channels) if normalise else None
    output = Output(nn.Linear(4 * width, classes))
    return glorot(Network(trunk, [output], normalise=bytes_to_floats, input_shape=input_shape), seed)
