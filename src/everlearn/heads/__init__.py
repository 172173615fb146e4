"""Heads: the output layers' rows, one kind a file."""

from everlearn.heads.base import Head
from everlearn.heads.cwr import CWR
from everlearn.heads.per_task import PerTask
from everlearn.heads.plain import Plain

__all__ = ["CWR", "Head", "PerTask", "Plain"]
