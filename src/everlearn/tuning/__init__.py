"""The paper's protocol: search on run 1 with held-out training data, then freeze what was found for the other runs."""

from everlearn.tuning.search import Search, search_all
from everlearn.tuning.settings import write_settings

__all__ = ["Search", "search_all", "write_settings"]
