"""What must hold for any stream, any seed and any setting of SGD."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import everlearn
from everlearn import Batch, Step, Strategy
from everlearn.learning.theta import Theta
from everlearn.models import Network, Output, small
from everlearn.regularisers.quadratic import Quadratic

Knobs = dict[str, Any]

# where whole streams are learnt: few examples, and none is shrunk, which would take minutes
few = settings(max_examples=3, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate])
many = settings(max_examples=30, deadline=None, derandomize=True)

EVERY_PRESET = list(everlearn.PRESETS)
HEADS: dict[str, Knobs] = {
    "maximal": {"head.growth": "maximal"},
    "expanding": {"head.growth": "expanding"},
}
FISHERS = ("variance", "second_moment", "per_example")
PATHS = ("update", "gradient")


# --- Networks, streams and learners ---------------------------------------------------------------


class Twofold(nn.Module):
    """A trunk with two ends, for two output layers."""

    def __init__(self) -> None:
        super().__init__()
        self.low = nn.Sequential(nn.Flatten(), nn.Linear(16, 8), nn.Tanh())
        self.high = nn.Sequential(nn.Linear(8, 6), nn.Tanh())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        low = self.low(x)
        return low, self.high(low)


def plain_network(classes: int) -> Network:
    return small(classes, (1, 4, 4), width=4, seed=int(torch.randint(2**31, ())))


def rich_network(classes: int) -> Network:
    """Batch norm and dropout in the trunk, and dropout before the output layer."""
    trunk = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Flatten(),
        nn.Linear(64, 8),
        nn.Tanh(),
    )
    return Network(trunk, [Output(nn.Linear(8, classes), dropout=nn.Dropout(0.2))], input_shape=(1, 4, 4))


def twofold_network(classes: int) -> Network:
    """Two output layers of unequal width; the last one predicts."""
    outputs = [Output(nn.Linear(8, classes), loss_weight=0.3), Output(nn.Linear(6, classes))]
    return Network(Twofold(), outputs, input_shape=(1, 4, 4))


Build = Callable[[int], Network]
NETWORKS: list[Build] = [plain_network, rich_network, twofold_network]


@dataclass(frozen=True)
class Case:
    """A stream of new classes, and how SGD runs over it. sizes: the classes of B_1, B_2, …"""

    seed: int
    sizes: tuple[int, ...]
    knobs: Knobs
    network: Build
    per_class: int = 6

    @property
    def s(self) -> int:
        return sum(self.sizes)

    @property
    def eta(self) -> float:
        return float(self.knobs["training.later.eta"])

    def stream(self, relabel: list[int] | None = None) -> list[Batch]:
        """The batches; class c is called relabel[c]."""
        generator = torch.Generator().manual_seed(self.seed)
        names = torch.arange(self.s) if relabel is None else torch.tensor(relabel)
        batches = []
        for first, last in pairwise([0, *accumulate(self.sizes)]):
            y = torch.arange(first, last).repeat(self.per_class)
            centres = 2 * torch.randn(last - first, 1, 4, 4, generator=generator)
            noise = 0.5 * torch.randn(len(y), 1, 4, 4, generator=generator)
            batches.append(Batch(centres[y - first] + noise, names[y]))
        return batches

    def learner(self, preset: str, knobs: Knobs | None = None) -> Strategy:
        """A learner with the case's SGD; equal cases start from equal weights."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            network = self.network(self.s)
        fitting = {"ewc.minibatch": 3} if "ewc" in preset else {}
        return everlearn.build(preset, network, knobs={**fitting, **self.knobs, **(knobs or {})}, seed=self.seed)

    def learnt(self, preset: str, knobs: Knobs | None = None) -> Strategy:
        """A learner that has learnt the whole stream."""
        learner = self.learner(preset, knobs)
        for batch in self.stream():
            learner.learn(batch)
        return learner


@st.composite
def cases(
    draw: st.DrawFn, networks: list[Build] = NETWORKS, smallest: int = 1, momentum: float = 0.0, decay: float = 0.0
) -> Case:
    """Cases with at least this many classes a batch (two in B_1), this momentum and this weight decay."""
    later = draw(st.lists(st.integers(smallest, 3), min_size=1, max_size=2))
    eta = draw(st.sampled_from([0.05, 0.1]))
    knobs = {
        "training.first.eta": eta,
        "training.later.eta": eta,
        "training.first.epochs": 2,
        "training.later.epochs": 2,
        "training.momentum": draw(st.sampled_from([m for m in (0.0, 0.5, 0.9) if m >= momentum])),
        "training.weight_decay": draw(st.sampled_from([d for d in (0.0, 1e-2, 5e-2) if d >= decay])),
        "training.minibatch": draw(st.integers(4, 9)),
        "training.bias_eta": draw(st.sampled_from([1.0, 2.0])),
        "training.bias_decay": draw(st.sampled_from([0.0, 1.0])),
        "training.reshuffle": draw(st.booleans()),
        "training.carry": draw(st.sampled_from(["never", "after_first", "always"])),
        "training.batch_norm": draw(st.sampled_from(["follow", "still"])),
    }
    seed = draw(st.integers(0, 2**16))
    return Case(seed, (draw(st.integers(2, 3)), *later), knobs, draw(st.sampled_from(networks)))


def quadratic(learner: Strategy) -> Quadratic:
    assert isinstance(learner.regulariser, Quadratic)
    return learner.regulariser


def raw(tensor: Tensor) -> bytes:
    return tensor.detach().numpy().tobytes()


def weights(learner: Strategy) -> dict[str, bytes]:
    """Every weight and every buffer of the network, byte for byte."""
    return {name: raw(tensor) for name, tensor in learner.network.state_dict().items()}


def trunk(learner: Strategy) -> dict[str, bytes]:
    return {name: value for name, value in weights(learner).items() if not name.startswith("outputs.")}


def rows(learner: Strategy, which: list[int]) -> list[bytes]:
    """These rows of every output layer, weights and biases."""
    return [raw(p[which]) for output in learner.head.outputs for p in output.layer.parameters()]


def trajectory(learner: Strategy, batch: Batch) -> list[Tensor]:
    """Θ after each step of a batch."""
    values: list[Tensor] = []
    learner.learn(batch, on_step=lambda _: values.append(learner.theta.value.clone()))
    return values


# --- λ = 0 is Naive -------------------------------------------------------------------------------

LAM_ZERO: list[tuple[str, Knobs]] = [
    *[("ewc", {"ewc.lam": 0.0, "ewc.terms": terms}) for terms in ("sum", "per_batch")],
    *[("si", {"si.lam": 0.0, "si.path": path}) for path in PATHS],
    *[("lwf", {"lwf.lam": 0.0, "lwf.form": form}) for form in ("fused", "two_term", "distillation")],
]


def name_of(value: object) -> str:
    """A parameter set's name in pytest's list."""
    if isinstance(value, dict):
        return ",".join(str(v) for v in value.values())
    return str(value)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(("preset", "knobs"), LAM_ZERO, ids=name_of)
@given(case=cases())
@few
def test_lam_zero_is_naive_bit_for_bit(preset: str, knobs: Knobs, head: str, case: Case) -> None:
    """Same head, rates and epochs: the same weights, statistics and momentum, whatever the regulariser computes."""
    naive, learner = case.learnt("naive", HEADS[head]), case.learnt(preset, {**HEADS[head], **knobs})
    assert weights(learner) == weights(naive)
    assert torch.equal(learner.theta.v, naive.theta.v)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("head", HEADS)
@given(case=cases())
@few
def test_ar1_with_lam_zero_is_a_cwr_plus_head_alone(head: str, path: str, case: Case) -> None:
    """SI's pull is all that AR1 has more than a CWR+ head over weights that are free."""
    alone = case.learnt("cwr+", {"regulariser": "none", **HEADS[head]})
    ar1 = case.learnt("ar1", {**HEADS[head], "si.lam": 0.0, "si.path": path})
    assert weights(ar1) == weights(alone)


# --- Importance -----------------------------------------------------------------------------------

IMPORTANCE: list[tuple[str, Knobs]] = [
    *[("ewc", {"ewc.fisher": fisher, "ewc.average": average}) for fisher in FISHERS for average in (True, False)],
    *[(preset, {"si.path": path}) for preset in ("si", "ar1") for path in PATHS],
    ("ar1-ewc", {}),
]


@pytest.mark.parametrize(("preset", "knobs"), IMPORTANCE, ids=name_of)
@given(case=cases(), max_F=st.sampled_from([1e-5, 1e-3, 1e-1]))
@few
def test_F_hat_is_between_0_and_max_F(preset: str, knobs: Knobs, case: Case, max_F: float) -> None:
    """After each batch, with a pull that is on: η·λ·max_F = 1/4, twice that for biases at most."""
    kind = "ewc" if "ewc" in preset else "si"
    pull = {f"{kind}.max_F": max_F, f"{kind}.lam": 0.25 / (case.eta * max_F)}
    learner = case.learner(preset, {**knobs, **pull})
    for batch in case.stream():
        learner.learn(batch)
        F_hat = quadratic(learner).F_hat()
        F = quadratic(learner).F_
        assert F is not None
        assert len(F) == len(F_hat) == len(learner.bench.scope.value)
        assert F_hat.min() >= 0
        assert kind == "si" or F.min() >= 0  # a variance needs no floor
        assert 0 < F_hat.max() <= torch.tensor(max_F)


UNCLIPPED: Knobs = {"si.path": "gradient", "si.max_F": None, "si.xi": 0.1, "si.w_1": 1.0, "si.w_i": 1.0, "si.lam": 1e-2}


@pytest.mark.parametrize("preset", ["si", "ar1"])
@given(case=cases())
@few
def test_unclipped_F_hat_is_floored_at_0_but_F_is_not(preset: str, case: Case) -> None:
    """By the equation's path weight decay carries some weights uphill: F < 0 there, which must not push them away."""
    learner = case.learner(preset, {**UNCLIPPED, "training.weight_decay": 0.5})
    for batch in case.stream():
        learner.learn(batch)
        F, F_hat = quadratic(learner).F_, quadratic(learner).F_hat()
        assert F is not None
        assert F.min() < 0
        assert torch.equal(F_hat, torch.where(F > 0, F, torch.zeros_like(F)))


@given(case=cases())
@few
def test_momentum_alone_makes_no_negative_F(case: Case) -> None:
    """On B_1 without weight decay, −ΣΔL = η·Σ_{s≤t} μ^{t−s}·g_s·g_t, half of a form that is never negative."""
    learner = case.learner("si", {**UNCLIPPED, "training.weight_decay": 0.0})
    learner.learn(case.stream()[0])
    F = quadratic(learner).F_
    assert F is not None
    assert F.min() >= -1e-6 * F.max()


@pytest.mark.parametrize("path", PATHS)
@given(case=cases(), xi=st.sampled_from([1e-6, 1e-4]))
@few
def test_F_of_SI_is_the_path_over_the_movement(path: str, case: Case, xi: float) -> None:
    """(10) by hand on B_1, where without weight decay Θ's gradient is that of L_cross: Σv² or Σv·g, over T² + ξ."""
    knobs = {"si.path": path, "si.xi": xi, "si.w_1": 0.5, "si.lam": 0.0, "training.weight_decay": 0.0}
    learner = case.learner("si", knobs)
    start = learner.theta.value.double()
    sums = torch.zeros_like(start)

    def add(_: Step) -> None:
        v, g = learner.theta.v.double(), learner.theta.grad.double()
        sums.add_(v * (v if path == "update" else g))

    learner.learn(case.stream()[0], on_step=add)
    F, T = quadratic(learner).F_, learner.theta.value.double() - start
    assert F is not None
    assert T.abs().max() > xi**0.5  # so that T counts, not ξ alone
    torch.testing.assert_close(F.double(), 0.5 * sums / (T**2 + xi), rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("head", HEADS)
@given(case=cases())
@few
def test_SI_is_not_naive(path: str, head: str, case: Case) -> None:
    """Importances are not zero after B_1, and B_2 is learnt along another path than Naive's.

    On B_1, and in the first step of B_2, where θ = θ*, there is nothing to pull, so there the two are one. In the
    second step they part by just the pull, (7): η·λ·F̂·(θ − θ*).
    """
    first, second, *_ = case.stream()
    max_F = 1e-3
    lam = 0.2 / (case.eta * max_F)
    knobs = {"si.path": path, "si.max_F": max_F, "si.w_1": 1.0, "si.lam": lam}
    naive, si = case.learner("naive", HEADS[head]), case.learner("si", {**HEADS[head], **knobs})
    for a, b in zip(trajectory(naive, first), trajectory(si, first), strict=True):
        assert torch.equal(a, b)
    F_hat, theta_star = quadratic(si).F_hat(), quadratic(si).theta_star_
    assert theta_star is not None
    assert torch.equal(theta_star, si.theta.value)
    assert (F_hat > 0).float().mean() > 0.1

    by_naive, by_si = trajectory(naive, second), trajectory(si, second)
    assert torch.equal(by_naive[0], by_si[0])
    assert not torch.equal(by_naive[1], by_si[1])
    for group in (part for part in si.theta.regions if part.shared):
        eta = case.eta * (case.knobs["training.bias_eta"] if group.bias else 1.0)
        pull = eta * lam * F_hat[group.span] * (by_si[0][group.span] - theta_star[group.span])
        torch.testing.assert_close((by_naive[1] - by_si[1])[group.span], pull, rtol=1e-3, atol=1e-6)


# --- What must not move ---------------------------------------------------------------------------


@pytest.mark.parametrize("preset", ["cwr", "cwr+", "fw", "cw"])
@given(case=cases(networks=[rich_network], momentum=0.5, decay=1e-2))
@few
def test_a_frozen_trunk_is_byte_identical(preset: str, case: Case) -> None:
    """From B_2 on, at every step, with momentum, weight decay, dropout and batch norm: statistics too.

    B_1 does move it, and later batches do move the output layer.
    """
    first, *later = case.stream()
    learner = case.learner(preset)
    initial = trunk(learner)
    learner.learn(first)
    frozen = trunk(learner)
    assert {name for name in frozen if frozen[name] == initial[name]} == set()
    for batch in later:
        tops: list[Tensor] = []

        def look(_: Step, tops: list[Tensor] = tops) -> None:
            assert trunk(learner) == frozen
            tops.append(learner.head.outputs[0].layer.weight.detach().clone())

        learner.learn(batch, on_step=look)
        assert trunk(learner) == frozen
        assert not torch.equal(tops[0], tops[-1])


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(("preset", "held"), [("fw", True), ("cw", False)])
@given(case=cases(networks=[rich_network, twofold_network], momentum=0.5, decay=1e-2))
@few
def test_FW_freezes_old_rows_and_CW_does_not(preset: str, held: bool, head: str, case: Case) -> None:
    """Weights and biases of every output layer, byte for byte; and rows that stay have no momentum."""
    learner = case.learner(preset, {**HEADS[head], "training.bias_decay": 1.0})
    first, *later = case.stream()
    learner.learn(first)
    for batch in later:
        old = learner.head.seen_
        before = rows(learner, old)
        learner.learn(batch)
        same = [a == b for a, b in zip(before, rows(learner, old), strict=True)]
        assert same == [held] * len(same)
        still = [not v[old].any() for v in learner.theta.output_views(learner.theta.v)]
        assert still == [held] * len(still)
        new = learner.columns(batch=learner.i_)
        assert all(learner.head.outputs[k].layer.weight[new].any() for k in range(len(learner.head.outputs)))


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("preset", ["naive", "ewc", "si", "lwf"])
@given(case=cases(networks=[rich_network, twofold_network], smallest=2, momentum=0.5, decay=1e-2))
@few
def test_per_task_rows_outside_the_loss_are_byte_identical(preset: str, head: str, case: Case) -> None:
    """The rows of other batches stay, seen or not; LWF has the old rows in its loss, so it moves them."""
    learner = case.learner(
        preset, {"head": "per_task", **HEADS[head], **gentle(preset, case), "training.bias_decay": 1.0}
    )
    for batch in case.stream():
        old, present = learner.head.seen_, range(learner.head.s)
        own = [learner.rows_.index(c) for c in batch.classes if c in learner.rows_]
        unseen = sorted({*present} - {*old} - {*own})
        before = rows(learner, old), rows(learner, unseen), rows(learner, own)
        learner.learn(batch)
        after = rows(learner, old), rows(learner, unseen), rows(learner, own)
        moved = [a != b for a, b in zip(before[0], after[0], strict=True)]
        assert moved == [bool(old) and preset == "lwf"] * len(moved)
        assert before[1] == after[1]
        assert all(a != b for a, b in zip(before[2], after[2], strict=True)) or not own


def gentle(preset: str, case: Case, lam: float = 0.25) -> Knobs:
    """λ so that η·λ·max_F is 1/4, for presets that have one: a pull that acts and does not overshoot."""
    for kind in ("ewc", "si"):
        if preset.endswith(kind) or (kind == "si" and preset in ("ar1", "ar1*")):
            return {f"{kind}.max_F": 1e-3, f"{kind}.lam": lam / (case.eta * 1e-3)}
    return {}


# --- CWR+ -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("bias", ["fixed", "learned", "zero"])
@given(case=cases(networks=[rich_network, twofold_network], momentum=0.5, decay=1e-2))
@few
def test_the_rows_of_tw_sum_to_zero(bias: str, head: str, case: Case) -> None:
    """Each row's gradient is (ŷ_b − t_b)·out_a, and Σ_b ŷ_b = Σ_b t_b = 1; momentum and weight decay are linear.

    So an average over all rows would shift nothing. The rows of B_i's own classes do not sum to zero from B_2 on.
    """
    learner = case.learner("cwr+", {**HEADS[head], "cwr.bias": bias})

    def look(step: Step) -> None:
        for output in learner.head.outputs:
            tw = output.layer.weight.detach()
            assert tw.abs().max() > 1e-4
            assert tw.sum(dim=0).abs().max() < 1e-5 * max(1.0, float(tw.abs().max()))
            if bias == "learned":
                assert output.layer.bias is not None
                assert output.layer.bias.detach().sum().abs() < 1e-5
            assert step.i == 1 or tw[learner.head.batches_[-1]].sum(dim=0).abs().max() > 1e-4

    for batch in case.stream():
        learner.learn(batch, on_step=look)


@given(case=cases(networks=[plain_network], decay=1e-2))
@few
def test_the_rows_of_gaussian_tw_do_not_sum_to_zero(case: Case) -> None:
    """CWR starts from random rows, whose sum only decays: the property is zero initialisation's."""
    learner = case.learner("cwr")
    sums: list[float] = []
    learner.learn(
        case.stream()[0],
        on_step=lambda _: sums.append(float(learner.head.outputs[0].layer.weight.detach().sum(dim=0).abs().max())),
    )
    assert min(sums) > 1e-3


# --- Names of classes -----------------------------------------------------------------------------

RELABELLED: list[tuple[str, Knobs]] = [
    *[(preset, {}) for preset in ("cwr+", "ar1", "ar1-ewc", "ar1-lwf")],
    *[
        (preset, {"head.init": "zero", **HEADS[head]})
        for preset in ("naive", "cumulative", "lwf", "ewc", "si", "fw", "cw")
        for head in HEADS
    ],
    *[(preset, {"head.growth": "expanding"}) for preset in ("cwr+", "ar1")],
]


def by_class(learner: Strategy, x: Tensor) -> Tensor:
    """Scores with a column for each class in ascending order."""
    order = torch.tensor([learner.rows_[row] for row in learner.columns()]).argsort()
    return learner.scores(x)[:, order]


@pytest.mark.parametrize(("preset", "knobs"), RELABELLED, ids=name_of)
@given(case=cases(networks=[plain_network, twofold_network]), data=st.data())
@few
def test_relabelling_permutes_the_scores(preset: str, knobs: Knobs, case: Case, data: st.DataObject) -> None:
    """Class c called π(c): its score is what c's was, up to the order in which a softmax sums."""
    names = data.draw(st.permutations(range(case.s)), label="names")
    knobs = {**knobs, **gentle(preset, case)}
    learner, renamed = case.learner(preset, knobs), case.learner(preset, knobs)
    for batch, other in zip(case.stream(), case.stream(names), strict=True):
        learner.learn(batch)
        renamed.learn(other)
    x = torch.cat([batch.x for batch in case.stream()])
    scores = by_class(learner, x)
    assert scores.std() > 1e-3  # a hundred times the tolerance
    torch.testing.assert_close(by_class(renamed, x)[:, names], scores, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("preset", ["naive", "cumulative", "lwf", "ewc", "si", "fw", "cw", "cwr"])
@given(case=cases(), data=st.data())
@few
def test_renaming_the_rows_changes_no_bit(preset: str, case: Case, data: st.DataObject) -> None:
    """A maximal head whose row k is called π(k) learns the same weights, random rows and all, byte for byte."""
    names = data.draw(st.permutations(range(case.s)), label="names")
    knobs = {"head.growth": "maximal", **gentle(preset, case)}
    learner, renamed = case.learner(preset, knobs), case.learner(preset, {**knobs, "head.classes": names})
    for batch, other in zip(case.stream(), case.stream(names), strict=True):
        learner.learn(batch)
        renamed.learn(other)
        predicted = learner.predict(batch.x)
        assert torch.equal(renamed.predict(batch.x), torch.tensor(names)[predicted])
    assert weights(renamed) == weights(learner)


# --- LWF ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preset", "knobs"), [("lwf", HEADS["maximal"]), ("lwf", HEADS["expanding"]), ("ar1-lwf", {})], ids=name_of
)
@given(case=cases(), lam=st.sampled_from([0.3, 0.8]))
@few
def test_fused_and_two_term_LWF_give_the_same_weights(preset: str, knobs: Knobs, case: Case, lam: float) -> None:
    """L_1 and L_2 have one gradient; two batches later the weights are still the same, and not those of λ = 0."""
    forms = [
        case.learner(preset, {**knobs, "lwf.form": form, "lwf.lam": of})
        for form, of in (("fused", lam), ("two_term", lam), ("fused", 0.0))
    ]
    for batch in case.stream()[:2]:
        for learner in forms:
            learner.learn(batch)
    fused, two_term, none = (learner.theta.value for learner in forms)
    torch.testing.assert_close(fused, two_term, rtol=1e-4, atol=1e-5)
    assert (fused - none).abs().max() > 1e-3


# --- Θ as one vector ------------------------------------------------------------------------------


def conv_network(classes: int) -> Network:
    """A 1×1 convolution as output layer, and one without a bias."""
    shared = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU())

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shared = shared

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            maps = self.shared(x)
            return maps.flatten(1), maps

    tail = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    outputs = [Output(nn.Linear(12, classes, bias=False)), Output(nn.Conv2d(3, classes, 1), tail=tail)]
    return Network(Both(), outputs, input_shape=(1, 4, 4))


def by_name(theta: Theta, vector: Tensor) -> dict[str, Tensor]:
    """A vector laid out as Θ, in the shapes of the parameters."""
    return {s.name: theta.view(s, vector).clone() for s in theta.segments}


def check_grown(before: dict[str, Tensor], after: dict[str, Tensor], rows_now: int) -> None:
    """Old entries as they were; new ones, which stand in new rows of output layers only, zero."""
    assert before.keys() == after.keys()
    for name, old in before.items():
        if name.startswith("outputs."):
            assert after[name].shape == (rows_now, *old.shape[1:])
            assert raw(after[name][: len(old)]) == raw(old)
            assert not after[name][len(old) :].any()
        else:
            assert raw(after[name]) == raw(old)


@pytest.mark.parametrize("network", [plain_network, twofold_network, conv_network])
@given(growths=st.lists(st.integers(0, 4), min_size=1, max_size=5), start=st.integers(0, 3), seed=st.integers(0, 999))
@many
def test_growing_extends_by_zeros(network: Build, growths: list[int], start: int, seed: int) -> None:
    """F, θ* and momentum after any sequence of growths; and shrinking back gives what was there before."""
    theta = Theta(network(5))
    theta.set_rows(start)
    generator = torch.Generator().manual_seed(seed)
    F = torch.randn(theta.m, generator=generator)
    theta.v.copy_(torch.randn(theta.m, generator=generator))
    for count in accumulate([start, *growths]):
        before = [by_name(theta, vector) for vector in (F, theta.v, theta.value)]
        kept, held = F, theta.network.rows
        F = theta.set_rows(count)(F)
        for old, now in zip(before, (F, theta.v, theta.value), strict=True):
            assert len(now) == theta.m == sum(p.numel() for p in theta.network.parameters())
            check_grown(old, by_name(theta, now), count)
        theta.check_aliasing()
        assert raw(theta.set_rows(held)(F)) == raw(kept)
        theta.set_rows(count)


@pytest.mark.parametrize(
    ("preset", "knobs"), [("ewc", {}), ("ewc", {"ewc.terms": "per_batch"}), ("si", {})], ids=name_of
)
@given(case=cases())
@few
def test_a_learner_grows_F_and_theta_star(preset: str, knobs: Knobs, case: Case) -> None:
    """What B_{i−1} left is found again, with zeros for the new classes, while B_i is learnt."""
    learner = case.learner(preset, {**HEADS["expanding"], **knobs, **gentle(preset, case, lam=0.1)})
    first, *later = case.stream()
    learner.learn(first)

    def kept() -> list[dict[str, Tensor]]:
        state = learner.regulariser.state()
        pairs = [(state["F"], state["theta_star"]), *state.get("history", [])]
        return [by_name(learner.theta, vector) for pair in pairs for vector in pair if vector is not None]

    for batch in later:
        before = kept()
        assert before
        seen: list[list[dict[str, Tensor]]] = []
        learner.learn(batch, on_step=lambda _, seen=seen: seen.append(kept()))  # type: ignore[misc]
        for during in seen:
            for old, now in zip(before, during, strict=True):
                check_grown(old, now, learner.head.s)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("preset", EVERY_PRESET)
@given(case=cases())
@few
def test_parameters_and_gradients_are_views_at_every_step(preset: str, head: str, case: Case) -> None:
    """The parameters tile Θ without a gap, and their gradients, once Θ's is asked for, tile it with what they were;
    a frozen trunk has no gradient at all.
    """
    learner = case.learner(preset, {**HEADS[head], **gentle(preset, case)})
    steps: list[Step] = []

    def look(step: Step) -> None:
        steps.append(step)
        theta, places = learner.theta, []
        computed = {name: p.grad.clone() for name, p in learner.network.named_parameters() if p.grad is not None}
        assert theta.grad.any()
        for name, p in learner.network.named_parameters():
            offset = p.data_ptr() - theta.value.data_ptr()
            places.append((offset, p.numel() * p.element_size()))
            if theta.frozen and not name.startswith("outputs."):
                assert p.grad is None
            else:
                assert p.grad is not None
                assert p.grad.data_ptr() - theta.grad.data_ptr() == offset
                assert torch.equal(p.grad, computed[name])
            assert p.is_contiguous()
        ends = [*accumulate(size for _, size in sorted(places))]
        assert [offset for offset, _ in sorted(places)] == [0, *ends[:-1]]
        assert ends[-1] == theta.m * theta.value.element_size()

    for batch in case.stream():
        learner.learn(batch, on_step=look)
    assert {step.i for step in steps} == {*range(1, len(case.sizes) + 1)}


# --- Random numbers -------------------------------------------------------------------------------


@pytest.mark.parametrize("preset", EVERY_PRESET)
@given(case=cases(networks=[rich_network]))
@few
def test_learning_and_the_global_generator_leave_each_other_alone(preset: str, case: Case) -> None:
    """The generator's state is unchanged, also by a batch that fails; and no state of it changes what is learnt.

    Nor does it matter if the caller draws numbers, or asks for scores, between two steps.
    """
    quiet, busy = (case.learner(preset, gentle(preset, case)) for _ in range(2))

    def meddle(_: Step) -> None:
        torch.rand(3)
        busy.scores(torch.ones(2, 1, 4, 4))

    def fail(step: Step) -> None:
        raise InterruptedError(step)

    with torch.random.fork_rng(devices=[]):
        for batch in case.stream():
            torch.manual_seed(1)
            before = torch.get_rng_state()
            with pytest.raises(InterruptedError):
                quiet.learn(batch, on_step=fail)
            assert torch.equal(torch.get_rng_state(), before)
            quiet.learn(batch)
            quiet.scores(batch.x)
            assert torch.equal(torch.get_rng_state(), before)
            torch.manual_seed(2)
            busy.learn(batch, on_step=meddle)
    assert weights(busy) == weights(quiet)


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize("fisher", FISHERS)
@given(case=cases(networks=[rich_network]))
@few
def test_the_fisher_pass_leaves_no_trace(fisher: str, head: str, case: Case) -> None:
    """With dropout and batch norm: it takes no random number from the training, and moves no statistic."""
    naive = case.learnt("naive", HEADS[head])
    ewc = case.learnt("ewc", {**HEADS[head], "ewc.lam": 0.0, "ewc.fisher": fisher})
    assert weights(ewc) == weights(naive)


@pytest.mark.parametrize("form", ["two_term", "distillation"])
@given(case=cases(networks=[rich_network]))
@few
def test_the_pass_for_y_lwf_leaves_no_trace(form: str, case: Case) -> None:
    """λ = 1e−300 is 0 in float32, but not for LWF, which makes its pass: and learns what Naive does, bit for bit."""
    naive = case.learner("naive")
    lwf = case.learner("lwf", {**HEADS["maximal"], "lwf.form": form, "lwf.lam": 1e-300})
    held: list[int] = []
    for batch in case.stream():
        naive.learn(batch)
        lwf.learn(batch, on_step=lambda _: held.append(len(lwf.regulariser.state()["y_lwf"])))
    assert held[0] == 0
    assert held[-1] == 1
    assert weights(lwf) == weights(naive)
