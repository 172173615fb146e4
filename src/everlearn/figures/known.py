"""What the paper says in numbers. Its curves are images: where its text gives no number, there is none here."""

from everlearn.records import Config

_CORE50 = ("core50", "core50-nc")
_KNOWN: tuple[tuple[tuple[str, ...], str | None, str, str], ...] = (
    (_CORE50, None, "naive", "9–10"),
    (_CORE50, "googlenet", "ar1", "about 70"),
    (_CORE50, "caffenet", "cumulative", "74.1 (all data at once)"),
    (_CORE50, "googlenet", "cumulative", "91.3 (all data at once)"),
    (_CORE50, "nin", "cumulative", "82.3 (all data at once)"),
    (_CORE50, "resnet-50", "cumulative", "92.9 (all data at once)"),
    (("icifar-100",), "cifarnet", "cumulative", "about 51 (all data at once)"),
)
"""Benchmarks, network (None: any), strategy, and the final accuracy on the fixed test set in per cent."""
_DEFAULT = {"icifar-100": "cifarnet"}


def known(config: Config | None) -> str | None:
    """The paper's final accuracy for such a run, in per cent and in words; None where its text gives no number.

    >>> known(Config({}, "core50", "ar1", 1, network="googlenet")), known(Config({}, "core50", "ewc", 1))
    ('about 70', None)
    """
    if config is None or config.held_out:
        return None
    network = config.network or (config.setting or "").split("/")[0] or _DEFAULT.get(config.benchmark, "")
    for benchmarks, at, strategy, value in _KNOWN:
        if config.benchmark in benchmarks and config.strategy == strategy and (at is None or network.startswith(at)):
            return value
    return None
