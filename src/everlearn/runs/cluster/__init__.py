"""Runs on a Ray cluster, an extra. Ray is imported only where this engine is asked for."""

from everlearn.runs.cluster.engine import RayEngine

__all__ = ["RayEngine"]
