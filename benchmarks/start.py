"""How long the command line takes to start: `python -m benchmarks.start [--out FOLDER]`.

`everlearn --help` and `everlearn list strategies`, as processes of their own, beside Python that does nothing.
Interleaved; medians over the rounds.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.machine import about, said, versions
from everlearn._kit.files import write_atomically

CALLS = {
    "python -c pass": ["-c", "pass"],
    "everlearn --help": ["-m", "everlearn", "--help"],
    "everlearn list strategies": ["-m", "everlearn", "list", "strategies"],
}
LIMIT = 0.5
"""Seconds, of our two."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="How long the command line takes to start.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, help="folder for start.json; without it nothing is stored")
    arguments = parser.parse_args()
    seconds: dict[str, list[float]] = {name: [] for name in CALLS}
    for _ in range(arguments.rounds):
        for name, call in CALLS.items():
            begun = perf_counter()
            subprocess.run([sys.executable, *call], check=True, stdout=subprocess.DEVNULL)
            seconds[name].append(perf_counter() - begun)
    result = {
        "rounds": arguments.rounds,
        "seconds": {name: median(each) for name, each in seconds.items()},
        "versions": versions("everlearn"),
        **about(),
    }
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        write_atomically(arguments.out / "start.json", (json.dumps(result, indent=1) + "\n").encode())
    print(lines(result))


def lines(result: dict[str, Any]) -> str:
    """What was measured as Markdown."""
    rows = [
        f"| `{name}` | {seconds:.3f} | {'' if name.startswith('python') else 'yes' if seconds < LIMIT else '**no**'} |"
        for name, seconds in result["seconds"].items()
    ]
    head = [f"| | seconds | under {LIMIT:g} |", "|---|---:|---|"]
    return "\n".join([f"Medians of {result['rounds']} rounds; {said(result)}", "", *head, *rows])


if __name__ == "__main__":
    main()
