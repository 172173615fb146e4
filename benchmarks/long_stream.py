"""What a batch costs late in a long stream: `python -m benchmarks.long_stream [--out FOLDER]`.

200 batches of two new classes each on the small network, 400 rows from the start. The classes are pairs of real digits,
in each batch under another order of their pixels. Time, on the clock and of the CPU, is the median over the ten
batches up to i; memory is what the process has resident after B_i.
tests/learning/test_long_stream.py asserts on counts what is shown here on the clock.
"""

import argparse
import gc
import json
import os
import tempfile
import time
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import torch

from benchmarks.machine import about, said, versions
from everlearn import Batch, Strategy, build, save_state
from everlearn._kit.files import write_atomically
from everlearn._kit.keyed import keyed_generator
from everlearn.data import digits
from everlearn.data.source import Source
from everlearn.models import small

BATCHES, CLASSES = 200, 2
STRATEGIES = ("ar1", "cwr+", "lwf")
LOOK = (20, 50, 100, 150, 200)
WINDOW = 10


@cache
def source() -> Source:
    """The real digits, read once."""
    return digits()


def batch(i: int, n: int = 40) -> Batch:
    """B_i: n patterns of two digits each, their pixels in an order of B_i's own, as the classes 2i − 2 and 2i − 1."""
    train = source().train
    order = torch.randperm(train.x[0].size, generator=keyed_generator(0, "pixels", i))
    x, y = [], []
    for k in range(CLASSES):
        chosen = torch.from_numpy(train.x[train.y == (i + k) % 10][:n]).float()
        x.append(chosen.flatten(1)[:, order].reshape(chosen.shape))
        y += [CLASSES * (i - 1) + k] * len(chosen)
    return Batch(torch.cat(x), torch.tensor(y))


def learner(strategy: str, epochs: int = 2) -> Strategy:
    """A learner with rows for every class from the start, LWF's too."""
    knobs: dict[str, Any] = {f"training.{phase}.epochs": epochs for phase in ("first", "later")}
    knobs |= {"training.minibatch": 16, "training.first.eta": 0.01, "training.later.eta": 0.003}
    if strategy == "lwf":
        knobs["head.growth"] = "maximal"
    return build(strategy, small(CLASSES * BATCHES, source().shape, seed=0), knobs=knobs)


def resident() -> float:
    """The MB of memory that this process has."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measured(strategy: str) -> list[dict[str, float]]:
    """A row for each batch of LOOK."""
    chosen, rows = learner(strategy), list[dict[str, float]]()
    clock, cpu = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        for i in range(1, BATCHES + 1):
            here = batch(i)
            begun = time.perf_counter(), time.process_time()
            chosen.learn(here)
            clock.append(time.perf_counter() - begun[0])
            cpu.append(time.process_time() - begun[1])
            if i in LOOK:
                save_state(Path(folder, "state"), chosen.state_dict())
                size = Path(folder, "state").stat().st_size / 1e6
                ms, cpu_ms = (round(1000 * median(spent[-WINDOW:]), 2) for spent in (clock, cpu))
                row = {"i": i, "ms": ms, "cpu_ms": cpu_ms, "resident_MB": round(resident(), 1), "state_MB": size}
                rows.append(row)
    return rows


def main() -> None:
    """Measure, store and print."""
    options = argparse.ArgumentParser(description="What a batch costs late in a long stream.")
    options.add_argument("--out", type=Path, help="folder for long_stream.json; without it nothing is stored")
    out = options.parse_args().out
    torch.set_num_threads(1)
    rows = {strategy: measured(strategy) for strategy in STRATEGIES}
    result = {"rows": rows, "versions": versions("everlearn", "torch"), **about()}
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / "long_stream.json", (json.dumps(result, indent=1) + "\n").encode())
    print(lines(result))


def lines(result: dict[str, Any]) -> str:
    """What was measured as Markdown."""
    head = ["| | batch | ms a batch | of CPU | MB resident | MB of state |", "|---|---:|---:|---:|---:|---:|"]
    rows = [
        f"| {strategy} | {row['i']} | {row['ms']:.1f} | {row['cpu_ms']:.1f} | {row['resident_MB']:.1f} "
        f"| {row['state_MB']:.3f} |"
        for strategy, each in result["rows"].items()
        for row in each
    ]
    return "\n".join([f"One thread; {said(result)}", "", *head, *rows])


if __name__ == "__main__":
    main()
