"""Heads: growth, initial rows, tw and cw, biases, and the per-task head."""

from math import sqrt
from typing import Any

import pytest
import torch
from torch import Tensor

from everlearn import Step, Strategy
from everlearn.errors import DataError, InactiveError
from tests.toys import plain_network, quick, three_outputs, toy_batch, toy_stream


def rows(learner: Strategy, output: int = -1) -> Tensor:
    """An output layer's weights, a row a class."""
    return learner.head.outputs[output].layer.weight.detach().flatten(1).clone()


def biases(learner: Strategy, output: int = -1) -> Tensor:
    bias = learner.head.outputs[output].layer.bias
    assert bias is not None
    return bias.detach().clone()


@pytest.mark.parametrize(("name", "growth"), [("naive", "expanding"), ("cwr", "maximal"), ("cwr", "expanding")])
@pytest.mark.parametrize("init", ["zero", "constant", "gaussian", "xavier"])
def test_rows_start_as_init_says(name: str, growth: str, init: str) -> None:
    """At the first step of B_2 with η close to 0, B_2's rows are still as they started."""
    learner = quick(name, head__growth=growth, head__init=init, head__init_scale=0.3, training__later__eta=1e-30)
    started: list[Tensor] = []
    stream = toy_stream()
    learner.learn(stream[0])
    learner.learn(stream[1], on_step=lambda _: started.append(rows(learner)[[3, 4]]))
    row = started[0]
    if init == "zero":
        assert row.abs().max() < 1e-20
    elif init == "constant":
        assert torch.allclose(row, torch.full_like(row, 0.3))
    elif init == "gaussian":
        assert 0.15 < row.std() < 0.45
    else:
        bound = sqrt(3 / 9)
        assert row.abs().max() <= bound
        assert row.abs().max() > 0.5 * bound


@pytest.mark.parametrize("init", ["zero", "constant", "gaussian", "xavier", "keep"])
def test_a_maximal_head_starts_all_rows_when_it_is_built(init: str) -> None:
    network = plain_network()
    before = network.output_layers[0].layer.weight.detach().clone()
    weight = rows(quick("naive", network, head__init=init, head__init_scale=0.2))
    assert torch.equal(weight, before) == (init == "keep")
    assert bool(weight.any()) == (init != "zero")


def test_an_expanding_head_extends_f_theta_star_and_momentum_by_zeros() -> None:
    learner = quick("si", head__growth="expanding", head__init="zero", training__carry="always")
    stream = toy_stream()
    learner.learn(stream[0])
    F, theta_star, v = learner.regulariser.F_, learner.regulariser.theta_star_, learner.theta.v  # type: ignore[attr-defined]
    m_bar = learner.theta.m_bar
    extend = learner.theta.set_rows(5)
    for vector in (F, theta_star, v):
        grown = learner.theta.output_views(extend(vector))
        assert [len(part) for part in grown] == [5, 5]
        assert not any(part[3:].any() for part in grown)
        assert torch.equal(extend(vector)[:m_bar], vector[:m_bar])
        weight = vector[m_bar:][: 3 * 9].view(3, 9)
        assert torch.equal(grown[0][:3], weight)


@pytest.mark.parametrize("network", [plain_network, three_outputs])
def test_cwr_plus_keeps_old_rows_and_shifts_new_ones_by_one_scalar_a_layer(network: Any) -> None:
    learner = quick("cwr+", network())
    stream = toy_stream()
    tw: dict[int, Tensor] = {}

    def last(_: Step) -> None:
        tw.update({k: rows(learner, k) for k in range(len(learner.head.outputs))})

    learner.learn(stream[0])
    before = [rows(learner, k) for k in range(len(learner.head.outputs))]
    learner.learn(stream[1], on_step=last)
    for k in range(len(learner.head.outputs)):
        avg = tw[k][[3, 4]].mean()
        assert abs(float(avg)) > 1e-4  # it does something
        assert torch.allclose(rows(learner, k)[[3, 4]], tw[k][[3, 4]] - avg, atol=1e-7)
        assert torch.equal(rows(learner, k)[[0, 1, 2]], before[k][[0, 1, 2]])
        assert not rows(learner, k)[[5, 6]].any()  # unseen: cw = 0
        assert abs(float(rows(learner, k)[[3, 4]].mean())) < 1e-7


def test_the_mean_over_all_rows_would_do_nothing() -> None:
    """The slip: with zero rows and a full softmax all of tw sums to zero, so that shift = none to rounding."""
    ends = {}
    for shift in ("none", "all", "batch"):
        learner = quick("cwr+", head__shift=shift)
        for batch in toy_stream():
            learner.learn(batch)
        ends[shift] = rows(learner)
    assert torch.allclose(ends["all"], ends["none"], atol=1e-6)
    assert not torch.allclose(ends["batch"], ends["none"], atol=1e-4)


def test_on_an_expanding_head_the_shift_of_b_1_is_zero() -> None:
    ends = {}
    for shift in ("none", "batch"):
        learner = quick("cwr+", head__shift=shift, head__growth="expanding")
        learner.learn(toy_stream()[0])
        ends[shift] = rows(learner)
    assert torch.allclose(ends["batch"], ends["none"], atol=1e-7)


def test_cwr_scales_by_w_1_and_w_i() -> None:
    plain, scaled = quick("cwr"), quick("cwr", head__w_1=1.25, head__w_i=0.5)
    for batch in toy_stream():
        plain.learn(batch)
        scaled.learn(batch)
    assert torch.allclose(rows(scaled)[:3], 1.25 * rows(plain)[:3], atol=1e-7)
    assert torch.allclose(rows(scaled)[3:], 0.5 * rows(plain)[3:], atol=1e-7)


def test_unit_standard_deviation() -> None:
    learner = quick("cwr+", three_outputs(), head__unit_std=True)
    learner.learn(toy_stream()[0])
    for k in range(3):
        assert torch.allclose(rows(learner, k)[:3].std(correction=0), torch.tensor(1.0), atol=1e-5)
        assert abs(float(rows(learner, k)[:3].mean())) < 1e-6


@pytest.mark.parametrize("bias", ["fixed", "zero", "learned"])
def test_biases_of_the_cwr_heads(bias: str) -> None:
    learner = quick("cwr+", three_outputs(), head__bias=bias)
    stream = toy_stream()
    within: list[Tensor] = []
    learner.learn(stream[0])
    first = biases(learner)
    learner.learn(stream[1], on_step=lambda _: within.append(biases(learner)))
    seen = torch.tensor([1.0, 1, 1, 1, 1, 0, 0])
    if bias == "fixed":
        assert all(torch.equal(b, seen) for b in [*within, biases(learner)])
    elif bias == "zero":
        assert not any(b.any() for b in [*within, biases(learner)])
    else:
        assert torch.equal(biases(learner)[:3], first[:3])
        assert first[:3].any()
        assert abs(float(biases(learner)[3:5].mean())) < 1e-7
        assert not biases(learner)[5:].any()


def test_a_zero_row_before_a_relu_learns_when_the_bias_is_fixed() -> None:
    """NiN's case: tw = 0 would stand at the ReLU's kink, where no gradient passes; the bias of 1 lifts it."""
    moved = {}
    for bias in ("fixed", "zero"):
        learner = quick("ar1", three_outputs(), head__bias=bias)
        learner.learn(toy_stream()[0])
        moved[bias] = rows(learner, 1).abs().sum()
    assert moved["fixed"] > 0
    assert moved["zero"] == 0


def test_tw_starts_without_the_momentum_of_old_rows() -> None:
    learner = quick("cwr+", training__carry="always", training__later__eta=1e-30)
    stream = toy_stream()
    learner.learn(stream[0])
    tw: list[Tensor] = []
    learner.learn(stream[1], on_step=lambda _: tw.append(rows(learner)))
    assert all(row.abs().max() < 1e-20 for row in tw)


def test_fw_keeps_old_rows_and_cw_tunes_them() -> None:
    for name, kept in (("fw", True), ("cw", False)):
        learner = quick(name)
        stream = toy_stream()
        learner.learn(stream[0])
        before = rows(learner), biases(learner)
        learner.learn(stream[1])
        assert torch.equal(before[0], rows(learner)[:3]) == kept
        assert torch.equal(before[1], biases(learner)[:3]) == kept


@pytest.mark.parametrize("growth", ["maximal", "expanding"])
@pytest.mark.parametrize("name", ["naive", "lwf", "ewc", "si"])
def test_a_per_task_head_trains_and_tests_with_the_task_known(name: str, growth: str) -> None:
    knobs: dict[str, Any] = {"training__first__epochs": 15, "training__first__eta": 0.01, "head__growth": growth}
    learner = quick(name, plain_network(dropout=0.0), head="per_task", **knobs)
    for batch in toy_stream():
        learner.learn(batch)
    assert learner.evaluate(toy_batch([0, 1, 2], seed=1), task=1).seen > 0.6  # chance is a third
    x = toy_batch([3, 4]).x
    assert set(learner.predict(x, batch=2).tolist()) <= {3, 4}
    with pytest.raises(DataError, match="needs to know the task"):
        learner.predict(x)


@pytest.mark.parametrize(("name", "moves"), [("naive", False), ("ewc", False), ("si", False), ("lwf", True)])
def test_only_rows_in_the_loss_move_under_mt(name: str, moves: bool) -> None:
    """Weight decay and momentum are on; B_2's old rows move only where LWF distils over them."""
    learner = quick(name, head="per_task", head__growth="maximal", training__carry="always")
    stream = toy_stream()
    learner.learn(stream[0])
    before = rows(learner)
    learner.learn(stream[1])
    after = rows(learner)
    assert torch.equal(before[:3], after[:3]) != moves
    assert not torch.equal(before[3:5], after[3:5])
    assert torch.equal(before[5:], after[5:])  # unseen


def test_mt_is_not_a_mask_over_sit() -> None:
    mt, sit = quick("naive", head="per_task", head__growth="maximal"), quick("naive")
    for batch in toy_stream():
        mt.learn(batch)
        sit.learn(batch)
    x = toy_batch([3, 4]).x
    assert not torch.allclose(mt.scores(x, batch=2), sit.scores(x, batch=2), atol=1e-4)


def test_rows_without_any_deviation_are_an_error() -> None:
    """Zero rows under a ReLU with no bias to lift them never learn; their deviation is 0."""
    learner = quick("cwr+", three_outputs(), head__unit_std=True, head__bias="zero")
    with pytest.raises(InactiveError, match="no deviation to divide by"):
        learner.learn(toy_stream()[0])
