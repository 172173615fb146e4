"""Every preset learns, predicts and resumes on a device that is not the CPU, and learns the same there."""

from collections.abc import Callable

import pytest
import torch

from everlearn import Strategy
from everlearn.models import Network
from everlearn.recipes.presets import build
from tests.elsewhere import ELSEWHERE, Elsewhere
from tests.toys import NAMES, QUICK, assert_same_state, plain_network, three_outputs, toy_stream


def make(name: str, network: Network, device: torch.device) -> Strategy:
    fisher = {"ewc.minibatch": 8} if "ewc" in name else {}
    return build(name, network, knobs={**QUICK, **fisher}, seed=3, device=device)


@pytest.mark.parametrize("network", [plain_network, three_outputs])
@pytest.mark.parametrize("name", NAMES)
def test_a_preset_learns_elsewhere_what_it_learns_on_the_cpu(name: str, network: Callable[[], Network]) -> None:
    first, second, _ = toy_stream()
    here = make(name, network(), torch.device("cpu"))
    for batch in (first, second):
        here.learn(batch)
    predicted, reached = here.predict(first.x), here.evaluate(second)
    with Elsewhere() as place:
        there = make(name, network(), ELSEWHERE)
        for batch in (first, second):
            there.learn(batch)
        assert place.operations > 100
        assert all(place.has(tensor) for tensor in there.weights().values() if tensor.numel())
        assert torch.equal(there.predict(first.x), predicted)
        assert there.evaluate(second) == reached
        again = make(name, network(), ELSEWHERE)
        again.load_state_dict(there.state_dict())
        assert all(place.has(tensor) for tensor in again.weights().values() if tensor.numel())
    assert_same_state(there.state_dict(), here.state_dict())


def test_the_second_device_refuses_what_a_gpu_refuses() -> None:
    with Elsewhere():
        away = torch.ones(3, device=ELSEWHERE)
        assert away.device == ELSEWHERE
        assert (away + away).device == ELSEWHERE
        assert (away + torch.tensor(1.0)).device == ELSEWHERE  # a number may come from the CPU
        assert away.cpu().device.type == "cpu"
        with pytest.raises(RuntimeError, match="elsewhere"):
            away + torch.ones(3)
        with pytest.raises(RuntimeError, match="elsewhere"):
            torch.cat([away, torch.ones(3)])
        with pytest.raises(TypeError, match="numpy"):
            away.numpy()
