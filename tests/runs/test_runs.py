"""Runs: records by contract, resuming bit for bit, and a folder that is refused to others."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch

from everlearn._kit import locks
from everlearn._kit.lines import read_lines
from everlearn._kit.state import load_state
from everlearn.benchmarks import BENCHMARKS
from everlearn.errors import ConfigError, DataError, RunError
from everlearn.learning.learner import Learner, Step
from everlearn.recipes.presets import SETTINGS, preset, with_knobs
from everlearn.runs import Config, RunFolder, measure, run, runner, stopping
from everlearn.runs.config import knobs_from, plain
from everlearn.runs.folder import is_finished
from everlearn.runs.stopping import stop_signals
from tests.kills import without_times
from tests.toys import assert_same_state, toy_benchmark

QUICK = {"training.first.epochs": 3, "training.later.epochs": 3, "training.minibatch": 16}


@pytest.fixture(autouse=True)
def toy_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "digits", toy_benchmark())


def config(strategy: str = "ar1", **changes: Any) -> Config:
    return Config("digits", strategy, **{"knobs": QUICK, **changes})


def final_state(path: Path) -> dict[str, Any]:
    state: dict[str, Any] = load_state(path / "checkpoint.safetensors")["learner"]
    return state


@pytest.mark.parametrize("strategy", ["ar1", "lwf", "ewc", "naive", "cumulative"])
def test_records_hold_what_scripts_rely_on(strategy: str, tmp_path: Path) -> None:
    knobs = {**QUICK, "ewc.minibatch": 8} if strategy == "ewc" else QUICK
    records = run(config(strategy, knobs=knobs), tmp_path)
    assert read_lines(tmp_path / "records.jsonl") == records
    assert [r["i"] for r in records] == [1, 2, 3, 4, 5]
    for r in records:
        assert (r["benchmark"], r["strategy"], r["run"]) == ("digits", strategy, 1)
        confusion, mt = np.array(r["confusion"]), np.array(r["confusion_mt"])
        assert confusion.shape == mt.shape == (10, 10)
        assert confusion.sum() == 60 == sum(r["patterns"])
        assert r["accuracy"] == pytest.approx(confusion.trace() / 60)
        seen = 2 * r["i"]
        assert r["accuracy_seen"] == pytest.approx(confusion[:seen, :seen].trace() / (6 * seen))
        assert not confusion[:, seen:].any()  # over the classes seen
        assert r["classes"] == r["batches"][r["i"] - 1] == sorted(r["order"][seen - 2 : seen])
        assert len(r["accuracy_mt"]) == r["i"]
        assert r["accuracy_mt"][0] == pytest.approx(mt[:2, :2].trace() / 12)
        assert (r["importance"] is not None) == (strategy in ("ar1", "ewc"))
        assert (r["lam"] is not None) == (strategy in ("ar1", "ewc", "lwf"))
        assert r["seconds_train"] > 0 < r["seconds_eval"]
        there = {"outputs.0.layer"} if strategy != "lwf" or r["i"] > 1 else set()  # an expanding head begins empty
        assert set(r["change"]) == {"trunk.0", "trunk.3", "trunk.7"} | there
        assert r["eta"] == 0.02
        assert r["storage"]["network"] > 0
    assert records[0]["backward_transfer"] is None
    assert records[4]["forgetting"] >= 0 >= -1
    last = read_lines(tmp_path / "events.jsonl")[-1]
    assert {"i", "epoch", "step", "loss", "images_per_second"} <= set(last)
    saved = np.load(tmp_path / "predictions" / "005-seen.npy")
    assert saved.shape == (60,)


def test_the_same_run_again_learns_nothing_twice(tmp_path: Path) -> None:
    records = run(config(), tmp_path)
    steps: list[Step] = []
    again = run(config(), tmp_path, on_progress=lambda step, _: steps.append(step) if step else None)
    assert again == records
    assert steps == []


@pytest.mark.parametrize("strategy", ["ar1", "lwf", "cumulative", "cwr+"])
@pytest.mark.parametrize("at", [(1, 1), (2, 5), (5, 6)])
def test_interrupted_and_resumed_is_bit_for_bit_the_same(strategy: str, at: tuple[int, int], tmp_path: Path) -> None:
    whole = run(config(strategy), tmp_path / "whole")

    def stop(step: Step | None, _record: object) -> None:
        if step and (step.i, step.step) == at:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config(strategy), tmp_path / "cut", checkpoint_every=0.0, on_progress=stop)
    made: list[tuple[int, int]] = []
    resumed = run(
        config(strategy), tmp_path / "cut", on_progress=lambda s, _: made.append((s.i, s.step)) if s else None
    )
    assert made[0] == at  # at most the step that was not yet saved is repeated
    assert without_times(resumed) == without_times(whole)
    assert_same_state(final_state(tmp_path / "cut"), final_state(tmp_path / "whole"))
    events = [(e["i"], e["step"]) for e in read_lines(tmp_path / "cut" / "events.jsonl")]
    assert events == sorted(set(events))


def test_a_stop_need_not_wait_for_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """B_2 is learnt and saved when it is evaluated: one signal ends the run there, and nothing is learnt again."""
    whole = run(config(), tmp_path / "whole")
    asked, usual = [0], measure.predict

    def predict(learner: Learner, *what: Any) -> measure.Predictions:
        if learner.i_ == 2 and not asked[0]:
            asked[0] += 1
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)
        return usual(learner, *what)

    monkeypatch.setattr(measure, "predict", predict)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(config(), tmp_path / "cut", checkpoint_every=1e9)
    assert time.monotonic() - began < 50
    steps: list[Step] = []
    resumed = run(config(), tmp_path / "cut", on_progress=lambda step, _: steps.append(step) if step else None)
    assert steps[0].i == 3
    assert without_times(resumed) == without_times(whole)


def test_no_more_steps_are_repeated_than_a_checkpoint_allows(tmp_path: Path) -> None:
    """Steps of 20 ms and a checkpoint every 0.2 s: of a batch cut at step 40, at most some 20 steps are made again."""
    slow = config(knobs={**QUICK, "training.first.epochs": 30})
    made: list[int] = []

    def wait(step: Step | None, _record: object) -> None:
        if step and step.i == 1:
            time.sleep(0.02)
            made.append(step.step)
            if len(made) == 40:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(slow, tmp_path, checkpoint_every=0.2, on_progress=wait)
    first = list(made)
    run(slow, tmp_path, checkpoint_every=0.2, on_progress=wait)
    repeated = len(made) - len(set(made))
    assert first == list(range(1, 41))
    assert 0 < repeated <= 20


def test_a_record_that_was_not_written_is_made_from_the_checkpoint(tmp_path: Path) -> None:
    whole = run(config(batches=2), tmp_path)
    lines = (tmp_path / "records.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "records.jsonl").write_bytes(lines[0] + lines[1][: len(lines[1]) // 2])  # cut short
    assert without_times(run(config(batches=2), tmp_path)) == without_times(whole)


def test_a_stream_can_go_on(tmp_path: Path) -> None:
    run(config(batches=2), tmp_path / "a")
    assert len(RunFolder(tmp_path / "a").records()) == 2
    assert without_times(run(config(), tmp_path / "a")) == without_times(run(config(), tmp_path / "b"))


def test_another_config_is_refused_with_the_difference(tmp_path: Path) -> None:
    run(config(batches=1), tmp_path)
    other = config(batches=1, knobs={**QUICK, "si.lam": 7.0}, run=2)
    with pytest.raises(RunError, match=r"knobs\.si\.lam: None there, 7\.0 now; run: 1 there, 2 now"):
        run(other, tmp_path)


def test_a_folder_that_has_learnt_nothing_takes_another_config(tmp_path: Path) -> None:
    """A run that was refused or diverged in its first steps, given again with something mended."""
    with pytest.raises(DataError, match="wrong shape"):
        run(config(batches=1, network="cifarnet"), tmp_path)
    assert len(run(config(batches=1), tmp_path)) == 1
    assert json.loads((tmp_path / "config.json").read_text())["network"] is None


def test_other_data_are_refused_when_a_run_goes_on(tmp_path: Path) -> None:
    """Classes are numbered by their names: with one more in front, every row would mean something else."""
    x = np.random.default_rng(1).random((60, 1, 8, 8), dtype=np.float32)
    own, names = tmp_path / "own.npz", ["bear", "cat", "dog", "emu", "fox", "gnu"]
    mine = Config(f"split-2:{own}", "cwr+", knobs={f"training.{phase}.epochs": 1 for phase in ("first", "later")})
    y = np.array(names).repeat(10)
    np.savez(own, x=x, y=y)
    run(replace(mine, batches=1), tmp_path / "run")
    before = (tmp_path / "run" / "config.json").read_bytes()
    for others, words in (
        (np.array(["ant", *names[:-1]]).repeat(10), r"class_names .*: 6, number 1 being 'bear', got 6, .* 'ant'"),
        (np.array([*names[:-1], "gnu", "yak"]).repeat(8), r"class_names .*: 6, number 7 being 'none', got 7, .* 'yak'"),
        (y[5:], r"n_i as in its config.json: 3, number \d being \d+, got 3, number \d being \d+"),
    ):
        np.savez(own, x=x[-len(others) :], y=others)
        with pytest.raises(RunError, match=f"data have changed since this run was begun: expected {words}"):
            run(mine, tmp_path / "run")
        assert (tmp_path / "run" / "config.json").read_bytes() == before
    np.savez(own, x=x, y=y)
    assert len(run(mine, tmp_path / "run")) == 3


def test_a_setting_that_was_changed_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by another version: the config is the same, what it stands for is not."""
    mine = config(batches=1, setting="small/digits")
    run(mine, tmp_path)
    stored = json.loads((tmp_path / "config.json").read_text())
    learnt_with = preset("ar1", "small/digits", QUICK)
    assert stored["hyperparameters"] == plain(learnt_with.hyperparameters)
    again = with_knobs(preset("ar1"), stored["hyperparameters"])
    assert plain(again.hyperparameters) == stored["hyperparameters"]

    assert is_finished(mine, tmp_path)
    found = SETTINGS["small/digits"]["ar1"]
    monkeypatch.setitem(SETTINGS["small/digits"], "ar1", {**found, "si.lam": 7.0})
    with pytest.raises(RunError, match=rf"si\.lam: {found['si.lam']} there, 7\.0 now by the setting"):
        run(mine, tmp_path)
    assert not is_finished(mine, tmp_path)
    del stored["hyperparameters"]  # a folder of an older version
    (tmp_path / "config.json").write_text(json.dumps(stored))
    assert len(run(mine, tmp_path)) == 1


def test_one_process_a_run(tmp_path: Path) -> None:
    """A second process is refused; when the holder is killed, nothing stands in the way."""
    code = "import sys, time\nfrom pathlib import Path\nfrom everlearn.runs.folder import RunFolder\n"
    code += "with RunFolder(Path(sys.argv[1])).locked():\n    print('held', flush=True)\n    time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(RunError, match="another process"):
        run(config(batches=1), tmp_path)
    holder.kill()
    holder.wait()
    holder.stdout.close()
    assert len(run(config(batches=1), tmp_path)) == 1


def test_a_lock_that_is_a_link_is_refused_and_its_target_untouched(tmp_path: Path) -> None:
    run_, mine = tmp_path / "run", tmp_path / "mine"
    run_.mkdir()
    mine.write_text("my only copy")
    for target, there in ((mine, True), (tmp_path / "nothing", False)):
        (run_ / "lock").symlink_to(target)
        with pytest.raises(RunError, match=r"cannot be used.*its lock is a symbolic link"), RunFolder(run_).locked():
            pass
        assert target.exists() == there
        (run_ / "lock").unlink()
    assert mine.read_text() == "my only copy"


def test_a_lock_stays_under_its_name_with_what_it_holds(tmp_path: Path) -> None:
    """Also a hard link, which looks like any other file."""
    mine = tmp_path / "mine"
    mine.write_text("my only copy")
    os.link(mine, tmp_path / "lock")
    for _ in range(2):
        with RunFolder(tmp_path).locked(), pytest.raises(RunError, match="another process"):
            RunFolder(tmp_path).locked().__enter__()
    assert os.path.samefile(mine, tmp_path / "lock")
    assert mine.read_text() == "my only copy"


def test_a_disk_without_locks_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "take", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    with pytest.raises(RunError, match=r"cannot be used.*No locks available"), RunFolder(tmp_path).locked():
        pass


def test_seeds_and_threads_are_settled_by_the_config(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    a, b = (run(config(seed=seed, batches=1), tmp_path / str(seed)) for seed in (1, 2))
    assert a[0]["change"] != b[0]["change"]
    assert torch.get_num_threads() == 1
    torch.set_num_threads(threads)


def test_configs_from_files(tmp_path: Path) -> None:
    toml = tmp_path / "a.toml"
    toml.write_text("[knobs.si]\nlam = 4e5\n[knobs.training.first]\nepochs = 2\n")
    assert knobs_from(toml) == {"si.lam": 4e5, "training.first.epochs": 2}
    for text, message in (("benchmark = ", "cannot be read"), ("seed = 7", r"knobs alone: .*got \['seed'\]")):
        toml.write_text(text)
        with pytest.raises(ConfigError, match=message):
            knobs_from(toml)
    for bad in ({"run": 0}, {"threads": 0}, {"batches": 0}, {"held_out": 1.0}, {"run": "1"}):
        with pytest.raises(ConfigError, match="expected"):
            config(**bad)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_in_the_middle_of_a_batch(number: int, tmp_path: Path) -> None:
    def stop(step: Step | None, _record: object) -> None:
        if step and (step.i, step.step) == (2, 2):
            os.kill(os.getpid(), number)

    with pytest.raises(KeyboardInterrupt):
        run(config(), tmp_path / "cut", checkpoint_every=1e9, on_progress=stop)
    assert final_state(tmp_path / "cut")["within"][0] in (2, 3)
    assert without_times(run(config(), tmp_path / "cut")) == without_times(run(config(), tmp_path / "whole"))


def test_a_stop_need_not_wait_for_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is learnt while data are prepared, which may take long."""

    def prepare(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr(runner, "prepare", prepare)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run(config(), tmp_path)
    assert time.monotonic() - began < 50


def test_signals_that_come_together_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who stops a machine tells the parent and the child, and the parent tells the child again."""
    with stop_signals() as stop:
        for _ in range(3):
            signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        monkeypatch.setattr(stopping, "SAME", 0.0)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    with stop_signals() as stop, pytest.raises(KeyboardInterrupt), stop.at_once():
        signal.raise_signal(signal.SIGINT)


def test_held_out_data_is_training_data(tmp_path: Path) -> None:
    records = run(config(held_out=0.25, batches=1), tmp_path)
    assert records[0]["patterns"] == [4] * 10
    stored = json.loads((tmp_path / "config.json").read_text())
    assert stored["held_out"] == 0.25
