"""Regularisers: what they see, freezing, batch norm, warnings before damage, and importance that is real."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from everlearn import Batch, Step, Strategy, build
from everlearn._kit.histograms import EDGES, WIDE, histogram
from everlearn.errors import ConfigError, DivergenceError, InactiveError, NotFiniteError, OvershootWarning, StateError
from everlearn.models import Network, Output
from everlearn.regularisers import EWC, LWF, SI
from everlearn.runs import measure
from tests.toys import assert_same_state, plain_network, quick, three_outputs, toy_batch, toy_stream


def shared(learner: Strategy) -> Tensor:
    return learner.theta.value[: learner.theta.m_bar].clone()


def statistics(learner: Strategy) -> Tensor:
    return torch.cat([b.flatten().float() for name, b in learner.network.named_buffers() if "running" in name])


def importance(learner: Strategy) -> Tensor:
    assert isinstance(learner.regulariser, EWC | SI)
    assert learner.regulariser.F_ is not None
    return learner.regulariser.F_


@pytest.mark.parametrize("network", [plain_network, three_outputs])
@pytest.mark.parametrize(("name", "sees_outputs"), [("ewc", True), ("si", True), ("ar1", False), ("ar1-ewc", False)])
def test_what_is_regularised(name: str, sees_outputs: bool, network: Any) -> None:
    """With plain heads all m weights, output layers included; in the CWR family all but the output layers."""
    learner = quick(name, network())
    learner.learn(toy_stream()[0])
    theta = learner.theta
    assert len(importance(learner)) == (theta.m if sees_outputs else theta.m_bar)
    assert theta.m == sum(p.numel() for p in learner.network.parameters())
    outputs = sum(p.numel() for o in learner.head.outputs for p in o.layer.parameters())
    assert theta.m_bar == theta.m - outputs
    if sees_outputs:
        assert importance(learner)[theta.m_bar :].any()


@pytest.mark.parametrize("name", ["cwr", "cwr+", "fw", "cw"])
def test_a_frozen_trunk_is_byte_exact_and_in_evaluation_mode(name: str) -> None:
    learner = quick(name, three_outputs(), training__weight_decay=0.1, training__carry="always")
    stream = toy_stream()
    learner.learn(stream[0])
    before, stats = shared(learner), statistics(learner)

    def look(_: Step) -> None:
        modes = {type(m).__name__: m.training for m in learner.network.trunk.modules()}
        assert not any(modes.values())
        assert learner.head.outputs[-1].dropout.training  # directly before an output layer: stays on
        assert all(p.grad is None for p in learner.network.trunk.parameters())

    for batch in stream[1:]:
        learner.learn(batch, on_step=look)
        assert torch.equal(before, shared(learner))
        assert torch.equal(stats, statistics(learner))


@pytest.mark.parametrize("name", ["naive", "lwf", "ewc", "si", "ar1", "cumulative"])
@pytest.mark.parametrize("batch_norm", ["follow", "still"])
def test_the_batch_norm_rule(name: str, batch_norm: str) -> None:
    """Affine weights are in Θ. Statistics follow the data wherever the trunk trains, or are still from B_2 on."""
    learner = quick(name, three_outputs(), training__batch_norm=batch_norm)
    stream = toy_stream()
    fresh = statistics(learner)
    learner.learn(stream[0])
    first = statistics(learner)
    assert not torch.equal(fresh, first)
    gamma = learner.network.trunk.low[1].weight.detach().clone()  # type: ignore[union-attr,index]
    learner.learn(stream[1])
    moved_on = not torch.equal(first, statistics(learner))
    assert moved_on == (batch_norm == "follow" or name == "cumulative")  # Cumulative starts again from the initial ones
    assert not torch.equal(gamma, learner.network.trunk.low[1].weight)  # type: ignore[union-attr,index]


@pytest.mark.parametrize("fisher", ["variance", "second_moment", "per_example"])
def test_the_fisher_pass_changes_nothing_in_the_network(fisher: str) -> None:
    """EWC with λ = 0 has the weights and statistics of Naive, batch norm and dropout in the network."""
    ewc, naive = quick("ewc", three_outputs(), ewc__lam=0.0, ewc__fisher=fisher), quick("naive", three_outputs())
    for batch in toy_stream():
        ewc.learn(batch)
        naive.learn(batch)
    assert_same_state(ewc.state_dict()["network"], naive.state_dict()["network"])


def test_the_fishers_agree_where_they_should() -> None:
    """With minibatches of one pattern the second moment is the exact Fisher; the variance lacks the squared mean."""
    F = {}
    for fisher, size in (("variance", 1), ("second_moment", 1), ("per_example", 5)):
        learner = quick("ewc", three_outputs(), ewc__fisher=fisher, ewc__minibatch=size, ewc__chunk=5)
        learner.learn(toy_stream()[0])
        F[fisher] = importance(learner)
    assert torch.allclose(F["second_moment"], F["per_example"], rtol=1e-3, atol=1e-7)
    assert (F["variance"] <= F["second_moment"] * (1 + 1e-4) + 1e-9).all()
    assert F["variance"].sum() < F["second_moment"].sum()


def test_a_single_minibatch_has_no_variance() -> None:
    learner = quick("ewc", ewc__minibatch=64)
    before = learner.state_dict()
    with pytest.raises(ConfigError, match=r'got 36.*fisher="second_moment"'):
        learner.learn(toy_stream()[0])
    assert_same_state(before, learner.state_dict())
    quick("ewc", ewc__minibatch=64, ewc__fisher="second_moment").learn(toy_stream()[0])


def test_f_remembers_its_minibatch() -> None:
    learner = quick("ewc")
    learner.learn(toy_stream()[0])
    for knobs in ({"ewc__minibatch": 9}, {"ewc__fisher": "second_moment"}):
        other = quick("ewc", **knobs)
        with pytest.raises(StateError, match="This state has other slots"):
            other.load_state_dict(learner.state_dict())


def test_importance_is_real_and_si_is_not_naive() -> None:
    """On CPU, F is non-zero after B_1, and from B_2 on the weights differ from Naive's."""
    stream = toy_stream()
    naive = quick("naive")
    for name in ("si", "ewc"):
        learner = quick(name)
        naive = quick("naive")
        learner.learn(stream[0])
        naive.learn(stream[0])
        assert (importance(learner) > 0).float().mean() > 0.3
        assert torch.equal(learner.theta.value, naive.theta.value)
        learner.learn(stream[1])
        naive.learn(stream[1])
        assert not torch.allclose(learner.theta.value, naive.theta.value, atol=1e-4)


@pytest.mark.parametrize("path", ["update", "gradient"])
def test_unclipped_si_is_reachable(path: str) -> None:
    clipped, native = quick("si", si__path=path), quick("si", si__path=path, si__max_F=None, si__lam=1.0)
    for learner in (clipped, native):
        learner.learn(toy_stream()[0])
    F_hat = native.regulariser.F_hat()  # type: ignore[attr-defined]
    assert F_hat.max() > 0.001
    assert clipped.regulariser.F_hat().max() <= 0.001  # type: ignore[attr-defined]
    assert F_hat.min() >= 0.0
    assert (importance(native).min() < 0) == (path == "gradient")  # F itself stays a plain sum


def counted(values: list[float], edges: list[float]) -> list[int]:
    """A histogram by a plain loop."""
    return [sum(low <= value < high for value in values) for low, high in pairwise(edges)]


@pytest.mark.parametrize(("name", "knobs"), [("ewc", {}), ("ewc", {"ewc__terms": "per_batch"}), ("si", {})])
def test_what_is_told_of_F(name: str, knobs: dict[str, Any]) -> None:
    """F is the sum of what the batches gave, w_i with each in SI: so F^2 is the difference, w_2 taken out of it.

    Only its histogram is kept, and no tensor more than before.
    """
    knobs = {**knobs, "head__growth": "maximal"}
    learner = quick(name, plain_network(), **knobs)
    before = torch.zeros(learner.theta.m)
    for batch in toy_stream()[:2]:
        learner.learn(batch)
        found = learner.diagnostics()
        w = 1.0 if isinstance(learner.regulariser, EWC) else getattr(learner.regulariser, f"w_{'1i'[learner.i_ - 1]}")
        F_i = ((found["F"] - before) / w).double()
        before = found["F"].clone()
        told = found["F_i"]
        assert told["edges"] == WIDE
        # F − F differs from F^i by rounding, so that a value at an edge may be in the bin beside it
        assert (
            sum(abs(a - b) for a, b in zip(counted(F_i.tolist(), WIDE), told["counts"], strict=True)) <= len(F_i) // 20
        )
        assert told["max"] == pytest.approx(float(F_i.max()), rel=1e-3)
        assert told["zero"] == pytest.approx(float((F_i == 0).double().mean()), abs=0.02)
        record = measure.importance(found)
        assert record is not None
        assert record["F"]["counts"] == counted(found["F"].double().tolist(), WIDE)
        assert record["counts"] == counted(found["F_hat"].double().tolist(), EDGES)
        assert record["saturated"] == float((found["F_hat"] >= found["max_F"]).double().mean())
        assert record["F_i"] == told
    held = [name for name in learner.storage().kept if name.startswith("regulariser.")]
    assert held == (
        ["regulariser.history_"] if "ewc__terms" in knobs else ["regulariser.F_", "regulariser.theta_star_"]
    )
    again = quick(name, plain_network(), **knobs)
    again.load_state_dict(learner.state_dict())
    assert again.diagnostics()["F_i"] == found["F_i"]  # the histogram is in the state: a copy has it, and a roll-back
    assert torch.equal(again.diagnostics()["F"], found["F"])


def test_who_has_no_F_tells_of_none() -> None:
    learner = quick("lwf", plain_network())
    learner.learn(toy_stream()[0])
    found = learner.diagnostics()
    assert [found[name] for name in ("F_hat", "F", "F_i")] == [None, None, None]
    assert measure.importance(found) is None


def test_an_inactive_regulariser_is_an_error() -> None:
    """Patterns that are all zero, and no biases: no weight moves, so no weight is important."""
    network = Network(nn.Sequential(nn.Flatten(), nn.Linear(4, 3, bias=False)), [Output(nn.Linear(3, 2, bias=False))])
    learner = build("si", network, knobs={"training.weight_decay": 0.0})
    before = learner.state_dict()
    with pytest.raises(InactiveError, match=r"The regulariser is inactive.*zero for all 18 weights"):
        learner.learn(Batch(torch.zeros(8, 4), torch.arange(8) % 2))
    assert_same_state(before, learner.state_dict())


@pytest.mark.parametrize("name", ["ar1", "ar1-ewc"])
def test_a_network_without_shared_weights_leaves_a_regulariser_nothing_to_hold(name: str) -> None:
    learner = build(name, Network(nn.Flatten(), [Output(nn.Linear(4, 2))]))
    with pytest.raises(InactiveError, match="zero for all 0 weights"):
        learner.learn(Batch(torch.rand(64, 4), torch.arange(64) % 2))


def overshooting(lam: float, momentum: float = 0.9, **knobs: Any) -> Strategy:
    """SI with everything saturated at max_F = 0.001 and η = 0.01 from B_2 on, so η·λ·max F̂ = 1e-5·λ."""
    return quick("si", si__lam=lam, si__w_1=1e9, training__momentum=momentum, **knobs)


def test_no_warning_up_to_one() -> None:
    learner = overshooting(lam=1e5)
    for batch in toy_stream():
        learner.learn(batch)
    assert learner.i_ == 3


def test_overshooting_warns_with_the_numbers_and_the_largest_lam() -> None:
    learner = overshooting(lam=1.5e5)
    learner.learn(toy_stream()[0])
    with pytest.warns(OvershootWarning, match=r"0\.01 · 150000 · 0\.001 = 1\.5 .*does not overshoot is 1e\+05"):
        learner.learn(toy_stream()[1])


@pytest.mark.parametrize(("momentum", "limit"), [(0.0, 2.0), (0.5, 3.0), (0.9, 3.8)])
def test_beyond_the_limit_it_refuses(momentum: float, limit: float) -> None:
    learner = overshooting(lam=1e5 * limit * 1.001, momentum=momentum)
    learner.learn(toy_stream()[0])
    before = learner.state_dict()
    with pytest.raises(DivergenceError, match=rf"2·\(1 \+ momentum\) = {limit:g}"):
        learner.learn(toy_stream()[1])
    assert_same_state(before, learner.state_dict())


def test_a_short_peak_of_the_rate_warns_and_does_not_refuse() -> None:
    """η·λ·max F̂ is 5 in the first step and 0.5 from then on: it overshoots, but does not provably diverge."""
    learner = overshooting(lam=0.5e5, training__later__schedule=((0.0, 10.0), (0.01, 1.0)))
    learner.learn(toy_stream()[0])
    with pytest.warns(OvershootWarning, match=r"= 5 is beyond 1"):
        learner.learn(toy_stream()[1])


def test_the_limit_is_about_the_importance_reached() -> None:
    """λ·max_F alone would diverge, but F̂ never comes near max_F."""
    learner = quick("si", si__lam=1e9, si__w_1=1e-12, si__w_i=1e-12)
    for batch in toy_stream():
        learner.learn(batch)
    assert learner.i_ == 3


def test_biases_learn_faster_and_overshoot_first() -> None:
    for biases, warns in ((True, True), (False, False)):
        learner = overshooting(lam=0.8e5, si__biases=biases, training__bias_eta=2.0)
        learner.learn(toy_stream()[0])
        if warns:
            with pytest.warns(OvershootWarning, match=r"0\.02 · 80000 · 0\.001 = 1\.6"):
                learner.learn(toy_stream()[1])
        else:
            learner.learn(toy_stream()[1])


def test_one_term_a_batch_counts_all_terms() -> None:
    """Option 1: the pull is the sum over batches, so its overshoot is too."""
    learner = quick("ewc", ewc__terms="per_batch", ewc__max_F=1e-9, ewc__lam=0.7e11)
    stream = toy_stream()
    learner.learn(stream[0])
    learner.learn(stream[1])
    with pytest.warns(OvershootWarning, match=r"2e-09 = 1\.4"):
        learner.learn(stream[2])
    assert isinstance(learner.regulariser, EWC)
    assert len(learner.regulariser.history_) == 3


@pytest.mark.parametrize("name", ["naive", "ar1", "ewc", "lwf"])
def test_a_loss_that_is_not_finite_stops_the_batch(name: str) -> None:
    learner = quick(name, training__first__eta=0.01, training__later__eta=1e20)
    if name in ("ar1", "ewc"):
        weak: dict[str, Any] = {f"{learner.regulariser.name}__lam": 1e-30}
        learner = quick(name, training__later__eta=1e20, **weak)
    stream = toy_stream()
    learner.learn(stream[0])
    before = learner.state_dict()
    with pytest.raises(NotFiniteError, match=r"batch 2, epoch \d, step \d.*got (nan|inf)"):
        learner.learn(stream[1])
    assert_same_state(before, learner.state_dict())


def test_weights_that_overflow_in_the_last_step_are_noticed() -> None:
    learner = quick("naive", training__minibatch=64, training__first__epochs=1, training__first__eta=1e38)
    batch = toy_stream()[0]
    with pytest.raises(NotFiniteError, match="batch 1, epoch 1, step 1"):
        learner.learn(Batch(1e4 * batch.x, batch.y))


def test_lwf_looks_before_the_head_grows_and_with_dropout_off() -> None:
    learner = quick("lwf")
    stream = toy_stream()
    learner.learn(stream[0])
    expected = learner.scores(stream[1].x, "all").softmax(dim=1)
    seen: list[Tensor] = []

    def look(_: Step) -> None:
        assert isinstance(learner.regulariser, LWF)
        seen.extend(learner.regulariser.y_lwf_)
        assert learner.regulariser.lam_ == pytest.approx(1 - 24 / 60)

    learner.learn(stream[1], on_step=look)
    assert seen[0].shape == (24, 3)
    assert torch.equal(seen[0], expected)
    assert learner.regulariser.y_lwf_ == []  # type: ignore[attr-defined]


def test_lwf_keeps_predictions_of_every_output() -> None:
    learner = quick("lwf", three_outputs(), head__growth="maximal")
    stream = toy_stream()
    learner.learn(stream[0])
    shapes: list[list[int]] = []
    learner.learn(stream[1], on_step=lambda _: shapes.append([len(y[0]) for y in learner.regulariser.y_lwf_]))  # type: ignore[attr-defined]
    assert shapes[0] == [7, 7, 7]


@pytest.mark.parametrize(
    "knobs",
    [
        {"lwf__form": "two_term"},
        {"lwf__form": "distillation", "lwf__temperature": 2.0, "lwf__lam": 1.0},
        {"lwf__form": "two_term", "lwf__temperature": 2.0},
        {"lwf__lam": 0.5},
    ],
)
def test_the_native_forms_of_lwf_learn(knobs: dict[str, Any]) -> None:
    paper, native, naive = quick("lwf"), quick("lwf", **knobs), quick("naive", head__growth="expanding")
    for batch in toy_stream():
        for learner in (paper, native, naive):
            learner.learn(batch)
    assert not torch.allclose(native.theta.value, naive.theta.value, atol=1e-4)
    same = torch.allclose(native.theta.value, paper.theta.value, atol=1e-5)
    assert same == (knobs == {"lwf__form": "two_term"})


@pytest.mark.parametrize("growth", ["maximal", "expanding"])
def test_cumulative_from_the_initial_weights_or_going_on(growth: str) -> None:
    """With η close to 0 from B_2 on, the weights are the initial ones, rows included, or those that B_1 left."""
    stream = toy_stream()
    for restart in (True, False):
        still: dict[str, Any] = {"training__later__eta": 1e-30, "head__growth": growth}
        learner, naive = quick("cumulative", memory__restart=restart, **still), quick("naive", head__growth=growth)
        start = learner.theta.value.clone()
        for batch in stream[:1]:
            learner.learn(batch)
            naive.learn(batch)
        assert torch.equal(learner.theta.value, naive.theta.value)  # B_1 is Naive's
        learned = learner.theta.value.clone()
        learner.learn(stream[1])
        m_bar, end = learner.theta.m_bar, learner.theta.value
        expected = start if restart else learned
        assert torch.allclose(end[:m_bar], expected[:m_bar], atol=1e-6)
        if growth == "maximal":
            assert torch.allclose(end, expected, atol=1e-6)
        assert not torch.allclose(start[:m_bar], learned[:m_bar], atol=1e-3)


def test_cumulative_does_not_forget() -> None:
    knobs: dict[str, Any] = {f"training__{phase}__epochs": 40 for phase in ("first", "later")}
    cumulative, naive = (quick(name, plain_network(dropout=0.0), **knobs) for name in ("cumulative", "naive"))
    for batch in toy_stream():
        cumulative.learn(batch)
        naive.learn(batch)
    old = toy_batch([0, 1, 2], seed=1)
    assert cumulative.evaluate(old).seen > 0.9
    assert naive.evaluate(old).seen < 0.5


def test_the_stored_patterns_are_not_the_callers() -> None:
    stream = toy_stream()
    learner = quick("cumulative")
    learner.learn(stream[0])
    x = stream[0].x.clone()
    stream[0].x.zero_()
    assert torch.equal(learner.memory.batch_.x, x)  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_a_histogram_has_every_value_where_exact_arithmetic_puts_it(dtype: torch.dtype) -> None:
    """The values next to every edge, below and above, in their own precision; counted one by one in Python."""
    edges = [edge for edge in WIDE if edge < torch.finfo(dtype).max]
    near = torch.tensor(edges, dtype=torch.float64).to(dtype)
    around = [torch.nextafter(near, torch.full_like(near, end)) for end in (-torch.inf, torch.inf)]
    values = torch.cat([near, *around, torch.tensor([0.0, -1.0, 3e-13], dtype=dtype)])
    found = histogram(values, edges)
    numbers = [float(value) for value in values]
    assert found["counts"] == [sum(a <= v < b for v in numbers) for a, b in pairwise(edges)]
    assert found["zero"] == sum(v == 0 for v in numbers) / len(numbers)
    assert found["negative"] == sum(v < 0 for v in numbers) / len(numbers)
