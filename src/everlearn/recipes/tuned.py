"""Hyperparameters of our own, as knobs of the presets: what `everlearn tune` found, its files unchanged.

Each file of `resources/settings` says how it was found: the command, and for every strategy the scores on held-out
training data of the trials made to the end, and how many were given up. Of several searches for a strategy the best
score counts, among those over the most batches. What was not searched for is as in the setting that the search began
with. Of strategies that were not searched for, `fw` and `cw` take CWR's rates, `ar1-ewc` and `ar1-lwf` AR1's with
η·λ as it was, Cumulative CWR+'s for B_1, `cwr*` and `ar1*` all that CWR+ and AR1 have. Cumulative begins afresh each
time, so a search cannot tell its rate for B_1 by the final accuracy: it takes that of later batches.

CIFAR-10/100 Split takes iCIFAR-100's in MT; in SIT the network's features vanish with that when B_2 comes, so that what
`mt-vs-sit` learns there was searched for.
"""

import json
import math
from importlib.resources import files
from typing import Any

from everlearn.recipes.paper import PAPER, Knobs

SETTINGS = {
    "small/digits": ["small-digits.json"],
    "small/mini50": ["small-mini50.json"],
    "cifarnet/icifar-100/cpu": [f"cifarnet-icifar-100-cpu-{search}.json" for search in range(1, 8)],
}
SPLIT = [f"cifarnet-cifar-split-6-cpu-{search}.json" for search in (1, 2)]
LIKE = {"fw": "cwr", "cw": "cwr", "ar1-ewc": "ar1", "ar1-lwf": "ar1"}


def _texts(names: list[str]) -> list[dict[str, Any]]:
    folder = files("everlearn") / "resources" / "settings"
    return [json.loads((folder / name).read_text()) for name in names]


def _found(texts: list[dict[str, Any]]) -> dict[str, Knobs]:
    """The best knobs of the strategies that were searched for."""
    strategies = {name for text in texts for name in text["strategies"]}
    return {name: max(_results(name, texts), key=_worth)["knobs"] for name in sorted(strategies)}


def _read(names: list[str]) -> dict[str, Knobs]:
    """The strategies that were searched for, and those that take their rates."""
    texts = _texts(names)
    found = _found(texts)
    begun = PAPER.get(texts[-1]["about"].get("setting"), {})
    rates = {other: _rates(found[strategy], begun.get(other, {})) for other, strategy in LIKE.items()}
    found = {"cumulative": _afresh(found["cwr+"]), **rates, **found}
    found["cumulative"]["training.first.eta"] = found["cumulative"]["training.later.eta"]
    return {strategy: {**begun.get(strategy, {}), **knobs} for strategy, knobs in found.items()}


def _results(strategy: str, texts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What each search found for a strategy, with the number of its batches, None for all."""
    found = [(text["strategies"].get(strategy), text["about"].get("batches")) for text in texts]
    return [{**result, "batches": batches} for result, batches in found if result]


def _worth(result: dict[str, Any]) -> tuple[float, float]:
    """A search over more batches counts before one over fewer, then the score."""
    return result["batches"] or math.inf, result["score"]


def _rates(knobs: Knobs, begun: Knobs) -> Knobs:
    """The rates among these knobs, and λ such that η·λ stays what it was."""
    rates = {knob: value for knob, value in knobs.items() if knob.startswith("training.")}
    lams = {knob: lam for knob, lam in begun.items() if knob.endswith(".lam")}
    eta = "training.later.eta"
    return {**rates, **{knob: lam * begun[eta] / rates[eta] for knob, lam in lams.items()}}


def _afresh(knobs: Knobs) -> Knobs:
    """Every batch as B_1."""
    first = {knob: value for knob, value in knobs.items() if knob.startswith("training.first.")}
    return {**first, **{knob.replace(".first.", ".later."): value for knob, value in first.items()}}


def _cifar_split(icifar: dict[str, Knobs], **first: float) -> dict[str, Knobs]:
    """iCIFAR-100's for CIFAR-10/100 Split. LWF's map begins with the shares of this stream: 1 − n_i/Σn_j is 10/11 for
    B_2 and 14/15 for B_6. first: of B_1, other than there.
    """
    other = {f"training.first.{name}": value for name, value in first.items()}
    split = {name: {**knobs, **other} for name, knobs in icifar.items()}
    for name in ("lwf", "ar1-lwf"):
        split[name]["lwf.map"] = [[10 / 11, 14 / 15], split[name]["lwf.map"][1]]
    return split


def _in_sit(split: dict[str, Knobs]) -> dict[str, Knobs]:
    """With what was searched for in SIT, with one epoch on B_1 to make it shorter: it has its epochs again here."""
    found = _found(_texts(SPLIT))
    own = {name: {**found[name], "training.first.epochs": split[name]["training.first.epochs"]} for name in found}
    return {name: {**knobs, **own.get(name, {})} for name, knobs in split.items()}


TUNED: dict[str, dict[str, Knobs]] = {setting: _read(names) for setting, names in SETTINGS.items()}
TUNED["cifarnet/cifar-split-6"] = _cifar_split(PAPER["cifarnet/icifar-100"])
TUNED["cifarnet/cifar-split-6/cpu/mt"] = _cifar_split(TUNED["cifarnet/icifar-100/cpu"], eta=0.01)  # as our pre-training
TUNED["cifarnet/cifar-split-6/cpu"] = _in_sit(TUNED["cifarnet/cifar-split-6/cpu/mt"])
"""Knobs by setting and strategy."""
