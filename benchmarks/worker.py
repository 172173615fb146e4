"""A contestant: a process that lives through the whole measurement and does one job when told to.

It reads one word a line. `alone` and `go` make everything new (untimed) and do the job; with `go` it takes turns with
the floor. They answer with the seconds and the processors' seconds of the job, of the parts that were timed inside it,
and of one step of the floor; and with the most memory that the process ever had.
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
from statistics import fmean
from time import perf_counter, process_time

import torch

from benchmarks.floor import Floor
from benchmarks.machine import versions
from benchmarks.sizes import SIZES, Size

Clock = tuple[float, float]
"""Seconds, and processors' seconds."""

FISHER = "a minibatch of the Fisher pass"


def clock() -> Clock:
    """Now."""
    return perf_counter(), process_time()


class Contestant(ABC):
    """One way to do one job."""

    packages: tuple[str, ...] = ("torch",)

    def __init__(self, name: str, job: str, size: Size) -> None:
        self.name, self.job, self.size = name, job, size
        self.parts: dict[str, dict[str, float]] = {}
        self.floor: Floor | None = None
        self.minibatches = 0
        self.later: list[Clock] = []
        self.since: Clock = 0.0, 0.0

    def between(self) -> None:
        """After each minibatch of the job, which is timed from the second on: the floor's turn, at every so many."""
        seconds, cpu = clock()
        self.minibatches += 1
        if self.minibatches > 1:
            self.later.append((seconds - self.since[0], cpu - self.since[1]))
        if self.floor is not None and self.minibatches % self.size.turns[self.job] == 0:
            self.floor.take_a_turn()
        self.since = clock()

    def step(self) -> dict[str, float] | None:
        """A minibatch alone, without what a batch costs before its first and after its last; None of a single one."""
        if not self.later:
            return None
        seconds, cpu = zip(*self.later, strict=True)
        return {"seconds": fmean(seconds), "cpu": fmean(cpu)}

    @abstractmethod
    def prepare(self) -> Callable[[], object]:
        """Everything before the clock starts: gives what is timed. B_1 is learnt here, which warms up all kernels."""

    def each(self, part: str) -> Callable[[], None]:
        """To be called once a minibatch of a part: keeps what one takes, the mean from the second on."""
        times: list[Clock] = []

        def called() -> None:
            times.append(clock())
            if steps := len(times) - 1:
                (seconds, cpu), (start, start_cpu) = times[-1], times[0]
                self.parts[part] = {"seconds": (seconds - start) / steps, "cpu": (cpu - start_cpu) / steps}

        return called

    def timed(self, part: str, work: Callable[..., object]) -> Callable[..., object]:
        """The same work, with its seconds kept as a part."""

        def clocked(*arguments: object, **named: object) -> object:
            start, cpu = perf_counter(), process_time()
            result = work(*arguments, **named)
            self.parts[part] = {"seconds": perf_counter() - start, "cpu": process_time() - cpu}
            return result

        return clocked

    def go(self, *, alone: bool) -> dict[str, object]:
        """Do the job once, taking turns with the floor or not."""
        work = self.prepare()
        self.floor = None if alone else Floor(self.size)
        self.parts, self.minibatches, self.later = {}, 0, []
        gc.collect()
        start, cpu = perf_counter(), process_time()
        work()
        seconds, cpu = perf_counter() - start, process_time() - cpu
        answer: dict[str, object] = {"seconds": seconds, "cpu": cpu, "parts": self.parts, "peak": peak()}
        answer["step"] = self.step()
        if (floor := self.floor) is not None:
            steps = {"seconds": floor.seconds / floor.steps, "cpu": floor.cpu / floor.steps}
            answer |= {"seconds": seconds - floor.seconds, "cpu": cpu - floor.cpu, "floor": steps}
        del work
        self.floor = floor = None
        give_back()
        return answer


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

    about = {"versions": versions(*kind.packages), "threads": torch.get_num_threads()}
    answer({"ready": arguments.name, "start": peak(), **about})
    for line in sys.stdin:
        answer(contestant.go(alone=line.strip() == "alone"))
