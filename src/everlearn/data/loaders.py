"""Patterns and classes read from PyTorch's datasets and loaders, in one pass."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from everlearn.data.patterns import Array, as_tensor, check_alike, is_array, no_patterns, stacked
from everlearn.errors import DataError, EverlearnError, sentence


def from_dataset(dataset: Dataset[Any]) -> tuple[Tensor, Array]:
    """Patterns and classes from items (x, y), from the first to the last."""
    if isinstance(dataset, IterableDataset):
        items = iter(dataset)
    elif hasattr(dataset, "__len__"):
        items = (dataset[k] for k in range(len(dataset)))
    else:
        raise DataError(
            sentence(
                "The dataset has no length",
                expected="__len__ and __getitem__",
                got=type(dataset).__name__,
                do="Give it a __len__, or derive it from IterableDataset.",
            )
        )
    x: list[Tensor] = []
    y: list[Any] = []
    for pattern, label in _pairs(items, "item"):
        x.append(as_tensor(pattern, f"Item {len(x)}"))
        y.append(label)
    return stacked(x, "item"), y


def from_loader(loader: DataLoader[Any]) -> tuple[Tensor, Array]:
    """Patterns and classes from minibatches (x, y), one after the other."""
    x: list[Tensor] = []
    y: list[Any] = []
    for patterns, given in _pairs(iter(loader), "minibatch"):
        labels = _uncollated(given) if loader.collate_fn is default_collate else given
        name = f"Minibatch {len(x)}"
        x.append(as_tensor(patterns, name))
        sized = is_array(labels) and getattr(labels, "ndim", 1) > 0 and x[-1].ndim > 0
        if not sized or len(labels) != len(x[-1]):
            raise DataError(
                sentence(
                    f"{name} has not one label for each pattern",
                    expected="patterns [n, …] and n labels",
                    got=f"patterns {list(x[-1].shape)} and {len(labels) if sized else 'one label'}",
                    do="Give the DataLoader a batch_size, or mend its collate_fn.",
                )
            )
        y.append(labels)
    if not x:
        raise no_patterns()
    check_alike(x, "minibatch", 1)
    if all(isinstance(labels, Tensor) for labels in y):
        return torch.cat(x), torch.cat(y)
    return torch.cat(x), [label for labels in y for label in labels]


def is_pair(value: Any) -> bool:
    """Whether this may be x beside y, or a pattern beside its label."""
    return isinstance(value, list | tuple) and len(value) == 2


def _uncollated(labels: Any) -> Any:
    """Labels of several parts, which PyTorch collates part by part: [first parts, second parts, …]."""
    if not isinstance(labels, list) and not hasattr(labels, "_fields"):
        return labels
    parts = [_uncollated(part) for part in labels]
    rows = zip(*(part.tolist() if isinstance(part, Tensor) else part for part in parts), strict=True)
    return list(rows) if isinstance(labels, list) else [type(labels)(*row) for row in rows]


def _pairs(items: Iterator[Any], what: str) -> Iterator[tuple[Any, Any]]:
    """Pairs, each of them called `what`; what goes wrong is told with its place."""
    for k in count():
        try:
            item = next(items)
        except StopIteration:
            return
        except (EverlearnError, MemoryError):
            raise
        except Exception as error:
            raise DataError(
                sentence(
                    f"{what.capitalize()} {k} cannot be read",
                    expected="a pair (x, y)",
                    got=f"{type(error).__name__}: {error}",
                    do="Mend the dataset.",
                )
            ) from error
        if not is_pair(item):
            raise DataError(
                sentence(
                    f"{what.capitalize()} {k} is not a pattern with its label",
                    expected="a pair (x, y)",
                    got=f"{len(item)} values" if isinstance(item, list | tuple) else type(item).__name__,
                    do="Let the dataset return (x, y).",
                )
            )
        yield item[0], item[1]
