"""Settings for all tests."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # toys gain nothing from threads, and parallel tests lose by them
from pathlib import Path

os.environ.setdefault(
    "EVERLEARN_DATA", str(Path(__file__).parents[1] / ".cache")
)  # what is rendered once for all tests

from hypothesis import settings

settings.register_profile("everlearn", derandomize=True, deadline=None, max_examples=10)
settings.load_profile("everlearn")
