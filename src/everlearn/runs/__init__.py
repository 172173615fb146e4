"""Runs: a stream learnt into a folder, with records, events and checkpoints, and resumed where it stopped."""

from everlearn.runs.config import Config
from everlearn.runs.folder import RunFolder
from everlearn.runs.runner import run

__all__ = ["Config", "RunFolder", "run"]
