"""What every learner promises, whatever it is inside: a battery for learners of any package.

`make(seed)` gives a learner that has seen nothing; `stream` is a few batches of new classes that it takes.
"""

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import everlearn
from everlearn import Batch, Learner
from everlearn.errors import EverlearnError
from tests.toys import assert_same_state

Make = Callable[[int], Learner]
Check = Callable[[Make, list[Batch], Path], None]


def the_same_seed_gives_the_same_bits(make: Make, stream: list[Batch], _: Path) -> None:
    a, b = make(3), make(3)
    for batch in stream:
        a.learn(batch)
        torch.rand(7)  # what others draw does not matter
        b.learn(batch)
    assert_same_state(a.state_dict(), b.state_dict())


def a_saved_state_learns_on_bit_for_bit(make: Make, stream: list[Batch], folder: Path) -> None:
    whole, first = make(3), make(3)
    first.learn(stream[0])
    everlearn.save_state(folder / "state", first.state_dict())
    second = make(77)
    second.load_state_dict(everlearn.load_state(folder / "state"))
    for batch in stream:
        whole.learn(batch)
    for batch in stream[1:]:
        second.learn(batch)
    assert_same_state(whole.state_dict(), second.state_dict())
    assert second.i_ == len(stream)


def a_model_file_learns_on_bit_for_bit(make: Make, stream: list[Batch], folder: Path) -> None:
    first = make(3)
    first.learn(stream[0])
    everlearn.save(first, folder / "m.everlearn")
    assert first.recipe_ is not None
    needed = {"network": make(3).network} if "needs" in first.recipe_["network"] else {}  # type: ignore[attr-defined]
    second = everlearn.load(folder / "m.everlearn", **needed)
    for learner in (first, second):
        learner.learn(stream[1])
    assert_same_state(first.state_dict(), second.state_dict())


def scores_have_a_column_for_each_class(make: Make, stream: list[Batch], _: Path) -> None:
    learner, x = make(3), stream[0].x
    with pytest.raises(EverlearnError):
        learner.scores(x)
    seen: set[int] = set()
    for i, batch in enumerate(stream, start=1):
        learner.learn(batch)
        seen |= set(batch.classes)
        assert set(learner.classes_) == seen
        assert learner.i_ == i
        assert learner.scores(x).shape == (len(x), len(seen))
        assert learner.scores(x, batch=i).shape == (len(x), len(batch.classes))
        assert [learner.rows_[row] for row in learner.columns("seen")] == learner.classes_
        assert set(learner.predict(x).tolist()) <= seen


def asking_changes_nothing(make: Make, stream: list[Batch], _: Path) -> None:
    """Between batches, and from another thread all the while."""
    asked, left_alone = make(3), make(3)
    asked.learn(stream[0])
    left_alone.learn(stream[0])
    over, failed = threading.Event(), list[BaseException]()

    def ask() -> None:
        try:
            while not over.is_set():
                asked.predict(stream[0].x)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        for batch in stream[1:]:
            asked.learn(batch)
            left_alone.learn(batch)
    finally:
        over.set()
        thread.join()
    assert not failed
    asked.evaluate(stream[0])
    asked.storage()
    asked.diagnostics()
    assert_same_state(asked.state_dict(), left_alone.state_dict())


def a_snapshot_and_a_copy_stand_apart(make: Make, stream: list[Batch], _: Path) -> None:
    learner = make(3)
    learner.learn(stream[0])
    snapshot, twin, before = learner.snapshot(), copy.deepcopy(learner), learner.scores(stream[0].x).clone()
    learner.learn(stream[1])
    assert torch.equal(snapshot.scores(stream[0].x), before)
    twin.learn(stream[1])
    assert_same_state(learner.state_dict(), twin.state_dict())


def a_bad_batch_leaves_no_trace(make: Make, stream: list[Batch], _: Path) -> None:
    learner = make(3)
    learner.learn(stream[0])
    before = copy.deepcopy(learner.state_dict())
    x = stream[1].x
    bad: list[Any] = [
        (x * float("nan"), stream[1].y),
        (x, stream[1].y[:-1]),
        (x, stream[1].y - 99),
        x,
        None,
        (x[:0], []),
    ]
    bad += [(x.flatten(1)[:, :5], stream[1].y), (x, ["a"] * len(x))]
    for batch in bad:
        with pytest.raises(EverlearnError):
            learner.learn(batch)
        assert_same_state(before, learner.state_dict())
    assert [entry["i"] for entry in learner.history_] == [1]


def the_batch_is_not_written_into(make: Make, stream: list[Batch], _: Path) -> None:
    learner = make(3)
    for batch in stream:
        x, y = batch.x.clone(), batch.y.clone()
        learner.learn(batch)
        assert torch.equal(x, batch.x)
        assert torch.equal(y, batch.y)


def labels_of_any_kind_are_answered_with(make: Make, stream: list[Batch], folder: Path) -> None:
    learner = make(3)
    for batch in stream:
        learner.learn((batch.x, [f"class {c}" for c in batch.y.tolist()]))
    names = {f"class {c}" for batch in stream for c in batch.classes}
    assert set(learner.classes_) == names
    assert set(learner.predict(stream[0].x)) <= names
    assert learner.history_[-1]["classes"] == {f"class {c}": n for c, n in stream[-1].counts.items()}


def the_ledger_says_what_is_kept(make: Make, stream: list[Batch], _: Path) -> None:
    learner = make(3)
    for batch in stream:
        learner.learn(batch)
    ledger = learner.storage()
    assert sum(kept.bytes for kept in ledger.kept.values()) > 0
    assert set(ledger.why) == {*ledger.kept, *ledger.within}


CHECKS: list[Check] = [
    the_same_seed_gives_the_same_bits,
    a_saved_state_learns_on_bit_for_bit,
    a_model_file_learns_on_bit_for_bit,
    scores_have_a_column_for_each_class,
    asking_changes_nothing,
    a_snapshot_and_a_copy_stand_apart,
    a_bad_batch_leaves_no_trace,
    the_batch_is_not_written_into,
    labels_of_any_kind_are_answered_with,
    the_ledger_says_what_is_kept,
]
