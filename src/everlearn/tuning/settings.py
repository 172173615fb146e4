"""What a search found, as a file that runs take their hyperparameters from."""

import json
from pathlib import Path
from typing import Any

import everlearn
from everlearn._kit.files import write_atomically
from everlearn.runs.place import command
from everlearn.tuning.search import Search


def write_settings(path: Path, search: Search, found: dict[str, dict[str, Any]]) -> None:
    """Write how the search was made, and each strategy's best knobs with their scores."""
    about = {
        "command": command(),
        "version": everlearn.__version__,
        "benchmark": search.config.benchmark,
        "setting": search.config.setting,
        "run": search.config.run,
        "held_out": search.config.held_out,
        "batches": search.config.batches,
        "trials": search.trials,
        "seeds": search.seeds,
        "etas": search.etas,
        "score": search.score,
    }
    write_atomically(path, (json.dumps({"about": about, "strategies": found}, indent=1) + "\n").encode())
