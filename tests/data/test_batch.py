"""A batch in every form in which it may be given: patterns keep their labels, and what cannot be learnt is refused."""

import enum
from collections import namedtuple
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from everlearn.data import Patterns, Source
from everlearn.data.batch import Batch, as_batch
from everlearn.errors import DataError
from everlearn.streams import nc

Point = namedtuple("Point", ["name", "number"])


class Animal(enum.Enum):
    DOG = "dog"
    CAT = "cat"


class Number(enum.IntEnum):
    TWO = 2
    ONE = 1


class NA:
    """Like pandas.NA: whether it equals anything is not known either."""

    __hash__ = object.__hash__

    def __ne__(self, other: object) -> Any:
        return self

    def __bool__(self) -> bool:
        raise TypeError("boolean value of NA is ambiguous")

    def __repr__(self) -> str:
        return "<NA>"


def tagged(count: int) -> torch.Tensor:
    """Patterns that say their own number."""
    return torch.arange(count, dtype=torch.float32)[:, None].repeat(1, 4)


def named(batch: Batch) -> dict[int, Any]:
    """The label of each tagged pattern."""
    tags = batch.x.flatten(1)[:, 0].long().tolist()
    labels = batch.y.tolist() if batch.labels is None else [batch.labels[place] for place in batch.y.tolist()]
    return dict(zip(tags, labels, strict=True))


class Items(Dataset[Any]):
    """A map-style dataset of these items; an exception is raised where it stands."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, k: int) -> Any:
        if isinstance(self.items[k], Exception):
            raise self.items[k]
        return self.items[k]


class Endless(Dataset[Any]):
    def __getitem__(self, k: int) -> Any:
        return torch.zeros(4), k


class Flow(IterableDataset[Any]):
    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


# Patterns


@pytest.mark.parametrize(
    "x",
    [
        tagged(3).double(),
        tagged(3).half(),
        tagged(3).requires_grad_(),
        tagged(3).numpy().astype(">f8"),
        tagged(6).numpy()[::2] / 2,
        tagged(3).flip(0).numpy()[::-1],
        tagged(3).tolist(),
        tagged(3).long().tolist(),
        tuple(tagged(3)),
        list(tagged(3).numpy()),
        [[0, 0, 0, 0], (1.0, 1, 1, 1), np.array([2.0, 2, 2, 2])],
    ],
)
def test_patterns_in_every_form(x: Any) -> None:
    batch = Batch(x, ["a", "b", "c"])
    assert batch.x.dtype == torch.float32
    assert torch.equal(batch.x, tagged(3))


def test_bytes_stay_bytes_and_share_memory() -> None:
    x = np.arange(8, dtype="uint8").reshape(2, 4)
    batch = Batch(x, [0, 1])
    assert batch.x.dtype == torch.uint8
    assert batch.x.numpy().ctypes.data == x.ctypes.data
    assert Batch(list(x), [0, 1]).x.dtype == torch.uint8


def test_an_array_that_cannot_be_written_is_left_alone() -> None:
    x = tagged(2).numpy()
    x.flags.writeable = False
    Batch(x, [0, 1]).x.zero_()
    assert x[1, 0] == 1


BAD_PATTERNS: dict[str, tuple[Any, str]] = {
    "integers": (
        np.zeros((2, 4), dtype="int64"),
        r"wrong dtype: .*got torch\.int64\. Use x\.astype\('float32'\), or x\.astype\('uint8'\) for pixels",
    ),
    "int8": (torch.zeros(2, 4, dtype=torch.int8), r"Use x\.float\(\), or x\.byte\(\) for pixels from 0 to 255\.$"),
    "booleans": (np.zeros((2, 4), dtype=bool), r"got torch\.bool\. Use x\.astype\('float32'\)\.$"),
    "too large": (
        np.array([[1.0], [-1e300]]),
        r"too large for float32: expected values up to 3\.4e\+38, got 1\.0e\+300 in pattern 1\. Scale",
    ),
    "nan": (np.array([[1.0], [np.nan]]), "NaN or infinite values.*pattern 1"),
    "ragged": ([[1.0, 2.0], [1.0]], r"differ in shape: expected \[2\] as in pattern 0, got \[1\] in pattern 1"),
    "ragged within": ([[1.0], [[1.0], [1.0, 2.0]]], "Pattern 1 cannot be read: expected rows of one length"),
    "dtypes": (
        [np.zeros(2, "uint8"), np.zeros(2)],
        r"differ in dtype: expected torch.uint8 as in pattern 0, got .*64 in pattern 1",
    ),
    "flat": ([1.0, 2.0], r"wrong shape.*got \[2\].*x\[None\]"),
    "text": ([["a"], ["b"]], "Pattern 0 cannot be read: expected numbers, got <U1"),
    "objects": (
        np.array([[{}], [{}]]),
        r"dtype that cannot be read: expected numbers, got object.*x\.astype\('float32'\)",
    ),
    "nothing": ([], "The batch is empty"),
    "pictures": ([object(), object()], r"Pattern 0 cannot be read: .*got object\. .*ToTensor"),
}


@pytest.mark.parametrize("case", BAD_PATTERNS)
def test_bad_patterns_are_refused(case: str) -> None:
    x, message = BAD_PATTERNS[case]
    with pytest.raises(DataError, match=message):
        Batch(x, [0, 1])


# Labels


@pytest.mark.parametrize(
    ("y", "labels"),
    [
        (["dog", "cat", "dog"], ("cat", "dog")),
        (("dog", "cat", "dog"), ("cat", "dog")),
        (np.array(["dog", "cat", "dog"]), ("cat", "dog")),
        (np.array(["dog", "cat", "dog"], dtype=object), ("cat", "dog")),
        (np.array([b"dog", b"cat", b"dog"]), (b"cat", b"dog")),
        ([("dog", 2), ("dog", 1), ("dog", 2)], (("dog", 1), ("dog", 2))),
        ([("dog", np.int64(2)), ("dog", 1), ("dog", 2)], (("dog", 1), ("dog", 2))),
        ([("dog", None), "cat", ("dog", None)], (("dog", None), "cat")),
        ([Animal.DOG, Animal.CAT, Animal.DOG], (Animal.DOG, Animal.CAT)),
        ([frozenset("b"), frozenset("a"), frozenset("b")], (frozenset("b"), frozenset("a"))),
        (
            np.array(["2020-01-02", "2020-01-01", "2020-01-02"], "M8[ns]"),
            tuple(np.array(["2020-01-01", "2020-01-02"], "M8[ns]")),
        ),
    ],
)
def test_labels_of_every_kind(y: Any, labels: tuple[Any, ...]) -> None:
    batch = Batch(tagged(3), y)
    assert batch.labels == labels
    assert [type(label) for label in batch.labels] == [type(label) for label in labels]
    assert batch.y.dtype == torch.int64
    assert named(batch) == dict(enumerate(y))
    assert batch.classes == list(labels)
    assert sorted(batch.counts.values()) == [1, 2]


@pytest.mark.parametrize(
    "y",
    [
        [2, 1, 2],
        range(3),
        np.array([2, 1, 2], dtype=object),
        np.array([2, 1, 2], dtype="uint64"),
        np.array([2, 1, 2], dtype=">i4"),
        np.array([2, 1, 2])[::-1],
        [torch.tensor(2), np.array(1), np.int8(2)],
        [Number.TWO, Number.ONE, Number.TWO],
    ],
)
def test_integers_stand_for_themselves(y: Any) -> None:
    batch = Batch(tagged(3), y)
    assert batch.labels is None
    assert batch.y.dtype == torch.int64
    assert batch.y.tolist() == [int(label) for label in y]


@given(st.lists(st.one_of(st.text(), st.tuples(st.text(), st.integers())), min_size=1, max_size=20))
def test_patterns_keep_their_labels(y: list[Any]) -> None:
    batch = Batch(tagged(len(y)), y)
    assert named(batch) == dict(enumerate(y))
    assert batch.labels is not None
    assert len(set(batch.labels)) == len(batch.labels)


@given(st.permutations(range(6)))
def test_sorted_labels_do_not_depend_on_the_order_of_patterns(order: list[int]) -> None:
    y = ["b", "a", "c", "b", "a", "d"]
    batch = Batch(tagged(6)[order], [y[k] for k in order])
    assert batch.labels == ("a", "b", "c", "d")
    assert named(batch) == {k: y[k] for k in order}


WHOLE = r"expected integers from 0 up, strings or other hashable classes, got"
BAD_LABELS: dict[str, tuple[Any, str]] = {
    "whole floats": (np.array([0.0, 1.0]), rf"^Labels are float64: {WHOLE} 0\.0\. Use y\.astype\('int64'\)\.$"),
    "whole float tensor": (torch.tensor([0.0, 1.0]), r"^Labels are torch\.float32: .*Use y\.long\(\)\.$"),
    "whole floats in a list": ([0.0, 1.0], r"^Labels are float: .*got 0\.0\. Use \[int\(label\) for label in y\]\.$"),
    "fractions": (np.array([0.0, 0.5]), r"^Labels are float64: .*got 0\.5\. Turn quantities into classes first\.$"),
    "fractions in a list": ([0.0, 0.5], r"^Labels are float: .*got 0\.5\. Turn quantities"),
    "Python's fractions": ([Fraction(1, 2), Fraction(1)], r"^Labels are Fraction: .*Turn quantities"),
    "complex": (np.array([1j, 2j]), r"^Labels are complex128: .*Turn quantities"),
    "booleans": (np.array([True, False]), r"^Labels are bool: .*got True\. Use y\.astype\('int64'\)\.$"),
    "booleans in a list": ([True, False], r"^Labels are bool: .*Use \[int\(label\)"),
    "a boolean among names": (["a", True], "^Labels are bool"),
    "nan": (
        np.array([0.0, np.nan]),
        "A label is missing: expected a class for each pattern, got nan for pattern 1. Label",
    ),
    "nan among names": (np.array(["a", np.nan], dtype=object), "missing.*got nan for pattern 1"),
    "nan in a tuple": ([("a", 1.0), ("a", float("nan"))], "missing.*for pattern 1"),
    "none": (["a", None], "missing.*got None for pattern 1"),
    "pandas.NA": (["a", NA()], "missing.*got <NA> for pattern 1"),
    "no date": (np.array(["2020-01-01", "NaT"], "M8[ns]"), "missing.*got NaT for pattern 1"),
    "negative": ([3, -1], "out of range: expected 0 or more, got -1"),
    "negative array": (np.array([3, -1]), "out of range: expected 0 or more, got -1"),
    "huge": ([0, 2**63], rf"out of range: expected less than 2\*\*63, got {2**63}"),
    "huge array": (np.array([0, 2**63], dtype="uint64"), rf"out of range: expected less than 2\*\*63, got {2**63}"),
    "mixed": (["a", 3], r"mix integers with other classes: expected one kind, got 3 and 'a'\. Use \[str"),
    "lists": ([[0, 1], [1, 0]], "cannot be a class: .*got list for pattern 0. Give one class a pattern: tuple"),
    "arrays": (["a", np.zeros(2)], "cannot be a class: .*got ndarray for pattern 1"),
    "tensors": ([torch.zeros(2), torch.zeros(2)], "cannot be a class: .*got Tensor for pattern 0"),
    "lists in tuples": ([("a", [1]), ("a", [2])], "cannot be a class: .*got tuple for pattern 0"),
    "one-hot": (np.eye(2, dtype=int), r"wrong shape: .*got \[2, 2\].*one class a pattern: use y\.argmax\(1\)"),
    "one-hot names": (np.array([["a"], ["b"]]), r"wrong shape: .*got \[2, 1\].*y\.ravel\(\) for a column"),
    "a string": ("ab", r"labels cannot be read: .*got str\. Use list\(y\)"),
    "a set": ({"a", "b"}, "labels cannot be read: .*got set"),
    "too few": (["a"], "expected 2 labels, one for each pattern, got 1"),
    "none at all": (np.array([]), "expected 2 labels, one for each pattern, got 0"),
}


@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels_are_refused(case: str) -> None:
    y, message = BAD_LABELS[case]
    with pytest.raises(DataError, match=message):
        Batch(tagged(2), y)


def test_the_fingerprint_of_integers_is_what_it_always_was() -> None:
    assert Batch(tagged(3), torch.tensor([4, 4, 7])).fingerprint == "[3, 4] b85ee8cace2a0be5"


def test_the_fingerprint_tells_labels_apart() -> None:
    batches = [Batch(tagged(3), y) for y in ([0, 1, 0], ["a", "b", "a"], ["a", "c", "a"], ["b", "a", "b"])]
    assert len({batch.fingerprint for batch in batches}) == 4
    assert batches[1].fingerprint == Batch(tagged(3).tolist(), np.array(["a", "b", "a"])).fingerprint


# Every form of a batch

LABELS: dict[str, list[Any]] = {
    "integers": [3, 1, 3, 0, 2],
    "strings": ["dog", "cat", "dog", "emu", "owl"],
    "tuples": [("dog", 1), ("dog", 2), ("cat", 1), ("emu", 0), ("owl", 3)],
    "tuples of tuples": [(("a", k), "b") for k in range(5)],
    "named tuples": [Point("dog", k) for k in range(5)],
}


@pytest.mark.parametrize("y", LABELS.values(), ids=LABELS)
def test_every_form_gives_the_same_batch(y: list[Any]) -> None:
    x = tagged(5)
    items = list(zip(x, y, strict=True))
    dataset = Items(items)
    expected = Batch(x, y)
    for form in (
        expected,
        (x, y),
        [x.numpy(), tuple(y)],
        tuple(zip(*items, strict=True)),
        dataset,
        Flow(items),
        Subset(dataset, range(5)),
        DataLoader(dataset, batch_size=2),  # tuples of two in minibatches of two
        DataLoader(dataset, batch_size=5),
        DataLoader(Flow(items), batch_size=3),
        DataLoader(dataset, batch_size=2, collate_fn=lambda part: list(zip(*part, strict=True))),
    ):
        batch = as_batch(form)
        assert named(batch) == dict(enumerate(y))
        assert batch.labels == expected.labels
        assert batch.fingerprint == expected.fingerprint
    assert named(as_batch(DataLoader(dataset, batch_size=2, shuffle=True))) == dict(enumerate(y))


def test_a_batch_comes_back_as_it_is_and_tensors_are_not_copied() -> None:
    x, y = tagged(3), torch.tensor([2, 0, 2])
    batch = Batch(x, y)
    assert as_batch(batch) is batch
    assert as_batch(TensorDataset(x, y)).x.data_ptr() == as_batch((x, y)).x.data_ptr() == x.data_ptr()


def test_a_loader_with_workers_and_augmentation() -> None:
    dataset = Items([(pattern.numpy(), f"class {k}") for k, pattern in enumerate(tagged(5))])

    def doubled(part: list[Any]) -> Any:
        return 2 * torch.tensor(np.stack([x for x, _ in part])), [y for _, y in part]

    batch = as_batch(DataLoader(dataset, batch_size=2, num_workers=1, collate_fn=doubled))
    assert named(batch) == {2 * k: f"class {k}" for k in range(5)}


ZERO = torch.zeros(4)
BAD_DATASETS: dict[str, tuple[Any, str]] = {
    "no pair": (Items([(ZERO, 0), ZERO]), r"Item 1 is not a pattern with its label: .*got Tensor\. Let the dataset"),
    "three values": (Items([(ZERO, 0, 1)]), "Item 0 is not .*got 3 values"),
    "a dict": (Items([{"x": ZERO}]), "Item 0 is not .*got dict"),
    "three tensors": (TensorDataset(ZERO, ZERO, ZERO), "Item 0 is not .*got 3 values"),
    "shapes": (
        Items([(ZERO, 0), (ZERO, 1), (ZERO[1:], 1)]),
        r"differ in shape: expected \[4\] as in item 0, got \[3\] in item 2\. Resize",
    ),
    "dtypes": (Items([(ZERO, 0), (ZERO.byte(), 1)]), "differ in dtype: .*as in item 0, got torch.uint8 in item 1"),
    "pictures": (Items([(Image.new("L", (2, 2)), 0)]), r"Item 0 cannot be read: .*got Image\. .*transform=.*ToTensor"),
    "an error": (Items([(ZERO, 0), OSError("gone")]), "Item 1 cannot be read: .*got OSError: gone. Mend the dataset"),
    "a bad label": (Items([(ZERO, "a"), (ZERO, ["b"])]), "got list for pattern 1"),
    "an infinite value": (Items([(ZERO, 0), (ZERO / 0, 1)]), "NaN or infinite.*pattern 1"),
    "an error of ours": (Items([DataError("The file is damaged.")]), r"^The file is damaged\.$"),
    "no item": (Items([]), "The batch is empty"),
    "no end": (Endless(), r"no length: expected __len__ and __getitem__, got Endless\. Give it"),
    "a loader of no pairs": (DataLoader(Items([ZERO, ZERO])), "Minibatch 0 is not .*got Tensor"),
    "a loader of shapes": (DataLoader(Items([(ZERO, 0), (ZERO[1:], 1)])), "as in minibatch 0, got .3. in minibatch 1"),
    "a loader of enums": (DataLoader(Items([(ZERO, Animal.DOG)])), "Minibatch 0 cannot be read: .*got TypeError: "),
    "a loader of items": (
        DataLoader(Items([(ZERO, 0)]), batch_size=None),
        r"0 has not one label for each pattern: .*got patterns \[4\] and one label\. Give the DataLoader a batch_size",
    ),
    "a loader of words": (DataLoader(Items([(ZERO, "four")]), batch_size=None), "and one label"),
    "a loader that slips": (
        DataLoader(Items([(torch.zeros(2, 4), [1]), (torch.zeros(1, 4), [1, 2])]), batch_size=None),
        r"patterns \[2, 4\] and 1\.",
    ),
    "a loader of floats": (DataLoader(Items([(ZERO, 1.0)])), r"Labels are torch\.float64"),
    "an empty loader": (DataLoader(Flow([])), "The batch is empty"),
}


@pytest.mark.parametrize("case", BAD_DATASETS)
def test_bad_datasets_are_refused_by_the_item(case: str) -> None:
    dataset, message = BAD_DATASETS[case]
    with pytest.raises(DataError, match=message):
        as_batch(dataset)


def test_what_a_dataset_raised_is_the_cause() -> None:
    with pytest.raises(DataError) as caught:
        as_batch(Items([OSError("gone")]))
    assert isinstance(caught.value.__cause__, OSError)


class DataFrame:
    """Looks like pandas' own."""

    def __array__(self) -> Any:
        raise NotImplementedError


PATTERNS = Patterns(np.zeros((2, 1, 2, 2), dtype="uint8"), np.array([0, 1]))
SOURCE = Source("toy", PATTERNS, PATTERNS, ("a", "b"))
NO_BATCHES: dict[str, tuple[Any, str]] = {
    "none": (
        None,
        r"^This is no batch: expected a Batch, a pair \(x, y\), a Dataset or a DataLoader, got NoneType\. Pass Batch",
    ),
    "array": (np.zeros((2, 4)), r"got ndarray without labels\. Pass \(x, y\)\."),
    "tensor": (tagged(2), r"got Tensor without labels\. Pass \(x, y\)\."),
    "source": (SOURCE, r"got Source\. Pass \(source\.train\.x, source\.train\.y\)"),
    "patterns": (PATTERNS, r"got Patterns\. Pass \(patterns\.x, patterns\.y\)"),
    "stream": (nc("toy", SOURCE, [[0], [1]]), "got Stream. Pass its batches one by one: for batch in stream"),
    "batches": ([Batch(tagged(1), [0])] * 2, "got 2 batches. Pass them one by one"),
    "dict": ({"x": tagged(2), "y": [0, 1]}, r"got dict\. Pass \(data\['x'\], data\['y'\]\)"),
    "frame": (DataFrame(), r"got DataFrame\. Pass \(frame\[columns\], frame\[label\]\)"),
    "items": ([(ZERO, 0), (ZERO, 1)], r"got list of items\. Pass tuple\(zip\(\*items\)\)"),
    "three items": ([(ZERO, 0)] * 3, "got list of items"),
    "no labels": ((tagged(2), None), "got tuple of Tensor and NoneType. Pass Batch"),
    "numbers": ((1, 2), "got tuple of int and int. Pass Batch"),
    "one label": ((tagged(2), "ab"), "got tuple of Tensor and str"),
    "triple": ((tagged(2), [0, 1], [0, 1]), "got tuple. Pass Batch"),
    "nothing": ([], "got list. Pass Batch"),
    "text": ("ab", "got str. Pass Batch"),
    "iterator": (iter([(ZERO, 0)]), "got list_iterator. Pass Batch"),
}


@pytest.mark.parametrize("case", NO_BATCHES)
def test_what_is_no_batch_is_refused_with_what_to_pass(case: str) -> None:
    value, message = NO_BATCHES[case]
    with pytest.raises(DataError, match=message):
        as_batch(value)


def test_two_patterns_are_not_taken_for_a_batch() -> None:
    for patterns in ([ZERO, ZERO], [[0.0, 1.0], [1.0, 0.0]], list(torch.zeros(2, 1, 8, 8))):
        with pytest.raises(DataError):
            as_batch(patterns)
