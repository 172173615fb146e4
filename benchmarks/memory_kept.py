"""What it brings to keep freed memory (`everlearn.allocation`): two plain loops that take turns, step by step.

python -m benchmarks.memory_kept --out docs/performance
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.floor import Floor
from benchmarks.machine import about, said, versions
from benchmarks.sizes import SIZES
from everlearn.allocation import keep_memory
from everlearn.files import write_atomically


class Loop:
    """The floor in a process of its own, whose allocator keeps memory or has glibc's own ways."""

    def __init__(self, *, kept: bool, size: str, threads: int) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")}
        environment |= {"EVERLEARN_ALLOCATOR": "everlearn" if kept else "system", "OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, "-m", "benchmarks.memory_kept", "--serve", "--size", size, "--threads", str(threads)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def step(self) -> float:
        """Seconds of its next step."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def serve(size: str, threads: int) -> None:
    """A step for every line."""
    torch.set_num_threads(threads)
    keep_memory()
    floor = Floor(SIZES[size])
    for _ in sys.stdin:
        before = floor.seconds
        floor.take_a_turn()
        print(floor.seconds - before, flush=True)


def main() -> None:
    """Measure, store, print."""
    parser = argparse.ArgumentParser(description="Training with freed memory kept, beside training without.")
    parser.add_argument("--size", choices=list(SIZES), default="cifarnet")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help="folder for memory_kept.json; without it nothing is stored")
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.size, arguments.threads)
        return
    loops = {
        name: Loop(kept=name == "kept", size=arguments.size, threads=arguments.threads) for name in ("kept", "not")
    }
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(arguments.steps):
        for name, loop in loops.items():
            seconds[name].append(loop.step())
    for loop in loops.values():
        loop.process.communicate()
    result = {
        "steps": arguments.steps,
        "threads": arguments.threads,
        "seconds": seconds,
        "versions": versions("torch"),
        **about(),
    }
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        write_atomically(arguments.out / "memory_kept.json", (json.dumps(result) + "\n").encode())
    print(lines(result))


def lines(result: dict[str, Any]) -> str:
    """What was measured, in words."""
    kept, other = result["seconds"]["kept"], result["seconds"]["not"]
    ratio = median(b / a for a, b in zip(kept, other, strict=True))
    return (
        f"A step of the plain loop on CifarNet takes {1000 * median(kept):.0f} ms with memory kept and "
        f"{1000 * median(other):.0f} ms without: {ratio:.2f} times as long, the median of {result['steps']} pairs of "
        f"steps, {result['threads']} threads; {said(result)}"
    )


if __name__ == "__main__":
    main()
