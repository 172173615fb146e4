"""What a record says of one batch, measured on a learner."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from everlearn._kit.histograms import EDGES, histogram
from everlearn.data.source import Patterns
from everlearn.learning.evaluation import (
    Floats,
    accuracy_on,
    backward_transfer,
    by_batch,
    confusion,
    forgetting,
    forward_transfer,
    totals,
)
from everlearn.learning.learner import Learner
from everlearn.learning.parallel import ALONE, Ranks
from everlearn.streams import Stream

Predictions = dict[str, NDArray[np.int64]]
BLOCK = 4096  # test patterns that one of several processes scores at a time


def predict(learner: Learner, stream: Stream, test: Patterns, ranks: Ranks = ALONE) -> Predictions:
    """The predicted class of every test pattern, −1 where none can be given.

    seen: over the classes seen; all_rows: over all rows; mt: over the classes of the pattern's own batch, the one in
    which its class first arrived (the task known). A learner that must know the task gives the last for all three.
    ranks: the processes that share the patterns out; each gets all predictions.
    """
    classes = np.array(learner.rows_, dtype=np.int64)
    scores = _all_scores(learner, test, ranks)
    own = {c: set(classes_of) for classes_of in reversed(stream.batches) for c in classes_of}
    task = np.array([[c in own[int(y)] for c in classes] for y in stream.order]).reshape(
        len(stream.order), len(classes)
    )
    place = {c: k for k, c in enumerate(stream.order)}
    mt = _best(scores, classes, task[[place[int(y)] for y in test.y]])
    if learner.knows_task:
        return {"seen": mt, "all_rows": mt, "mt": mt}
    seen = np.isin(np.arange(len(classes)), learner.columns("seen"))
    every = np.ones_like(seen)
    return {
        "seen": _best(scores, classes, np.broadcast_to(seen, scores.shape)),
        "all_rows": _best(scores, classes, np.broadcast_to(every, scores.shape)),
        "mt": mt,
    }


def _all_scores(learner: Learner, test: Patterns, ranks: Ranks) -> Floats:
    """Scores over all rows; −∞ where a learner that must know the task has not met the class."""
    scores = np.full((len(test), len(learner.rows_)), -np.inf)
    if not learner.knows_task:
        return _scores(learner, test.x, ranks, rows="all") if len(learner.rows_) else scores
    for i in range(1, learner.i_ + 1):
        scores[:, learner.columns(batch=i)] = _scores(learner, test.x, ranks, batch=i)
    return scores


def _scores(learner: Learner, x: NDArray[Any], ranks: Ranks, **question: Any) -> Floats:
    """The learner's scores for all patterns, by blocks where several processes share them out."""
    size = min(BLOCK, -(-len(x) // ranks.size))
    blocks = [x] if ranks.size == 1 else [x[start : start + size] for start in range(0, len(x), size)]
    parts = ranks.map(lambda block: (learner.scores(block, **question),), blocks)
    return torch.cat([part for (part,) in parts]).cpu().double().numpy()


def _best(scores: Floats, classes: NDArray[np.int64], allowed: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The class of the best allowed score of each pattern, −1 where none is allowed."""
    if not len(classes):
        return np.full(len(scores), -1, dtype=np.int64)
    masked = np.where(allowed, scores, -np.inf)
    best = masked.argmax(axis=1)
    return np.where(np.isneginf(masked.max(axis=1)), -1, classes[best])


def matrices(stream: Stream, test: Patterns, predictions: Predictions) -> dict[str, Any]:
    """The confusion matrices of a record, classes in order of arrival, and the test patterns of each class."""
    return {
        "patterns": totals(test.y, stream.order),
        "confusion": confusion(test.y, predictions["seen"], stream.order).tolist(),
        "confusion_mt": confusion(test.y, predictions["mt"], stream.order).tolist(),
    }


def accuracies(stream: Stream, test: Patterns, predictions: Predictions, i: int) -> dict[str, Any]:
    """Accuracy on the fixed test set, on the classes seen so far, and for each batch so far with the task known."""
    order, batches, patterns = stream.order, stream.batches, totals(test.y, stream.order)
    fixed, every, mt = (confusion(test.y, predictions[kind], order) for kind in ("seen", "all_rows", "mt"))
    seen = sorted({c for classes in batches[:i] for c in classes})
    return {
        "accuracy": accuracy_on(fixed, patterns, order, order),
        "accuracy_all_rows": accuracy_on(every, patterns, order, order),
        "accuracy_seen": accuracy_on(fixed, patterns, order, seen),
        "accuracy_mt": [accuracy_on(mt, patterns, order, classes) for classes in batches[:i]],
    }


def row_of_R(stream: Stream, matrix: dict[str, Any]) -> list[float]:
    """A row of R, or b: the accuracy on the classes of each batch, from a record's confusion matrix."""
    return by_batch(np.array(matrix["confusion"]), matrix["patterns"], stream.order, stream.batches)


def transfers(rows: list[list[float]], untrained: list[float]) -> dict[str, float | None]:
    """Backward transfer, forward transfer and forgetting from the rows of R so far, and b."""
    R, b = np.array(rows), np.array(untrained)
    return {
        "backward_transfer": backward_transfer(R),
        "forward_transfer": forward_transfer(R, b),
        "forgetting": forgetting(R),
    }


def importance(found: dict[str, Any]) -> dict[str, Any] | None:
    """The histogram of F̂ on a log scale, the shares that are zero and saturated at max_F, and the largest.

    With it, where they are known, those of F, before it was averaged and clipped, and of F^i, before it was weighed and
    summed. found: a learner's `diagnostics`.
    """
    F_hat, max_F = found.get("F_hat"), found.get("max_F")
    if F_hat is None:
        return None
    spread = histogram(F_hat, EDGES)
    del spread["negative"]  # F̂ has a floor
    saturated = 0.0 if max_F is None else int((F_hat >= float(np.float32(max_F))).sum()) / max(1, F_hat.numel())
    raw = {"F": None if found.get("F") is None else histogram(found["F"]), "F_i": found.get("F_i")}
    return {**spread, "saturated": saturated, **{name: one for name, one in raw.items() if one is not None}}


def change(before: dict[str, Tensor], after: dict[str, Tensor]) -> dict[str, float]:
    """Mean |Δθ| by layer; of output layers that grew, over the rows that were there before, if there were any."""
    sums: dict[str, list[float]] = {}
    for name, old in before.items():
        if not old.is_floating_point():
            continue
        new = after[name]
        old = old.to(new.device)
        n = min(len(old), len(new)) if old.ndim else None
        delta = (new[:n] - old[:n] if n is not None else new - old).abs().cpu().double()
        total = sums.setdefault(name.rsplit(".", 1)[0], [0.0, 0.0])
        total[0] += float(delta.sum())
        total[1] += delta.numel()
    return {layer: total / count for layer, (total, count) in sums.items() if count}
