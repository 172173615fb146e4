"""What it brings to keep freed memory (`everlearn._kit.allocation`): two plain loops that take turns, step by step.

python -m benchmarks.memory_kept --out docs/performance
"""

import argparse
import json
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.asked import Asked
from benchmarks.floor import Floor
from benchmarks.machine import about, said, versions
from benchmarks.sizes import SIZES
from everlearn._kit.allocation import keep_memory
from everlearn._kit.files import write_atomically

KEPT, NOT = "kept", "not"


def loop(name: str, size: str, threads: int) -> Asked:
    """The floor in a process of its own, whose allocator keeps memory or has glibc's own ways."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("MALLOC_")}
    environment |= {"EVERLEARN_ALLOCATOR": "everlearn" if name == KEPT else "system", "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "benchmarks.memory_kept", "--serve", "--size", size, "--threads", str(threads)]
    return Asked(name, command, environment)


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
    loops = [loop(name, arguments.size, arguments.threads) for name in (KEPT, NOT)]
    seconds: dict[str, list[float]] = {one.name: [] for one in loops}
    try:
        for _ in range(arguments.steps):
            for one in loops:
                seconds[one.name].append(one.ask("step"))
    finally:
        for one in loops:
            one.stop()
    result = {
        "size": arguments.size,
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
    kept, other = result["seconds"][KEPT], result["seconds"][NOT]
    ratio = median(b / a for a, b in zip(kept, other, strict=True))
    return (
        f"A step of the plain loop on `{result['size']}` takes {1000 * median(kept):.0f} ms with memory kept and "
        f"{1000 * median(other):.0f} ms without: {ratio:.2f} times as long, the median of {result['steps']} pairs of "
        f"steps, {result['threads']} threads; {said(result)}"
    )


if __name__ == "__main__":
    main()
