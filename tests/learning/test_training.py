"""SGD over Θ: its step, schedules, momentum across batches, and the order of patterns."""

import pytest
import torch
from torch import Tensor, nn

from everlearn import Phase, Step, Training
from everlearn.errors import StateError
from everlearn.learning.theta import Theta, blocks
from tests.toys import plain_network, quick, three_outputs, toy_stream


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("weight_decay", [0.0, 0.01])
def test_a_step_is_that_of_torch_at_a_constant_rate(momentum: float, weight_decay: float) -> None:
    """Caffe's v = μv + ηg and torch's v = μv + g, θ −= ηv are one at constant η; to 1e-6 over ten steps."""
    ours, theirs = plain_network(dropout=0.0), plain_network(dropout=0.0)
    theta = Theta(ours)
    training = Training(momentum=momentum, weight_decay=weight_decay)
    optimiser = torch.optim.SGD(theirs.parameters(), lr=0.05, momentum=momentum, weight_decay=weight_decay)
    batch = toy_stream()[0]
    theta.open()
    for _ in range(10):
        theta.backward(nn.functional.cross_entropy(ours(batch.x)[0], batch.y))
        training.step_(theta, eta=0.05)
        optimiser.zero_grad()
        nn.functional.cross_entropy(theirs(batch.x)[0], batch.y).backward()
        optimiser.step()
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


def test_a_step_by_hand() -> None:
    """θ = 2, grad = 1, v = 0.5, η = 0.1, μ = 0.9, decay 0.01: v = 0.45 + 0.1·(1 + 0.02) = 0.552, θ = 1.448.

    The bias takes 2η and no decay: v = 0.45 + 0.2·1 = 0.65, θ = 1.35.
    """
    theta = Theta(plain_network())
    theta.open()
    theta.value.fill_(2.0)
    theta.grad.fill_(1.0)
    theta.v.fill_(0.5)
    Training(momentum=0.9, weight_decay=0.01, bias_eta=2.0, bias_decay=0.0).step_(theta, eta=0.1)
    for segment in theta.segments:
        value, v = (1.35, 0.65) if segment.bias else (1.448, 0.552)
        assert torch.allclose(theta.value[segment.span], torch.tensor(value))
        assert torch.allclose(theta.v[segment.span], torch.tensor(v))


def test_a_step_moves_by_a_gradient_in_pieces_as_by_a_vector() -> None:
    """θ = 2, L = Σ3·θ over the weights of one output layer alone: v = 0.45 + 0.1·(3 + 0.02) = 0.752 there.

    What L does not reach decays: v = 0.45 + 0.1·0.02 = 0.452.
    """
    for asked in (False, True):
        theta = Theta(plain_network())
        theta.value.fill_(2.0)
        theta.v.fill_(0.5)
        theta.open()
        weight = dict(theta.network.named_parameters())["outputs.0.layer.weight"]
        theta.backward(3 * weight.sum())
        if asked:
            assert float(theta.grad.sum()) == 3 * weight.numel()
        Training(momentum=0.9, weight_decay=0.01).step_(theta, eta=0.1)
        for segment in theta.segments:
            v = 0.752 if segment.name == "outputs.0.layer.weight" else 0.452
            assert torch.allclose(theta.v[segment.span], torch.tensor(v))
            assert torch.allclose(theta.value[segment.span], torch.tensor(2 - v))


@pytest.mark.parametrize("asked", [False, True])
def test_gradients_that_share_their_memory_do_not_share_their_decay(asked: bool) -> None:
    """Autograd may give two weights one piece of memory for their equal gradients, here 1: with θ = 2 and θ = 3,
    η = 0.1 and decay 0.01, the steps are 0.1·(1 + 0.02) and 0.1·(1 + 0.03).
    """
    theta = Theta(three_outputs())
    theta.open()
    one, two = (
        p for name, p in theta.network.named_parameters() if name in ("outputs.0.layer.bias", "outputs.1.layer.bias")
    )
    one.data.fill_(2.0)
    two.data.fill_(3.0)
    theta.backward(((one[None] + two[None]) * torch.ones(1, len(one))).sum())
    assert one.grad is not None
    assert two.grad is not None
    assert one.grad.data_ptr() == two.grad.data_ptr()  # that it does
    if asked:
        theta.grad.sum()
    Training(momentum=0.0, weight_decay=0.01).step_(theta, eta=0.1)
    assert torch.allclose(one, torch.tensor(2 - 0.102))
    assert torch.allclose(two, torch.tensor(3 - 0.103))


def test_a_schedule_is_linear_between_its_points() -> None:
    """η = 0.1 with (0, 4), (0.25, 1): 0.4 at step 0, 0.25 at step 10 of 80 (half-way down), 0.1 from step 20 on."""
    phase = Phase(epochs=1, eta=0.1, schedule=((0.0, 4.0), (0.25, 1.0)))
    assert [phase.eta_at(step, 80) for step in (0, 10, 20, 79)] == pytest.approx([0.4, 0.25, 0.1, 0.1])
    assert phase.etas == pytest.approx((0.1, 0.4))
    assert Phase(epochs=1, eta=0.1).eta_at(5, 10) == 0.1


def test_the_loop_follows_each_phase() -> None:
    learner = quick("naive", training__later__schedule=((0.0, 2.0), (1.0, 0.0)), training__later__epochs=3)
    etas: dict[int, list[float]] = {}
    epochs: dict[int, set[int]] = {}

    def note(step: Step) -> None:
        etas.setdefault(step.i, []).append(step.eta)
        epochs.setdefault(step.i, set()).add(step.epoch)

    for batch in toy_stream()[:2]:
        learner.learn(batch, on_step=note)
    assert etas[1] == [0.02] * 10
    assert etas[2] == pytest.approx([0.02 * (1 - k / 9) for k in range(9)])
    assert epochs == {1: {1, 2}, 2: {1, 2, 3}}


@pytest.mark.parametrize(("carry", "kept"), [("never", [0, 0]), ("after_first", [0, 1]), ("always", [1, 1])])
def test_momentum_left_by_the_batch_before(carry: str, kept: list[int]) -> None:
    """With η close to 0 and μ = 0.9, the first step of B_2 and of B_3 has 0.9 of the old v, or nothing of it."""
    learner = quick("naive", training__carry=carry)
    for k, batch in enumerate(toy_stream()):
        left = learner.theta.v.clone()
        first: list[Tensor] = []
        learner.learn(batch, on_step=lambda _, first=first: first.append(learner.theta.v.clone()))  # type: ignore[misc]
        if k:
            correlation = torch.corrcoef(torch.stack([left, first[0]]))[0, 1]
            assert (float(correlation) > 0.5) == bool(kept[k - 1])


@pytest.mark.parametrize("reshuffle", [True, False])
def test_one_order_a_batch_or_one_an_epoch(reshuffle: bool) -> None:
    """Trained on one pattern a step, the losses tell the order: epochs agree just where it is not reshuffled."""
    learner = quick("naive", training__reshuffle=reshuffle)
    orders = [learner._order(i, epoch, 50).tolist() for i in (1, 2) for epoch in (0, 1)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert (orders[0] == orders[1]) != reshuffle
    assert (orders[2] == orders[3]) != reshuffle
    assert orders[0] != orders[2]


def test_theta_is_all_weights_shared_ones_first() -> None:
    network = three_outputs()
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    theta = Theta(network)
    kinds = [(not s.shared, s.bias) for s in theta.segments]
    assert kinds == sorted(kinds)
    assert len(theta.regions) == 4
    for name, p in network.named_parameters():
        assert torch.equal(p, before[name])
    theta.value.zero_()
    assert not any(p.any() for p in network.parameters())


def test_theta_has_a_gradient_only_while_a_batch_is_learnt() -> None:
    theta = Theta(plain_network(dropout=0.0))
    with pytest.raises(StateError, match="between batches"):
        theta.grad.zero_()
    network, x = theta.network, torch.ones(1, 1, 8, 8)
    names, parameters = zip(*network.named_parameters(), strict=True)
    wanted = dict(zip(names, torch.autograd.grad(network(x)[0].sum(), parameters), strict=True))
    theta.open()
    theta.grad.fill_(7.0)  # what is left of the step before
    for _ in range(2):  # replaced, not added to
        theta.backward(network(x)[0].sum())
        for segment in theta.segments:
            assert torch.equal(theta.view(segment, theta.grad), wanted[segment.name])
    assert theta.grad.any()
    theta.close()
    assert all(p.grad is None for p in network.parameters())
    network(x)[0].sum().backward()
    assert all(p.grad is not None for p in network.parameters())  # the network is an ordinary one again


def test_what_a_loss_does_not_depend_on_has_a_gradient_of_zero() -> None:
    """Also where it had one in the step before: two of three output layers are left out of the second loss."""
    network = three_outputs()
    theta = Theta(network)
    theta.open()
    x = torch.ones(2, 1, 8, 8)
    theta.backward(sum((o.sum() for o in network(x)), torch.zeros(())))
    assert all(theta.view(s, theta.grad).any() for s in theta.segments if not s.shared)
    theta.backward(network(x)[2].sum())
    for segment in theta.segments:
        reached = segment.shared or segment.name.startswith("outputs.2.")
        assert bool(theta.view(segment, theta.grad).any()) == reached


def test_blocks_are_the_same_parts_of_every_vector(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five values in blocks of two: two, two and one; written through, since they are views."""
    monkeypatch.setattr("everlearn.learning.theta.BLOCK", 2)
    left, right = torch.tensor([1.0, 2, 3, 4, 5]), torch.tensor([10.0, 20, 30, 40, 50])
    parts = list(blocks(left, right))
    assert [(a.tolist(), b.tolist()) for a, b in parts] == [([1, 2], [10, 20]), ([3, 4], [30, 40]), ([5], [50])]
    for a, b in parts:
        a += b
    assert left.tolist() == [11, 22, 33, 44, 55]
    assert [len(a) for (a,) in blocks(torch.zeros(0))] == [0]
