"""A run's learner as a model file."""

from pathlib import Path
from typing import Any

from everlearn.errors import RunError, sentence
from everlearn.recipes.model_file import header, write
from everlearn.runs.config import Config
from everlearn.runs.folder import RunFolder
from everlearn.runs.runner import gone, learner_of, named


def take_model(run: Path, out: Path) -> dict[str, Any]:
    """Write what a run has learnt as a model file; the run's data are not needed.

    Args:
        run: the run's folder.
        out: the file to write.

    Returns:
        The model's header, and how many batches and classes it has learnt.

    Raises:
        RunError: there is nothing learnt there, or the run stopped in the middle of a batch.
    """
    folder = RunFolder(run)
    stored = folder.config()
    if stored is None:
        raise RunError(
            sentence(
                "This is not a run's folder",
                expected="a folder with config.json and a checkpoint",
                got=str(run),
                do="Name the folder of one run, e.g. runs/digits/ar1/run-1.",
            )
        )
    state = folder.checkpoints.read()
    if state is None:
        raise gone(folder)
    if state["within"]:
        raise RunError(
            sentence(
                f"This run stopped in the middle of batch {state['i']}",
                expected="a run that stopped between two batches",
                got=str(run),
                do="Run its command again to resume it; config.json has it.",
            )
        )
    model = state.get("model")
    if model is None:  # a checkpoint of 0.1.0: the learner is built from its config and data
        names = Config.__dataclass_fields__
        config = Config(**{name: value for name, value in stored.items() if name in names})
        about = {"benchmark": config.benchmark, "run": config.run}
        labels = named(stored.get("class_names", [])).state()
        model = {**header(learner_of(config, folder)), "labels": labels, "about": about}
    write(out, {**model, "learner": state["learner"]})
    return {**model, "batches": state["i"], "classes": len({c for r in folder.records() for c in r["classes"]})}
