"""A run's stream, its test patterns and its learner, ready to begin."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from everlearn._kit.catalogue import own
from everlearn.benchmarks.known import benchmark_of
from everlearn.benchmarks.networks import for_network, make_network
from everlearn.data.source import Patterns
from everlearn.errors import ConfigError, sentence
from everlearn.learning.learner import Learner
from everlearn.learning.parallel import ALONE, Ranks
from everlearn.recipes import recipe_of
from everlearn.streams import Stream
from everlearn.weights import load_weights, read_about


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
) -> tuple[Stream, Patterns, Learner]:
    """The stream of a run, the patterns to test on, and a learner that has seen nothing yet.

    Args:
        benchmark: by name, see `everlearn list benchmarks`.
        strategy: by name, see `everlearn list strategies`.
        run: numbers the order of the classes, from 1.
        setting: the hyperparameter set; by default the benchmark's.
        network: by name; by default the benchmark's.
        weights: a file of weights of ours that the network starts from.
        knobs: turned last, by dotted name.
        seed: of everything else that is random.
        held_out: the share of the training data that is tested on instead of the test set.
        device: where to compute, as PyTorch names it.
        ranks: the processes that learn it together.
    """
    check_device(device)
    chosen, recipe = benchmark_of(benchmark, network), recipe_of(strategy)
    refuse_known(benchmark, network or chosen.network, weights)
    stream = stream_of(benchmark, network, run)
    if chosen.scaled:
        stream = replace(stream, source=for_network(network or chosen.network, stream.source))
    if held_out:
        stream = hold_out(stream, held_out, seed)
    net = make_network(network or chosen.network, stream.source, seed)
    if weights is not None:
        load_weights(weights, net)
    learner = recipe.build(net, setting=setting or chosen.setting, knobs=knobs, seed=seed, device=device, ranks=ranks)
    return stream, stream.test, learner


def stream_of(benchmark: str, network: str | None, run: int) -> Stream:
    """The batches of a run, with patterns as they are, not as a network takes them."""
    chosen = benchmark_of(benchmark, network)
    return chosen.stream(benchmark, chosen.source(), run)


def learnt_by(network: str, weights: str | None) -> list[str]:
    """The benchmarks that a network has learnt before it starts, and that the weights it starts from had before it.

    >>> learnt_by("cifarnet-cifar10", None), learnt_by("cifarnet", None)
    (['cifar-10'], [])
    """
    about = read_about(weights) if weights is not None else {}
    before = ["cifar-10"] if "cifarnet-cifar10" in (network, about.get("network")) else []
    known = about.get("learnt", [about.get("benchmark")])
    return [*before, *(one for one in known if isinstance(one, str))] if isinstance(known, list) else before


def refuse_known(benchmark: str, network: str, weights: str | None) -> None:
    """Refuse to begin CIFAR-10/100 Split with weights that have learnt CIFAR-10 already: it is B_1.

    >>> refuse_known("cifar-split-6", "cifarnet-cifar10", None)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    everlearn.errors.ConfigError: These weights know B_1 already: expected ..., got cifarnet-cifar10. ...
    """
    if not benchmark.startswith("cifar-split"):
        return
    if any((own(learnt) or ("", learnt))[1] in ("cifar-10", "cifar10") for learnt in learnt_by(network, weights)):
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
