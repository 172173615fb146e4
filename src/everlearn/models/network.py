"""A network as a trunk and its output layers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from everlearn.errors import DataError, NetworkError, sentence

OutputLayer = nn.Linear | nn.Conv2d


class Normalise(nn.Module):
    """(x − mean) / std by channel, on the device, from uint8 or float patterns.

    Args:
        mean: what is subtracted, by channel.
        std: what is divided by then, by channel.

    >>> Normalise(mean=[128.0], std=[64.0])(torch.tensor([[[[0, 192]]]], dtype=torch.uint8))
    tensor([[[[-2.,  1.]]]])
    """

    mean: Tensor
    std: Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        self.register_buffer("mean", torch.tensor(mean).view(1, -1, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, -1, 1, 1), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """(x − mean) / std, as float.

        Args:
            x: patterns, [n, channels, height, width].
        """
        return (x.to(self.mean.dtype) - self.mean).div_(self.std)


class Output(nn.Module):
    """One output layer: dropout directly before it, the layer with a row a class, and what follows it.

    Args:
        layer: a Linear or a 1×1 Conv2d, with a row a class.
        dropout: what stands directly before it, without weights; by default nothing.
        tail: what works on each row apart behind it (NiN: ReLU, then the average over the map), so that consolidated
            rows act before it; by default nothing.
        loss_weight: this output's share in the loss.

    >>> output = Output(nn.Linear(8, 3), loss_weight=0.3)
    >>> output.rows, output.pn
    (3, 8)
    """

    def __init__(
        self,
        layer: OutputLayer,
        *,
        dropout: nn.Module | None = None,
        tail: nn.Module | None = None,
        loss_weight: float = 1.0,
    ) -> None:
        super().__init__()
        if not isinstance(layer, nn.Linear | nn.Conv2d) or (isinstance(layer, nn.Conv2d) and layer.groups != 1):
            raise NetworkError(
                sentence(
                    "This output layer has no rows to consolidate",
                    expected="an nn.Linear, or an nn.Conv2d with groups=1",
                    got=layer,
                    do="Name the layer that has one row of weights for each class.",
                )
            )
        if any(True for part in (dropout, tail) if part is not None for _ in part.parameters()):
            raise NetworkError(
                sentence(
                    "What stands around an output layer has weights of its own",
                    expected="a dropout and a tail without parameters, that work on each row apart",
                    got=f"dropout={dropout}, tail={tail}",
                    do="Put weights into the trunk.",
                )
            )
        self.dropout = dropout or nn.Identity()
        self.layer = layer
        self.tail = tail or nn.Identity()
        self.loss_weight = loss_weight

    @property
    def rows(self) -> int:
        return self.layer.weight.shape[0]

    @property
    def pn(self) -> int:
        """Weights in a row: the neurons of the penultimate layer."""
        return self.layer.weight[0].numel() if self.rows else self.layer.weight.shape[1:].numel()

    def set_rows(self, rows: int) -> None:
        """Keep the first rows, add rows of zeros at the end.

        Args:
            rows: how many there are then.
        """
        for name, old in list(self.layer.named_parameters()):
            new = old.new_zeros(rows, *old.shape[1:])
            new[: min(rows, len(old))] = old.detach()[:rows]
            setattr(self.layer, name, nn.Parameter(new))
        if isinstance(self.layer, nn.Linear):
            self.layer.out_features = rows
        else:
            self.layer.out_channels = rows

    def forward(self, features: Tensor) -> Tensor:
        """Logits, [n, rows].

        Args:
            features: what the trunk gives for this output: [n, pn], or maps for a convolution.
        """
        logits: Tensor = self.tail(self.layer(self.dropout(features)))
        return logits


class Network(nn.Module):
    """A trunk, whose weights are Θ̄, and one or more output layers.

    The trunk gives one tensor, or a tuple with one for each output. Predictions come from the last output.

    trunk: everything below the output layers; outputs: the output layers; normalise: what patterns pass first;
    input_shape: of one pattern, where it is known, so that other shapes are refused with a clear error.
    channels_last: how patterns lie in memory inside the trunk; quicker for wide convolutions. Equal up to
    rounding, except that dropout inside the trunk draws its masks in the order of memory.

    >>> net = Network(nn.Flatten(), [Output(nn.Linear(4, 3))], input_shape=(1, 2, 2))
    >>> net(torch.zeros(5, 1, 2, 2))[-1].shape, net.rows
    (torch.Size([5, 3]), 3)
    """

    def __init__(
        self,
        trunk: nn.Module,
        outputs: Sequence[Output],
        *,
        normalise: nn.Module | None = None,
        input_shape: tuple[int, ...] | None = None,
        channels_last: bool = False,
    ) -> None:
        super().__init__()
        if len({output.rows for output in outputs}) != 1:
            raise NetworkError(
                sentence(
                    "The output layers disagree",
                    expected="one or more output layers with equally many rows",
                    got=[output.rows for output in outputs],
                    do="Give every output layer a row for each class.",
                )
            )
        self.normalise = normalise or nn.Identity()
        self.made: dict[str, Any] | None = None  # how, where a maker of ours made it: `described`
        self.trunk = trunk
        self.outputs = nn.ModuleList(outputs)
        self.input_shape = input_shape
        self.memory_format = torch.channels_last if channels_last else torch.contiguous_format

    @property
    def output_layers(self) -> list[Output]:
        return [output for output in self.outputs if isinstance(output, Output)]

    @property
    def rows(self) -> int:
        return self.output_layers[-1].rows

    @contextmanager
    def laid_out(self, memory_format: torch.memory_format) -> Iterator[None]:
        """Patterns lie so in memory for a while.

        Args:
            memory_format: `torch.channels_last` or `torch.contiguous_format`.
        """
        before, self.memory_format = self.memory_format, memory_format
        try:
            yield
        finally:
            self.memory_format = before

    def features(self, x: Tensor) -> tuple[Tensor, ...]:
        """What enters the output layers (before the dropout that stands directly before them).

        Args:
            x: patterns, [n, …].

        Returns:
            One tensor for each output layer.
        """
        features = self.trunk(self.normalise(x.contiguous(memory_format=self.memory_format)))
        return features if isinstance(features, tuple) else (features,)

    def logits(self, features: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Every output layer's logits, each [n, rows].

        Args:
            features: what `features` gives, one tensor for each output layer.
        """
        if len(features) != len(self.outputs):
            raise NetworkError(
                sentence(
                    "Trunk and output layers do not fit",
                    expected=f"{len(self.outputs)} tensors from the trunk, one for each output layer",
                    got=len(features),
                    do="Return a tuple from the trunk's forward.",
                )
            )
        return tuple(output(f) for output, f in zip(self.outputs, features, strict=True))

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        """Every output layer's logits, each [n, rows]; the last one predicts.

        Args:
            x: patterns, [n, …].
        """
        return self.logits(self.features(x))

    def check_input(self, x: Tensor) -> Tensor:
        """Refuse patterns that this network cannot take.

        Args:
            x: patterns, [n, …].

        Returns:
            x as it is.
        """
        if self.input_shape is not None and tuple(x.shape[1:]) != self.input_shape:
            raise DataError(
                sentence(
                    "The patterns have the wrong shape",
                    expected=f"[n, {', '.join(map(str, self.input_shape))}]",
                    got=list(x.shape),
                    do="Resize or reorder the patterns (channels come first).",
                )
            )
        if x.dtype == torch.uint8 and isinstance(self.normalise, nn.Identity):
            raise DataError(
                sentence(
                    "The patterns are uint8, and this network does not normalise",
                    expected="float32",
                    got=x.dtype,
                    do="Convert them, or build the network with normalise=True, of your own with Normalise(mean, std).",
                )
            )
        return x

    def set_mode(self, *, trunk: bool, outputs: bool, batch_norm: bool = True) -> None:
        """Training mode (True) or evaluation mode (False) for each part.

        Args:
            trunk: of the trunk, and of what patterns pass first.
            outputs: of the output layers, with their dropout.
            batch_norm: whether batch norms follow the mode of their part; False keeps their statistics still.
        """
        self.normalise.train(trunk)
        self.trunk.train(trunk)
        self.outputs.train(outputs)
        if not batch_norm:
            for module in self.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()
