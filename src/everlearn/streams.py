"""Streams: the batches B_1, B_2, … of a source, by classes, by sessions, or by both."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.data.batch import Array, Batch
from everlearn.data.source import Patterns, Source
from everlearn.errors import DataError, sentence

Indices = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Stream:
    """B_1, B_2, … as places in a source's training patterns, and the fixed test set.

    A stream is read by number, so that it can go on later: a longer one with the same beginning is its continuation.

    Args:
        name: the stream's, for pages.
        source: where the patterns are from.
        indices: for each batch, the places of its patterns in the source's training patterns.
        about: where its order is from, if that is worth saying.
    """

    name: str
    source: Source
    indices: tuple[Indices, ...]
    about: str = ""

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, k: int) -> Batch:
        chosen = self.indices[k]
        return Batch(self.source.train.x[chosen], self.source.train.y[chosen])

    def __iter__(self) -> Iterator[Batch]:
        return (self[k] for k in range(len(self)))

    @property
    def test(self) -> Patterns:
        """The fixed test set."""
        return self.source.test

    @property
    def batches(self) -> list[list[int]]:
        """The classes of each batch, ascending."""
        return [sorted(int(c) for c in np.unique(self.source.train.y[chosen])) for chosen in self.indices]

    @property
    def order(self) -> list[int]:
        """All classes in order of arrival."""
        return list(dict.fromkeys(c for classes in self.batches for c in classes))


def new_classes(x: Array, y: Array, order: Sequence[Sequence[Any]]) -> list[Batch]:
    """The batches of the NC update content type from plain arrays: each brings new classes with all their patterns.

    Args:
        x, y: patterns and their classes, as `Batch` takes them.
        order: the classes of each batch.

    >>> import torch
    >>> stream = new_classes(torch.zeros(4, 2), torch.tensor([0, 1, 2, 2]), order=[[2, 0], [1]])
    >>> [(len(batch), batch.classes) for batch in stream]
    [(3, [0, 2]), (1, [1])]
    """
    whole = Batch(x, y)
    if whole.labels is None:
        return [Batch(whole.x[chosen], whole.y[chosen]) for chosen in _by_classes(whole.y.numpy(), order)]
    labels, place = whole.labels, {label: k for k, label in enumerate(whole.labels)}
    numbers = [[place.get(label, -1) for label in classes] for classes in order]
    chosen_by_batch = _by_classes(whole.y.numpy(), numbers)
    return [Batch(whole.x[chosen], [labels[k] for k in whole.y[chosen].tolist()]) for chosen in chosen_by_batch]


def nc(name: str, source: Source, order: Sequence[Sequence[int]]) -> Stream:
    """New Classes: each batch brings the given classes, with all their patterns.

    Args:
        name: the stream's, for pages.
        source: where the patterns are from.
        order: the classes of each batch, B_1 first.
    """
    return Stream(name, source, tuple(_by_classes(source.train.y, order)))


def ni(name: str, source: Source, sessions: Sequence[int]) -> Stream:
    """New Instances: each batch brings one session of all classes.

    Args:
        name: the stream's, for pages.
        source: where the patterns are from.
        sessions: the session of each batch, B_1 first.
    """
    return nic(name, source, [(session, None) for session in sessions])


def nic(name: str, source: Source, order: Sequence[tuple[int, Sequence[int] | None]]) -> Stream:
    """New Instances and Classes: each batch brings one session of the given classes, None for all.

    Args:
        name: the stream's, for pages.
        source: where the patterns are from.
        order: the session and the classes of each batch, B_1 first; None for all classes.
    """
    train, indices = source.train, []
    for session, classes in order:
        mask = train.session == session
        if classes is not None:
            mask &= np.isin(train.y, list(classes))
        indices.append(_filled(np.flatnonzero(mask), f"session {session}, classes {classes or 'all'}"))
    if len({i.tobytes() for i in indices}) < len(indices):
        raise DataError(
            sentence(
                "Two batches of the stream are the same",
                expected="each session and classes once",
                got=[pair for pair, count in Counter((s, tuple(c or ())) for s, c in order).items() if count > 1],
                do="Drop the repeats.",
            )
        )
    return Stream(name, source, tuple(indices))


def groups(classes: Sequence[int], sizes: Sequence[int]) -> list[list[int]]:
    """Classes in order, cut into groups of these sizes.

    Args:
        classes: in order of arrival.
        sizes: the number of classes in each group, which sum to all of them.

    >>> groups([3, 1, 2, 0], [2, 1, 1])
    [[3, 1], [2], [0]]
    """
    ends = np.cumsum(sizes)
    if ends[-1] != len(classes):
        raise DataError(
            sentence(
                "Classes and groups do not fit",
                expected=f"groups of {len(classes)} classes in all",
                got=list(sizes),
                do="Change the sizes of the groups.",
            )
        )
    return [list(classes[end - size : end]) for end, size in zip(ends, sizes, strict=True)]


def class_order(n: int, run: int) -> list[int]:
    """The order in which n classes arrive in a run.

    Args:
        n: the number of classes.
        run: the number of the run, from 1; each has another order.

    >>> sorted(class_order(5, run=1)), class_order(5, run=1) != class_order(5, run=2)
    ([0, 1, 2, 3, 4], True)
    """
    return [int(c) for c in run_generator("classes", n, run).permutation(n)]


def run_generator(purpose: str, n: int, run: int) -> np.random.Generator:
    """The random numbers that a run's order is drawn from.

    Args:
        purpose: what is drawn; another purpose has other numbers.
        n: how many are put in order.
        run: the number of the run, from 1.
    """
    return np.random.default_rng(np.random.SeedSequence([run, n, *purpose.encode()]))


def _by_classes(y: NDArray[Any], order: Sequence[Sequence[int]]) -> list[Indices]:
    """The places of each batch's classes; refuses a class that stands twice, and one without patterns."""
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
    known = sorted(int(c) for c in np.unique(y))
    absent = sorted(set(counts) - set(known))
    if absent or not order or not all(len(classes) for classes in order):
        raise DataError(
            sentence(
                "A batch of the stream would lack patterns",
                expected=f"batches of classes among {known}",
                got=f"classes {absent} without patterns" if absent else "an empty batch",
                do="Take them out of the order.",
            )
        )
    return [np.flatnonzero(np.isin(y, list(classes))) for classes in order]


def _filled(chosen: Indices, what: str) -> Indices:
    if not len(chosen):
        raise DataError(
            sentence(
                "A batch of the stream would lack patterns",
                expected="at least one pattern",
                got=f"none for {what}",
                do="Take it out of the order.",
            )
        )
    return chosen
