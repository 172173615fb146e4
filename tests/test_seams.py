"""Where parts meet: what one writes and another reads, and files that somebody else wrote."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from everlearn.cli import main
from everlearn.dashboard.table import Table
from everlearn.diagnostics import naive
from everlearn.errors import DataError, LogWarning, RunError
from everlearn.loggers import log
from everlearn.records import fields, read
from everlearn.records.groups import benchmarks
from everlearn.runs import RunFolder
from everlearn.runs.place import moved
from tests import report_toys as toys

QUICK = ["--set=training.first.epochs=1", "--threads=1"]


def test_other_weights_are_another_configuration(tmp_path: Path) -> None:
    """Pre-trained and not: neither repeats the other, they are not averaged, and the doctor does not pair them."""
    for folder, weights in (("scratch", None), ("pretrained", "mine.safetensors")):
        toys.write_run(tmp_path / folder, weights=weights)
    (bench,) = benchmarks(read(tmp_path))
    assert len(bench.groups) == 2
    assert not bench.repeated
    a, b = read(tmp_path)
    assert naive._frame(a) != naive._frame(b)


def test_another_number_of_processes_is_another_place() -> None:
    with pytest.warns(match="processes: 2 before, 1 now"):
        assert moved(Path("run"), {"processes": 2}, {}) == {"processes": [2, 1]}


def test_one_damaged_run_does_not_take_the_live_page_from_the_others(tmp_path: Path) -> None:
    toys.write_run(tmp_path / "good")
    toys.write_run(tmp_path / "huge", upto=1)
    event = {"i": 2, "epoch": 1, "step": 10**400, "steps": 1, "loss": 1.0, "eta": 0.1, "images_per_second": 1.0}
    (tmp_path / "huge" / "events.jsonl").write_text(json.dumps(event) + "\n")
    table = Table(tmp_path)
    table.scan()
    changes = table.changes(None)
    assert changes is not None
    assert len(changes["runs"]) == 2
    with pytest.raises(TypeError):
        fields.count(2**53)


def test_passwords_are_not_printed() -> None:
    with pytest.warns(LogWarning) as heard:
        log._warn("It fails", "a server", OSError("cannot reach http://me:secret@host:5000/api"))
    assert "secret" not in str(heard[0].message)
    assert "http://host:5000/api" in str(heard[0].message)


@pytest.mark.parametrize("content", ["{", "[1]", '"x"'])
def test_a_damaged_config_is_told(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(RunError, match=r"This run's config is damaged.*remove .* to learn anew"):
        RunFolder(tmp_path).config()


@pytest.mark.parametrize("change", [{"classes": [99]}, {"order": [0] * 10}])
def test_classes_that_are_not_in_the_order_are_told(change: dict[str, Any], tmp_path: Path) -> None:
    toys.write_run(tmp_path / "run", change=change)
    with pytest.raises(
        DataError, match="contradicts itself: expected every class of classes and batches once in order"
    ):
        read(tmp_path)


def test_names_of_classes_are_texts(tmp_path: Path) -> None:
    toys.write_run(tmp_path / "run", class_names=5)
    with pytest.raises(DataError, match="class_names"):
        read(tmp_path)


def test_a_last_line_without_its_end_is_left_out(tmp_path: Path) -> None:
    """A resumed run makes that record again, so a reader must not count it."""
    toys.write_run(tmp_path / "run")
    path = tmp_path / "run" / "records.jsonl"
    path.write_bytes(path.read_bytes().removesuffix(b"\n"))
    (run,) = read(tmp_path)
    assert len(run.records) == len(RunFolder(tmp_path / "run").records()) == 2


@pytest.mark.parametrize(
    "command", ["run --strategy=naive", "pretrain", "tune --strategies=naive", "compare --strategies=naive"]
)
def test_an_absent_device_is_told_by_every_command(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = command.split()
    benchmark = "whole:digits" if words[0] == "pretrain" else "digits"
    extra = ["--trials=1", "--held-out=0.2"] if words[0] == "tune" else []
    code = main([*words, f"--benchmark={benchmark}", "--device=abacus", *extra, *QUICK, f"--out={tmp_path / 'out'}"])
    assert code == 1
    assert "This device cannot be used" in capsys.readouterr().err


def test_pretraining_logs(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    out = tmp_path / "small.safetensors"
    with warnings.catch_warnings():
        warnings.simplefilter("error", LogWarning)
        assert main(["pretrain", "--benchmark=whole:digits", "--log=tensorboard", *QUICK, f"--out={out}"]) == 0
    assert list((tmp_path / "small.run" / "tensorboard").iterdir())
