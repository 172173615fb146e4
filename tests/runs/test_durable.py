"""What a run does about damaged checkpoints, full disks, lost records, and going on elsewhere."""

import errno
import json
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from everlearn._kit.lines import append_line, read_lines
from everlearn._kit.state import load_state
from everlearn.benchmarks import BENCHMARKS
from everlearn.cli import main
from everlearn.errors import ConfigError, RunError, RunWarning
from everlearn.learning.learner import Step
from everlearn.runs import Config, RunFolder, run
from tests.kills import assert_same_end, without_times
from tests.toys import toy_benchmark

KNOBS = {"training.first.epochs": 3, "training.later.epochs": 3, "training.minibatch": 16}
NEWEST, BEFORE = "checkpoint.safetensors", "checkpoint-before.safetensors"
TOYS = Config("digits", "ar1", knobs=KNOBS)


@pytest.fixture(autouse=True)
def toy_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "digits", toy_benchmark())


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def stop_at(i: int, step: int) -> Any:
    def stop(made: Step | None, _record: object) -> None:
        if made and (made.i, made.step) == (i, step):
            raise KeyboardInterrupt

    return stop


def cut(folder: Path, at: tuple[int, int] = (3, 4), checkpoint_every: float = 0.0) -> None:
    """A run that stopped at a step, with a checkpoint at every step before it, or only at the ends of batches."""
    with pytest.raises(KeyboardInterrupt):
        run(TOYS, folder, checkpoint_every=checkpoint_every, on_progress=stop_at(*at))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 4
    path.write_bytes(content)


def shorten(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1000)


# --- damaged checkpoints ------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [flip, shorten])
@pytest.mark.parametrize("every", [0.0, 1e9])
def test_a_damaged_checkpoint_is_named_and_the_one_before_used(damage: Any, every: float, tmp_path: Path) -> None:
    """Every 1e9 s: checkpoints are those at the ends of B_1 and B_2, and B_2's record and events are dropped too."""
    run(TOYS, tmp_path / "whole")
    cut(tmp_path / "run", checkpoint_every=every)
    damage(tmp_path / "run" / NEWEST)
    made: list[tuple[int, int]] = []
    why = "its checksum is" if damage is flip else "file not fully covered"
    with pytest.warns(RunWarning, match=f"newest checkpoint is damaged.*run/{NEWEST} .*{why}.*goes on from.*{BEFORE}"):
        run(TOYS, tmp_path / "run", on_progress=lambda step, _: made.append((step.i, step.step)) if step else None)
    assert made[0] == ((3, 3) if every == 0.0 else (2, 1))
    assert_same_end(tmp_path / "run", tmp_path / "whole")


def test_a_run_may_be_damaged_and_killed_again_and_again(tmp_path: Path) -> None:
    """The good one becomes the newest at once: a kill before the next checkpoint leaves it in its place."""
    run(TOYS, tmp_path / "whole")
    cut(tmp_path / "run")
    for _ in range(3):
        flip(tmp_path / "run" / NEWEST)
        with pytest.warns(RunWarning, match="damaged"), pytest.raises(KeyboardInterrupt):
            run(TOYS, tmp_path / "run", checkpoint_every=1e9, on_progress=stop_at(3, 3))
        assert not (tmp_path / "run" / BEFORE).exists()
        with pytest.raises(KeyboardInterrupt):
            run(TOYS, tmp_path / "run", checkpoint_every=0.0, on_progress=stop_at(3, 4))
    run(TOYS, tmp_path / "run")
    assert_same_end(tmp_path / "run", tmp_path / "whole")


def test_killed_between_two_renamings(tmp_path: Path) -> None:
    """The newest has become the one before, and the next has not got its name yet: nothing is damaged."""
    run(TOYS, tmp_path / "whole")
    cut(tmp_path / "run")
    (tmp_path / "run" / NEWEST).replace(tmp_path / "run" / BEFORE)
    run(TOYS, tmp_path / "run")
    assert_same_end(tmp_path / "run", tmp_path / "whole")


def test_when_no_checkpoint_is_whole_it_says_so_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut(tmp_path)
    flip(tmp_path / NEWEST)
    shorten(tmp_path / BEFORE)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    knobs = [part for name, value in KNOBS.items() for part in ("--set", f"{name}={value}")]
    call = ["run", "--benchmark", "digits", "--strategy", "ar1", *knobs, "--out", str(tmp_path)]
    assert main(call) == 1
    said = capsys.readouterr().err
    for words in ("No checkpoint of this run is whole", NEWEST, BEFORE, "from a backup, or remove"):
        assert words in said
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_it_never_starts_anew_in_silence(tmp_path: Path) -> None:
    cut(tmp_path, (1, 3), checkpoint_every=1e9)  # nothing was saved yet: here it may
    assert not (tmp_path / NEWEST).exists()
    run(replace(TOYS, batches=3), tmp_path)
    for name in (NEWEST, BEFORE):
        (tmp_path / name).unlink()
    with pytest.raises(RunError, match=r"checkpoints of this run are gone.*3 records alone"):
        run(TOYS, tmp_path)


def test_a_finished_run_needs_no_checkpoint(tmp_path: Path) -> None:
    """Config and records are all that is published of a run: more runs can be made beside it, and it is left alone."""
    records = run(replace(TOYS, batches=2), tmp_path / "whole")
    (tmp_path / "kept").mkdir()
    for name in ("config.json", "records.jsonl"):
        shutil.copyfile(tmp_path / "whole" / name, tmp_path / "kept" / name)
    before = (tmp_path / "kept" / "records.jsonl").read_bytes()
    assert run(replace(TOYS, batches=2), tmp_path / "kept", log=["tensorboard"]) == records
    told = list((tmp_path / "kept" / "tensorboard").iterdir())
    assert len(told) == 1  # loggers are filled in, once
    assert run(replace(TOYS, batches=2), tmp_path / "kept", log=["tensorboard"]) == records
    assert list((tmp_path / "kept" / "tensorboard").iterdir()) == told
    assert (tmp_path / "kept" / "records.jsonl").read_bytes() == before
    with pytest.raises(RunError, match="another run"):
        run(replace(TOYS, batches=2, run=2), tmp_path / "kept")


def test_lost_records_are_noticed(tmp_path: Path) -> None:
    """A damaged line in the middle ends what can be read."""
    cut(tmp_path)
    lines = (tmp_path / "records.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "records.jsonl").write_bytes(lines[0][:-9] + b"\n" + lines[1])
    with pytest.raises(RunError, match=r"Records are lost: expected one for each of the 2 batches .* those of \[\]"):
        run(TOYS, tmp_path)
    assert len((tmp_path / "records.jsonl").read_bytes().splitlines()) == 2


def test_a_lost_config_is_noticed(tmp_path: Path) -> None:
    """Else the run would go on with other hyperparameters, and its config would say that it had them all along."""
    cut(tmp_path)
    (tmp_path / "config.json").unlink()
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(RunError, match=r"config is lost: expected .*config.json beside checkpoint.safetensors"):
        run(TOYS, tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_folder_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", Path("/proc/nothing")):
        with pytest.raises(RunError, match=r"This folder cannot be used: .*Choose another folder"):
            run(TOYS, folder)


def test_two_checkpoints_are_kept_and_leftovers_removed(tmp_path: Path) -> None:
    cut(tmp_path)
    (tmp_path / f".{NEWEST}.0123.tmp").write_bytes(b"half a checkpoint")
    (tmp_path / "predictions" / ".001-mt.npy.0123.tmp").write_bytes(b"")
    run(TOYS, tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.safetensors")) == [BEFORE, NEWEST]
    assert not list(tmp_path.rglob("*.tmp"))


# --- full disks ---------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 4 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", disk], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"a tmpfs cannot be mounted here: {done.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def fill(disk: Path, leave: int) -> None:
    """Fill a disk up to so many bytes."""
    room = os.statvfs(disk)
    (disk / "filler").write_bytes(bytes(room.f_bavail * room.f_frsize - leave))


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_disk_that_fills_up_leaves_the_last_good_checkpoint(share: float, small_disk: Path, tmp_path: Path) -> None:
    """Nothing is left, or half a checkpoint; in the middle of B_3, when B_3's own checkpoints are being written."""
    run(TOYS, tmp_path / "whole")
    size = (tmp_path / "whole" / NEWEST).stat().st_size

    def fill_up(step: Step | None, _record: object) -> None:
        if step and (step.i, step.step) == (3, 2) and not (small_disk / "filler").exists():
            fill(small_disk, int(share * size))

    folder = small_disk / "run"
    for _ in range(2):  # a second try on a full disk does no harm either
        with pytest.raises(RunError, match=r"disk is full.*No space left on device.*give the same command again"):
            run(TOYS, folder, checkpoint_every=0.0, on_progress=fill_up)
        assert load_state(folder / NEWEST)["step"] == 1
        assert load_state(folder / BEFORE)["learner"]["i"] == 2
        assert not list(folder.rglob("*.tmp"))
    (small_disk / "filler").unlink()
    run(TOYS, folder)
    assert_same_end(folder, tmp_path / "whole")


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize("strategy", ["ar1", "cumulative"])
def test_a_run_that_goes_on_lets_go_of_the_checkpoint_it_came_from(strategy: str, tmp_path: Path) -> None:
    """Else a deleted file would take room on the disk, for one checkpoint more than there are, until the run ends."""
    toys, mapped = replace(TOYS, strategy=strategy), list[str]()
    run(replace(toys, batches=1), tmp_path)

    def look(_step: object, _record: object) -> None:
        mapped.extend(line for line in Path("/proc/self/maps").read_text().splitlines() if str(tmp_path) in line)

    assert len(run(toys, tmp_path, on_progress=look)) == 5
    assert mapped == []


def test_a_limit_on_files_leaves_the_last_good_checkpoint(tmp_path: Path) -> None:
    """As on a full disk, where no small disk can be mounted: no file may grow beyond half a checkpoint."""
    run(TOYS, tmp_path / "whole")
    size, usual = (tmp_path / "whole" / NEWEST).stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)

    def limit(step: Step | None, _record: object) -> None:
        if step and (step.i, step.step) == (3, 2):
            resource.setrlimit(resource.RLIMIT_FSIZE, (size // 2, usual[1]))

    try:
        with pytest.raises(RunError, match=r"disk is full.*File too large"):
            run(TOYS, tmp_path / "run", checkpoint_every=0.0, on_progress=limit)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert load_state(tmp_path / "run" / NEWEST)["step"] == 1
    run(TOYS, tmp_path / "run")
    assert_same_end(tmp_path / "run", tmp_path / "whole")


def test_half_a_line_on_a_full_disk_is_an_error(small_disk: Path) -> None:
    """The system writes what fits and calls it a success; the half line is not there for a reader."""
    append_line(small_disk / "lines", {"a": 1})
    fill(small_disk, 0)
    with pytest.raises(OSError, match="No space left") as error:
        append_line(small_disk / "lines", {"b": "x" * 10_000})
    assert error.value.errno == errno.ENOSPC
    assert read_lines(small_disk / "lines") == [{"a": 1}]


# --- elsewhere ----------------------------------------------------------------------------------------


def test_other_threads_are_allowed_and_said_to_be_within_rounding(tmp_path: Path) -> None:
    whole = run(TOYS, tmp_path / "whole")
    cut(tmp_path / "run")
    elsewhere = Config("digits", "ar1", knobs=KNOBS, threads=2)
    with pytest.warns(RunWarning, match=r"run goes on elsewhere: .*threads: 1 before, 2 now.*within rounding only"):
        records = run(elsewhere, tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "config.json").read_text())
    entry = {"i": 3, "step": 3, "differ": {"threads": [1, 2]}, "exact": False}
    assert (stored["threads"], stored["resumed"]) == (2, [entry])
    assert [r["i"] for r in records] == [r["i"] for r in whole]
    assert without_times(records[:2]) == without_times(whole[:2])
    mine, theirs = (load_state(tmp_path / name / NEWEST)["learner"]["network"] for name in ("run", "whole"))
    for name, weights in theirs.items():
        assert torch.allclose(mine[name], weights, rtol=1e-3, atol=1e-5), name
    assert run(TOYS, tmp_path / "run") == records  # it is done: nothing goes on anywhere
    assert json.loads((tmp_path / "run" / "config.json").read_text()) == stored


def test_another_device_is_allowed_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that its config says was made on a GPU and by another PyTorch goes on here, and later goes on exactly."""
    cut(tmp_path)
    stored = RunFolder(tmp_path).config() or {}
    assert stored["resumed"] == []
    stored |= {"device": "cuda:0", "versions": {**stored["versions"], "torch": "1.0"}}
    RunFolder(tmp_path).save_config(stored)
    with (
        pytest.warns(RunWarning, match=r"device: cuda:0 before, cpu now; torch: 1\.0 before"),
        pytest.raises(KeyboardInterrupt),
    ):
        run(TOYS, tmp_path, checkpoint_every=0.0, on_progress=stop_at(4, 2))
    run(TOYS, tmp_path)
    [entry] = (RunFolder(tmp_path).config() or {})["resumed"]
    assert entry["differ"]["device"] == ["cuda:0", "cpu"]


def test_configs_of_before_are_taken_for_the_same_place(tmp_path: Path) -> None:
    cut(tmp_path)
    stored = RunFolder(tmp_path).config() or {}
    for name in ("device", "resumed"):
        del stored[name]
    del stored["machine"]["instructions"]
    RunFolder(tmp_path).save_config(stored)
    assert len(run(TOYS, tmp_path)) == 5


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    for name in ("meta", "abacus"):
        with pytest.raises(ConfigError, match=f"device cannot be used.*'{name}'"):
            run(Config("digits", "ar1", device=name), tmp_path)
    assert not list(tmp_path.iterdir())
