"""The library against `oracle.py`: the same batches, weight by weight, in double precision."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import everlearn
from everlearn import Batch, Step, Strategy
from everlearn.heads import CWRStar
from everlearn.models import Network, Output
from everlearn.regularisers import EWC, LWF, SI
from tests.oracle import STRATEGIES, Key, Oracle, Pattern, Row, Shape, Weights, is_shared, keys, loss_and_gradient

TOLERANCE = 1e-9  # absolute; everything is in double precision
FELT = 1e-4  # what a knob must change at least, for a comparison to see it
SEED = 5
ROWS = 6
NC = ((13, (3, 0)), (11, (4, 1)), (8, (2, 5)))  # patterns and classes of each batch
NIC = ((13, (3, 0)), (11, (3, 1)), (8, (0, 5)))  # with classes that come again
NI = ((13, (3, 0)), (11, (0, 3)), (7, (3, 0)))  # with no new ones
LONG_NIC = (*NIC, (7, (1, 3)), (5, (0, 0)))  # a class for the third time, and known ones alone, the last by itself

TRAINING: dict[str, Any] = {
    "training.first.epochs": 3,
    "training.first.eta": 0.2,
    "training.first.schedule": ((0.0, 1.0),),
    "training.later.epochs": 2,
    "training.later.eta": 0.1,
    "training.later.schedule": ((0.0, 1.0),),
    "training.momentum": 0.8,
    "training.weight_decay": 0.02,
    "training.minibatch": 5,
    "training.bias_eta": 1.0,
    "training.bias_decay": 1.0,
    "training.reshuffle": True,
    "training.carry": "after_first",
}
REGULARISERS: dict[str, dict[str, Any]] = {
    "none": {},
    "freeze": {},
    "lwf": {"lwf.form": "fused", "lwf.map": ((0.0, 1.0), (0.0, 1.0)), "lwf.lam": None, "lwf.temperature": 1.0},
    "ewc": {
        "ewc.lam": 1000.0,
        "ewc.max_F": 0.004,
        "ewc.biases": True,
        "ewc.average": True,
        "ewc.terms": "sum",
        "ewc.fisher": "variance",
        "ewc.minibatch": 3,
        "ewc.chunk": 4,
    },
    "si": {
        "si.lam": 140.0,
        "si.max_F": 0.028,
        "si.biases": True,
        "si.w_1": 0.2,
        "si.w_i": 0.1,
        "si.xi": 1e-2,
        "si.path": "update",
    },
}
GROWING = {"head.growth": "expanding"}
MAXIMAL = {"head.growth": "maximal"}
THREE = Shape(widths=(3, 4, 3, 5), taps=(1, 2, 3), loss_weights=(0.3, 0.3, 1.0))
RELU = Shape(widths=(3, 4), activation="relu")
DEEP = Shape(widths=(3, 5, 4), taps=(2,))


@dataclass(frozen=True)
class Case:
    """A strategy with some knobs turned, a network of this shape, and a stream."""

    strategy: str
    knobs: dict[str, Any] = field(default_factory=dict)
    shape: Shape = field(default_factory=Shape)
    stream: tuple[tuple[int, tuple[int, ...]], ...] = NC

    @property
    def all_knobs(self) -> dict[str, Any]:
        return {**TRAINING, **REGULARISERS[STRATEGIES[self.strategy]["regulariser"]], **self.knobs}

    def __str__(self) -> str:
        turned = [f"{name.rpartition('.')[2]}={value}" for name, value in self.knobs.items()]
        shape = [] if self.shape == Shape() else ["-".join(map(str, self.shape.widths)), self.shape.activation]
        return " ".join([self.strategy, *turned, *shape])


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """These tensors are tiny: threads that wait for each other would take most of the time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


# --- the library's side -----------------------------------------------------------------------------


class Double(nn.Module):
    """Patterns are float32 at the door; the network is in double precision."""

    def forward(self, x: Tensor) -> Tensor:
        return x.double()


class Taps(nn.Sequential):
    """Gives every layer's activations."""

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        features = []
        for module in self:
            x = module(x)
            if not isinstance(module, nn.Linear):
                features.append(x)
        return tuple(features)


def network(shape: Shape) -> Network:
    """The network that the oracle has by hand."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        layers: list[nn.Module] = []
        for before, after in pairwise(shape.widths):
            layers += [nn.Linear(before, after), nn.Tanh() if shape.activation == "tanh" else nn.ReLU()]
        outputs = [
            Output(nn.Linear(shape.widths[tap], ROWS), loss_weight=weight)
            for tap, weight in zip(shape.taps, shape.loss_weights, strict=True)
        ]
        trunk = nn.Sequential(*layers) if len(outputs) == 1 else Taps(*layers)
        return Network(trunk, outputs, normalise=Double(), input_shape=(shape.widths[0],)).double()


def weights(shape: Shape, net: Network) -> Weights:
    """The network's weights under the oracle's names, read from its layers."""

    def one(k: Key) -> float:
        kind, n, row, column = k
        layer = net.get_submodule(f"trunk.{2 * n - 2}") if is_shared(k) else net.output_layers[n].layer
        assert isinstance(layer, nn.Linear)
        return float((layer.weight[row, column] if kind in "WU" else layer.bias[row]).detach())

    return {k: one(k) for k in keys(shape, net.rows)}


def batches(case: Case) -> list[Batch]:
    """A few patterns around a mean for each class; there are twice as many of one class as of the other."""
    generator = torch.Generator().manual_seed(SEED)
    inputs = case.shape.widths[0]
    means = torch.randn(ROWS, inputs, generator=generator)
    stream = []
    for n, classes in case.stream:
        y = torch.tensor([classes[min(p % 3, 1)] for p in range(n)])
        stream.append(Batch(means[y] + 0.5 * torch.randn(n, inputs, generator=generator), y))
    return stream


def rows(x: Tensor) -> list[Row]:
    return [[float(value) for value in row] for row in x]


# --- both sides -------------------------------------------------------------------------------------


def learner_of(case: Case) -> Strategy:
    return everlearn.build(case.strategy, network(case.shape), knobs=case.all_knobs, seed=SEED)


def oracle_of(case: Case) -> Oracle:
    """An oracle with the weights that the library starts from."""
    start = weights(case.shape, learner_of(case).network)
    return Oracle(case.strategy, case.shape, start, ROWS, case.all_knobs, SEED)


def run_oracle(case: Case) -> Oracle:
    oracle = oracle_of(case)
    for batch in batches(case):
        oracle.learn(rows(batch.x), batch.y.tolist())
    return oracle


Watched = dict[str, tuple[list[float], list[float]]]
"""What is compared: the library's numbers and the oracle's, by name."""


def flat(part: Weights) -> list[float]:
    return list(part.values())


def importance(learner: Strategy, oracle: Oracle) -> Watched:
    """F and Θ*, in the order shared weights, shared biases, output weights, output biases."""
    regulariser = learner.regulariser
    if not isinstance(regulariser, EWC | SI):
        return {}
    if isinstance(regulariser, EWC) and regulariser.terms == "per_batch":
        assert regulariser.F_ is None
        assert len(regulariser.history_) == len(oracle.history) == oracle.i
        mine = [part.tolist() for pair in regulariser.history_ for part in pair]
        theirs = [flat(part) for pair in oracle.history for part in pair]
        return {f"history {k}": both for k, both in enumerate(zip(mine, theirs, strict=True))}
    assert regulariser.F_ is not None
    assert regulariser.theta_star_ is not None
    return {
        "F": (regulariser.F_.tolist(), flat(oracle.F)),
        "theta_star": (regulariser.theta_star_.tolist(), flat(oracle.theta_star)),
    }


def run_both(case: Case) -> Iterator[tuple[Oracle, Watched]]:
    """Learn the stream on both sides; after each batch, all that can be compared."""
    learner, oracle = learner_of(case), oracle_of(case)
    everything = torch.cat([batch.x for batch in batches(case)])
    steps: list[Step] = []
    distilled: list[tuple[float, list[Tensor]]] = []

    def on_step(step: Step) -> None:
        steps.append(step)
        if isinstance(learner.regulariser, LWF):
            distilled.append((learner.regulariser.lam_, learner.regulariser.y_lwf_))

    for batch in batches(case):
        learner.learn(batch, on_step)
        oracle.learn(rows(batch.x), batch.y.tolist())
        watched: Watched = {
            "theta": (flat(weights(case.shape, learner.network)), flat(oracle.theta)),
            "v": (learner.theta.v.tolist(), flat(oracle.v)),
            "scores": (
                learner.scores(everything, "all").flatten().tolist(),
                [score for row in oracle.scores(rows(everything)) for score in row],
            ),
            "losses": ([step.loss for step in steps], oracle.losses),
            "etas": ([step.eta for step in steps], oracle.etas),
            **importance(learner, oracle),
        }
        if distilled:
            lam, y_lwf = distilled[-1]
            watched["lambda"] = ([lam], [oracle.lam])
            watched["y_lwf"] = (
                [value for output in y_lwf for value in output.flatten().tolist()],
                [value for output in oracle.y_lwf for row in output for value in row],
            )
        assert learner.rows_ == oracle.classes
        if isinstance(learner.head, CWRStar):
            assert learner.head.past_ is not None
            assert learner.head.past_.tolist() == [oracle.past.get(row, 0) for row in range(oracle.s)]
        yield oracle, watched


def deviations(watched: Watched) -> dict[str, float]:
    """The largest difference, by name."""
    return {
        name: max((abs(a - b) for a, b in zip(mine, theirs, strict=True)), default=0.0)
        for name, (mine, theirs) in watched.items()
    }


def assert_agrees(case: Case) -> None:
    learnt = 0
    for oracle, watched in run_both(case):
        learnt = oracle.i
        for name, deviation in deviations(watched).items():
            assert deviation <= TOLERANCE, f"{name} after B_{learnt} is off by {deviation:g}"
    assert learnt == len(case.stream)


def cases(strategy: str, *knobs: dict[str, Any], shape: Shape | None = None) -> list[Case]:
    return [Case(strategy, turned, shape or Shape()) for turned in knobs]


# --- the oracle itself --------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [Shape(), RELU, DEEP, THREE], ids=["tanh", "relu", "deep", "three"])
def test_the_oracles_gradient_is_that_of_its_loss(shape: Shape) -> None:
    """(L(θ_k + h) − L(θ_k − h)) / 2h for every weight, with h = 1e-5."""
    theta = weights(shape, network(shape))
    soft = [[0.1, 0.2, 0.0, 0.4, 0.3, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]]
    patterns: list[Pattern] = [
        (x, [[(0.7, t, 1.0), (0.6, soft[0], 2.0)] for _ in shape.taps])
        for x, t in zip([[0.3, -1.2, 0.5], [1.1, 0.4, -0.7]], soft, strict=True)
    ]
    grad = loss_and_gradient(shape, theta, ROWS, patterns)[1]
    for k in theta:
        above, below = (loss_and_gradient(shape, {**theta, k: theta[k] + h}, ROWS, patterns)[0] for h in (1e-5, -1e-5))
        assert grad[k] == pytest.approx((above - below) / 2e-5, abs=1e-8)


# --- the strategies -----------------------------------------------------------------------------------

UPDATE: dict[str, Any] = {"si.path": "update"}
GRADIENT: dict[str, Any] = {"si.path": "gradient"}
PER_BATCH: dict[str, Any] = {"ewc.terms": "per_batch"}

PLAIN_SI = [
    *cases("si", UPDATE, GRADIENT),
    *cases(
        "si", {**UPDATE, "si.biases": False}, {**GRADIENT, **GROWING}, {**GRADIENT, "si.max_F": None, "si.lam": 4.0}
    ),
    *cases("si", UPDATE, GRADIENT, shape=RELU),
    *cases("si", GRADIENT, shape=DEEP),
]
PLAIN_EWC = [
    *cases("ewc", *({"ewc.fisher": fisher} for fisher in ("variance", "second_moment", "per_example"))),
    *cases("ewc", *({"ewc.fisher": fisher, "ewc.average": False} for fisher in ("variance", "per_example"))),
    *cases("ewc", {"ewc.max_F": None, "ewc.lam": 20.0}, {"ewc.max_F": None, "ewc.average": False, "ewc.lam": 10.0}),
    *cases("ewc", PER_BATCH, {**PER_BATCH, "ewc.fisher": "per_example", "ewc.max_F": None, "ewc.lam": 5.0}),
    *cases("ewc", {**PER_BATCH, **GROWING}, {"ewc.fisher": "second_moment", **GROWING}, {"ewc.biases": False}),
    *cases("ewc", {"ewc.fisher": "per_example"}, shape=RELU),
    *cases("ewc", {"ewc.fisher": "second_moment"}, shape=DEEP),
]
PLAIN_LWF = [
    Case("lwf", {"lwf.form": form, **more, **growth}, shape)
    for form, more in (("fused", {}), ("two_term", {}), ("distillation", {"lwf.temperature": 2.0}))
    for growth in (GROWING, MAXIMAL)
    for shape in (Shape(), RELU)
] + cases(
    "lwf",
    {"lwf.map": ((0.5, 0.9), (0.45, 0.85))},
    {"lwf.map": ((0.6, 0.7), (0.3, 0.8))},  # λ_2 and λ_3 lie beyond the end points
    {"lwf.lam": 0.4},
    {"lwf.form": "distillation", "lwf.lam": 1.5},
    {"head.init": "constant", "head.init_scale": 0.0625},
)
CWR_FAMILY = [
    *cases("cwr", {}, {"head.w_1": 1.25, "head.w_i": 0.75}, {"head.init": "constant", "head.init_scale": 0.0625}),
    *cases("cwr", {"head.init": "xavier", **GROWING}, {"head.bias": "learned", "head.w_1": 1.25, "head.w_i": 0.75}),
    *cases("cwr+", {}, GROWING, {"head.bias": "learned"}, {"head.bias": "zero"}, {**GROWING, "head.bias": "learned"}),
    *cases("cwr+", {"head.shift": "all"}, {"head.unit_std": True}),
    *cases("cwr+", {}, GROWING, shape=DEEP),
]
AR1 = [
    *cases("ar1", UPDATE, GRADIENT, {**UPDATE, **GROWING}, {**GRADIENT, "si.biases": False}),
    *cases("ar1", {**GRADIENT, "head.bias": "learned"}, {**UPDATE, "si.max_F": None, "si.lam": 4.0}),
    *cases("ar1", UPDATE, shape=RELU),
    *cases("ar1-ewc", *({"ewc.fisher": fisher} for fisher in ("variance", "second_moment", "per_example"))),
    *cases("ar1-ewc", {"ewc.average": False}, PER_BATCH, {**GROWING, "ewc.fisher": "per_example"}),
    *cases("ar1-lwf", {}, {"lwf.form": "two_term", **GROWING}),
]
OTHERS = [
    *cases("naive", {}, GROWING, {"head.init": "keep"}, {"head.classes": [5, 3, 1, 0, 2, 4]}),
    *cases("fw", {}),
    *cases("cw", {}, {"head.init": "keep"}),
    *cases("ar1", {"head.classes": [5, 3, 1, 0, 2, 4]}),
]


@pytest.mark.parametrize("case", [*PLAIN_SI, *PLAIN_EWC, *PLAIN_LWF, *CWR_FAMILY, *AR1, *OTHERS], ids=str)
def test_three_batches_weight_by_weight(case: Case) -> None:
    """Weights, momentum, scores, losses, F and Θ* after every batch; with LWF also λ_i and y_lwf."""
    assert_agrees(case)


@pytest.mark.parametrize(
    "case",
    [
        Case(strategy, knobs, THREE)
        for strategy, knobs in (
            ("ar1", UPDATE),
            ("ar1", GRADIENT),
            ("ar1", {**UPDATE, **GROWING}),
            ("ar1-ewc", {"ewc.fisher": "per_example"}),
            ("ar1-ewc", {"ewc.fisher": "variance"}),
            ("ar1-lwf", {}),
            ("cwr+", {}),
            ("cwr", {"head.w_1": 1.25, "head.w_i": 0.75}),
            ("si", GRADIENT),
            ("ewc", {}),
            ("lwf", {"lwf.form": "distillation", "lwf.temperature": 2.0}),
        )
    ],
    ids=str,
)
def test_three_outputs_with_loss_weights(case: Case) -> None:
    """GoogLeNet's form: outputs after three layers, with loss weights 0.3, 0.3 and 1; cw of each is shifted apart."""
    assert_agrees(case)


@pytest.mark.parametrize("stream", [NIC, NI], ids=["nic", "ni"])
@pytest.mark.parametrize("growth", [GROWING, MAXIMAL], ids=["expanding", "maximal"])
@pytest.mark.parametrize("strategy", ["naive", "lwf", "ewc", "si", "fw", "cw"])
def test_classes_that_come_again(strategy: str, growth: dict[str, Any], stream: Any) -> None:
    """Plain heads take streams of the NIC and NI types: known classes keep their row."""
    assert_agrees(Case(strategy, growth, stream=stream))


@pytest.mark.parametrize("form", ["two_term", "distillation"])
def test_lwf_distils_known_classes_that_come_again(form: str) -> None:
    """The true row may be among those of y_lwf, in every form of the loss."""
    assert_agrees(Case("lwf", {"lwf.form": form, **GROWING}, stream=NIC))


STAR = [
    *cases("cwr*", {}, GROWING, {"head.bias": "learned"}, {"head.bias": "zero"}, {**GROWING, "head.bias": "learned"}),
    *cases("cwr*", {"head.shift": "all"}, {"head.shift": "none"}, {"head.unit_std": True}, {"head.init": "gaussian"}),
    *cases("ar1*", UPDATE, GRADIENT, {**UPDATE, **GROWING}, {**GRADIENT, "head.bias": "learned"}),
    *cases("cwr*", {}, GROWING, {"head.bias": "learned"}, shape=THREE),
    *cases("ar1*", UPDATE, {**GRADIENT, **GROWING}, shape=THREE),
]


@pytest.mark.parametrize("case", STAR, ids=str)
def test_the_stars_over_classes_that_come_again(case: Case) -> None:
    """CWR* and AR1*, with one output layer and with three; wpast_j takes many values."""
    case = replace(case, stream=LONG_NIC)
    assert_agrees(case)
    w_pasts = {round(w_past, 9) for w_past in run_oracle(case).w_pasts}
    assert len(w_pasts) >= 5
    assert 0.0 in w_pasts


SGD: dict[str, dict[str, Any]] = {
    "bias_eta": {"training.bias_eta": 2.0},
    "bias_decay": {"training.bias_decay": 0.0},
    "caffe": {"training.bias_eta": 2.0, "training.bias_decay": 0.0, "training.reshuffle": False},
    "never": {"training.carry": "never"},
    "after_first": {"training.carry": "after_first"},
    "always": {"training.carry": "always"},
    "schedule": {
        "training.first.schedule": ((0.0, 2.0), (0.25, 1.0), (1.0, 0.5)),
        "training.later.schedule": ((0.2, 0.5), (0.6, 1.5)),
    },
    "one_shuffle": {"training.reshuffle": False},
    "no_momentum": {"training.momentum": 0.0},
    "one_minibatch": {"training.minibatch": 64},
}


@pytest.mark.parametrize("knobs", SGD.values(), ids=list(SGD))
@pytest.mark.parametrize("strategy", ["naive", "si", "lwf", "cwr+", "ar1", "ar1-ewc"])
def test_sgd(strategy: str, knobs: dict[str, Any]) -> None:
    """Biases with rates of their own, leftover momentum, schedules and orders, under every kind of strategy."""
    learned = {"head.bias": "learned"} if STRATEGIES[strategy]["head"] == "cwr+" else {}
    assert_agrees(Case(strategy, {**knobs, **learned}))


# --- the cases are worth comparing ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "case", [case for case in (*PLAIN_SI, *PLAIN_EWC, *AR1) if case.strategy[-3:] != "lwf"], ids=str
)
def test_max_F_clips_some_weights_and_not_others(case: Case) -> None:
    """From B_2 on; where there is no max_F, some F̂ lie beyond what others are clipped at."""
    regulariser = STRATEGIES[case.strategy]["regulariser"]
    max_F = case.all_knobs[f"{regulariser}.max_F"]
    bound = REGULARISERS[regulariser][f"{regulariser}.max_F"] if max_F is None else max_F
    first, *later = run_oracle(case).F_hats
    assert not first
    for F_hats in later:
        for F_hat in F_hats:
            assert 0 < sum(value >= bound for value in F_hat.values()) < sum(value > 0 for value in F_hat.values())
            assert (max(F_hat.values()) > bound) == (max_F is None)


@pytest.mark.parametrize("strategy", ["si", "ar1"])
def test_the_path_of_gradients_can_give_negative_importance(strategy: str) -> None:
    """F stays a plain sum; F̂ is floored at 0, so that no weight is pushed away."""
    oracle = oracle_of(case := Case(strategy, GRADIENT, RELU))
    first, second, _ = batches(case)
    oracle.learn(rows(first.x), first.y.tolist())
    negative = [k for k, value in oracle.F.items() if value < -FELT]
    oracle.learn(rows(second.x), second.y.tolist())
    assert negative
    assert all(oracle.F_hats[1][0][k] == 0.0 for k in negative)


TURNED: dict[str, dict[str, list[Any]]] = {
    "lwf": {
        "lwf.map": [((0.5, 0.9), (0.45, 0.85))],
        "lwf.lam": [0.9],
        "lwf.form": ["distillation"],
        "lwf.temperature": [3.0],
        "head.growth": ["maximal"],
    },
    "ewc": {
        "ewc.lam": [500.0],
        "ewc.max_F": [0.003, None],
        "ewc.biases": [False],
        "ewc.average": [False],
        "ewc.terms": ["per_batch"],
        "ewc.fisher": ["second_moment", "per_example"],
        "ewc.minibatch": [4],
        "head.growth": ["expanding"],
    },
    "si": {
        "si.lam": [70.0],
        "si.max_F": [0.02],
        "si.biases": [False],
        "si.w_1": [0.1],
        "si.w_i": [0.2],
        "si.xi": [0.05],
        "si.path": ["gradient"],
        "head.growth": ["expanding"],
    },
    "cwr": {
        "head.w_1": [1.25],
        "head.w_i": [1.25],
        "head.bias": ["learned", "zero"],
        "head.init": ["zero", "xavier"],
        "head.growth": ["expanding"],
    },
    "cwr+": {
        "head.shift": ["none", "all"],
        "head.unit_std": [True],
        "head.bias": ["learned", "zero"],
        "head.growth": ["expanding"],
    },
}
TURNED["ar1"] = {**TURNED["cwr+"], **TURNED["si"]}
TURNED["ar1-ewc"] = {**TURNED["cwr+"], **TURNED["ewc"]}
TRAINING_TURNED: dict[str, list[Any]] = {
    "training.minibatch": [4],
    "training.momentum": [0.7],
    "training.weight_decay": [0.01],
    "training.bias_eta": [2.0],
    "training.bias_decay": [0.0],
    "training.reshuffle": [False],
    "training.carry": ["never", "always"],
    "training.first.eta": [0.1],
    "training.later.eta": [0.05],
    "training.first.schedule": [SGD["schedule"]["training.first.schedule"]],
    "training.later.schedule": [SGD["schedule"]["training.later.schedule"]],
}
NEEDED: dict[str, dict[str, Any]] = {"lwf.temperature": {"lwf.form": "distillation", "lwf.temperature": 2.0}}
"""What must be set for a knob to act."""


@cache
def unturned(strategy: str, knob: str | None) -> Weights:
    """The weights after the stream, with what this knob needs."""
    return run_oracle(Case(strategy, NEEDED[knob] if knob else {})).theta


@pytest.mark.parametrize(
    ("strategy", "knob", "value"),
    [
        (strategy, knob, value)
        for strategy, knobs in TURNED.items()
        for knob, values in {**knobs, **TRAINING_TURNED}.items()
        for value in values
        if not (knob == "training.carry" and strategy in ("cwr", "cwr+"))  # Θ̄ is frozen, and tw has no past
    ],
)
def test_every_knob_is_felt(strategy: str, knob: str, value: object) -> None:
    """Turning one knob moves the oracle far more than the tolerance, so a library that ignored it would be seen."""
    before = unturned(strategy, knob if knob in NEEDED else None)
    after = run_oracle(Case(strategy, {**NEEDED.get(knob, {}), knob: value})).theta
    assert max(abs(after.get(k, 0.0) - before[k]) for k in before) > FELT
