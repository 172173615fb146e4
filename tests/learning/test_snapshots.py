"""Asking never writes: from any thread, at any moment, and what a snapshot answers it answers for ever."""

import contextlib
import copy
import pickle
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import everlearn
from everlearn import Batch, Step, Strategy
from everlearn.errors import EverlearnError, StateError
from everlearn.learning.snapshot import Snapshot
from everlearn.models import Network, Output
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
    with pytest.raises(StateError, match=r"at a time, got another one in on_step\. Wait"):
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


def test_a_batch_that_failed_leaves_no_labels_in_what_others_are_answered() -> None:
    learner, x = quick("ar1"), toy_batch([0, 1]).x

    def stop(_: Step) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        learner.learn((x, ["cat", "dog"] * 12), on_step=stop)
    assert learner.predict(x, "all").dtype == torch.long
    learner.learn(toy_stream()[0])
    assert learner.classes_ == [0, 1, 2]


def test_a_second_learn_that_is_refused_touches_no_label() -> None:
    learner, x, refused = quick("ar1"), toy_batch([0, 1]).x, list[BaseException]()

    def other(_: Step) -> None:
        def learn() -> None:
            try:
                learner.learn((x, ["c", "d"] * 12))
            except StateError as error:
                refused.append(error)

        thread = threading.Thread(target=learn)
        thread.start()
        thread.join()

    learner.learn((x, ["a", "b"] * 12), on_step=other)
    assert refused
    assert learner.classes_ == ["a", "b"]


def test_states_without_labels_are_of_integers() -> None:
    """States of 0.1.0 know of no labels: names must not take the places of numbers."""
    learner = quick("ar1")
    learner.learn(toy_stream()[0])
    state = {name: value for name, value in learner.state_dict().items() if name != "labels"}
    again = quick("ar1")
    again.load_state_dict(state)
    with pytest.raises(EverlearnError, match="kind"):
        again.learn((toy_batch([3, 4]).x, ["a", "b"] * 12))
    assert again.classes_ == [0, 1, 2]


def test_parameters_outside_theta_are_a_snapshot_s_too() -> None:
    """And a state that does not fit leaves them as they were."""

    def network(seed: int) -> Network:
        made = plain_network(seed=seed)
        first = next(iter(made.trunk.parameters()))
        first.requires_grad_(False)
        return made

    learner = quick("naive", network(0))
    learner.learn(toy_stream()[0])
    snapshot = learner.snapshot()
    before, other = snapshot.scores(PROBE).clone(), quick("naive", network(1)).state_dict()
    with pytest.raises(RuntimeError):
        learner.load_state_dict({**other, "v": torch.zeros(3)})
    assert torch.equal(learner.scores(PROBE), before)
    learner.load_state_dict(other)
    assert torch.equal(snapshot.scores(PROBE), before)
    assert not learner.classes_


@pytest.mark.parametrize("name", ["naive", "lwf"])
def test_asking_while_a_state_is_loaded(name: str) -> None:
    """Every answer is that of one state or of the other."""
    learner = quick(name, plain_network(), head__growth="expanding")
    states = [learner.state_dict()]
    for batch in toy_stream()[:2]:
        learner.learn(batch)
        states.append(learner.state_dict())
    known = []
    for state in states[1:]:
        learner.load_state_dict(state)
        known.append(learner.scores(PROBE, "all"))
    with asked_without_pause(lambda: learner.scores(PROBE, "all"), threads=4) as answers:
        for k in range(200):
            learner.load_state_dict(states[1 + k % 2])
    assert all(any(torch.equal(answer, one) for one in known) for answer in answers)


@pytest.mark.parametrize("name", ["ar1", "lwf"])
def test_states_and_copies_from_other_threads_are_of_one_moment(name: str) -> None:
    """While a batch is learnt they are those of the learner before it."""
    learner, stream = quick(name, three_outputs(), head__growth="expanding"), toy_stream()
    learner.learn(stream[0])
    before, taken = learner.state_dict(), list[Any]()

    def take(step: Step) -> None:
        def copied() -> None:
            taken.extend([learner.state_dict(), copy.deepcopy(learner).state_dict()])

        if step.step % 2:
            thread = threading.Thread(target=copied)
            thread.start()
            thread.join()

    learner.learn(stream[1], on_step=take)
    assert len(taken) == 6
    for state in taken:
        assert_same_state(state, before)


def test_networks_that_keep_an_activation_or_normalise_their_weights() -> None:
    """What a forward pass leaves in a module does not keep a learner from being asked and copied."""

    class Keeps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.layer = nn.utils.weight_norm(nn.Linear(64, 9))

        def forward(self, x: Tensor) -> Tensor:
            activation: Tensor = self.layer(x.flatten(1)).relu()
            self.last = activation
            return activation

    learner = quick("naive", Network(Keeps(), [Output(nn.Linear(9, CLASSES))], input_shape=(1, 8, 8)))
    for batch in toy_stream():
        learner.learn(batch)
        assert learner.scores(PROBE).isfinite().all()
    copy.deepcopy(learner).learn(toy_batch([0, 1]))


def test_a_pickled_learner_learns_on() -> None:
    """For processes of one's own; files are for `everlearn.save`, since a pickle may execute anything."""
    stream, learner = toy_stream(), quick("ar1", three_outputs())
    learner.learn(stream[0])
    again = pickle.loads(pickle.dumps(learner))
    for one in (learner, again):
        one.learn(stream[1])
    assert_same_state(learner.state_dict(), again.state_dict())


@pytest.mark.parametrize("where", ["turns.py", "theta.py", "assembled.py", "learner.py"])
def test_interrupted_at_any_line_it_is_as_before_or_has_learnt(where: str) -> None:
    """Ctrl-C at each line of the files around the loop, first and last time it runs; afterwards it learns the batch."""
    stream = toy_stream(n=4)
    home = str(Path(everlearn.__file__).parent / "learning" / where)
    knobs = {"training__first__epochs": 1, "training__later__epochs": 1}
    runs: dict[int, int] = {}

    def counting(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and frame.f_code.co_filename == home:
            runs[frame.f_lineno] = runs.get(frame.f_lineno, 0) + 1
        return counting

    def learner() -> Strategy:
        made = quick("ar1", plain_network(), **knobs)
        made.learn(stream[0])
        return made

    whole = learner()
    before = whole.state_dict()
    traced(lambda: whole.learn(stream[1]), counting)
    after = whole.state_dict()
    source = Path(home).read_text().splitlines()
    lines = {line: n for line, n in runs.items() if not source[line - 1].strip().startswith(("with ", "try:"))}
    assert lines  # `with` and `try` are traced where no signal can strike
    for line, times in lines.items():
        for turn in {1, times}:
            met, left = learner(), turn

            def strike(frame: FrameType, event: str, _: Any, line: int = line) -> Any:
                nonlocal left
                if event == "line" and frame.f_code.co_filename == home and frame.f_lineno == line:
                    left -= 1
                    if left == 0:
                        raise KeyboardInterrupt
                return strike

            with contextlib.suppress(KeyboardInterrupt):
                traced(lambda met=met: met.learn(stream[1]), strike)  # type: ignore[misc]
            assert met.i_ in (1, 2)
            assert_same_state(met.state_dict(), before if met.i_ == 1 else after)
            if met.i_ == 1:
                met.learn(stream[1])
            assert torch.equal(met.scores(PROBE), whole.scores(PROBE)), (where, line)


def traced(call: Callable[[], object], trace: Any) -> None:
    usual = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(usual)
