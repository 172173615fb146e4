"""Tunes the settings of `everlearn.tuned`: python tools/tune_demo.py BENCHMARK [TRIALS] [JOBS].

Random search on run 1, the same number of trials for every strategy, scored by the final accuracy on training data that
is held out (whole sessions where there are sessions). Test patterns are never looked at. Prints the best knobs as JSON.
"""

import json
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from everlearn.errors import TrainingError
from everlearn.runs import Config, run

STRATEGIES = ("naive", "lwf", "ewc", "si", "cwr", "cwr+", "ar1", "cumulative")
EPOCHS = {"digits": (8, 8), "mini50": (6, 4)}
RATES = {"digits": (-2.5, -1.3), "mini50": (-3.4, -1.9)}  # log10 η; above, networks die
BATCHES = {"digits": None, "mini50": 5}  # a search may look at the first batches only
SHARES = {"digits": (0.66, 0.8), "mini50": (0.66, 0.9)}  # the range of 1 − n_i/Σn_j, which LWF's map starts from
MAX_F = 0.001


def draw(strategy: str, benchmark: str, rng: np.random.Generator) -> dict[str, Any]:
    """One point of a strategy's space."""
    epochs = EPOCHS[benchmark]
    first, later = (float(f"{10 ** rng.uniform(*RATES[benchmark]):.2g}") for _ in range(2))
    knobs: dict[str, Any] = {
        "training.first.epochs": epochs[0],
        "training.later.epochs": epochs[1],
        "training.first.eta": first,
        "training.later.eta": later,
    }
    pull = float(f"{10 ** rng.uniform(-1.5, 0) / (later * MAX_F):.2g}")  # η·λ·max_F from 0.03 to 1
    weight = float(f"{10 ** rng.uniform(-5, -2):.2g}")
    low, high = sorted(float(f"{end:.2f}") for end in rng.uniform(0.3, 0.95, 2))
    own: dict[str, dict[str, Any]] = {
        "lwf": {"lwf.map": (SHARES[benchmark], (low, high))},
        "ewc": {"ewc.lam": pull},
        "si": {"si.lam": pull, "si.w_1": weight, "si.w_i": weight},
        "ar1": {"si.lam": pull, "si.w_1": weight, "si.w_i": weight},
        "cwr": {"cwr.w_1": float(f"{2 ** rng.uniform(-1, 1):.2f}")},
    }
    return {**knobs, **own.get(strategy, {})}


def trial(job: tuple[str, str, dict[str, Any]]) -> tuple[str, dict[str, Any], float]:
    """The final accuracy of one point on held-out training data."""
    benchmark, strategy, knobs = job
    with tempfile.TemporaryDirectory() as folder:
        try:
            config = Config(benchmark, strategy, knobs=knobs, held_out=0.25, batches=BATCHES[benchmark])
            records = run(config, Path(folder), checkpoint_every=1e9)
        except TrainingError:
            return strategy, knobs, 0.0
    return strategy, knobs, records[-1]["accuracy"]


def main() -> None:
    """Search, and print what was found."""
    benchmark, trials, jobs = sys.argv[1], *(int(n) for n in (sys.argv[2:] + ["12", "2"][len(sys.argv) - 2 :]))
    work = [
        (benchmark, strategy, draw(strategy, benchmark, np.random.default_rng([k, len(strategy), *strategy.encode()])))
        for strategy in STRATEGIES
        for k in range(trials)
    ]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(trial, work))
    for strategy in STRATEGIES:
        scored = [(score, knobs) for name, knobs, score in results if name == strategy]
        score, knobs = max(scored, key=lambda pair: pair[0])
        spread = sorted(round(s, 3) for s, _ in scored)
        sys.stdout.write(json.dumps({"strategy": strategy, "held_out": score, "all": spread, "knobs": knobs}) + "\n")


if __name__ == "__main__":
    main()
