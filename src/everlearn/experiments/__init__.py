"""The paper's experiments as commands: its tables and figures, made again."""

from everlearn.experiments.experiment import Experiment, Variant
from everlearn.experiments.paper import EXPERIMENTS
from everlearn.experiments.reproduce import reproduce

__all__ = ["EXPERIMENTS", "Experiment", "Variant", "reproduce"]
