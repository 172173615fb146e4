"""Slots that are not ours go through the same commands: a projection, a head with a closed form, a loss of its own."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import everlearn
from everlearn import Batch, Strategy
from everlearn.cli import main
from tests.outside.conftest import HERE
from tests.toys import QUICK, assert_same_state, plain_network, three_outputs, toy_batch, toy_stream

pytestmark = pytest.mark.usefixtures("installed")
NAMES = ("toy-agem", "toy-ncm", "toy-der")


def learner(name: str, network: Any = None, **knobs: Any) -> Strategy:
    quick = {} if name == "toy-ncm" else QUICK
    return everlearn.build(name, network or three_outputs(), knobs={**quick, **knobs}, seed=3)


def records(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if not name.startswith("seconds")} for line in lines]


@pytest.mark.parametrize("name", ["agem", "ncm", "der"])
def test_a_method_takes_at_most_sixty_lines(name: str) -> None:
    assert len((HERE / "everlearn_toy" / f"{name}.py").read_text().splitlines()) <= 60


def test_compare_resume_and_ledger(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the real digits: two batches, then the rest, are the whole; what is kept is in the records by name."""
    call = ["compare", "--benchmark", "digits", "--strategies", ",".join(NAMES), "--jobs", "2"]
    assert main([*call, "--batches", "2", "--out", str(tmp_path / "cut")]) == 0
    assert main([*call, "--out", str(tmp_path / "cut")]) == 0
    assert main([*call, "--out", str(tmp_path / "whole")]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in NAMES)
    kept = {"toy-agem": "memory.kept_", "toy-ncm": "head.sums_", "toy-der": "memory.kept_"}
    for name in NAMES:
        cut, whole = (records(tmp_path / there / name / "run-1") for there in ("cut", "whole"))
        assert cut == whole
        assert len(whole) == 4
        assert whole[-1]["storage"][kept[name]] > 0
        assert whole[-1]["accuracy"] > 0.3  # Naive's is 0.2
    assert main(["report", str(tmp_path / "whole")]) == 0
    assert main(["doctor", str(tmp_path / "whole")]) in (0, 3)


@pytest.mark.parametrize(
    ("name", "growth"), [(name, "maximal") for name in NAMES] + [("toy-agem", "expanding"), ("toy-ncm", "expanding")]
)
def test_resumed_in_the_middle_of_a_batch(name: str, growth: str, tmp_path: Path) -> None:
    """Bit for bit, also where patterns are replayed and the head grows."""
    stream, whole = toy_stream(), learner(name, **{"head.growth": growth})
    states: list[Any] = []
    for batch in stream:
        whole.learn(batch, on_step=lambda step: states.append(whole.state_dict()) if step.step == 2 else None)
    if name == "toy-ncm":
        assert not states  # no step was made
        return
    again = learner(name, **{"head.growth": growth})
    again.load_state_dict(states[1])
    for batch in stream[1:]:
        again.learn(batch)
    assert_same_state(whole.state_dict(), again.state_dict())
    assert whole.storage().why["memory.kept_"]


def test_the_projected_gradient_is_not_against_what_is_kept() -> None:
    """g̃·g_ref ≥ 0 at every step, g̃ = g where it was so already, and else the nearest that is."""
    chosen = learner("toy-agem", plain_network())
    constrain, steps = chosen.regulariser.constrain, list[bool]()

    def checked() -> None:
        before = chosen.bench.scope.grad.clone()
        constrain()
        after, kept = chosen.bench.scope.grad, chosen.memory.parts()
        if kept:
            old = Batch(torch.cat([batch.x for batch in kept]), torch.cat([batch.y for batch in kept]))
            g_ref = chosen.bench.gradient(old)
            violated = bool(before @ g_ref < 0)
            steps.append(violated)
            expected = before - (before @ g_ref) / (g_ref @ g_ref) * g_ref if violated else before
            torch.testing.assert_close(after, expected)
            assert float(after @ g_ref) >= -1e-5

    chosen.regulariser.constrain = checked  # type: ignore[method-assign]
    for batch in toy_stream():
        chosen.learn(batch)
    assert any(steps)


def test_asking_for_another_gradient_leaves_that_of_the_step() -> None:
    """By `bench.gradient`, with dropout and batch norm in the network: evaluation mode, no random number."""
    asked, left_alone = (learner("toy-agem") for _ in range(2))
    constrain = asked.regulariser.constrain

    def ask() -> None:
        state = torch.get_rng_state()
        first = asked.bench.gradient(toy_batch([0, 1]))
        second = asked.bench.gradient(toy_batch([0, 1]), lambda outputs, y: asked.bench.L_cross(outputs, y))
        assert torch.equal(first, second)
        assert torch.equal(torch.get_rng_state(), state)
        constrain()

    asked.regulariser.constrain = ask  # type: ignore[method-assign]
    for batch in toy_stream():
        asked.learn(batch)
        left_alone.learn(batch)
    assert_same_state(asked.state_dict(), left_alone.state_dict())


def test_the_gradient_is_that_of_autograd() -> None:
    chosen, batch = learner("toy-agem", plain_network()), toy_batch(range(7))
    network = chosen.network.eval()
    outputs = network(batch.x)
    L = torch.nn.functional.cross_entropy(outputs[-1], batch.y)
    named = dict(network.named_parameters())
    expected = torch.autograd.grad(L, [named[s.name] for s in chosen.theta.segments])
    torch.testing.assert_close(chosen.bench.gradient(batch), torch.cat([part.reshape(-1) for part in expected]))


def test_nearest_means_are_those_of_all_patterns_in_any_order() -> None:
    """The means of a naive oracle, the same for every order of the batches; no weight moves."""
    stream = toy_stream()
    network = three_outputs()
    before = {name: value.clone() for name, value in network.trunk.state_dict().items()}
    forwards, backwards = learner("toy-ncm", network), learner("toy-ncm")
    for batch in stream:
        forwards.learn(batch)
    for batch in reversed(stream):
        backwards.learn(batch)
    after = forwards.network.trunk.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    x, y = torch.cat([b.x for b in stream]), torch.cat([b.y for b in stream])
    features = forwards.bench.features(x)
    means = torch.stack([features[y == c].mean(dim=0) for c in range(7)])
    probe = toy_batch(range(7), seed=1)
    distances = torch.stack([(forwards.bench.features(probe.x) - mean).norm(dim=1) for mean in means], dim=1)
    for chosen in (forwards, backwards):
        torch.testing.assert_close(-chosen.scores(probe.x, "all"), distances, rtol=1e-3, atol=1e-3)
    single = learner("toy-ncm")
    single.learn(toy_batch([4]))  # one class is enough where there is no softmax
    assert single.predict(probe.x).unique().tolist() == [4]


def test_replayed_logits_are_held_and_belong_to_their_patterns() -> None:
    """What is kept are old patterns with their own labels and logits; alpha = 0 forgets more."""
    ends: list[Tensor] = []
    for alpha in (0.0, 20.0):
        chosen = learner("toy-der", plain_network(dropout=0.0), **{"der.alpha": alpha, "toy_reservoir.size": 30})
        stream = toy_stream()
        chosen.learn(stream[0])
        then = chosen.bench.logits(stream[0].x)[-1]
        kept = chosen.memory.kept_  # type: ignore[attr-defined]
        assert len(kept["y"]) == 30
        for x, y, logits in zip(kept["x"], kept["y"], kept["logits"], strict=True):
            [place] = [k for k in range(len(stream[0])) if torch.equal(stream[0].x[k], x)]
            assert y == stream[0].y[place]
            torch.testing.assert_close(logits, then[place])
        for batch in stream[1:]:
            chosen.learn(batch)
        ends.append((chosen.bench.logits(stream[0].x)[-1] - then).square().mean())
    assert ends[1] < 0.5 * ends[0]
