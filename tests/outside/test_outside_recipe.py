"""A package of somebody else's brings a strategy that is no slot combination: every command knows it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import everlearn
from everlearn.cli import main
from everlearn.dashboard.table import Table
from everlearn.diagnostics import alarms
from everlearn.errors import ConfigError
from everlearn.recipes import recipe_of, registry
from everlearn.records import read
from everlearn.runs import Config
from tests.outside.conftest import HERE
from tests.toys import plain_network, toy_stream

pytestmark = pytest.mark.usefixtures("installed")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (path / "records.jsonl").read_text().splitlines()]


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    shown = capsys.readouterr().out
    assert "\npixel-means   the class whose mean pattern is nearest\n" in shown
    assert "\ntoy-linear                   one hidden layer on plain pixels, for any shape\n" in shown
    assert "\nsplit-N:toy-stripes  six classes of stripes, 6×6\n" in shown


def test_build_learn_and_resume() -> None:
    learner, again = (everlearn.build("pixel-means", plain_network()) for _ in range(2))
    first, *later = toy_stream()
    learner.learn(first)
    again.load_state_dict(learner.state_dict())
    for batch in later:
        learner.learn(batch)
        again.learn(batch)
        assert learner.evaluate(batch).seen > 0.9
    x = first.x
    assert torch.equal(learner.scores(x), again.scores(x))


def test_configs_and_knobs() -> None:
    assert Config("digits", "pixel-means").hyperparameters == {"means.shrink": 0.0, "means.least": 1}
    assert Config("digits", "shrunk-means").hyperparameters["means.shrink"] == 0.5  # digits' own setting
    like, own = (Config("mini50", name).hyperparameters for name in ("ar1-ewc", "half-frozen"))
    assert own["training.first.eta"] == like["training.first.eta"]  # like ar1-ewc, where it says nothing itself
    with pytest.raises(ConfigError, match="Unknown knob"):
        _ = Config("digits", "pixel-means", knobs={"si.lam": 1.0}).hyperparameters


def test_run_and_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["run", "--benchmark", "split-2:toy-stripes", "--network", "toy-linear", "--strategy", "pixel-means"]
    assert main([*call, "--out", str(tmp_path / "two"), "--batches", "2"]) == 0
    assert main([*call, "--out", str(tmp_path / "two")]) == 0
    assert main([*call, "--out", str(tmp_path / "whole")]) == 0
    two, whole = (lines(tmp_path / name) for name in ("two", "whole"))
    assert [record["confusion"] for record in two] == [record["confusion"] for record in whole]
    assert len(whole) == 3
    capsys.readouterr()
    assert main([*call, "--out", str(tmp_path / "no"), "--set", "means.sink=1"]) == 1
    assert "Unknown knob" in capsys.readouterr().err


def test_compare_report_figures_doctor_and_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In processes of their own; and when the package is gone, what it left is still shown."""
    runs = tmp_path / "runs"
    call = ["compare", "--benchmark", "digits", "--strategies", "pixel-means,shrunk-means", "--jobs", "2"]
    assert main([*call, "--out", str(runs)]) == 0
    assert "pixel-means *" in capsys.readouterr().out  # the best that keeps no old patterns
    assert "Pixel means" in (runs / "report.html").read_text()
    assert main(["doctor", str(runs)]) == 0
    assert "pixel-means on digits, run 1, 4 of 4 batches" in capsys.readouterr().out
    assert main(["figures", str(runs), "--out", str(tmp_path / "figures"), "--only", "accuracy_curves", "table"]) == 0
    assert "| Pixel means |" in (tmp_path / "figures" / "digits-table.md").read_text()
    assert {row["strategy"] for row in rows(runs)} == {"Pixel means", "shrunk-means"}
    assert all(not alarms(run) for run in read(runs))

    sys.path.remove(str(HERE))
    registry.forget()
    assert main(["report", str(runs)]) == 0
    assert "pixel-means *" in capsys.readouterr().out
    assert "Pixel means" not in (runs / "report.html").read_text()
    assert main(["doctor", str(runs)]) == 0
    assert main(["figures", str(runs), "--out", str(tmp_path / "figures"), "--only", "table"]) == 0
    assert {row["strategy"] for row in rows(runs)} == {"pixel-means", "shrunk-means"}
    assert main([*call, "--runs", "2", "--out", str(runs)]) == 1
    assert "Unknown strategy" in capsys.readouterr().err


def rows(folder: Path) -> list[dict[str, Any]]:
    """The table of the live page."""
    table = Table(folder)
    table.scan()
    found: list[dict[str, Any]] = (table.changes(None) or {})["runs"]
    return found


def test_tune(tmp_path: Path) -> None:
    call = ["tune", "--benchmark", "digits", "--strategies", "pixel-means,shrunk-means", "--trials", "3"]
    assert main([*call, "--out", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "settings.json").read_text())["strategies"]
    assert found["pixel-means"]["knobs"] == {}
    assert len(found["pixel-means"]["scores"]) == 1  # nothing is searched for
    assert set(found["shrunk-means"]["knobs"]) == {"means.shrink"}
    assert len(found["shrunk-means"]["scores"]) + found["shrunk-means"]["given_up"] == 3


def test_its_own_advice() -> None:
    assert recipe_of("shrunk-means").advice("forgetting") == "Lower means.shrink."
    assert recipe_of("pixel-means").advice("forgetting") == registry.words_of("unknown").advice("forgetting")


def test_on_a_cluster(tmp_path: Path) -> None:
    """In a process of its own: Ray takes its address from the environment when it is first imported."""
    call = [
        *["everlearn", "compare", "--benchmark", "digits", "--strategies", "pixel-means", "--engine", "ray", "--out"],
        str(tmp_path),
    ]
    done = subprocess.run([sys.executable, "-m", *call], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pixel-means *" in done.stdout
