"""Heads: the output layers' rows, one kind a file."""

from everlearn.heads.cwr import CWR
from everlearn.heads.cwr_star import CWRStar
from everlearn.heads.per_task import PerTask
from everlearn.heads.plain import Plain
from everlearn.learning.head import Head

__all__ = ["CWR", "CWRStar", "Head", "PerTask", "Plain"]
