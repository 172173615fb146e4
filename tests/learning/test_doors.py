"""What comes in is checked at the door: a clear error, and the learner unchanged."""

from typing import Any

import numpy as np
import pytest
import torch

from everlearn import Batch, Strategy, build
from everlearn.errors import ConfigError, DataError, EverlearnError, NetworkError, StateError
from everlearn.models import cifarnet, small
from everlearn.streams import new_classes
from tests.toys import QUICK, assert_same_state, plain_network, quick, toy_batch, toy_stream


def ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape)


BAD_BATCHES: dict[str, tuple[Any, Any, str]] = {
    "long": (ones(2, 1, 8, 8).long(), torch.tensor([0, 1]), r"wrong dtype: expected float32.*got torch.int64"),
    "complex": (torch.zeros(2, 4, dtype=torch.cfloat), torch.tensor([0, 1]), "wrong dtype"),
    "nan": (torch.tensor([[0.0], [float("nan")]]), torch.tensor([0, 1]), "NaN or infinite.*pattern 1"),
    "infinite": (torch.tensor([[float("-inf")], [0.0]]), torch.tensor([0, 1]), "NaN or infinite.*pattern 0"),
    "float labels": (ones(2, 4), torch.tensor([0.0, 1.0]), "Labels are torch.float32"),
    "bool labels": (ones(2, 4), torch.tensor([True, False]), "Labels are torch.bool"),
    "one-hot labels": (ones(2, 4), torch.eye(2).long(), "one class a pattern"),
    "negative label": (ones(2, 4), torch.tensor([0, -1]), "out of range: expected 0 or more, got -1"),
    "lengths": (ones(3, 4), torch.tensor([0, 1]), "expected 3 labels.*got 2"),
    "empty": (ones(0, 4), torch.tensor([], dtype=torch.long), "The batch is empty"),
    "no dimension": (ones(4), torch.tensor([0, 1, 2, 3]), r"x\[None\]"),
    "a set": ({1.0}, torch.tensor([0]), "expected tensors, arrays or lists of numbers, got set"),
    "text": (np.array([["a"]]), np.array([0]), "dtype that cannot be read"),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_bad_batch_is_refused(case: str) -> None:
    x, y, message = BAD_BATCHES[case]
    with pytest.raises(DataError, match=message):
        Batch(x, y)


def test_numpy_and_small_integers_are_taken() -> None:
    frozen = np.zeros((2, 3), dtype="float32")
    frozen.flags.writeable = False
    batch = Batch(frozen, np.array([3, 1], dtype="int16"))
    assert batch.classes == [1, 3]
    assert batch.y.dtype == torch.int64


def refused(learner: Strategy, batch: Any, error: type[EverlearnError], message: str) -> None:
    before = learner.state_dict()
    with pytest.raises(error, match=message):
        learner.learn(batch)
    assert_same_state(before, learner.state_dict())


def test_a_class_without_a_row_is_refused_and_the_error_says_how_to_grow() -> None:
    learner = quick("naive")
    learner.learn(toy_batch([0, 1]))
    refused(learner, toy_batch([5, 40]), DataError, r'no row.*7 rows, got \[40\].*growth="expanding"')


@pytest.mark.parametrize("name", ["naive", "ar1", "ewc"])
def test_an_expanding_head_just_grows(name: str) -> None:
    learner = quick(name, head__growth="expanding")
    for classes in ([40, 7], [3], [50, 12, 9]):
        learner.learn(toy_batch(classes))
    assert learner.rows_ == [7, 40, 3, 9, 12, 50]
    assert set(learner.predict(toy_batch([40]).x).tolist()) <= {40, 7, 3, 50, 12, 9}


@pytest.mark.parametrize(
    ("growth", "head"), [("expanding", "plain"), ("expanding", "per_task"), ("maximal", "per_task")]
)
def test_a_softmax_over_one_row_is_refused(growth: str, head: str) -> None:
    learner = build("naive", plain_network(), knobs={"head": head, "head.growth": growth})
    refused(learner, toy_batch([2]), DataError, "softmax over a single row")


@pytest.mark.parametrize("name", ["naive", "lwf", "ewc", "si", "cwr", "cwr+", "ar1", "cumulative"])
def test_a_batch_of_one_class_is_fine(name: str) -> None:
    learner = quick(name, head__growth="maximal")
    for classes in ([2], [0], [5]):
        learner.learn(toy_batch(classes))
    assert [learner.rows_[row] for row in learner.columns()] == [0, 2, 5]
    if name in ("cwr+", "ar1"):  # one scalar a layer: a column mean would leave these rows at 0
        assert learner.head.outputs[0].layer.weight[5].abs().max() > 0


def test_other_shapes_and_unnormalised_bytes_are_refused() -> None:
    learner = quick("naive")
    refused(learner, toy_batch([0, 1], shape=(1, 4, 4)), DataError, r"expected \[n, 1, 8, 8\], got \[24, 1, 4, 4\]")
    refused(learner, Batch(torch.zeros(2, 1, 8, 8).byte(), torch.tensor([0, 1])), DataError, "does not normalise")
    refused(learner, (1, 2), DataError, "Pass Batch")
    with pytest.raises(DataError, match="wrong shape"):
        learner.scores(torch.zeros(1, 3, 8, 8), "all")


@pytest.mark.parametrize("name", ["cwr", "cwr+", "ar1"])
def test_cwr_refuses_known_classes(name: str) -> None:
    learner = quick(name)
    learner.learn(toy_batch([0, 1]))
    refused(learner, toy_batch([1, 2]), DataError, r"overwrite.*got \[1\]")


def test_naive_takes_known_classes_again() -> None:
    learner = quick("naive", head__growth="expanding")
    learner.learn(toy_batch([0, 1]))
    learner.learn(toy_batch([1, 2], seed=1))
    assert learner.rows_ == [0, 1, 2]
    assert learner.head.batches_ == [[0, 1], [1, 2]]


def test_a_state_with_other_trainable_weights_changes_nothing() -> None:
    network = plain_network()
    next(network.trunk.parameters()).requires_grad_(False)
    learner, other = quick("si", network), quick("si")
    other.learn(toy_batch([0, 1]))
    before = learner.state_dict()
    with pytest.raises(StateError, match="This state has other trainable weights"):
        learner.load_state_dict(other.state_dict())
    assert_same_state(before, learner.state_dict())


def test_unknown_rows_are_refused() -> None:
    with pytest.raises(DataError, match=r"Unknown rows.*'sene'"):
        quick("naive").scores(torch.zeros(1, 1, 8, 8), "sene")  # type: ignore[arg-type]


def test_nothing_to_score() -> None:
    learner = quick("naive", head__growth="expanding")
    with pytest.raises(DataError, match="nothing to score"):
        learner.scores(torch.zeros(1, 1, 8, 8))
    with pytest.raises(DataError, match="no such batch: expected 1 to 0, got 1"):
        learner.scores(torch.zeros(1, 1, 8, 8), batch=1)


def test_an_untrained_maximal_head_scores_over_all_rows() -> None:
    assert quick("naive").scores(torch.zeros(2, 1, 8, 8), "all").shape == (2, 7)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([[0, 1], [1, 2]], r"class stands twice.*\[1\]"),
        ([[0, 0]], "class stands twice"),
        ([[0, 9]], r"classes \[9\] without patterns"),
        ([[0], []], "empty batch"),
        ([], "empty batch"),
    ],
)
def test_a_bad_order_is_refused(order: list[list[int]], message: str) -> None:
    with pytest.raises(DataError, match=message):
        new_classes(torch.zeros(3, 2), torch.tensor([0, 1, 2]), order)


def test_streams_keep_every_pattern_of_a_class() -> None:
    y = torch.arange(30) % 5
    x = torch.arange(30).float()[:, None]
    first, second = new_classes(x, y, [[3, 0], [4]])
    assert first.x.flatten().long().tolist() == [k for k in range(30) if k % 5 in (0, 3)]
    assert torch.equal(first.y, first.x.flatten().long() % 5)
    assert second.classes == [4]


BAD_KNOBS: dict[str, Any] = {
    "head.growth": "sideways",
    "head.init": "magic",
    "head.init_scale": 0.0,
    "head.classes": [1, 1, 2, 3, 4, 5, 6],
    "si.lam": -1.0,
    "si.biases": "no",
    "si.w_i": "0.1",
    "cwr.w_i": 0.0,
    "cwr.w_1": -1.0,
    "si.xi": 0.0,
    "si.max_F": 0.0,
    "si.path": "walk",
    "si.w_1": 0.0,
    "ewc.fisher": "guess",
    "ewc.minibatch": 0,
    "ewc.terms": "many",
    "lwf.map": ((0.9, 0.5), (0.0, 1.0)),
    "lwf.lam": 1.5,
    "lwf.form": "loose",
    "lwf.temperature": 2.0,
    "cwr.shift": "left",
    "cwr.bias": "odd",
    "cwr.init": "keep",
    "plain.old_rows": "lost",
    "training.momentum": 1.0,
    "training.minibatch": 0,
    "training.weight_decay": -1.0,
    "training.carry": "maybe",
    "training.batch_norm": "odd",
    "training.first.epochs": 2.5,
    "training.later.epochs": -1,
    "training.reshuffle": "false",
    "training.bias_eta": float("nan"),
    "training.first.eta": 0.0,
    "training.first.schedule": ((0.5, 1.0), (0.0, 1.0)),
    "training.later.schedule": ((0.0, -1.0),),
    "training.first.patience": 3,
    "si.strength": 1.0,
    "nose.length": 1,
    "training": 3,
    "head": "hydra",
}


@pytest.mark.parametrize("knob", BAD_KNOBS)
def test_a_bad_knob_is_refused(knob: str) -> None:
    slot = knob.split(".")[0]
    name = {"si": "si", "ewc": "ewc", "lwf": "lwf", "cwr": "cwr"}.get(slot, "naive")
    with pytest.raises(ConfigError, match=r"expected .*, got .*\. "):
        build(name, plain_network(), knobs={knob: BAD_KNOBS[knob]})


def test_unknown_strategies_and_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"Unknown strategy: expected one of .*'ar1'"):
        build("ar2", plain_network())
    with pytest.raises(ConfigError, match="Unknown setting"):
        build("ar1", plain_network(), setting="alexnet/imagenet")


@pytest.mark.parametrize(
    ("name", "knobs", "reason"),
    [
        ("cumulative", {"regulariser": "si"}, "nothing to protect"),
        ("lwf", {"memory": "everything", "memory.restart": False}, "nothing to protect"),
        ("cumulative", {"head": "per_task"}, "no row there"),
        ("cwr+", {"memory": "everything", "regulariser": "none"}, "unused"),
    ],
)
def test_senseless_combinations_are_refused_with_the_reason(name: str, knobs: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        build(name, plain_network(), knobs=knobs)


def test_the_classes_of_a_maximal_head_must_fit_its_rows() -> None:
    with pytest.raises(ConfigError, match=r"expected 7 classes.*got 3"):
        quick("naive", head__classes=[4, 5, 6])
    learner = quick("naive", head__classes=[16, 15, 14, 13, 12, 11, 10])
    learner.learn(toy_batch([10, 16]))
    assert [learner.rows_[row] for row in learner.columns()] == [16, 10]


def test_weights_replaced_behind_the_learners_back_are_noticed() -> None:
    network = plain_network()
    learner = quick("naive", network)
    network.load_state_dict(plain_network(seed=1).state_dict(), assign=True)
    with pytest.raises(StateError, match="behind the learner's back"):
        learner.learn(toy_batch([0, 1]))


def test_two_learners_on_one_network_are_noticed() -> None:
    network = plain_network()
    first = quick("naive", network)
    quick("naive", network).learn(toy_batch([0, 1]))
    with pytest.raises(StateError, match="behind the learner's back"):
        first.learn(toy_batch([0, 1]))


def test_another_batch_in_the_middle_of_one_is_refused() -> None:
    stream = toy_stream()
    learner = quick("naive")
    states: list[dict[str, Any]] = []
    learner.learn(stream[0], on_step=lambda _: states.append(learner.state_dict()))
    learner.load_state_dict(states[1])
    refused(learner, stream[1], StateError, "in the middle of B_1")


def test_states_of_others_are_refused_and_change_nothing() -> None:
    learner = quick("ar1")
    for other in (quick("si"), quick("ar1", small(7, (1, 8, 8)))):
        before = learner.state_dict()
        with pytest.raises(StateError, match="This state has other"):
            learner.load_state_dict(other.state_dict())
        assert_same_state(before, learner.state_dict())
    with pytest.raises(StateError, match="other slots"):
        learner.load_state_dict({})


def test_cifarnet_takes_bytes() -> None:
    learner = build("naive", cifarnet(classes=4), knobs={"training.first.epochs": 1})
    learner.learn(Batch(torch.randint(0, 256, (8, 3, 32, 32), dtype=torch.uint8), torch.arange(8) % 4))
    assert learner.scores(torch.zeros(1, 3, 32, 32, dtype=torch.uint8)).shape == (1, 4)


def test_knobs_are_turned_together() -> None:
    """A temperature needs its form, classes a maximal head: their order does not matter."""
    for knobs in (
        {"lwf.temperature": 2, "lwf.form": "distillation"},
        {"lwf.form": "distillation", "lwf.temperature": 2},
    ):
        assert build("lwf", plain_network(), knobs=knobs).regulariser.temperature == 2  # type: ignore[attr-defined]
    knobs = {"head.classes": [6, 5, 4, 3, 2, 1, 0], "head.growth": "maximal"}
    assert build("lwf", plain_network(), knobs=knobs).rows_[0] == 6
    with pytest.raises(ConfigError, match="factors of 0 or more, and one above 0"):
        quick("naive", training__first__schedule=((0.0, 0.0),))


def test_states_of_another_growth_or_path_are_refused() -> None:
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("naive", {"head__growth": "expanding"}, "'head.growth': 'expanding'.*'head.growth': 'maximal'"),
        ("naive", {"head__classes": [6, 5, 4, 3, 2, 1, 0]}, "a head with other classes"),
        ("si", {"head__classes": [6, 5, 4, 3, 2, 1, 0]}, "a head with other classes"),
        ("si", {"si__path": "gradient"}, "'regulariser.path': 'gradient'.*'update'"),
        ("ewc", {"ewc__terms": "per_batch"}, "'regulariser.terms'"),
        ("cwr", {"cwr__shift": "batch"}, "'head.shift'"),
    ]
    for name, knobs, message in cases:
        other = quick(name)
        other.learn(toy_batch([0, 1]))
        learner = quick(name, **knobs)
        before = learner.state_dict()
        with pytest.raises(StateError, match=message):
            learner.load_state_dict(other.state_dict())
        assert_same_state(before, learner.state_dict())


def test_a_numpy_seed_is_that_number() -> None:
    a, b = (build("cwr", plain_network(), seed=seed, knobs=QUICK) for seed in (3, np.int64(3)))  # type: ignore[arg-type]
    for learner in (a, b):
        learner.learn(toy_batch([0, 1]))
    assert_same_state(a.state_dict(), b.state_dict())


def test_output_layers_that_do_not_train_are_refused() -> None:
    network = plain_network()
    network.output_layers[0].layer.weight.requires_grad_(False)
    with pytest.raises(NetworkError, match=r"outputs\.0\.layer\.weight"):
        build("cwr+", network)
