"""The alarms on made-up runs: matrices of each shape, importances, layers and predictions by hand."""

import json
import math
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from everlearn import diagnostics, report
from everlearn.cli import main
from everlearn.diagnostics import NAMES, Alarm, alarms, unchecked
from everlearn.diagnostics.alarm import named, percent
from everlearn.diagnostics.mcnemar import mid_p
from everlearn.diagnostics.shapes import shape
from everlearn.errors import DataError
from everlearn.records import Event, Record, Run, RunConfig, read
from everlearn.records.predictions import read_classes
from tests import report_toys as toys
from tests.report_toys import HOSTILE, Cells, write_run

SIZES = (10, 5, 5, 5)
PATTERNS = 40  # of each class
Matrix = NDArray[np.int64]


def rows_of(seen: int, new: int, classes: int, *, old: Any, fresh: Any) -> Matrix:
    """A matrix from the shares that each old and each new class gives to its own, to old and to new classes.

    old, fresh: functions from a row to a row of shares over the classes seen.
    """
    matrix = np.zeros((classes, classes), dtype=np.int64)
    for row in range(classes):
        shares = np.zeros(seen)
        if row < seen:
            shares[:] = (fresh if row >= seen - new else old)(row, seen, new)
        matrix[row, :seen] = np.round(PATTERNS * shares)
    return matrix


def right(share: float, rest: str = "all") -> Any:
    """A share is right; the rest goes evenly to all classes, to old ones, to new ones or to the last one."""

    def shares(row: int, seen: int, new: int) -> NDArray[np.float64]:
        where = {"all": slice(0, seen), "old": slice(0, seen - new), "new": slice(seen - new, seen)}
        out = np.zeros(seen)
        to = np.arange(seen)[where[rest]] if rest in where else np.array([seen - 1])
        out[to] = (1 - share) / len(to)
        out[row] += share
        return out

    return shares


SHAPES = {
    "healthy": (right(0.6), right(0.6)),
    "band": (right(0.1, "new"), right(0.9)),
    "blank": (right(0.8), right(0.05, "old")),
    "bar": (right(0.4, "last"), right(0.4, "last")),
}


def made(shapes: list[str], sizes: tuple[int, ...] = SIZES, strategy: str = "ewc", **fields: Any) -> Run:
    """A run whose matrix after each batch has the shape named. fields: of its records, one value or a list."""
    classes, arrived = sum(sizes), np.cumsum(sizes)
    batches = tuple(tuple(range(end - size, end)) for end, size in zip(arrived, sizes, strict=True))
    growing = fields.pop("growing", False)
    raw = {"hyperparameters": fields.pop("hyperparameters", {})}
    config = RunConfig(raw=raw, benchmark="toy", strategy=strategy, run=1, knobs=fields.pop("knobs", {}))
    events = fields.pop("events", ())
    records = []
    for i, name in enumerate(shapes, start=1):
        seen = int(arrived[i - 1])
        old, fresh = SHAPES[name]
        matrix = rows_of(seen, sizes[i - 1], classes, old=old, fresh=fresh)
        patterns = [PATTERNS if k < seen or not growing else 0 for k in range(classes)]
        if not growing:  # unseen classes are in the test set too, and given to something
            matrix[seen:, 0] = PATTERNS
        extra = {key: value[i - 1] if isinstance(value, list) else value for key, value in fields.items()}
        records.append(
            Record(
                benchmark="toy", strategy=strategy, run=1, i=i, of=len(sizes), classes=batches[i - 1],
                order=tuple(range(classes)), batches=batches, accuracy=0.5, accuracy_seen=0.5, confusion=matrix,
                patterns=tuple(patterns), **extra,
            )
        )  # fmt: skip
    return Run("toy", config, tuple(records), events)


def found(run: Run, among: tuple[Run, ...] = ()) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(one.name, one.severity, one.batches) for one in alarms(run, among)]


# --- matrices ---------------------------------------------------------------------------------------------


def test_the_shares_by_hand() -> None:
    """After B_2: 10 old and 5 new classes of 40. Old rows: 4 right, 36 over 5 new ones (7.2 → 7 each, 35 of 40 given).

    So 35/40 = 0.875 of older patterns are given to the newest batch and 0.1 are right; of new rows, 36 + 0.27 → 36 of
    40 are right and the remaining 4/15 a class rounds to nothing. A blind guess would give it 5/15.
    """
    one = shape(made(["healthy", "band"]).records[1])
    assert (one.band, one.old, one.new, one.lost) == (0.875, 0.1, 0.9, 0.0)
    assert one.blind == 5 / 15
    assert one.is_band
    assert not one.is_blank
    assert not one.is_bar


@pytest.mark.parametrize("growing", [False, True], ids=["fixed test set", "growing test set"])
@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (["healthy"] * 4, []),
        (["healthy", "band", "band", "band"], [("forgetting", "red", (2, 3, 4))]),
        (["healthy", "band", "healthy", "healthy"], [("forgetting", "amber", (2,))]),
        (["healthy", "healthy", "healthy", "band"], [("forgetting", "red", (4,))]),
        (["healthy", "blank", "blank", "healthy"], [("not_learnt", "red", (2, 3))]),
        (["healthy", "healthy", "healthy", "blank"], [("not_learnt", "amber", (4,))]),
        (["healthy", "healthy", "healthy", "bar"], [("bar", "red", (4,))]),
        (["healthy", "blank", "healthy", "band"], [("forgetting", "red", (4,)), ("not_learnt", "amber", (2,))]),
        (["healthy", "healthy", "bar", "healthy"], [("bar", "amber", (3,))]),
        (["bar"], []),  # after B_1 there is nothing old yet
    ],
)
def test_matrices_of_each_shape(shapes: list[str], expected: Any, growing: bool) -> None:
    assert found(made(shapes, growing=growing)) == expected


@pytest.mark.parametrize("sizes", [(2,) * 4, (1,) * 4, (10,) * 4, (50, 10, 10, 10), (2, 20, 2, 2)])
def test_batches_of_any_size(sizes: tuple[int, ...]) -> None:
    """A diagonal with some confusion is healthy and a band is one, be the newest batch most of the classes or one."""
    assert found(made(["healthy"] * 4, sizes)) == []
    assert ("forgetting", "red", (2, 3, 4)) in found(made(["healthy", "band", "band", "band"], sizes))
    assert [name for name, *_ in found(made(["healthy", "blank", "blank", "blank"], sizes))] == ["not_learnt"]


def test_poor_but_balanced_learning_is_no_alarm() -> None:
    """All classes at 20 %, mistakes everywhere: hard, but neither forgotten nor held too strongly."""
    SHAPES["poor"] = (right(0.2), right(0.2))
    assert found(made(["poor"] * 4)) == []


def test_classes_that_come_again() -> None:
    """NI: every batch brings all classes, so nothing is old and nothing is new."""
    run = made(["healthy", "bar"], (5, 5))
    batches = ((0, 1, 2, 3, 4),) * 2
    fields = [{**vars(r), "batches": batches, "classes": batches[0], "order": batches[0]} for r in run.records]
    cut = [{**one, "confusion": one["confusion"][:5, :5], "patterns": (40,) * 5} for one in fields]
    again = Run("ni", None, tuple(Record(**one) for one in cut))
    one = shape(again.records[1])
    assert (one.band, one.old, one.new, one.lost) == (None, None, None, None)
    assert found(again) == []


def test_patterns_without_a_prediction_count_as_lost_to_nobody() -> None:
    run = made(["healthy", "healthy"])
    silent = Record(**{**vars(run.records[1]), "confusion": np.zeros((25, 25), dtype=np.int64)})
    assert found(Run("silent", None, (run.records[0], silent))) == []


def test_the_words() -> None:
    (alarm,) = alarms(made(["healthy", "band", "band", "band"]))
    assert alarm.said == (
        "After B_2 to B_4, on average 88\N{NO-BREAK SPACE}% of the patterns of older classes are given to the newest "
        "batch: a vertical band. That is forgetting: on average 10\N{NO-BREAK SPACE}% of them are still recognised."
    )
    assert alarm.do == "Regularise more (raise λ, ewc.lam), or train with fewer epochs or a lower rate."
    assert alarm.sentence == f"{alarm.said} {alarm.do}"
    plain = json.loads(json.dumps(alarm.to_json(), allow_nan=False))
    assert plain["evidence"]["given_to_newest"] == [0.875] * 3
    assert (plain["name"], plain["severity"], plain["batches"]) == ("forgetting", "red", [2, 3, 4])
    assert named([9, 1, 2, 4, 5, 6]) == "B_1, B_2, B_4 to B_6 and B_9"
    assert [percent(x) for x in (0.0, 1.0, 0.5)] == ["0\xa0%", "100\xa0%", "50\xa0%"]


def test_a_bar_beside_a_band_does_not_send_both_ways() -> None:
    """A band asks for more λ; a bar alone for less. Together, only less training serves both."""
    both = {one.name: one.do for one in alarms(made(["healthy", "band", "bar", "healthy"]))}
    alone = {one.name: one.do for one in alarms(made(["healthy", "healthy", "bar", "healthy"]))}
    assert "raise λ" in both["forgetting"]
    assert "lower λ" not in both["bar"]
    assert "lower λ" in alone["bar"]


@pytest.mark.parametrize("strategy", ["naive", "cumulative", "lwf", "ewc", "si", "cwr+", "ar1", "fw", "mine"])
def test_every_strategy_is_advised(strategy: str) -> None:
    told = {shape: alarms(made(["healthy", shape, shape, shape], strategy=strategy)) for shape in ("band", "blank")}
    assert all(len(one) == 1 and one[0].do.endswith(".") for one in told.values())
    assert ("λ" in told["band"][0].do) == (strategy not in {"naive", "cumulative", "cwr+", "fw"})


# --- importance, overshoot, frozen layers -----------------------------------------------------------------


def importance(counts: dict[int, int], zero: float = 0.0, saturated: float = 0.0, **more: float) -> dict[str, Any]:
    """A histogram of F̂ with so many weights in the decade that begins at 10 to the key."""
    edges = [10.0**k for k in range(-9, 3)]
    return {
        "edges": edges,
        "counts": [counts.get(k, 0) for k in range(-9, 2)],
        "zero": zero,
        "saturated": saturated,
    } | more


@pytest.mark.parametrize(
    ("held", "expected"),
    [
        (importance({-8: 900, -6: 90, -4: 10}), []),  # EWC's: concentrated in 1 % of the weights
        (importance({-9: 99990, -5: 10}), ["importance_zero"]),
        (importance({-4: 1}, zero=0.9995), ["importance_zero"]),
        (importance({}, zero=0.2), ["importance_zero"]),  # all below the lowest edge
        (importance({-4: 300, -3: 700}, saturated=0.7), []),  # SI's, late in a stream
        (importance({-4: 20, -3: 980}, saturated=0.98), ["importance_saturated"]),
    ],
)
def test_importance(held: dict[str, Any], expected: list[str]) -> None:
    run = made(["healthy"] * 4, strategy="si", importance=[importance({-5: 500, -4: 500}), held, held, held])
    assert found(run) == [(name, "red", (2, 3, 4)) for name in expected]


def test_max_F_is_the_configs() -> None:
    """F̂ between 1e-6 and 1e-5 is held where max_F is 0.001, and not where it is 1."""
    held = importance({-6: 1000})
    assert found(made(["healthy"] * 4, importance=held)) == []
    assert [one[0] for one in found(made(["healthy"] * 4, importance=held, knobs={"ewc.max_F": 1.0}))] == [
        "importance_zero"
    ]


def test_max_F_is_the_settings_where_no_knob_was_turned() -> None:
    """With max_F at 1e-6, F̂ between 1e-7 and 1e-6 is nearly all that there can be; at 0.001 it holds nothing."""
    held = importance({-7: 1000})
    assert [one[0] for one in found(made(["healthy"] * 4, importance=held))] == ["importance_zero"]
    assert found(made(["healthy"] * 4, importance=held, hyperparameters={"ewc.max_F": 1e-6})) == []


def test_overshoot_by_hand() -> None:
    """η·λ·max F̂ of B_2 is 0.01 · 1e5 · 8e-4 = 0.8; of B_3 0.01 · 1e5 · 1.5e-3 = 1.5: past 1, where λ = 66,667 is 1."""
    fields: dict[str, Any] = {"lam": 1e5, "eta": 0.01}
    held = [importance({-4: 9}, max=8e-4), importance({-3: 9}, max=1.5e-3), importance({-4: 9}, max=1e-4)]
    (alarm,) = alarms(made(["healthy"] * 3, SIZES[:3], importance=held, **fields))
    assert (alarm.name, alarm.severity, alarm.batches) == ("overshoot", "amber", (3,))
    assert alarm.evidence == {"eta_lam_max_F": [pytest.approx(1.5)]}
    assert "η·λ·max F̂ is 1.5 in B_3" in alarm.said
    assert "6.67e+04" in alarm.do
    strong = [importance({-3: 9}, max=2.5e-3)] * 3
    assert found(made(["healthy"] * 3, SIZES[:3], importance=strong, **fields)) == [("overshoot", "red", (2, 3))]
    assert found(made(["healthy"] * 3, SIZES[:3], importance=strong, lam=0.0, eta=0.01)) == []


def test_old_records_have_eta_in_events_and_a_histogram_for_the_largest() -> None:
    """The highest bin begins at 1e-3: 0.02 · 1e5 · 1e-3 is 2 at least. The largest η of the logged steps counts."""
    events = tuple(Event(i, 1, 1, 1, 1.0, eta, 1.0) for i in (1, 2) for eta in (0.02, 0.001))
    run = made(["healthy"] * 3, SIZES[:3], importance=importance({-3: 9}), lam=1e5, events=events)
    (alarm,) = alarms(run)
    assert (alarm.name, alarm.batches) == ("overshoot", (2,))
    assert "at least 2 in B_2" in alarm.said
    assert "Overshoot in B_3: η, λ or F̂ is not recorded." in unchecked(run)


@pytest.mark.parametrize(
    ("strategy", "knobs", "change", "moved"),
    [
        ("cwr+", {}, {"trunk.0": 0.0, "outputs.0.layer": 0.1}, False),
        ("cwr+", {}, {"trunk.0": 1e-12, "outputs.0.layer": 0.1}, True),
        ("cwr+", {"regulariser": "si"}, {"trunk.0": 0.1}, False),  # not frozen any more
        ("ar1", {}, {"trunk.0": 0.1}, False),
        ("ar1", {"regulariser": "freeze"}, {"trunk.0": 0.1}, True),
        ("cw", {}, {"trunk.0": 0.0, "outputs.0.layer": 0.1}, False),
        ("fw", {}, {"trunk.0": 0.0, "outputs.0.layer": 0.1}, True),  # the rows of old classes are frozen too
        ("fw", {"head.growth": "maximal"}, {"trunk.0": 0.0, "outputs.0.layer": 0.1}, False),
        ("fw", {"plain.old_rows": "tuned"}, {"trunk.0": 0.0, "outputs.0.layer": 0.1}, False),
    ],
)
def test_frozen_layers(strategy: str, knobs: dict[str, Any], change: dict[str, float], moved: bool) -> None:
    before = {"trunk.0": 0.5, "outputs.0.layer": 0.5}  # B_1 moves everything
    run = made(["healthy"] * 3, SIZES[:3], strategy=strategy, knobs=knobs, change=[before, change, change])
    assert found(run) == ([("frozen_moved", "red", (2, 3))] if moved else [])


# --- told from Naive --------------------------------------------------------------------------------------


def test_mid_p_is_the_binomial_in_fractions() -> None:
    for b, c in [(0, 0), (0, 1), (1, 5), (3, 3), (12, 30), (40, 41), (0, 60)]:
        n, k = b + c, min(b, c)
        weight = [Fraction(math.comb(n, x), 2**n) for x in range(k + 1)]
        assert mid_p(b, c) == pytest.approx(min(1.0, float(2 * sum(weight) - weight[-1])), abs=1e-12)
        assert mid_p(b, c) == mid_p(c, b)
    assert mid_p(100_000, 102_000) == pytest.approx(8.6e-6, rel=0.05)  # normal: z = 2000/√202000 = 4.45
    assert mid_p(0, 5000) == 0.0


def written(folder: Path, strategy: str, run: int, right_: NDArray[np.bool_], **other: Any) -> Path:
    """A run of toys that kept its predictions: right where said, else one class too high."""
    change = other.pop("change", {})
    truth = other.pop("truth", True)
    place = write_run(
        folder / f"{strategy}-{run}", "digits", strategy, run, change={"importance": None, **change}, **other
    )
    y = np.arange(len(right_)) % 10
    (place / "predictions").mkdir()
    np.save(place / "predictions" / "003-seen.npy", np.where(right_, y, (y + 1) % 10).astype(np.int16))
    if truth:
        np.save(place / "predictions" / "true.npy", y.astype(np.int16))
    return place


def same(folder: Path) -> dict[str, list[Alarm]]:
    runs = read(folder)
    return {run.place: [one for one in alarms(run, runs) if one.name == "same_as_naive"] for run in runs}


def flags(n: int, *spans: tuple[int, int]) -> NDArray[np.bool_]:
    out = np.zeros(n, dtype=bool)
    for start, end in spans:
        out[start:end] = True
    return out


def test_a_strategy_like_naive_by_hand(tmp_path: Path) -> None:
    """Of 200 patterns, Naive is right on the first 100; EWC on 6 more and 4 fewer: p of (6, 4) is 0.55, 5 % differ.

    SI is the same to the last pattern; CWR+ is right on 40 more: (40, 0), p = 2⁻⁴⁰.
    """
    written(tmp_path, "naive", 1, flags(200, (0, 100)))
    written(tmp_path, "ewc", 1, flags(200, (4, 106)))
    written(tmp_path, "si", 1, flags(200, (0, 100)))
    written(tmp_path, "cwr+", 1, flags(200, (0, 140)))
    told = same(tmp_path)
    assert told["naive-1"] == told["cwr+-1"] == []
    (ewc,), (si,) = told["ewc-1"], told["si-1"]
    assert (ewc.severity, ewc.batches, si.severity) == ("amber", (3,), "red")
    assert (ewc.evidence["only_run"], ewc.evidence["only_naive"], ewc.evidence["patterns"]) == (6, 4, 200)
    assert ewc.evidence["p"] == pytest.approx(2 * 386 / 1024 - 210 / 1024)  # 1 + 10 + 45 + 120 + 210 = 386
    assert "it alone is right on 6 and Naive alone on 4" in ewc.said


def test_runs_are_tested_together(tmp_path: Path) -> None:
    """Three runs of (9, 3): p is 0.092 each, and 0.0064 for (27, 9) together: told apart by all, by none alone."""
    for run in (1, 2, 3):
        written(tmp_path, "naive", run, flags(300, (0, 100)), knobs={})
        written(tmp_path, "ewc", run, flags(300, (3, 109)), knobs={})
    assert mid_p(9, 3) > 0.05 > mid_p(27, 9)
    assert not any(same(tmp_path).values())
    alone = read(tmp_path / "ewc-1")[0], read(tmp_path / "naive-1")[0]
    assert [one.name for one in alarms(alone[0], alone) if one.name == "same_as_naive"] == ["same_as_naive"]


def test_differences_in_both_directions_do_not_cancel(tmp_path: Path) -> None:
    """(40, 0) in one run and (0, 40) in the other: together p = 1, but each differs for itself."""
    for run, span in ((1, (0, 140)), (2, (0, 60))):
        written(tmp_path, "naive", run, flags(200, (0, 100)))
        written(tmp_path, "ewc", run, flags(200, span))
    assert not any(same(tmp_path).values())


def test_only_like_is_compared_with_like(tmp_path: Path) -> None:
    written(tmp_path / "a", "naive", 1, flags(200, (0, 100)))
    others: dict[str, dict[str, Any]] = {"run": {}, "network": {"network": "big"}, "held": {"held_out": 0.2}}
    for name, other in others.items():
        written(tmp_path / name, "ewc", 2 if name == "run" else 1, flags(200, (0, 100)), **other)
    written(tmp_path / "short", "ewc", 1, flags(100, (0, 100)))
    runs = read(tmp_path)
    assert not any(same(tmp_path).values())
    why = {run.place.split("/")[0]: unchecked(run, runs) for run in runs}
    no_naive = [
        "Whether it can be told from Naive: there is no Naive run of the same benchmark, order and network beside it."
    ]
    assert why["run"] == why["network"] == why["held"] == no_naive
    assert why["short"] == ["Whether it can be told from Naive: predictions or true classes were not kept."]
    assert why["a"] == []


def test_true_classes_of_either_run_will_do(tmp_path: Path) -> None:
    written(tmp_path, "naive", 1, flags(50, (0, 20)), truth=False)
    place = written(tmp_path, "ewc", 1, flags(50, (0, 20)))
    assert same(tmp_path)["ewc-1"]
    (place / "predictions" / "true.npy").unlink()
    assert not same(tmp_path)["ewc-1"]


def test_hostile_predictions_are_refused(tmp_path: Path) -> None:
    huge = (
        b"\x93NUMPY\x01\x00v\x00"
        + b"{'descr': '<i2', 'fortran_order': False, 'shape': (999999999999,), }".ljust(117)
        + b"\n"
    )
    (tmp_path / "huge.npy").write_bytes(huge)
    np.save(tmp_path / "pickle.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(tmp_path / "float.npy", np.zeros(3))
    np.save(tmp_path / "flat.npy", np.zeros((3, 2), dtype=np.int16))
    (tmp_path / "empty.npy").write_bytes(b"")
    for name in ("huge", "pickle", "float", "flat", "empty"):
        with pytest.raises(DataError, match=f"predictions/{name}.npy cannot be read"):
            read_classes(tmp_path / f"{name}.npy")


# --- the command and the page -----------------------------------------------------------------------------


def test_doctor_says_it_and_the_exit_code_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "bad" / "naive", "mini50", "naive")
    write_run(tmp_path / "good", "mini50", "ar1")
    assert main(["doctor", str(tmp_path / "good")]) == 0
    assert "GREEN  No alarm" in capsys.readouterr().out
    for learnt in (0, 1):
        write_run(tmp_path / "young" / str(learnt), "mini50", "ar1", upto=learnt)
        assert main(["doctor", str(tmp_path / "young" / str(learnt))]) == 0
        assert "No alarm yet: with fewer than two batches" in capsys.readouterr().out
    shutil.rmtree(tmp_path / "young")
    assert main(["doctor", str(tmp_path)]) == 3
    out = capsys.readouterr().out
    assert "RED  Forgetting. After B_2 to B_9, on average" in out
    assert out.count("GREEN") == 1
    both = [str(tmp_path / "good"), str(tmp_path / "bad"), str(tmp_path / "bad" / "naive"), "--json"]
    assert main(["doctor", *both]) == 3
    listed = json.loads(capsys.readouterr().out)
    assert [(one["strategy"], [alarm["name"] for alarm in one["alarms"]]) for one in listed] == [
        ("ar1", []),
        ("naive", ["forgetting"]),
    ]
    assert main(["doctor", str(tmp_path / "absent")]) == 1


def test_among_lends_its_naive_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path, "naive", 1, flags(50, (0, 20)))
    written(tmp_path, "ar1", 1, flags(50, (0, 20)))
    assert main(["doctor", str(tmp_path / "ar1-1")]) == 0
    assert "not checked  Whether it can be told from Naive" in capsys.readouterr().out
    assert main(["doctor", str(tmp_path / "ar1-1"), "--among", str(tmp_path)]) == 3
    assert "RED  Cannot be told from Naive." in capsys.readouterr().out


def test_the_page_shows_them_by_colour_and_word(tmp_path: Path) -> None:
    for run in (1, 2):
        write_run(tmp_path / f"naive-{run}", "mini50", "naive", run)
        write_run(tmp_path / f"ar1-{run}", "mini50", "ar1", run)
    page = report.write(tmp_path)
    text = page.read_text()
    told = [known for tag, known in Cells(page).tags if tag == "dd"]
    assert told == [
        {"data-severity": "green"},
        {"data-severity": "red", "data-alarm": "forgetting", "data-strategy": "naive"},
    ]
    assert '<span class="badge red">Red</span> <b>Forgetting.</b> After B_2 to B_9' in text
    assert '<span class="quiet">Run 1. Also in run 2.</span>' in text
    assert '<span class="badge green">Green</span> No alarm.' in text
    for theme in toys.themes():
        assert all(toys.contrast(theme[f"on-{name}"], theme[name]) > 4.5 for name in ("red", "green", "mark"))


def test_nothing_in_an_alarm_is_obeyed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, image, style, _ = HOSTILE
    change = {"change": {script: 0.5, image: 1.0, style: 0.1}}
    write_run(tmp_path / "x", "digits", "cwr+", change=change)
    text = report.write(tmp_path).read_text(encoding="utf-8")
    assert "frozen layers moved: &lt;script&gt;" in text
    assert not any(hostile in text for hostile in (script, "<img", "\x1b", "\u202e"))
    assert main(["doctor", str(tmp_path)]) == 3
    out = capsys.readouterr().out
    assert script in out
    assert not any(c in out for c in "\x1b\u202e")


def test_every_alarm_has_a_title_and_a_place_in_the_docs() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "diagnostics.md").read_text()
    assert all(f"`{name}`" in docs for name in NAMES)
    thresholds = vars(sys.modules["everlearn.diagnostics.thresholds"])
    assert all(f"`{name}`" in docs for name in thresholds if name.isupper())


def test_diagnostics_need_no_torch(tmp_path: Path) -> None:
    write_run(tmp_path / "x", "digits", "si")
    code = "import sys; from everlearn.cli import main; main(['doctor', sys.argv[1]]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, check=False).returncode == 0


def test_a_run_that_has_learnt_nothing_yet(tmp_path: Path) -> None:
    (run,) = read(write_run(tmp_path / "born", "digits", "si", upto=0))
    assert alarms(run) == []
    assert unchecked(run) == ["No batch has been learnt yet."]
    assert diagnostics.__all__ == sorted(diagnostics.__all__, key=lambda name: (not name.isupper(), name))
