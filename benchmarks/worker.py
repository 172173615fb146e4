"""A contestant: a process that lives through the whole measurement and does one job when told to.

It reads one word a line. `go` makes everything new (untimed), does the job, and answers {"seconds": …} with the
processors' seconds and the parts that were timed inside it; `end` answers {"peak": bytes, "start": bytes}, the most
memory that the process ever had and what it had when it was ready.
"""

import argparse
import ctypes
import gc
import json
import os
import resource
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import perf_counter, process_time

import torch

from benchmarks.machine import versions
from benchmarks.sizes import SIZES, Size


class Contestant(ABC):
    """One way to do one job."""

    packages: tuple[str, ...] = ("torch",)

    def __init__(self, name: str, job: str, size: Size) -> None:
        self.name, self.job, self.size = name, job, size
        self.parts: dict[str, dict[str, float]] = {}

    @abstractmethod
    def prepare(self) -> Callable[[], object]:
        """Everything before the clock starts: gives what is timed. B_1 is learnt here, which warms up all kernels."""

    def timed(self, part: str, work: Callable[..., object]) -> Callable[..., object]:
        """The same work, with its seconds kept as a part."""

        def clocked(*arguments: object, **named: object) -> object:
            start, cpu = perf_counter(), process_time()
            result = work(*arguments, **named)
            self.parts[part] = {"seconds": perf_counter() - start, "cpu": process_time() - cpu}
            return result

        return clocked

    def go(self) -> dict[str, object]:
        """Do the job once."""
        work = self.prepare()
        self.parts = {}
        gc.collect()
        start, cpu = perf_counter(), process_time()
        work()
        seconds, cpu = perf_counter() - start, process_time() - cpu
        del work
        give_back()
        return {"seconds": seconds, "cpu": cpu, "parts": self.parts}


def give_back() -> None:
    """Return what is free to the system, so that contestants that wait take little."""
    gc.collect()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def peak() -> int:
    """The most memory that this process ever had, in bytes.

    Linux's VmHWM, since ru_maxrss there begins at what the parent process had.
    """
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def serve(kind: type[Contestant]) -> None:
    """Read words from stdin until `end`."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("job")
    parser.add_argument("size", choices=list(SIZES))
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever others print goes to stderr
    torch.set_num_threads(arguments.threads)
    contestant = kind(arguments.name, arguments.job, SIZES[arguments.size])

    def answer(said: dict[str, object]) -> None:
        answers.write(json.dumps(said) + "\n")
        answers.flush()

    start = peak()
    answer({"ready": arguments.name, "versions": versions(*kind.packages), "threads": torch.get_num_threads()})
    for line in sys.stdin:
        if line.strip() == "end":
            answer({"peak": peak(), "start": start})
            return
        answer(contestant.go())
