"""Streams of batches from patterns and labels."""

from collections import Counter
from collections.abc import Sequence

from everlearn.batch import Array, Batch
from everlearn.errors import DataError, sentence


def new_classes(x: Array, y: Array, order: Sequence[Sequence[int]]) -> list[Batch]:
    """The batches B_1, B_2, … of the NC update content type: each brings new classes with all their patterns.

    x, y: patterns and labels; order: the classes of each batch.

    >>> import torch
    >>> stream = new_classes(torch.zeros(4, 2), torch.tensor([0, 1, 2, 2]), order=[[2, 0], [1]])
    >>> [(len(batch), batch.classes) for batch in stream]
    [(3, [0, 2]), (1, [1])]
    """
    whole = Batch(x, y)
    counts = Counter(c for classes in order for c in classes)
    twice = sorted(c for c, count in counts.items() if count > 1)
    if twice:
        raise DataError(
            sentence(
                "A class stands twice in the order of the stream",
                expected="each class in one batch",
                got=f"classes {twice} more than once",
                do="Drop the repeats; streams that bring known classes again are not of the NC type.",
            )
        )
    absent = sorted(set(counts) - set(whole.classes))
    if absent or not all(order) or not order:
        raise DataError(
            sentence(
                "A batch of the stream would lack patterns",
                expected=f"batches of classes among {whole.classes}",
                got=f"classes {absent} without patterns" if absent else "an empty batch",
                do="Take them out of the order.",
            )
        )
    chosen = [sum((whole.y == c for c in classes), start=whole.y < 0) for classes in order]
    return [Batch(whole.x[mask], whole.y[mask]) for mask in chosen]
