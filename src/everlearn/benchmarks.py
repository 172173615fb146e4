"""Benchmarks: a source, the stream of each run, and the network and setting that go with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from everlearn import data, models
from everlearn.catalogue import WHOLE
from everlearn.data.core50_lists import batches
from everlearn.data.scaling import scaled
from everlearn.data.source import Patterns, Source
from everlearn.errors import ConfigError, sentence
from everlearn.models import Network, cifarnet, small
from everlearn.parallel import ALONE, Ranks
from everlearn.presets import build
from everlearn.pretraining import cifarnet_cifar10, efficientnet_lite0_imagenet, small_mini50
from everlearn.strategy import Strategy
from everlearn.streams import Stream, class_order, groups, nc, ni, nic, run_generator
from everlearn.weights import load_weights, read_about


@dataclass(frozen=True)
class Benchmark:
    """source: loads the data; stream: the stream of a run; network, setting: the defaults.

    variants: what `NAME+variant` changes: arguments of the source, or the stream, the network and the setting.
    """

    source: Callable[..., Source]
    stream: Callable[[str, Source, int], Stream]
    network: str = "small"
    setting: str | None = None
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def varied(self, names: list[str]) -> "Benchmark":
        """This benchmark with these variants."""
        changes = {name: value for variant in names for name, value in self.variants[variant].items()}
        defaults = {name: changes.pop(name) for name in ("stream", "network", "setting") if name in changes}
        return replace(self, source=partial(self.source, **changes), **defaults)


def _growing(sizes: list[int]) -> Callable[[str, Source, int], Stream]:
    """Classes in groups of these sizes, in the run's order."""
    return lambda name, source, run: nc(name, source, groups(class_order(len(source.classes), run), sizes))


def object_groups() -> list[list[int]]:
    """CORe50's nine groups: the first object of each category, then five objects at a time, one of a category."""
    later = [[first + 5 * k for k in range(5)] for half in (0, 25) for first in range(half + 1, half + 5)]
    return [[5 * k for k in range(10)], *later]


def _core50_nc(name: str, source: Source, run: int) -> Stream:
    """B_1 is the same in every run; the order of the others changes."""
    first, *later = object_groups()
    order = run_generator("nc", len(later), run).permutation(len(later))
    return nc(name, source, [first, *(later[k] for k in order)])


def _training_sessions(source: Source) -> list[int]:
    return sorted({int(s) for s in np.unique(source.train.session)})


def _core50_ni(name: str, source: Source, run: int) -> Stream:
    """Eight sessions of all objects, in the run's order."""
    sessions = _training_sessions(source)
    return ni(name, source, [sessions[k] for k in run_generator("ni", len(sessions), run).permutation(len(sessions))])


def _core50_nic(name: str, source: Source, run: int) -> Stream:
    """79 batches: ten objects in one session, then five objects of one session at a time."""
    rng = run_generator("nic", 79, run)
    sessions = _training_sessions(source)
    start = int(rng.choice(sessions))
    first, *later = object_groups()
    rest = [(session, group) for session in sessions for group in later]
    rest += [(session, half) for session in sessions if session != start for half in (first[:5], first[5:])]
    return nic(name, source, [(start, first), *(rest[k] for k in rng.permutation(len(rest)))])


def _cifar_split(count: int) -> Callable[[str, Source, int], Stream]:
    """All of CIFAR-10, then ten classes of CIFAR-100 at a time, in the run's order; other classes are left out."""

    def stream(name: str, source: Source, run: int) -> Stream:
        later = groups([10 + c for c in class_order(100, run)], [10] * 10)
        order = [list(range(10)), *later][:count]
        there = sorted(c for group in order for c in group)
        return nc(name, source.only(there), [[there.index(c) for c in group] for group in order])

    return stream


def _whole(name: str, source: Source, run: int) -> Stream:
    """One batch with everything in it."""
    return nc(name, source, [list(range(len(source.classes)))])


def _core50(protocol: str) -> Callable[[str, Source, int], Stream]:
    """A protocol of the real CORe50, with its ten official runs."""

    def stream(name: str, source: Source, run: int) -> Stream:
        found = batches(cast(data.Core50, source), protocol, run)
        return Stream(name, source, found.places, found.about)

    return stream


CORE50 = Benchmark(
    data.core50,
    _core50("nc"),
    network="caffenet-128",
    setting="caffenet/core50",
    variants={
        "categories": {"labels": "category"},
        "32px": {"size": 32, "network": "cifarnet", "setting": None},
        "test20": {"test_every": 20},
    },
)


def _sessions_in_order(name: str, source: Source, run: int) -> Stream:
    return ni(name, source, _training_sessions(source))


BENCHMARKS: dict[str, Benchmark] = {
    "digits": Benchmark(data.digits, _growing([4, 2, 2, 2]), setting="small/digits"),
    "mini50": Benchmark(data.mini50, _core50_nc, network="small-mini50", setting="small/mini50"),
    "mini50-ni": Benchmark(data.mini50, _core50_ni, network="small-mini50", setting="small/mini50"),
    "mini50-nic": Benchmark(data.mini50, _core50_nic, network="small-mini50", setting="small/mini50"),
    "mini50-25x2": Benchmark(data.mini50, _growing([2] * 25), network="small-mini50", setting="small/mini50"),
    "cifar-10": Benchmark(data.cifar10, _whole, network="cifarnet"),
    "cifar-100": Benchmark(data.cifar100, _whole, network="cifarnet"),
    **{f"core50-{name}": replace(CORE50, stream=_core50(name)) for name in ("nc", "ni", "nic", "25x2")},
    "core50-whole": replace(CORE50, stream=_whole),
    **{f"core50-nicv2-{n}": replace(CORE50, stream=_core50(f"nicv2-{n}")) for n in (79, 196, 391)},
    "icifar-100": Benchmark(
        data.cifar100,
        _growing([10] * 10),
        network="cifarnet-cifar10",
        setting="cifarnet/icifar-100",
        variants={"joined": {"stream": _growing([10, 30, 30, 30])}},
    ),
    "cifar-split-6": Benchmark(data.cifar10_100, _cifar_split(6), network="cifarnet", setting="cifarnet/cifar-split-6"),
    "cifar-split-11": Benchmark(
        data.cifar10_100, _cifar_split(11), network="cifarnet", setting="cifarnet/cifar-split-6"
    ),
    "split-mnist": Benchmark(data.mnist, _growing([2] * 5)),
    "split-fashion": Benchmark(data.fashion_mnist, _growing([2] * 5)),
    "permuted-mnist": Benchmark(data.permuted_mnist, _sessions_in_order),
    "rotated-mnist": Benchmark(data.rotated_mnist, _sessions_in_order),
}
"""Benchmarks by name; nothing is loaded until one is used."""


SOURCES: dict[str, Callable[[], Source]] = {
    "digits": data.digits,
    "mini50": data.mini50,
    "cifar10": data.cifar10,
    "cifar100": data.cifar100,
    "mnist": data.mnist,
    "fashion-mnist": data.fashion_mnist,
}
"""Sources by name, for whole:NAME."""


SIDES = {"caffenet-128": 128, "caffenet-128-conv": 128, "googlenet-128": 128, "nin-128": 128}
SIDES |= {"caffenet": 227, "googlenet": 224, "efficientnet-lite0": 224, "efficientnet-lite0-imagenet": 224}
"""What a folder of images is scaled to for a network; for others, 32 pixels."""
ANY_SIDE = ("resnet-18", "resnet-50", "efficientnet-lite0", "efficientnet-lite0-imagenet")
"""Networks for RGB of 32 × 32 pixels and more."""
ANY_SHAPE = ("small",)


def _for_network(name: str, source: Source) -> Source:
    """A source as a network takes it."""
    if name in ANY_SHAPE:
        return source
    return scaled(source, max(32, *source.shape[1:]) if name in ANY_SIDE else SIDES.get(name, 32))


def _source(name: str, network: str | None = None) -> Source:
    """A source by name, a .npz file or a folder of images, which are scaled for the network."""
    path = Path(name)
    if name in SOURCES:
        return SOURCES[name]()
    if path.is_dir():
        side = SIDES.get(network or "", 32)
        return data.image_folder(path, size=(side, side))
    if path.suffix == ".npz":
        return data.npz(path)
    raise ConfigError(
        sentence(
            "Unknown source",
            expected=f"one of {list(SOURCES)}, a .npz file or a folder of images by class",
            got=repr(name),
            do="Check the name or the path.",
        )
    )


def benchmark_of(name: str, network: str | None = None) -> Benchmark:
    """A benchmark by name, with its variants behind plus signs: core50-nc+categories+32px.

    whole:SOURCE is any source as one batch, by name (whole:cifar10) or by path (whole:photos/, whole:mine.npz).
    network: that folders of images are scaled for.
    """
    if name.startswith(WHOLE):
        return Benchmark(partial(_source, name.removeprefix(WHOLE), network), _whole)
    base, *variants = name.split("+")
    if base not in BENCHMARKS:
        raise ConfigError(
            sentence("Unknown benchmark", expected=f"one of {list(BENCHMARKS)}", got=repr(name), do="Choose one.")
        )
    chosen = BENCHMARKS[base]
    unknown = [variant for variant in variants if variant not in chosen.variants]
    if unknown:
        known = [f"{base}+{variant}" for variant in chosen.variants] or "none"
        raise ConfigError(sentence("Unknown variant", expected=known, got=repr(name), do="Choose one or several."))
    return chosen.varied(variants)


def make_network(name: str, source: Source, seed: int) -> Network:
    """A network by name, for the patterns and classes of a source."""
    classes, bytes_ = len(source.classes), source.train.x.dtype == np.uint8
    makers: Mapping[str, Callable[[], Network]] = {
        "small": lambda: small(classes, source.shape, normalise=bytes_, seed=seed),
        "small-mini50": lambda: small_mini50(classes, seed=seed),
        "cifarnet": lambda: cifarnet(classes, normalise=bytes_, seed=seed),
        "cifarnet-cifar10": lambda: cifarnet_cifar10(classes, normalise=bytes_, seed=seed),
        "caffenet-128": lambda: models.caffenet_128(classes, seed=seed),
        "caffenet-128-conv": lambda: models.caffenet_128(classes, fully_connected=False, seed=seed),
        "caffenet": lambda: models.caffenet(classes, seed=seed),
        "googlenet-128": lambda: models.googlenet_128(classes, seed=seed),
        "googlenet": lambda: models.googlenet(classes, seed=seed),
        "nin-128": lambda: models.nin_128(classes, seed=seed),
        "resnet-18": lambda: models.resnet_18(classes, source.shape, normalise=bytes_, seed=seed),
        "resnet-32": lambda: models.resnet_32(classes, normalise=bytes_, seed=seed),
        "resnet-50": lambda: models.resnet_50(classes, source.shape, normalise=bytes_, seed=seed),
        "efficientnet-lite0": lambda: models.efficientnet_lite0(classes, source.shape, normalise=bytes_, seed=seed),
        "efficientnet-lite0-imagenet": lambda: efficientnet_lite0_imagenet(
            classes, source.shape, normalise=bytes_, seed=seed
        ),
    }
    if name not in makers:
        raise ConfigError(
            sentence("Unknown network", expected=f"one of {list(makers)}", got=repr(name), do="Choose one.")
        )
    return makers[name]()


def prepare(
    benchmark: str,
    *,
    strategy: str,
    run: int = 1,
    setting: str | None = None,
    network: str | None = None,
    weights: str | None = None,
    knobs: Mapping[str, Any] | None = None,
    seed: int = 1,
    held_out: float = 0.0,
    device: str = "cpu",
    ranks: Ranks = ALONE,
) -> tuple[Stream, Patterns, Strategy]:
    """The stream of a run, the patterns to test on, and a learner that has seen nothing yet.

    weights: a file of weights of ours that the network starts from. ranks: the processes that learn it together.
    """
    check_device(device)
    chosen = benchmark_of(benchmark, network)
    refuse_known(benchmark, network or chosen.network, weights)
    stream = stream_of(benchmark, network, run)
    if held_out:
        stream = hold_out(stream, held_out, seed)
    net = make_network(network or chosen.network, stream.source, seed)
    if weights is not None:
        load_weights(weights, net)
    learner = build(
        strategy, net, setting=setting or chosen.setting, knobs=knobs, seed=seed, device=device, ranks=ranks
    )
    return stream, stream.test, learner


def stream_of(benchmark: str, network: str | None, run: int) -> Stream:
    """The batches of a run, as a network takes their patterns."""
    chosen = benchmark_of(benchmark, network)
    source = chosen.source()
    if chosen.stream is _whole:
        source = _for_network(network or chosen.network, source)
    return chosen.stream(benchmark, source, run)


def refuse_known(benchmark: str, network: str, weights: str | None) -> None:
    """Refuse to begin CIFAR-10/100 Split with weights that have learnt CIFAR-10 already: it is B_1.

    >>> refuse_known("cifar-split-6", "cifarnet-cifar10", None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    everlearn.errors.ConfigError: These weights know B_1 already: expected ..., got cifarnet-cifar10. ...
    """
    if not benchmark.startswith("cifar-split"):
        return
    if network == "cifarnet-cifar10" or (weights is not None and read_about(weights).get("benchmark") == "cifar-10"):
        raise ConfigError(
            sentence(
                "These weights know B_1 already",
                expected="weights that have not learnt CIFAR-10, which is B_1 of this stream",
                got=weights or network,
                do="Start from random ones: --network cifarnet.",
            )
        )


def check_device(name: str) -> None:
    """Refuse a device that is not there.

    >>> check_device("abacus")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    everlearn.errors.ConfigError: This device cannot be used: expected cpu, ..., got 'abacus' ...
    """
    try:
        float(torch.zeros(1, device=name))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigError(
            sentence(
                "This device cannot be used",
                expected="cpu, or one that PyTorch finds here",
                got=f"{name!r} ({str(error).splitlines()[0]})",
                do="Choose another --device.",
            )
        ) from error


def hold_out(stream: Stream, share: float, seed: int) -> Stream:
    """The stream with a part of its training patterns in place of the test set; batches left empty are dropped.

    Where every batch is of several sessions, whole sessions are held out, since the test set is of other sessions too;
    else a share of every class of every batch; which, the seed says.
    """
    train, rng = stream.source.train, np.random.default_rng(seed)
    sessions = np.unique(train.session)
    out = rng.permutation(sessions)[: max(1, round(share * len(sessions)))]
    by_session = np.isin(train.session, out)
    if len(sessions) > 1 and not any(by_session[places].all() for places in stream.indices):
        held = by_session
    else:
        rng = np.random.default_rng(seed)
        held = np.zeros(len(train), dtype=bool)
        for places in (places[train.y[places] == c] for c in np.unique(train.y) for places in stream.indices):
            held[rng.permutation(places)[: min(len(places) - 1, max(1, round(share * len(places))))]] = len(places) > 1
    test = Patterns(train.x[held], train.y[held], train.session[held])
    kept = tuple(places[~held[places]] for places in stream.indices)
    return replace(stream, source=replace(stream.source, test=test), indices=tuple(filter(len, kept)))
