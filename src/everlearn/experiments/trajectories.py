"""How weights travel while a batch is learnt: which did not move, and which came back to where they began."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from everlearn.benchmarks import prepare
from everlearn.files import write_atomically
from everlearn.runs import Config
from everlearn.runs.runner import choices

CLOSED = 10.0
"""A trajectory is closed if the way is so many times as long as the distance between its ends."""


def shares(way: Tensor, distance: Tensor) -> dict[str, float]:
    """The share of weights that did not move, and of those whose trajectory is closed.

    way: Σ|Δθ_k| over the steps; distance: |T_k|, from the first step to the last.

    >>> shares(torch.tensor([0.0, 1.0, 3.0]), torch.tensor([0.0, 1.0, 0.2]))
    {'unmoved': 0.3333333432674408, 'closed': 0.3333333432674408}
    """
    unmoved, closed = way == 0, (way > 0) & (way >= CLOSED * distance)
    return {"unmoved": float(unmoved.float().mean()), "closed": float(closed.float().mean())}


def trajectories(config: Config, path: Path) -> list[dict[str, Any]]:
    """What is known of the weights' ways after each batch, and of the importances F that came of them.

    path: a file that keeps it, so that it is learnt once.
    """
    asked = {"config": config.to_json()}
    kept = json.loads(path.read_text()) if path.exists() else {}
    if {name: kept.get(name) for name in asked} != asked:
        kept = {**asked, "found": _followed(config)}
        write_atomically(path, json.dumps(kept, indent=1).encode())
    found: list[dict[str, Any]] = kept["found"]
    return found


def _followed(config: Config) -> list[dict[str, Any]]:
    stream, _, learner = prepare(config.benchmark, **choices(config))
    found = []
    for batch in list(stream)[: config.batches]:
        start = learner.theta.value[: learner.theta.m_bar].clone()
        way = torch.zeros_like(start)

        def follow(_step: object, way: Tensor = way) -> None:
            way.add_(learner.theta.v[: learner.theta.m_bar].abs())

        learner.learn(batch, on_step=follow)
        distance = (learner.theta.value[: learner.theta.m_bar] - start).abs()
        F = getattr(learner.regulariser, "F_", None)
        of_F = {} if F is None else {"F": quantiles(F[: learner.theta.m_bar])}
        found.append({"i": learner.i_, **shares(way, distance), **of_F})
    return found


def quantiles(F: Tensor) -> dict[str, float]:
    """F's distribution in a few numbers: it has a long tail on the right."""
    values = F.cpu().double().sort().values
    places = {"median": 0.5, "99 %": 0.99, "99.9 %": 0.999, "largest": 1.0}
    return {name: float(values[min(len(values) - 1, int(place * len(values)))]) for name, place in places.items()}


def write_table(found: dict[str, list[dict[str, Any]]], stem: Path) -> list[Path]:
    """The trajectories of several variants, as JSON and as a Markdown table; shared weights only."""
    rows = [
        f"| {label} | {one['i']} | {100 * one['unmoved']:.2f} | {100 * one['closed']:.1f} | "
        + " | ".join(f"{value:.2e}" for value in one["F"].values())
        + " |"
        for label, ones in found.items()
        for one in ones
    ]
    head = "| Strategy | Batch | Unmoved (%) | Closed (%) | median F | 99 % of F | 99.9 % of F | largest F |"
    note = f"Closed: a way at least {CLOSED:g} times as long as the distance between its ends. Shared weights only."
    table = "\n".join([head, "| --- |" + " ---: |" * 7, *rows, "", note, ""])
    paths = [stem.with_suffix(".json"), stem.with_suffix(".md")]
    stem.parent.mkdir(parents=True, exist_ok=True)
    for path, text in zip(paths, (json.dumps(found, indent=1), table), strict=True):
        write_atomically(path, text.encode())
    return paths
