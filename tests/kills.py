"""Runs in processes of their own that are killed at random moments, and whether they end as undisturbed ones do."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any, Literal

import numpy as np
import pytest

from everlearn._kit.state import load_state
from everlearn.errors import RunError
from everlearn.runs import Config, RunFolder
from tests.toys import assert_same_state

TIMES = ("seconds_train", "seconds_eval")
Moment = Literal["starting", "training", "evaluation", "writing"]
"""When the folder is taken, and what was learnt is taken up; between two checkpoints; between a batch's last checkpoint
and its record; while a checkpoint is written."""


def start(config: Config, folder: Path, checkpoint_every: float) -> subprocess.Popen[bytes]:
    """The run as a user starts it."""
    call = [sys.executable, "-m", "everlearn", "run", "--out", str(folder), "--checkpoint-every", str(checkpoint_every)]
    what = ["--benchmark", config.benchmark, "--strategy", config.strategy, "--run", str(config.run)]
    knobs = [part for name, value in config.knobs.items() for part in ("--set", f"{name}={value}")]
    return subprocess.Popen([*call, *what, *knobs], stdout=subprocess.DEVNULL)


def moment_of(folder: Path) -> Moment | None:
    """What a process that stands still is at, None before its first checkpoint and after its last record."""
    run = RunFolder(folder)
    state = run.checkpoints.read()
    if state is None:
        return None
    if any(folder.glob(".checkpoint.safetensors.*.tmp")):
        return "writing"
    if state["pending"] is None:
        return "training"
    if len(run.records()) < state["learner"]["i"]:
        return "evaluation"
    return None if state["learner"]["i"] == run.records()[0]["of"] else "training"


def kill_at(process: subprocess.Popen[bytes], folder: Path, wanted: Moment, after: float, random: Random) -> bool:
    """Kill a process when it is at such a moment; False if it ended before.

    It is stopped every few milliseconds, looked at, and let go on or killed; a starting one is killed without a
    look. after: seconds that it may first work.
    """
    begun = time.time()
    written = folder / ("lock" if wanted == "starting" else "config.json")
    while process.poll() is None and not (written.exists() and written.stat().st_mtime >= begun):
        time.sleep(0.002)
    time.sleep(after)
    if wanted == "starting":
        process.kill()
        return process.wait() == -signal.SIGKILL
    while process.poll() is None:
        os.kill(process.pid, signal.SIGSTOP)
        _wait_until_stopped(process.pid)
        if moment_of(folder) == wanted:
            process.kill()
            return process.wait() == -signal.SIGKILL
        os.kill(process.pid, signal.SIGCONT)
        time.sleep(random.uniform(0.001, 0.008))
    assert process.returncode == 0
    return False


def _wait_until_stopped(pid: int) -> None:
    """Until the system says T, or that it has ended."""
    while Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "TtZX":
        time.sleep(0.0005)


def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in record.items() if name not in TIMES} for record in records]


def assert_same_end(folder: Path, undisturbed: Path) -> None:
    """Records (times aside), predictions and weights, bit for bit; no step twice, and nothing left behind."""
    mine, theirs = RunFolder(folder), RunFolder(undisturbed)
    assert without_times(mine.records()) == without_times(theirs.records())
    states = [load_state(path / "checkpoint.safetensors") for path in (folder, undisturbed)]
    assert_same_state(states[0]["learner"], states[1]["learner"])
    steps = [(event["i"], event["step"]) for event in mine.events()]
    assert steps == sorted(set(steps))
    names = {path.name for path in (undisturbed / "predictions").iterdir()}
    assert {path.name for path in (folder / "predictions").iterdir()} == names
    for name in names:
        assert np.array_equal(np.load(folder / "predictions" / name), np.load(undisturbed / "predictions" / name))
    assert {path.name for path in folder.iterdir()} == {path.name for path in undisturbed.iterdir()}


def assert_refused_while(process: subprocess.Popen[bytes], folder: Path) -> None:
    """A second process on a run's folder is refused, once the first one is at work there."""
    config = folder / "config.json"
    written = config.stat().st_mtime_ns
    while config.stat().st_mtime_ns == written:
        assert process.poll() is None
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(RunError, match="another process"), RunFolder(folder).locked():
        raise AssertionError("two processes on one run")
    os.kill(process.pid, signal.SIGCONT)
