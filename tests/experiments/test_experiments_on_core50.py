"""The experiments on CORe50 as commands, on the real images at hand: every network learns, every figure is drawn."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from everlearn.cli import main
from everlearn.data import core50_frames
from everlearn.data.core50_frames import number, object_of, session_of
from everlearn.experiments.paper import EXPERIMENTS
from everlearn.runs import Config, run
from everlearn.runs.engine import LocalEngine
from tests.data.test_core50 import TRAINING, folder, module, put, real_images, write

__all__ = ["folder"]  # a fixture


UNSEEN = (2, 4, 8, 22, 23, 24, 35, 38, 42, 44, 48)
"""One object of each batch of 25x2 that no real test image is of: a batch has to be measured on something."""


@pytest.fixture
def few(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ninety real images; a grey frame for each object that none of them shows in training, few in the test."""
    real = [k for path in put(folder, 128, archive=False) if (k := core50_frames.parse(path)) is not None]
    shown = {int(object_of(k)) for k in real if int(session_of(k)) in TRAINING}
    grey = [number(1, o, 0) for o in range(50) if o not in shown]
    grey += [number(3, o, 0) for o in UNSEEN if name == "25x2"]
    write(folder / "core50_128x128", grey, size=128)
    for place in (module, core50_frames):
        monkeypatch.setattr(place, "official", lambda: np.array(sorted([*real, *grey])))
    monkeypatch.setattr(LocalEngine, "run_all", here)  # other processes would miss the other 164,776
    return folder


def here(_engine: LocalEngine, work: list[tuple[Config, Path]], **_options: object) -> None:
    """Every run in this process."""
    for config, place in work:
        run(config, place)


@real_images
@pytest.mark.filterwarnings("ignore::everlearn.errors.OvershootWarning")  # the paper's λ for EWC is 1.25 of the limit
@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("table2", ["NiN"]),
        pytest.param("table2", ["CaffeNet", "NiN"], marks=pytest.mark.soak),  # the others have CaffeNet
        ("core50-nc", ["caffenet-128/AR1", "googlenet-128/AR1"]),
        ("25x2", ["CWR+"]),
        pytest.param("25x2", ["AR1"], marks=pytest.mark.soak),  # core50-nc has AR1 on the same network
        ("no-fc", ["EWC with fc6 and fc7", "EWC without"]),
    ],
)
def test_an_experiment_on_real_frames(
    name: str,
    lines: list[str],
    few: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Two of its variants on the first two batches: all of them would take many minutes."""
    variants = [v for v in EXPERIMENTS[name].variants("core50-nc") if v.label in {Path(line).name for line in lines}]
    if name == "no-fc":  # a dozen images are one minibatch, which has no variance
        variants = [replace(v, knobs={"ewc.minibatch": 4}) for v in variants]
    figures = ("bars",) if name == "table2" else ("accuracy_curves",)  # bars are of whole streams
    assert set(figures) <= set(EXPERIMENTS[name].figures)
    made = replace(EXPERIMENTS[name], variants=lambda _: variants, batches=2, figures=figures)
    monkeypatch.setitem(EXPERIMENTS, name, made)
    out = tmp_path / "out"
    assert main(["reproduce", name, f"--out={out}"]) == 0
    printed = capsys.readouterr()
    assert "1 epoch on B_1" in printed.out + printed.err
    for line in lines:
        records = [json.loads(r) for r in (out / line / "run-1" / "records.jsonl").read_text().splitlines()]
        assert [r["i"] for r in records] == ([1] if name == "table2" else [1, 2]), line
        assert all(np.isfinite(r["accuracy"]) for r in records)
    for figure in figures:
        for kind in ("png", "svg"):
            assert list(out.rglob(f"figures/*{figure}.{kind}")), (figure, kind)
    assert (out / "report.html").exists()
