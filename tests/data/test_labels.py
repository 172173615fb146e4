"""Labels: every class keeps its number, every pattern its label, and a file brings them back."""

import copy
import enum
import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from everlearn._kit.state import load_state, save_state
from everlearn.data.batch import Batch
from everlearn.data.labels import UNKNOWN, Labels
from everlearn.errors import DataError, StateError
from tests.data.test_batch import tagged


class Animal(enum.Enum):
    DOG = "dog"
    CAT = "cat"


class Word(str, enum.Enum):  # noqa: UP042
    DOG = "dog"


LEAVES = st.one_of(
    st.text(), st.tuples(st.text(), st.integers()), st.tuples(st.none() | st.booleans(), st.tuples(st.text()))
)


@given(st.lists(st.lists(LEAVES, min_size=1, max_size=8), min_size=1, max_size=5))
def test_labels_come_back_from_their_numbers(stream: list[list[Any]]) -> None:
    labels = Labels()
    for y in stream:
        before = labels.known or ()
        labels, batch = labels.grown(Batch(tagged(len(y)), y))
        assert labels.known is not None
        assert labels.known[: len(before)] == before  # a class keeps its number
        assert batch.labels is None
        assert torch.equal(batch.x, tagged(len(y)))  # patterns stay where they are
        assert labels.names(batch.y.tolist()) == y
        decoded = labels.decode(batch.y)
        assert isinstance(decoded, np.ndarray)
        assert decoded.shape == (len(y),)
        assert decoded.tolist() == y
    assert set(labels.known or ()) == {label for y in stream for label in y}
    assert labels.encoded(Batch(tagged(len(y)), y)).y.tolist() == batch.y.tolist()
    assert Labels.from_state(json.loads(json.dumps(labels.state()))) == labels


def test_new_labels_get_the_next_numbers() -> None:
    labels, first = Labels().grown(Batch(tagged(3), ["owl", "dog", "owl"]))
    assert labels.known == ("dog", "owl")
    assert first.y.tolist() == [1, 0, 1]
    grown, second = labels.grown(Batch(tagged(3), ["owl", "emu", "cat"]))
    assert grown.known == ("dog", "owl", "cat", "emu")
    assert second.y.tolist() == [1, 3, 2]
    assert labels.known == ("dog", "owl")
    assert grown.grown(Batch(tagged(1), ["cat"]))[0] is grown


def test_integers_stand_for_themselves() -> None:
    batch = Batch(tagged(3), [7, 2, 7])
    labels, same = Labels().grown(batch)
    assert same is batch
    assert labels.integers
    assert labels.known is None
    assert labels.grown(batch) == (labels, batch)
    assert labels.encoded(batch) is batch
    assert Labels().encoded(batch) is batch
    assert labels.names([7, 2]) == [7, 2]
    assert labels.decode(batch.y) is batch.y


def test_unknown_labels_are_of_no_class() -> None:
    assert Labels(["dog"]).encoded(Batch(tagged(2), ["emu", "dog"])).y.tolist() == [UNKNOWN, 0]
    assert Labels().encoded(Batch(tagged(1), ["emu"])).y.tolist() == [UNKNOWN]
    assert Labels(["dog"]).names([0, 3, UNKNOWN]) == ["dog", 3, UNKNOWN]


@pytest.mark.parametrize(
    ("known", "dtype"),
    [
        (["dog", "elephant"], "<U8"),
        (["dog", "cat\0"], "O"),
        (["dog", ("cat", 1)], "O"),
        ([("dog", 1), ("cat", 2)], "O"),
        ([Animal.DOG, Animal.CAT], "O"),
        ([Word.DOG, "cat"], "O"),
        (np.array(["dog", "elephant"]), "<U8"),
    ],
)
def test_the_dtype_of_predictions(known: Any, dtype: str) -> None:
    labels = Labels(list(known))
    decoded = labels.decode(torch.tensor([1, 0, 1]))
    assert isinstance(decoded, np.ndarray)
    assert decoded.dtype == dtype
    assert decoded.tolist() == [known[1], known[0], known[1]]
    grid = labels.decode(torch.tensor([[1, 0]]))
    assert grid.shape == (1, 2)
    empty = labels.decode(torch.tensor([], dtype=torch.long))
    assert isinstance(empty, np.ndarray)
    assert empty.shape == (0,)
    assert empty.dtype.kind == decoded.dtype.kind


def test_a_row_without_a_class_is_predicted_by_its_number() -> None:
    decoded = Labels(["dog"]).decode(torch.tensor([0, 5]))
    assert isinstance(decoded, np.ndarray)
    assert decoded.tolist() == ["dog", 5]


def test_another_kind_of_classes_is_refused() -> None:
    names, numbers = Batch(tagged(1), ["dog"]), Batch(tagged(1), [3])
    for taught in (Labels(["cat"]).grown, Labels(["cat"]).encoded):
        with pytest.raises(DataError, match=r"another kind .*: expected labels like 'cat', got the integer 3\. Pass"):
            taught(numbers)
    for taught in (Labels(integers=True).grown, Labels(integers=True).encoded):
        with pytest.raises(DataError, match=r"another kind .*: expected integers, got 'dog'\. Pass labels of one kind"):
            taught(names)


@pytest.mark.parametrize("known", [["a", "a"], [0, 1], []])
def test_what_cannot_be_labels_is_refused(known: list[Any]) -> None:
    with pytest.raises(DataError, match="cannot be the labels of classes: expected labels other than integers"):
        Labels(known)
    with pytest.raises(DataError, match="cannot be the labels"):
        Labels(["a"], integers=True)


def test_labels_are_compared_shown_and_never_copied() -> None:
    assert Labels(["a", "b"]) == Labels(("a", "b"))
    assert Labels(["a", "b"]) != Labels(["b", "a"])
    assert Labels() != Labels(integers=True)
    assert hash(Labels(["a"])) == hash(Labels(["a"]))
    assert repr(Labels()) == "Labels()"
    assert repr(Labels(integers=True)) == "Labels(integers=True)"
    assert repr(Labels(list("abcde"))) == "Labels('a', 'b', 'c', 'd', 'e')"
    assert repr(Labels(list("abcdef"))) == "Labels('a', 'b', 'c', 'd', 'e', … 6 in all)"
    thing = object()  # equals itself alone
    labels = copy.deepcopy(Labels([thing]))
    assert labels.encoded(Batch(tagged(1), [thing])).y.tolist() == [0]
    with pytest.raises(AttributeError):
        labels.known = None  # type: ignore[misc]


# States


def test_states_say_what_was_learnt(tmp_path: Any) -> None:
    assert Labels().state() is None
    for labels in (Labels(), Labels(integers=True), Labels(["dog", ("cat", None, True, 0.5, ("x",))])):
        save_state(tmp_path / "state", {"labels": labels.state()})
        back = Labels.from_state(load_state(tmp_path / "state")["labels"])
        assert back == labels
        assert repr(back) == repr(labels)


@pytest.mark.parametrize("label", [Animal.DOG, Word.DOG, b"dog", frozenset("a"), ("dog", Animal.DOG)])
def test_labels_that_no_file_can_hold_are_named(label: Any) -> None:
    with pytest.raises(
        StateError, match=r"cannot be kept in a file: expected a string, .*, got .*(?i:dog|a).*\. Teach"
    ):
        Labels([label]).state()


@pytest.mark.parametrize(
    "state",
    [
        *(3, "known", [], {}, {"integers": False}, {"known": ["a"], "integers": True}, {"known": None}),
        *({"known": []}, {"known": [1]}, {"known": ["a", "a"]}, {"known": [["a"]]}),
        *({"known": [{"list": []}]}, {"known": [{"tuple": 3}]}),
    ],
)
def test_damaged_states_are_refused(state: Any) -> None:
    with pytest.raises(StateError, match="not the labels of a learner, or they are damaged: expected what"):
        Labels.from_state(state)
