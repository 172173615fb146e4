"""What every preset learns, as digests: a refactoring changes none of them.

    python -m tests.digests            # compare with the stored ones
    python -m tests.digests --write    # after a change of results that is meant, and is in the CHANGELOG

Sums are rounded as the processor's kind does it, so digests are stored by kind.
"""

import hashlib
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from everlearn.runs.config import Config
from everlearn.runs.folder import RunFolder
from everlearn.runs.runner import learner_of, run

STORED = Path(__file__).parent / "digests.json"
BENCHMARKS = ("digits", "mini50")
PRESETS = [
    "naive",
    "cumulative",
    "lwf",
    "ewc",
    "si",
    "fw",
    "cw",
    "cwr",
    "cwr+",
    "ar1",
    "ar1-ewc",
    "ar1-lwf",
    "cwr*",
    "ar1*",
]
TIMES = ("seconds_train", "seconds_eval")


def kind() -> str:
    """What settles how sums are rounded."""
    capability, words = torch.backends.cpu.get_cpu_capability(), dict[str, str]()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        words = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    cpu = " ".join(words.get(name, "?") for name in ("vendor_id", "cpu family", "model"))
    return f"{platform.machine()} {cpu} {capability}, torch {torch.__version__}"


def digests(benchmark: str, strategy: str) -> dict[str, str]:
    """Of the records (times aside) and of the final weights of run 1."""
    config = Config(benchmark, strategy)
    with tempfile.TemporaryDirectory() as folder:
        records = run(config, Path(folder))
        weights = learner_of(config, RunFolder(Path(folder))).weights()
    whole = hashlib.sha256()
    for name, value in sorted(weights.items()):
        whole.update(f"{name} {value.dtype} {list(value.shape)} ".encode())
        whole.update(value.contiguous().numpy().tobytes())
    lines = [{name: value for name, value in record.items() if name not in TIMES} for record in records]
    return {"records": hashlib.sha256(_text(lines)).hexdigest(), "weights": whole.hexdigest()}


def _text(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def stored() -> dict[str, dict[str, dict[str, str]]]:
    """By kind of processor, then by `benchmark strategy`."""
    return json.loads(STORED.read_text()) if STORED.exists() else {}


def main() -> int:
    """Compare or write; gives the exit code."""
    known, found, differ = stored(), dict[str, dict[str, str]](), 0
    for benchmark in BENCHMARKS:
        for strategy in PRESETS:
            name = f"{benchmark} {strategy}"
            found[name] = digests(benchmark, strategy)
            same = found[name] == known.get(kind(), {}).get(name)
            differ += not same
            sys.stdout.write(f"{name}: {'as stored' if same else 'differs'}\n")
            sys.stdout.flush()
    if "--write" in sys.argv:
        STORED.write_text(json.dumps({**known, kind(): found}, indent=1, ensure_ascii=False) + "\n")
        return 0
    return int(differ > 0)


if __name__ == "__main__":
    raise SystemExit(main())
