"""Short cuts give what the long way gives: a frozen trunk that runs once, channels last."""

from typing import Any

import pytest
import torch
from torch import nn

from everlearn import Batch
from everlearn.models import Network, cifarnet
from everlearn.presets import build
from tests.toys import plain_network, quick, three_outputs, toy_stream

FROZEN = ["fw", "cw", "cwr", "cwr+"]


def count_trunk(network: Network) -> list[int]:
    """The size of every minibatch that goes through the trunk."""
    sizes: list[int] = []
    network.trunk.register_forward_hook(lambda _module, inputs, _output: sizes.append(len(inputs[0])))
    return sizes


@pytest.mark.parametrize("network", [plain_network, three_outputs])
@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_trunk_runs_once_and_gives_the_same(name: str, network: Any) -> None:
    fast, slow = quick(name, network()), quick(name, network(), freeze__features="every_step")
    for batch in toy_stream():
        sizes = count_trunk(fast.network)
        fast.learn(batch)
        slow.learn(batch)
        passed = sum(sizes)
        assert passed == len(batch) * (2 if fast.i_ == 1 else 1)  # B_1: two epochs of training; later: one pass
    for (which, left), right in zip(fast.weights().items(), slow.weights().values(), strict=True):
        assert torch.allclose(left, right, atol=1e-5), which
    x = toy_stream()[0].x
    assert torch.allclose(fast.scores(x), slow.scores(x), atol=1e-5)


@pytest.mark.parametrize("name", FROZEN)
def test_dropout_inside_a_frozen_trunk_switches_the_short_cut_off(name: str) -> None:
    learner = quick(name, three_outputs(), freeze__dropout=True)
    first, second, _ = toy_stream()
    learner.learn(first)
    before = {which: value.clone() for which, value in learner.network.trunk.state_dict().items()}
    sizes, modes = count_trunk(learner.network), []

    def look(_step: object) -> None:
        modes.append({type(m).__name__: m.training for m in learner.network.trunk.modules() if not list(m.children())})

    learner.learn(second, on_step=look)
    assert sum(sizes) == 2 * len(second)  # every epoch
    assert modes[0]["Dropout"]
    assert not modes[0]["BatchNorm2d"]
    for which, value in learner.network.trunk.state_dict().items():
        assert torch.equal(value, before[which]), which  # frozen all the same, statistics too


def test_the_short_cut_is_in_the_ledger() -> None:
    learner = quick("cwr+")
    first, second, _ = toy_stream()
    learner.learn(first)
    learner.learn(second)
    ledger = learner.storage()
    assert ledger.within["features"].values == len(second) * 9  # the penultimate layer has nine neurons
    assert "features" not in ledger.kept
    assert ledger.why["features"]


def test_channels_last_gives_the_same() -> None:
    x = torch.randint(0, 256, (24, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    batch = Batch(x, torch.arange(24) % 3)
    knobs = {"training.first.epochs": 2, "training.minibatch": 8, "training.first.eta": 0.001}
    learners = []
    for memory_format in (torch.channels_last, torch.contiguous_format):
        network = cifarnet(3)
        for module in network.trunk.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0  # its masks are drawn in the order of memory
        assert network.memory_format == torch.channels_last
        network.memory_format = memory_format
        learners.append(build("ar1", network, knobs=knobs, seed=1))
        learners[-1].learn(batch)
    for (which, left), right in zip(learners[0].weights().items(), learners[1].weights().values(), strict=True):
        assert torch.allclose(left, right, atol=1e-5), which


def test_channels_last_reaches_the_convolutions() -> None:
    network, seen = cifarnet(3), []
    for module in network.trunk.modules():
        if isinstance(module, nn.Conv2d):
            module.register_forward_hook(
                lambda _module, _inputs, output: seen.append(output.is_contiguous(memory_format=torch.channels_last))
            )
    network(torch.zeros(4, 3, 32, 32, dtype=torch.uint8))
    assert seen == [True] * 4


def test_the_exact_fisher_works_with_channels_last() -> None:
    batch = Batch(torch.rand(3, 3, 32, 32) * 255, torch.arange(3))
    knobs = {"training.first.epochs": 1, "ewc.fisher": "per_example"}
    learner = build("ewc", cifarnet(3), knobs=knobs)
    learner.learn(batch)
    importance = learner.diagnostics()["F_hat"]
    assert importance is not None
    assert importance.max() > 0
