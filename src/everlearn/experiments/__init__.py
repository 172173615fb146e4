"""The paper's tables and figures as commands."""

from everlearn.experiments.experiment import Experiment, Variant
from everlearn.experiments.paper import EXPERIMENTS
from everlearn.experiments.reproduce import reproduce

__all__ = ["EXPERIMENTS", "Experiment", "Variant", "reproduce"]
