"""Short cuts give what the long way gives: a frozen trunk that runs once, channels last."""

import os
import platform
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import nn

from benchmarks.operations import our_step, plain_step
from benchmarks.sizes import SIZES
from everlearn import Batch, Step, Strategy, models
from everlearn.errors import DataError
from everlearn.learning.learner import Rows
from everlearn.models import Network, cifarnet
from everlearn.recipes.presets import build
from tests.toys import assert_same_state, plain_network, quick, three_outputs, toy_stream

ROOT = Path(__file__).parents[2]
FROZEN = ["fw", "cw", "cwr", "cwr+", "cwr*"]


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
    assert ledger.within["sgd.grad"].values == 7 * 9 + 7  # the output layer's alone
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


@pytest.mark.parametrize("name", ["caffenet_128", "googlenet_128", "nin_128", "resnet_18", "resnet_32", "resnet_50"])
def test_every_large_network_gives_the_same_with_channels_last(name: str) -> None:
    network: Network = getattr(models, name)(5).eval()
    assert network.memory_format == torch.channels_last
    side = 32 if name == "resnet_32" else 128
    x = torch.randint(0, 256, (2, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for dtype, outputs, gradients in ((torch.float32, 1e-5, None), (torch.float64, 1e-12, 1e-12)):
        network.to(dtype)
        given = []
        for memory_format in (torch.channels_last, torch.contiguous_format):
            with network.laid_out(memory_format):
                logits = network(x.to(dtype))
            loss = torch.stack([nn.functional.cross_entropy(z, torch.arange(2)) for z in logits]).sum()
            given.append((logits, torch.autograd.grad(loss, list(network.parameters()))))
        (left, left_grads), (right, right_grads) = given
        assert all(within(a, b, outputs) for a, b in zip(left, right, strict=True))
        if gradients is not None:  # in single precision rounding may choose another maximum in a pool, either way
            assert all(within(a, b, gradients) for a, b in zip(left_grads, right_grads, strict=True))


def within(left: torch.Tensor, right: torch.Tensor, tolerance: float) -> bool:
    """Whether they differ by at most that share of the largest value."""
    return bool((left - right).abs().max() <= tolerance * right.abs().max())


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


@pytest.mark.parametrize("name", ["ar1", "ar1-ewc", "lwf"])
def test_blocks_of_any_length_give_the_same_bit_for_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    learners = []
    for length in (64, 2**17):  # several blocks, and one
        monkeypatch.setattr("everlearn.learning.theta.BLOCK", length)
        learners.append(quick(name))
        for batch in toy_stream():
            learners[-1].learn(batch)
    assert_same_state(learners[0].state_dict(), learners[1].state_dict())


@pytest.mark.parametrize("growth", ["maximal", "expanding"])
def test_evaluation_is_one_pass_and_gives_what_two_give(growth: str) -> None:
    learner = quick("naive", head__growth=growth)
    first, second, _ = toy_stream()
    with pytest.raises(DataError, match="nothing to score"):
        learner.evaluate(first)
    learner.learn(first)
    learner.learn(second)
    sizes = count_trunk(learner.network)
    reached = learner.evaluate(first)
    assert sum(sizes) == len(first)
    every, seen = (learner.predict(first.x, rows) for rows in get_args(Rows))
    assert reached.all_rows == float((every == first.y).double().mean())
    assert reached.seen == float((seen == first.y).double().mean())


def test_a_step_costs_little_beyond_a_plain_loops() -> None:
    """Counted, not timed: the values that a step reads and writes beside forward, backward and SGD by hand."""
    size = SIZES["tiny"]
    floor, m = plain_step(size), sum(p.numel() for p in size.make_network().parameters())
    for name, limit in (("naive", 0.1), ("ewc", 10.1), ("si", 14.1), ("ar1", 14.1)):  # the gradient as a vector: 2·m
        step = our_step(name, size)
        assert step.operations["convolution_backward"] == floor.operations["convolution_backward"] > 0
        assert step.minus(floor).values / m <= limit, name


@pytest.mark.parametrize("network", [plain_network, three_outputs])
@pytest.mark.parametrize("name", ["naive", "lwf", "cwr+", "ar1"])
def test_a_gradient_that_nobody_asks_for_is_no_vector_and_the_step_is_the_same(
    name: str, network: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A regulariser that looks at Θ's gradient at every step and does nothing with it changes no bit."""
    usual, asked = quick(name, network()), quick(name, network())
    constrain = asked.regulariser.constrain

    def look() -> None:
        assert asked.bench.scope.grad.isfinite().all()
        constrain()

    monkeypatch.setattr(asked.regulariser, "constrain", look)
    vectors: dict[str, set[int]] = {"usual": set(), "asked": set()}

    def note(which: str, learner: Strategy, step: Step) -> None:
        if learner.theta._vector is not None:
            vectors[which].add(step.i)

    for batch in toy_stream():
        usual.learn(batch, on_step=partial(note, "usual", usual))
        asked.learn(batch, on_step=partial(note, "asked", asked))
    assert_same_state(usual.state_dict(), asked.state_dict())
    assert vectors == {"usual": {2, 3} if name == "ar1" else set(), "asked": {1, 2, 3}}  # AR1's pull wants one


FAULTS = """
import resource
from everlearn._kit.allocation import give_back, keep_memory
from tests.learning.test_speed import QUICK_BATCH, build, cifarnet
kept = keep_memory()
learner = build("naive", cifarnet(3), knobs={"training.first.epochs": 8, "training.minibatch": 128})
counts = []
learner.learn(QUICK_BATCH, on_step=lambda _: counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt))
give_back()
print(kept, (counts[-1] - counts[3]) // (len(counts) - 4), float(learner.theta.value.double().sum()))
"""
QUICK_BATCH = Batch(torch.arange(128 * 3 * 32 * 32).view(128, 3, 32, 32).to(torch.uint8), torch.arange(128) % 3)


@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="only glibc's allocator is told to keep memory")
def test_memory_is_kept_and_nothing_else_changes() -> None:
    """New pages a step are counted: with a fixed threshold of glibc's they are tens of thousands. One's own settings
    come first. glibc's own threshold grows as blocks are freed, so that its count differs from process to process.
    """
    results = {}
    own = {"system": {"EVERLEARN_ALLOCATOR": "system"}, "own": {"MALLOC_TOP_PAD_": "131072"}}
    for how in ("ours", "system", "own"):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **own.get(how, {})}
        done = subprocess.run(
            [sys.executable, "-c", FAULTS], capture_output=True, text=True, check=False, env=environment, cwd=ROOT
        )
        assert done.returncode == 0, done.stderr
        kept, faults, total = done.stdout.split()
        assert kept == str(how == "ours")
        results[how] = int(faults), total
    assert results["ours"][1] == results["system"][1] == results["own"][1]
    assert 4 * results["ours"][0] < results["own"][0]
