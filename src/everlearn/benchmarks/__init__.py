"""Benchmarks by name: a source, the stream of each run, its network and setting; and networks by name."""

from everlearn.benchmarks.known import BENCHMARKS, Benchmark, absolute, benchmark_of, object_groups
from everlearn.benchmarks.networks import make_network
from everlearn.benchmarks.preparing import check_device, hold_out, learnt_by, prepare, stream_of

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "absolute",
    "benchmark_of",
    "check_device",
    "hold_out",
    "learnt_by",
    "make_network",
    "object_groups",
    "prepare",
    "stream_of",
]
