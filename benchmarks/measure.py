"""Measure all contestants in one run, interleaved: in every round each does its job once, in a shuffled order, and
between its minibatches the floor takes its turns.

    python -m benchmarks.measure cifarnet --rounds 5 --out docs/performance

Every contestant is a process that lives through the whole run, so that a slow minute of the machine strikes all alike;
only one works at a time.
"""

import argparse
import json
import os
import random
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.asked import ROOT, Asked
from benchmarks.contestants import Entry, entries
from benchmarks.machine import about
from benchmarks.sizes import SIZES
from benchmarks.table import markdown
from everlearn._kit.files import write_atomically

KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}
"""What `everlearn._kit.allocation` asks of glibc, for all contestants alike."""

LEAST_ROUNDS = 5  # for medians that mean something; fewer only show that everything works


class Running(Asked):
    """A contestant's process."""

    def __init__(self, entry: Entry, python: str, size: str, threads: int) -> None:
        self.entry = entry
        self.alone: dict[str, Any] = {}
        self.answers: list[dict[str, Any]] = []
        paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            **KEEP,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
        }
        command = [python, "-m", f"benchmarks.{entry.program}", entry.name, entry.job, size, "--threads", str(threads)]
        super().__init__(entry.key, command, environment)
        self.ready: dict[str, Any] = self.answer()


def measure(chosen: Iterable[Entry], pythons: dict[str, str], size: str, rounds: int, threads: int) -> dict[str, Any]:
    """Everything that was measured, as it is stored."""
    shuffle = random.Random(0)
    running: list[Running] = []
    try:
        for entry in chosen:
            tell(f"starting {entry.key}")
            running.append(Running(entry, pythons.get(entry.program, sys.executable), size, threads))
            running[-1].alone = running[-1].ask("alone")
        for number in range(1, rounds + 1):
            for one in shuffle.sample(running, len(running)):
                answer = one.ask("go")
                one.answers.append(answer)
                step = answer["floor"]["seconds"]
                figures = f"{answer['seconds'] / step:.2f} steps of {step:.3f} s"
                tell(f"round {number} of {rounds}: {one.entry.key}: {figures}")
        return {
            "size": size,
            "rounds": rounds,
            "threads": threads,
            "epochs": SIZES[size].epochs,
            "steps": SIZES[size].steps,
            "usual": SIZES[size].usual,
            "versions": {one.entry.program: one.ready["versions"] for one in running},
            **about(),
            "contestants": [
                {
                    "program": one.entry.program,
                    "name": one.entry.name,
                    "job": one.entry.job,
                    "answers": one.answers,
                    "peak": one.alone["peak"],
                    "start": one.ready["start"],
                }
                for one in running
            ],
        }
    finally:
        for one in running:
            one.stop()


def tell(text: str) -> None:
    """Progress, beside the output proper."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    """Parse, measure, store, print."""
    parser = argparse.ArgumentParser(description="Time and memory beside a plain loop and beside Avalanche.")
    parser.add_argument("size", choices=list(SIZES))
    parser.add_argument(
        "--rounds", type=int, default=5, help=f"medians are over these; at least {LEAST_ROUNDS} to store"
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--without", action="append", default=[], choices=["avalanche", "ours", "plain"])
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a preset or strategy; plain stays")
    parser.add_argument(
        "--avalanche", default=str(ROOT / ".venv-avalanche/bin/python"), help="its environment's Python"
    )
    parser.add_argument("--out", type=Path, help="folder for SIZE.json; without it nothing is stored")
    arguments = parser.parse_args()
    if arguments.out and arguments.rounds < LEAST_ROUNDS:
        parser.error(f"--rounds {arguments.rounds} is too few to store: {LEAST_ROUNDS} or more.")
    partly = bool(arguments.only or arguments.without)
    if arguments.out and partly and arguments.out.resolve() == ROOT / "docs" / "performance":
        parser.error("Some contestants alone would take the place of all in docs/performance: choose another --out.")
    chosen = entries(set(arguments.without), set(arguments.only), SIZES[arguments.size].plain)
    pythons = {"avalanche": arguments.avalanche}
    result = measure(chosen, pythons, arguments.size, arguments.rounds, arguments.threads)
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        write_atomically(arguments.out / f"{arguments.size}.json", (json.dumps(result, indent=1) + "\n").encode())
    print(markdown(result))


if __name__ == "__main__":
    main()
