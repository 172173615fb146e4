"""Benchmarks: a source, the stream of each run, and the network and setting that go with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from everlearn import data
from everlearn._kit import plugins
from everlearn._kit.catalogue import OWN, own
from everlearn.benchmarks.networks import SIDES
from everlearn.data.core50_lists import batches
from everlearn.data.source import Source
from everlearn.errors import ConfigError, sentence
from everlearn.streams import Stream, class_order, groups, nc, ni, nic, run_generator


@dataclass(frozen=True)
class Benchmark:
    """source: loads the data; stream: the stream of a run; network, setting: the defaults.

    settings: of networks other than the default. variants: what `NAME+variant` changes: arguments of the source, or
    the stream, the network and the setting.
    scaled: patterns are brought to the size that a network takes.
    """

    source: Callable[..., Source]
    stream: Callable[[str, Source, int], Stream]
    network: str = "small"
    setting: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    scaled: bool = False

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


def _at_a_time(count: int) -> Callable[[str, Source, int], Stream]:
    """So many classes at a time, in the run's order; the last batch has what is left."""

    def stream(name: str, source: Source, run: int) -> Stream:
        order = class_order(len(source.classes), run)
        return nc(name, source, [order[k : k + count] for k in range(0, len(order), count)])

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
    settings=dict.fromkeys(("googlenet-128", "googlenet"), "googlenet/core50"),
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
    "cifar-10": Benchmark(data.cifar10, _whole, network="cifarnet", scaled=True),
    "cifar-100": Benchmark(data.cifar100, _whole, network="cifarnet", scaled=True),
    **{f"core50-{name}": replace(CORE50, stream=_core50(name)) for name in ("nc", "ni", "nic", "25x2")},
    "core50-whole": replace(CORE50, stream=_whole, scaled=True),
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
"""Our sources by name, for split-N:NAME and whole:NAME; others come by entry points of `everlearn.sources`."""


def _source(name: str, network: str | None = None) -> Source:
    """A source by name, a .npz file or a folder of images, which are scaled for the network."""
    path = Path(name)
    if name in SOURCES:
        return SOURCES[name]()
    if name in plugins.SOURCES:
        return _brought(name, plugins.SOURCES.load(name)())
    if path.is_dir():
        side = SIDES.get(network or "", 32)
        return data.image_folder(path, size=(side, side))
    if path.suffix == ".npz":
        return data.npz(path)
    raise ConfigError(
        sentence(
            "Unknown source",
            expected=f"one of {[*SOURCES, *plugins.SOURCES.points]}, a .npz file or a folder of images by class",
            got=repr(name),
            do="Check the name or the path.",
        )
    )


def _brought(name: str, source: object) -> Source:
    """A source of another package, or why it is none."""
    if not isinstance(source, Source):
        raise plugins.SOURCES.refusal(name, f"its function gave a {type(source).__name__}, not a Source")
    return source


def absolute(name: str) -> str:
    """The same benchmark wherever it is asked for: with the whole path of data of one's own.

    >>> absolute("icifar-100"), absolute("split-2:mnist"), absolute("split-2:photos") == f"split-2:{Path.cwd()}/photos"
    ('icifar-100', 'split-2:mnist', True)
    """
    mine = own(name)
    named = mine is None or mine[1] in SOURCES or mine[1] in plugins.SOURCES
    return name if mine is None or named else name.removesuffix(mine[1]) + str(Path(mine[1]).absolute())


def benchmark_of(name: str, network: str | None = None) -> Benchmark:
    """A benchmark by name, with its variants behind plus signs: core50-nc+categories+32px.

    split-N:SOURCE is any source, N classes at a time, by name (split-2:mnist) or by path (split-2:photos/,
    split-5:mine.npz); whole:SOURCE is it as one batch. network: that folders of images are scaled for, and that the
    setting is of.
    """
    if (mine := own(name)) is not None:
        count, source = mine
        stream = _whole if count is None else _at_a_time(count)
        return Benchmark(partial(_source, source, network), stream, scaled=True)
    base, *variants = name.split("+")
    if base not in BENCHMARKS:
        do = f"For data of your own: split-2:{name}, two classes at a time." if Path(name).exists() else "Choose one."
        names = f"one of {list(BENCHMARKS)}, or {' or '.join(OWN)}"
        raise ConfigError(sentence("Unknown benchmark", expected=names, got=repr(name), do=do))
    chosen = BENCHMARKS[base]
    unknown = [variant for variant in variants if variant not in chosen.variants]
    if unknown:
        known = [f"{base}+{variant}" for variant in chosen.variants] or "none"
        raise ConfigError(sentence("Unknown variant", expected=known, got=repr(name), do="Choose one or several."))
    chosen = chosen.varied(variants)
    return replace(chosen, setting=chosen.settings.get(network or "", chosen.setting))
