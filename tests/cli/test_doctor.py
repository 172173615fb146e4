"""The doctor on real runs of mini50 that are regularised too little, too much and well; λ is stated for each.

Every knob that matters is written here, so that a new search for the demo's settings leaves these runs as they are.
SI and Naive have the same rates, with three epochs on B_1. All nine batches of LWF are in `docs/diagnostics.md`; here
are as many as it takes.
"""

from pathlib import Path
from typing import Any

import pytest

from everlearn.cli import main
from everlearn.diagnostics import Alarm, alarms
from everlearn.records import Run, read
from everlearn.runs import Config
from everlearn.runs.runner import run


def rates(first: tuple[int, float], later: tuple[int, float]) -> dict[str, Any]:
    """Epochs and η of B_1, and of every later batch."""
    named = (("first", *first), ("later", *later))
    return {f"training.{phase}.{knob}": x for phase, e, eta in named for knob, x in (("epochs", e), ("eta", eta))}


def si(lam: float, w: float) -> dict[str, Any]:
    return {"si.lam": lam, "si.w_1": w, "si.w_i": w}


SHORT = rates((3, 0.0011), (4, 0.00065))
LWF = {**rates((6, 0.0052), (4, 0.0017)), "lwf.map": [[0.66, 0.9], [0.32, 0.83]]}
RUNS: dict[str, tuple[str, int, dict[str, Any]]] = {
    "naive": ("naive", 2, SHORT),
    "si, λ 0": ("si", 2, {**SHORT, **si(0.0, 0.0015)}),
    "si, w 1e-9": ("si", 2, {**SHORT, **si(7.5e5, 1e-9)}),
    "si, w 10": ("si", 2, {**SHORT, **si(7.5e5, 10.0)}),
    "lwf, map": ("lwf", 5, LWF),  # λ_2 to λ_5: 0.33, 0.51, 0.62, 0.69
    "lwf, λ 0.5": ("lwf", 5, {**LWF, "lwf.lam": 0.5}),
    "lwf, λ 0.8": ("lwf", 3, {**LWF, "lwf.lam": 0.8}),
    "ar1": ("ar1", 3, {**rates((6, 0.00051), (4, 0.0005)), **si(2.8e5, 0.00021)}),
}
"""Strategy, batches and knobs."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    for name, (strategy, batches, knobs) in RUNS.items():
        run(Config("mini50", strategy, knobs=knobs, batches=batches), root / name)
    return root


@pytest.fixture(scope="module")
def told(root: Path) -> dict[str, dict[str, Alarm]]:
    """The alarms of each run, by name."""
    runs: list[Run] = read(root)
    return {one.place: {alarm.name: alarm for alarm in alarms(one, runs)} for one in runs}


def test_no_regularisation_is_a_band(told: dict[str, dict[str, Alarm]]) -> None:
    assert set(told["naive"]) == {"forgetting"}
    assert (told["naive"]["forgetting"].batches, told["naive"]["forgetting"].severity) == ((2,), "red")


def test_a_lam_of_zero_is_naive_with_healthy_importance(told: dict[str, dict[str, Alarm]]) -> None:
    assert set(told["si, λ 0"]) == {"forgetting", "same_as_naive"}
    same = told["si, λ 0"]["same_as_naive"]
    assert (same.severity, same.evidence["only_run"], same.evidence["only_naive"]) == ("red", 0, 0)
    assert same.evidence["patterns"] == 1800


def test_importance_of_nothing_and_of_everything(told: dict[str, dict[str, Alarm]]) -> None:
    """With w a millionth of what is good, SI forgets as Naive does; with w some 7,000 times that, it learns nothing."""
    assert set(told["si, w 1e-9"]) == {"forgetting", "importance_zero", "same_as_naive"}
    assert told["si, w 1e-9"]["importance_zero"].batches == (1, 2)
    assert set(told["si, w 10"]) == {"not_learnt", "importance_saturated"}
    assert told["si, w 10"]["importance_saturated"].batches == (1, 2)


def test_the_papers_three_settings_of_lwf(told: dict[str, dict[str, Alarm]]) -> None:
    """As in its figure: the map is right; 0.5 is right at first, and forgets later; 0.8 is too strong at first."""
    assert told["lwf, map"] == {}
    assert set(told["lwf, λ 0.5"]) == {"forgetting"}
    assert min(told["lwf, λ 0.5"]["forgetting"].batches) >= 4
    assert set(told["lwf, λ 0.8"]) == {"not_learnt"}
    assert told["lwf, λ 0.8"]["not_learnt"].batches == (2, 3)
    assert "raise λ_i there" in told["lwf, λ 0.5"]["forgetting"].do
    assert "lower λ_i" in told["lwf, λ 0.8"]["not_learnt"].do


def test_a_healthy_run_raises_none(root: Path, told: dict[str, dict[str, Alarm]]) -> None:
    assert told["ar1"] == {}
    assert main(["doctor", str(root / "ar1"), str(root / "lwf, map")]) == 0
    assert main(["doctor", str(root)]) == 3
