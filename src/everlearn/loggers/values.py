"""The scalars of a step and of a record, by the names that every logger gives them."""

from typing import Any

from everlearn.loggers.base import Scalars

STEP = ("loss", "eta", "images_per_second")
BATCH = (
    "accuracy",
    "accuracy_all_rows",
    "accuracy_seen",
    "backward_transfer",
    "forward_transfer",
    "forgetting",
    "lam",
    "seconds_train",
    "seconds_eval",
)


def of_step(event: dict[str, Any]) -> Scalars:
    """What is told of one step, as in events.jsonl.

    >>> of_step({"i": 1, "step": 3, "loss": 0.5, "eta": 0.01, "images_per_second": 80.0})
    {'step/loss': 0.5, 'step/eta': 0.01, 'step/images_per_second': 80.0}
    """
    return {f"step/{name}": float(event[name]) for name in STEP}


def of_record(record: dict[str, Any]) -> Scalars:
    """What is told of one batch, as in records.jsonl; what a strategy does not have is not there.

    >>> of_record({"accuracy": 0.25, "lam": None, "accuracy_mt": [0.5, 1.0], "change": {"trunk.0": 0.01}})
    {'batch/accuracy': 0.25, 'accuracy_mt/B_1': 0.5, 'accuracy_mt/B_2': 1.0, 'change/trunk.0': 0.01}
    """
    found: dict[str, Any] = {f"batch/{name}": record.get(name) for name in BATCH}
    found |= {f"accuracy_mt/B_{j}": value for j, value in enumerate(record.get("accuracy_mt", ()), 1)}
    importance = record.get("importance") or {}
    found |= {f"importance/{share}": importance.get(share) for share in ("zero", "saturated")}
    found |= {f"{kind}/{name}": value for kind in ("change", "storage") for name, value in record.get(kind, {}).items()}
    found["storage/paper_values"] = record.get("storage_paper", {}).get("values")
    return {name: float(value) for name, value in found.items() if value is not None}
