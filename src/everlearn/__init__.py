"""Everlearn: learn a stream of batches without keeping the old ones, and without forgetting them."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from everlearn._kit.version import __version__ as __version__

if TYPE_CHECKING:
    from everlearn import (
        data,
        errors,
        figures,
        heads,
        memories,
        models,
        recipes,
        regularisers,
        report,
        runs,
        streams,
        weights,
    )
    from everlearn._kit.state import load_state, save_state
    from everlearn.benchmarks import pretraining
    from everlearn.data.batch import Batch
    from everlearn.errors import EverlearnError, EverlearnWarning
    from everlearn.learning import equations, evaluation, parallel
    from everlearn.learning.learner import Learner, Step
    from everlearn.learning.loop import Strategy
    from everlearn.learning.slots import Slots
    from everlearn.learning.training import Phase, Training
    from everlearn.recipes import paper
    from everlearn.recipes.model_file import load, save
    from everlearn.recipes.presets import PRESETS, build, preset

_HOME = {
    "Batch": "data.batch",
    "EverlearnError": "errors",
    "EverlearnWarning": "errors",
    "PRESETS": "recipes.presets",
    "Phase": "learning.training",
    "Learner": "learning.learner",
    "Slots": "learning.slots",
    "Step": "learning.learner",
    "Strategy": "learning.loop",
    "Training": "learning.training",
    "build": "recipes.presets",
    "load": "recipes.model_file",
    "load_state": "_kit.state",
    "preset": "recipes.presets",
    "save": "recipes.model_file",
    "save_state": "_kit.state",
}
"""Where each public name is defined."""

_ROOMS = {
    "data": "data",
    "equations": "learning.equations",
    "errors": "errors",
    "evaluation": "learning.evaluation",
    "figures": "figures",
    "heads": "heads",
    "memories": "memories",
    "models": "models",
    "paper": "recipes.paper",
    "parallel": "learning.parallel",
    "pretraining": "benchmarks.pretraining",
    "recipes": "recipes",
    "regularisers": "regularisers",
    "report": "report",
    "runs": "runs",
    "streams": "streams",
    "weights": "weights",
}
"""Where each public module is."""

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
    "figures",
    "heads",
    "load",
    "load_state",
    "memories",
    "models",
    "paper",
    "parallel",
    "preset",
    "pretraining",
    "recipes",
    "regularisers",
    "report",
    "runs",
    "save",
    "save_state",
    "streams",
    "weights",
]


def __getattr__(name: str) -> Any:
    """Public names are looked up when they are first used, so that `import everlearn` does not wait for PyTorch."""
    if name in _ROOMS:
        return import_module(f"everlearn.{_ROOMS[name]}")
    if name in _HOME:
        return getattr(import_module(f"everlearn.{_HOME[name]}"), name)
    raise AttributeError(f"module 'everlearn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
