"""Asking never writes: from any thread, at any moment, and what a snapshot answers it answers for ever."""

import copy
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor

from everlearn import Batch, Step, Strategy
from everlearn.errors import StateError
from everlearn.learning.snapshot import Snapshot
from tests.toys import CLASSES, NAMES, assert_same_state, plain_network, quick, three_outputs, toy_batch, toy_stream

PROBE = toy_batch(range(CLASSES), n=2, seed=5).x
LONGER = {"training__first__epochs": 3, "training__later__epochs": 3}
every_preset = pytest.mark.parametrize("name", NAMES)


@contextmanager
def asked_without_pause(question: Callable[[], Tensor], threads: int = 8) -> Iterator[list[Tensor]]:
    """Threads that ask the same thing again and again; what they were answered, each different answer once."""
    answers: list[Tensor] = []
    failures: list[BaseException] = []
    over = threading.Event()

    def ask() -> None:
        try:
            while not over.is_set():
                answer = question()
                if not any(torch.equal(answer, known) for known in answers):
                    answers.append(answer)
        except BaseException as error:
            failures.append(error)

    every = [threading.Thread(target=ask) for _ in range(threads)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)  # take turns often, in the middle of whatever there is
    try:
        for thread in every:
            thread.start()
        yield answers
    finally:
        over.set()
        for thread in every:
            thread.join()
        sys.setswitchinterval(before)
    assert not failures


@pytest.mark.parametrize("name", ["ar1", "cwr+", "ewc", "lwf", "cumulative"])
def test_eight_threads_ask_while_it_learns(name: str) -> None:
    """Dropout and batch norm inside: every answer is that of the learner between two batches, and no bit changes."""
    undisturbed, learner = (quick(name, three_outputs(), **LONGER) for _ in range(2))
    states = [undisturbed.scores(PROBE, "all")] if undisturbed.rows_ else []
    with asked_without_pause(lambda: learner.scores(PROBE, "all") if learner.rows_ else torch.zeros(0)) as answers:
        for batch in toy_stream():
            undisturbed.learn(batch)
            states.append(undisturbed.scores(PROBE, "all"))
            learner.learn(batch)
    assert_same_state(undisturbed.state_dict(), learner.state_dict())
    assert len(answers) > 1
    for answer in answers:
        assert not len(answer) or any(torch.equal(answer, state) for state in states)


def test_predictions_from_threads_are_of_one_state() -> None:
    """`predict` asks for scores, columns and classes: all of the same moment, while an expanding head grows."""
    learner = quick("lwf", plain_network(), head__growth="expanding", **LONGER)
    stream = toy_stream()
    learner.learn(stream[0])
    with asked_without_pause(lambda: learner.predict(PROBE)) as answers:
        for batch in stream[1:]:
            learner.learn(batch)
    assert all(set(answer.tolist()) <= set(range(CLASSES)) for answer in answers)


@every_preset
@pytest.mark.parametrize("growth", ["maximal", "expanding"])
def test_a_snapshot_answers_the_same_for_ever(name: str, growth: str) -> None:
    learner = quick(name, three_outputs(), head__growth=growth)
    taken: list[tuple[Any, Tensor, list[Any]]] = []

    def take() -> None:
        snapshot = learner.snapshot()
        taken.append((snapshot, snapshot.scores(PROBE).clone(), snapshot.classes_))

    for batch in toy_stream():
        learner.learn(batch, on_step=lambda step: take() if step.step == 2 else None)
        take()
    state = learner.state_dict()
    learner.load_state_dict(quick(name, three_outputs(), seed=9, head__growth=growth).state_dict())
    for snapshot, scores, classes in taken:
        assert torch.equal(snapshot.scores(PROBE), scores)
        assert snapshot.classes_ == classes
        assert len(classes) == scores.shape[1]
    learner.load_state_dict(state)
    assert torch.equal(learner.scores(PROBE), taken[-1][1])


def test_a_snapshot_costs_no_memory_until_the_learner_learns_on() -> None:
    learner = quick("ar1")
    learner.learn(toy_stream()[0])
    snapshot = learner.snapshot()
    assert isinstance(snapshot, Snapshot)
    assert learner.snapshot() is snapshot
    for mine, theirs in zip(learner.network.parameters(), snapshot.network.parameters(), strict=True):
        assert mine.data_ptr() == theirs.data_ptr()
    learner.learn(toy_stream()[1])
    assert learner.snapshot() is not snapshot
    assert all(
        mine.data_ptr() != theirs.data_ptr()
        for mine, theirs in zip(learner.network.parameters(), snapshot.network.parameters(), strict=True)
    )


def test_on_the_learning_thread_the_step_at_hand_answers() -> None:
    """Elsewhere it is the learner before the batch."""
    learner = quick("naive")
    learner.learn(toy_stream()[0])
    before = learner.scores(PROBE)
    here: list[Tensor] = []
    there: list[Tensor] = []

    def ask(step: Step) -> None:
        here.append(learner.scores(PROBE))
        thread = threading.Thread(target=lambda: there.append(learner.scores(PROBE)))
        thread.start()
        thread.join()

    learner.learn(toy_stream()[1], on_step=ask)
    assert all(torch.equal(answer, before) for answer in there)
    assert not any(torch.equal(answer[:, :3], before) for answer in here)


@every_preset
def test_a_copied_learner_learns_on(name: str) -> None:
    """Copied between batches and in the middle of one; the original and the copy go the same way, apart."""
    stream, learner = toy_stream(), quick(name, three_outputs())
    copies: list[Strategy] = []
    learner.learn(stream[0])
    learner.learn(stream[1], on_step=lambda step: copies.append(copy.deepcopy(learner)) if step.step == 3 else None)
    copies[0].learn(stream[1])
    copies.append(copy.deepcopy(learner))
    learner.learn(stream[2])
    for twin in copies:
        assert twin.network is not learner.network
        twin.learn(stream[2])
        assert_same_state(twin.state_dict(), learner.state_dict())
    assert [entry["i"] for entry in copies[1].history_] == [1, 2, 3]


def test_learning_twice_at_once_is_refused() -> None:
    stream, learner = toy_stream(), quick("naive")
    with pytest.raises(StateError, match=r"one call of learn at a time, got another one in on_step\. Wait"):
        learner.learn(stream[0], on_step=lambda _: learner.learn(stream[1]))
    refused: list[BaseException] = []

    def another(_: Step) -> None:
        def learn() -> None:
            try:
                learner.learn(stream[1])
            except StateError as error:
                refused.append(error)

        thread = threading.Thread(target=learn)
        thread.start()
        thread.join()

    learner.learn(stream[0], on_step=another)
    assert len(refused) == 10  # one for each step: 36 patterns in minibatches of 8, two epochs
    assert learner.i_ == 1
    learner.learn(stream[1])


def test_a_batch_that_fails_leaves_what_others_are_answered() -> None:
    stream, learner = toy_stream(), quick("ar1")
    learner.learn(stream[0])
    before = learner.scores(PROBE)

    def stop(_: Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn(stream[1], on_step=stop)
    assert torch.equal(learner.scores(PROBE), before)
    assert learner.classes_ == [0, 1, 2]


def test_what_it_is_and_knows() -> None:
    learner = quick("ar1")
    assert repr(learner) == "<cwr × si × none learner: 967 weights, 0 batches, no classes yet>"
    learner.learn((toy_stream()[0].x, [f"thing {c}" for c in toy_stream()[0].y.tolist()]))
    assert repr(learner) == (
        "<cwr × si × none learner: 967 weights, 1 batches, 3 classes ('thing 0', 'thing 1', 'thing 2')>"
    )
    assert learner.classes_ == ["thing 0", "thing 1", "thing 2"]
    predicted = learner.predict(PROBE)
    assert set(predicted) <= {"thing 0", "thing 1", "thing 2"}
    assert predicted.dtype.kind == "U"
    assert learner.history_[0]["classes"] == {"thing 0": 12, "thing 1": 12, "thing 2": 12}
    state = learner.state_dict()
    again = quick("ar1", seed=8)
    again.load_state_dict(state)
    assert again.classes_ == learner.classes_
    assert learner.evaluate((toy_batch([0]).x, ["thing 0"] * 12)) == again.evaluate(
        (toy_batch([0]).x, ["thing 0"] * 12)
    )
    assert learner.evaluate(Batch(PROBE, ["never seen"] * len(PROBE))).seen == 0.0


def test_labels_of_a_batch_that_failed_are_forgotten() -> None:
    learner, x = quick("ar1"), toy_batch([0, 1]).x

    def stop(_: Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn((x, ["a", "b"] * 12), on_step=stop)
    learner.learn((x, ["c", "d"] * 12))
    assert learner.classes_ == ["c", "d"]
    assert len(learner.history_) == 1
