"""Memories: what is kept of old batches, one kind a file."""

from everlearn.learning.loss import Replayed
from everlearn.learning.memory import Memory, NoMemory
from everlearn.memories.everything import Everything

__all__ = ["Everything", "Memory", "NoMemory", "Replayed"]
