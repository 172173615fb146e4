"""Everlearn: learn a stream of batches without keeping the old ones, and without forgetting them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from everlearn import (
        data,
        equations,
        errors,
        evaluation,
        heads,
        memories,
        models,
        paper,
        parallel,
        pretraining,
        regularisers,
        streams,
        weights,
    )
    from everlearn.batch import Batch
    from everlearn.errors import EverlearnError, EverlearnWarning
    from everlearn.learner import Learner, Step
    from everlearn.presets import PRESETS, build, preset
    from everlearn.slots import Slots
    from everlearn.state import load_state, save_state
    from everlearn.strategy import Strategy
    from everlearn.training import Phase, Training

__version__ = "0.1.0"

_HOME = {
    "Batch": "batch",
    "EverlearnError": "errors",
    "EverlearnWarning": "errors",
    "PRESETS": "presets",
    "Phase": "training",
    "Learner": "learner",
    "Slots": "slots",
    "Step": "learner",
    "Strategy": "strategy",
    "Training": "training",
    "build": "presets",
    "load_state": "state",
    "preset": "presets",
    "save_state": "state",
}
_ROOMS = (
    "data",
    "equations",
    "errors",
    "evaluation",
    "heads",
    "memories",
    "models",
    "paper",
    "parallel",
    "pretraining",
    "regularisers",
    "streams",
    "weights",
)

__all__ = [
    "PRESETS",
    "Batch",
    "EverlearnError",
    "EverlearnWarning",
    "Learner",
    "Phase",
    "Slots",
    "Step",
    "Strategy",
    "Training",
    "build",
    "data",
    "equations",
    "errors",
    "evaluation",
    "heads",
    "load_state",
    "memories",
    "models",
    "paper",
    "parallel",
    "preset",
    "pretraining",
    "regularisers",
    "save_state",
    "streams",
    "weights",
]


def __getattr__(name: str) -> Any:
    """Public names are looked up when they are first used, so that `import everlearn` does not wait for PyTorch."""
    if name in _ROOMS:
        return import_module(f"everlearn.{name}")
    if name in _HOME:
        return getattr(import_module(f"everlearn.{_HOME[name]}"), name)
    raise AttributeError(f"module 'everlearn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
