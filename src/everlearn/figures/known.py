"""What the paper says in numbers. Its curves are images: where its text gives no number, there is none here."""

from everlearn.records import RunConfig

_NC = ("core50", "core50-nc")
_WHOLE = ("core50-whole",)
_KNOWN: tuple[tuple[tuple[str, ...], str | None, str, str], ...] = (
    (_NC, None, "naive", "9–10"),
    (_NC, "googlenet", "ar1", "about 70"),
    (("core50-25x2",), None, "ar1", "backward transfer −15.64"),
    (_WHOLE, "caffenet", "cumulative", "74.1"),
    (_WHOLE, "nin", "cumulative", "82.3"),
    (_WHOLE, "googlenet", "cumulative", "91.3"),
    (_WHOLE, "resnet-50", "cumulative", "92.9"),
    (("cifar-100",), "cifarnet", "cumulative", "about 51"),
    (("icifar-100", "icifar-100+joined"), "cifarnet", "cumulative", "about 51 (all data at once)"),
)
"""Benchmarks, network (None: any), strategy, and the final accuracy on the fixed test set in per cent, or words.

Table 2 is on the whole training set of CORe50 at once: of Cumulative on NC there is a curve only. On CIFAR-100 the text
gives the full training set's number where it speaks of the accuracies on iCIFAR-100, and so it is shown there too.
"""
_DEFAULT = {"icifar-100": "cifarnet", "icifar-100+joined": "cifarnet", "cifar-100": "cifarnet"}
_SIZES = ("-128", "-cifar10")
"""Ends of networks' names that say for what images or from what weights; the paper has no other variant."""


def known(config: RunConfig | None) -> str | None:
    """What the paper's text says in numbers of such a run: its final accuracy in per cent, or words; else None.

    >>> run = {"raw": {}, "benchmark": "core50", "run": 1}
    >>> known(RunConfig(**run, strategy="ar1", network="googlenet")), known(RunConfig(**run, strategy="ewc"))
    ('about 70', None)
    """
    if config is None or config.held_out:
        return None
    network = config.network or (config.setting or "").split("/")[0] or _DEFAULT.get(config.benchmark, "")
    for end in _SIZES:
        network = network.removesuffix(end)
    for benchmarks, at, strategy, value in _KNOWN:
        if config.benchmark in benchmarks and config.strategy == strategy and at in {None, network}:
            return value
    return None
