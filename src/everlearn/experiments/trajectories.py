"""How weights travel while a batch is learnt: which did not move, and which came back to where they began."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from everlearn._kit.files import write_atomically
from everlearn._kit.state import load_state, save_state
from everlearn.benchmarks import prepare
from everlearn.learning.learner import Learner, Step
from everlearn.runs import Config
from everlearn.runs.measure import importance
from everlearn.runs.progress import Bar
from everlearn.runs.runner import choices

CLOSED = 10.0
"""A trajectory is closed if the way is so many times as long as the distance between its ends."""
QUANTILES = {"median": 0.5, "99 %": 0.99, "99.9 %": 0.999, "largest": 1.0}
"""Of F's, which are told."""
UNMOVED = 0.1
"""A weight is unmoved if its way is at most this share of the median way: weight decay moves every one a little."""


def shares(way: Tensor, distance: Tensor, least: float) -> dict[str, float]:
    """The share of weights that did not move, and of those whose trajectory is closed.

    way: Σ|Δθ_k| over the steps; distance: |T_k|, from the first step to the last; least: a way that is none.

    >>> shares(torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0.0, 1.0, 0.2]), least=0.1)
    {'unmoved': 0.3333333432674408, 'closed': 0.3333333432674408}
    """
    unmoved, closed = way <= least, (way > least) & (way >= CLOSED * distance)
    return {"unmoved": float(unmoved.float().mean()), "closed": float(closed.float().mean())}


class Way:
    """Told of every step of a batch: where each weight began, and Σ|Δθ_k| since. learner: not yet at the batch."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.start = self.end = self._values()
        self.length = {name: torch.zeros_like(value) for name, value in self.start.items()}

    def _values(self) -> dict[str, Tensor]:
        """Copies of the floating weights, those of the output layers last."""
        weights = {name: value.clone() for name, value in self.learner.weights().items() if value.is_floating_point()}
        return dict(sorted(weights.items(), key=lambda item: _is_output(item[0])))

    def __call__(self, step: Step) -> None:
        """One step more; rows that have just grown begin here."""
        now = self._values()
        for name, value in now.items():
            new = value[len(self.end[name]) :] if _is_output(name) else value[:0]
            self.start[name], self.end[name] = torch.cat([self.start[name], new]), torch.cat([self.end[name], new])
            self.length[name] = torch.cat([self.length[name], torch.zeros_like(new)])
            self.length[name] += (value - self.end[name]).abs()
        self.end = now

    def shares(self) -> dict[str, float]:
        """Of all weights, and of those of the output layers the unmoved."""
        length = torch.cat([value.reshape(-1) for value in self.length.values()])
        distance = torch.cat([(self.end[name] - value).abs().reshape(-1) for name, value in self.start.items()])
        shared = sum(value.numel() for name, value in self.start.items() if not _is_output(name))
        least = UNMOVED * float(length.median())
        of_output = shares(length[shared:], distance[shared:], least)
        return {**shares(length, distance, least), "unmoved_output": of_output["unmoved"]}


def _is_output(name: str) -> bool:
    return name.startswith("outputs.")


def trajectories(config: Config, path: Path) -> list[dict[str, Any]]:
    """What is known of the weights' ways after each batch, and of the importances F and F̂ that came of them.

    path: a file that keeps it, so that it is learnt once; what is learnt so far stands beside it.
    """
    kept = json.loads(path.read_text()) if path.exists() else {}
    if kept.get("config") != config.settled:
        kept = {"config": config.settled, "found": _followed(config, path.with_suffix(".safetensors"))}
        write_atomically(path, json.dumps(kept, indent=1).encode())
    path.with_suffix(".safetensors").unlink(missing_ok=True)
    found: list[dict[str, Any]] = kept["found"]
    return found


def _followed(config: Config, path: Path) -> list[dict[str, Any]]:
    """One batch after the other; path: what is learnt so far."""
    torch.set_num_threads(config.threads)
    stream, _, learner = prepare(config.benchmark, **choices(config))
    found: list[dict[str, Any]] = []
    if path.exists() and (so_far := load_state(path))["config"] == config.settled:
        found = so_far["found"]
        learner.load_state_dict(so_far["learner"])
    for k in range(len(found), min(len(stream), config.batches or len(stream))):
        way = Way(learner)
        with Bar(f"{config.strategy}'s trajectories") as bar:

            def follow(step: Step, way: Way = way, bar: Bar = bar) -> None:
                way(step)
                bar(step, None)

            learner.learn(stream[k], on_step=follow)
        known = learner.diagnostics()
        of_F_hat = importance(known)
        assert of_F_hat is not None  # of EWC and SI
        shares = {**way.shares(), "saturated": of_F_hat["saturated"]}
        found.append({"i": learner.i_, **shares, "F": quantiles(known["F"])})
        save_state(path, {"config": config.settled, "found": found, "learner": learner.state_dict()})
    return found


def quantiles(F: Tensor) -> dict[str, float]:
    """F's distribution in a few numbers: it has a long tail on the right."""
    values = F.cpu().double().sort().values
    return {name: float(values[min(len(values) - 1, int(place * len(values)))]) for name, place in QUANTILES.items()}


COLUMNS = {"unmoved": "Unmoved (%)", "unmoved_output": "of output weights (%)", "closed": "Closed (%)"}
COLUMNS |= {"saturated": "Saturated (%)"}


def write_table(found: dict[str, list[dict[str, Any]]], stem: Path) -> list[Path]:
    """The trajectories of several variants, as JSON and as a Markdown table."""
    head = ["Strategy", "Batch", *COLUMNS.values(), *(f"F, {name}" for name in QUANTILES)]
    rows = [
        [
            label,
            str(one["i"]),
            *(f"{100 * one[name]:.2f}" for name in COLUMNS),
            *map("{:.2e}".format, one["F"].values()),
        ]
        for label, ones in found.items()
        for one in ones
    ]
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    note = (
        "Shares of all weights, output layers among them, after each batch. Unmoved: a way of at most "
        f"{UNMOVED:g} of the median way; weight decay moves every weight a little. Closed: a way at least {CLOSED:g} "
        "times as long as the distance between its ends. Saturated: F̂ is max_F."
    )
    table = "\n".join([*("| " + " | ".join(line) + " |" for line in lines), "", note, ""])
    paths = [stem.with_suffix(".json"), stem.with_suffix(".md")]
    stem.parent.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, (json.dumps(found, indent=1), table), strict=True):
        write_atomically(path, text.encode())
    return paths
