"""Long checks, for `make soak`: the demo as a newcomer sees it."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak

ROOT = Path(__file__).resolve().parents[1]
STRATEGIES = "naive,lwf,ewc,si,cwr,cwr+,ar1,cumulative"


def compare(benchmark: str, out: Path) -> dict[str, float]:
    """The demo's comparison on a benchmark: final accuracies by strategy, mean of three runs."""
    command = [sys.executable, "-m", "everlearn", "compare", "--benchmark", benchmark, "--strategies", STRATEGIES]
    options = ["--runs", "3", "--jobs", "2", "--json", "--out", str(out)]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=True)
    [table] = json.loads(done.stdout)["benchmarks"]
    return {row["strategy"]: row["final"]["mean"] for row in table["strategies"]}


def test_the_demo_takes_five_minutes_and_comes_out_as_expected(tmp_path: Path) -> None:
    """Cumulative on top, AR1 ten points above Naive, on the real digits and on the synthetic mini50."""
    subprocess.run([sys.executable, "-m", "everlearn", "data", "get", "mini50"], check=True)
    begun = time.monotonic()
    tables = {name: compare(name, tmp_path / name) for name in ("digits", "mini50")}
    assert time.monotonic() - begun <= 300
    for name, table in tables.items():
        assert max(table, key=lambda strategy: table[strategy]) == "cumulative", name
        assert table["ar1"] >= table["naive"] + 0.1, name


def test_a_fresh_clone_passes_with_nothing_installed(tmp_path: Path) -> None:
    """`make setup` in a clone, with an empty environment, gives a command that lists and runs."""
    clone = tmp_path / "everlearn"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    bare = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "PYTHON": shutil.which("python3") or sys.executable}
    subprocess.run(["make", "-s", "setup"], cwd=clone, env=bare, check=True)
    everlearn = clone / ".venv" / "bin" / "everlearn"
    listed = subprocess.run([everlearn, "list", "strategies"], env=bare, capture_output=True, text=True, check=True)
    assert "ar1" in listed.stdout
    run = ["run", "--benchmark", "digits", "--strategy", "ar1", "--run", "1", "--out", str(tmp_path / "run")]
    subprocess.run([everlearn, *run], env=bare, check=True)
    assert len((tmp_path / "run" / "records.jsonl").read_text().splitlines()) == 4
