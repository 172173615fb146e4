"""Networks: counts, shapes, trunk and output layers, and wrapping a module of one's own."""

import pytest
import torch
from torch import Tensor, nn

from everlearn import build
from everlearn.errors import NetworkError
from everlearn.models import Network, Normalise, Output, cifarnet, small, wrap
from tests.toys import QUICK, three_outputs, toy_stream


def weights(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def test_cifarnet_layer_by_layer() -> None:
    """Conv 3·3·3·32+32 = 896, 9,248, 18,496, 36,928; fc 2304·512+512 = 1,180,160; output 512·100+100 = 51,300."""
    network = cifarnet(classes=100)
    layers = [m for m in network.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    assert [weights(m) for m in layers] == [896, 9248, 18496, 36928, 1180160, 51300]
    assert weights(network) == 1_297_028
    shapes = []
    x = torch.zeros(1, 3, 32, 32)
    assert isinstance(network.trunk, nn.Sequential)
    for layer in network.trunk:
        x = layer(x)
        if isinstance(layer, nn.Conv2d | nn.MaxPool2d | nn.Linear):
            shapes.append(tuple(x.shape[1:]))
    maps = [(32, 32, 32), (32, 30, 30), (32, 15, 15), (64, 15, 15), (64, 13, 13), (64, 6, 6), (512,)]
    assert shapes == maps
    dropouts = [m.p for m in network.modules() if isinstance(m, nn.Dropout)]
    assert dropouts == [0.25, 0.25, 0.5]
    assert network.output_layers[0].dropout.p == 0.5


def test_cifarnet_starts_as_glorot_says() -> None:
    network = cifarnet(classes=100)
    fc = next(m for m in network.modules() if isinstance(m, nn.Linear))
    bound = (6 / (2304 + 512)) ** 0.5
    assert fc.weight.abs().max() <= bound
    assert float(fc.weight.detach().std()) == pytest.approx(bound / 3**0.5, rel=0.01)
    assert not any(p.any() for name, p in network.named_parameters() if name.endswith("bias"))


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32)])
def test_small_takes_small_patterns(shape: tuple[int, int, int]) -> None:
    network = small(classes=5, input_shape=shape)
    assert network(torch.zeros(2, *shape))[0].shape == (2, 5)


def test_small_refuses_patterns_that_are_too_small() -> None:
    with pytest.raises(NetworkError, match="expected at least 4×4, got 3×9"):
        small(classes=2, input_shape=(1, 3, 9))


def test_normalise() -> None:
    x = torch.tensor([0, 255], dtype=torch.uint8).view(1, 2, 1, 1)
    out = Normalise(mean=[1.0, 55.0], std=[2.0, 100.0])(x)
    assert out.flatten().tolist() == [-0.5, 2.0]


class Two(nn.Module):
    """A module as a user has one: two classifiers, one of them deep inside."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU())
        self.side = nn.ModuleDict({"classifier": nn.Linear(16, 7)})
        self.drop = nn.Dropout(0.5)
        self.fc = nn.Linear(16, 7)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        h = self.body(x)
        return self.side["classifier"](h), self.fc(self.drop(h))


def test_wrap_splits_a_module_and_keeps_its_function() -> None:
    module = Two().eval()
    x = toy_stream()[0].x
    expected = module(x)
    network = wrap(module, ["side.classifier", "fc"], x[:1], loss_weights=[0.3, 1.0]).eval()
    for a, b in zip(network(x), expected, strict=True):
        assert torch.equal(a, b)
    assert [type(o.dropout) for o in network.output_layers] == [nn.Identity, nn.Dropout]
    assert [o.loss_weight for o in network.output_layers] == [0.3, 1.0]
    assert {name.split(".")[0] for name, _ in network.named_parameters()} == {"trunk", "outputs"}
    learner = build("ar1", network, knobs=QUICK)
    for batch in toy_stream():
        learner.learn(batch)
    assert learner.storage().paper == 2 * 7 * 16 + 2 * (weights(network) - 2 * 7 * 16)


def test_wrap_leaves_batch_norm_statistics_and_modes_alone() -> None:
    module = nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.1), nn.Linear(64, 7))
    before = torch.random.get_rng_state()
    network = wrap(module, ["3"], torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(before, torch.random.get_rng_state())
    assert not network.trunk[1].running_mean.any()  # type: ignore[index]
    assert all(m.training for m in network.modules())
    assert isinstance(network.output_layers[0].dropout, nn.Dropout)


def test_wrap_refuses_what_is_no_output() -> None:
    x = torch.zeros(1, 1, 8, 8)
    with pytest.raises(NetworkError, match=r"no such output layer.*got \['head'\].*Choose from: .*fc"):
        wrap(Two(), ["head"], x)
    with pytest.raises(NetworkError, match="not the outputs of the module"):
        wrap(Two(), ["fc"], x)
    with pytest.raises(NetworkError, match="not the outputs of the module"):
        wrap(Two(), ["fc", "side.classifier"], x)
    with pytest.raises(NetworkError, match="tail="):
        wrap(nn.Sequential(nn.Flatten(), nn.Linear(64, 7), nn.ReLU()), ["1"], x)
    with pytest.raises(NetworkError, match="expected 1 weights, got 2"):
        wrap(nn.Sequential(nn.Flatten(), nn.Linear(64, 7)), ["1"], x, loss_weights=[1, 2])
    with pytest.raises(NetworkError, match="no rows to consolidate"):
        wrap(nn.Sequential(nn.Flatten(), nn.Linear(64, 7), nn.ReLU()), ["2"], x)


def test_networks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(NetworkError, match=r"equally many rows, got \[3, 4\]"):
        Network(nn.Flatten(), [Output(nn.Linear(4, 3)), Output(nn.Linear(4, 4))])
    with pytest.raises(NetworkError, match="weights of its own"):
        Output(nn.Linear(4, 3), tail=nn.Linear(3, 3))
    with pytest.raises(NetworkError, match="expected 2 tensors from the trunk"):
        Network(nn.Flatten(), [Output(nn.Linear(4, 3)), Output(nn.Linear(4, 3))])(torch.zeros(1, 4))


def test_rows_act_before_the_tail() -> None:
    """The middle output ends in a ReLU: what it gives is never negative, whatever its rows."""
    network = three_outputs().eval()
    x = toy_stream()[0].x
    with torch.no_grad():
        network.output_layers[1].layer.weight.normal_(generator=torch.Generator().manual_seed(0))
        network.output_layers[1].layer.weight[0] = -1.0
    middle = network(x)[1]
    assert middle.shape == (len(x), 7)
    assert middle.min() >= 0
    assert middle.max() > 0


@pytest.mark.parametrize("layer", [nn.Linear(3, 4), nn.Conv2d(3, 4, 1), nn.Linear(3, 4, bias=False)])
def test_rows_grow_and_shrink(layer: nn.Linear | nn.Conv2d) -> None:
    output = Output(layer)
    before = layer.weight.detach().clone()
    output.set_rows(6)
    assert output.rows == 6
    assert torch.equal(layer.weight[:4], before)
    assert not layer.weight[4:].any()
    assert (layer.out_features if isinstance(layer, nn.Linear) else layer.out_channels) == 6
    output.set_rows(2)
    assert torch.equal(layer.weight, before[:2])
    output.set_rows(0)
    assert output.pn == 3


def test_parameters_that_do_not_train_stay_outside_theta() -> None:
    network = three_outputs()
    fixed = next(network.trunk.parameters())
    fixed.requires_grad_(False)
    before = fixed.detach().clone()
    learner = build("ar1", network, knobs=QUICK)
    assert learner.theta.m == weights(network) - fixed.numel()
    for batch in toy_stream():
        learner.learn(batch)
    assert torch.equal(fixed, before)
    assert not fixed.requires_grad
