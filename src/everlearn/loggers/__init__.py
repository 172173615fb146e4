"""Runs for those who live in TensorBoard or MLflow: the same scalars and pictures as a run goes.

The packages are extras, imported only where a run asks for them.
"""

from everlearn.loggers.base import About, Ending, Logger, check
from everlearn.loggers.log import Log, forget

__all__ = ["About", "Ending", "Log", "Logger", "check", "forget"]
