"""The search for hyperparameters: on run 1 with held-out training data, then frozen for the other runs."""

from everlearn.tuning.search import Search
from everlearn.tuning.settings import write_settings
from everlearn.tuning.several import search_all

__all__ = ["Search", "search_all", "write_settings"]
