"""`make bench`: its arithmetic by hand, a page filled from what was stored, and one contestant that really runs."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import memory_kept, start
from benchmarks.contestants import COUNTERPART, Entry, entries
from benchmarks.measure import measure
from benchmarks.sizes import SIZES
from benchmarks.table import Table, fill, markdown
from benchmarks.worker import FISHER
from everlearn import PRESETS

ROOT = Path(__file__).parents[1]
BATCH_OF_100 = "ar1 / plain loop, a batch of 100 steps"


def contestant(program: str, name: str, job: str, *seconds: float, **parts: float) -> dict[str, Any]:
    """Whose rounds were on a machine of the usual speed, twice as slow and half as slow in turns."""
    answers = [
        {
            "seconds": speed * s,
            "cpu": speed * s / 2,
            "parts": {part: {"seconds": speed * took, "cpu": speed * took / 2} for part, took in parts.items()},
            "floor": {"seconds": speed * 0.5, "cpu": speed * 0.25},
        }
        for speed, s in zip((1, 2, 0.5), seconds, strict=False)
    ]
    return {"program": program, "name": name, "job": job, "answers": answers, "peak": 300_000_000, "start": 200_000_000}


def result(*contestants: dict[str, Any]) -> dict[str, Any]:
    about = {"size": "tiny", "rounds": 3, "threads": 2, "machine": "a machine", "when": "2026-01-02T03:04:05"}
    versions = {"plain": {"torch": "2.13.0"}}
    steps = {"train": 4, "frozen": 40, "evaluate": 2, "look": 2}
    return {**about, "versions": versions, "epochs": 2, "steps": steps, "contestants": list(contestants)}


MEASURED = result(
    contestant("plain", "plain", "train", 2.0, 2.2, 9.0),  # median 2.2
    contestant("plain", "plain channels_last", "train", 2.1, 1.9, 2.0),  # median 2: the floor
    contestant("plain", "plain", "look", 0.5, 0.5, 0.5),
    contestant("plain", "plain", "evaluate", 0.5, 0.5, 0.5),
    contestant("ours", "ar1", "train", 2.2, 2.1, 2.0),
    contestant("ours", "si", "train", 2.2, 2.2, 2.2),
    contestant("ours", "lwf", "train", 2.6, 2.6, 2.6),
    contestant("ours", "ewc", "train", 3.0, 3.0, 3.0, look=0.0, consolidate=0.9),
    contestant("ours", "cwr+", "frozen", 0.5, 0.5, 0.5),
    contestant("ours", "ar1", "evaluate", 0.5, 0.52, 0.6),
    contestant("avalanche", "SynapticIntelligence", "train", 4.4, 4.4, 4.4),
    contestant("avalanche", "CWRStar", "frozen", 4.0, 4.0, 4.0),
)


def test_goals_are_ratios_of_medians() -> None:
    goals = {goal.what: (goal.value, goal.reached) for goal in Table(MEASURED).goals()}
    wanted: dict[str, Any] = {
        "ar1 / plain loop": (pytest.approx(2.1 / 2), True),
        "si / plain loop": (pytest.approx(2.2 / 2), False),
        "(lwf − a bare forward pass) / plain loop": (pytest.approx((2.6 - 0.5) / 2), True),
        "ewc's Fisher pass / an epoch of the plain loop": (pytest.approx(0.9 / (2 / 2)), True),
        "Avalanche's SynapticIntelligence / si": (pytest.approx(4.4 / 2.2), True),
        "Avalanche's CWRStar / cwr+": (pytest.approx(4.0 / 0.5), False),  # ten times is the goal
        "ar1's evaluation rate / bare": (pytest.approx(0.5 / 0.52), True),
    }
    assert goals == wanted
    assert Table(MEASURED, "cpu").goals()[0].value == pytest.approx(1.1)  # si: both halved


def test_the_table_has_milliseconds_a_minibatch_and_memory() -> None:
    lines = Table(MEASURED).lines()
    assert "| ours: ar1 | train | 525.0 | 1.05 | 2 |  |  | 300 | 100 | 1.00 |" in lines  # 2.1 s / 4; the floor: 2 s / 4
    assert "| ours: si | train | 550.0 | 1.10 | 0 |  | 2.00 | 300 | 100 | 1.00 |" in lines
    cumulative = Table(result(contestant("ours", "cumulative", "train", 4.0)))
    assert (
        cumulative.a_minibatch(*cumulative.rows.values()) == 0.5
    )  # two epochs over B_1's two minibatches are four more


def test_a_step_alone_and_a_batch_of_the_usual_length() -> None:
    """The floor takes 2 s for 4 steps of 0.5; AR1 2.9 for 4 of 0.51: a batch costs 0.86 once, and 0.51 a step.

    100 steps: 50 s beside 51 + 0.86.
    """
    plain = contestant("plain", "plain", "train", 2.0, 2.0, 2.0)
    ours = contestant("ours", "ar1", "train", 2.9, 2.9, 2.9)
    for one, step in ((plain, 0.5), (ours, 0.51)):
        for answer, speed in zip(one["answers"], (1, 2, 0.5), strict=True):
            answer["step"] = {"seconds": speed * step, "cpu": speed * step / 2}
    short, usual = result(plain, ours), {**result(plain, ours), "usual": [100, 5]}
    assert "| ours: ar1 | train | 725.0 | 1.45 | 0 | 1.02 |  | 300 | 100 | 1.00 |" in Table(short).lines()
    for measured, wanted in ((short, ("ar1 / plain loop", 1.45)), (usual, (BATCH_OF_100, 51.86 / 50))):
        (goal,) = Table(measured).goals()
        assert goal.what == wanted[0]
        assert goal.value == pytest.approx(wanted[1])


def test_lwf_and_avalanche_are_reckoned_alike() -> None:
    """The floor: 2 s, 0.5 a step. LWF: 4 s, 0.5 a step; its bare pass 1.5. LwF: 3 s, 0.6 a step. 96 more of 100 steps.

    LWF less its pass: (4 + 48 − 1.5)/(2 + 48) = 1.01; LwF beside it: (3 + 57.6)/(4 + 48).
    EWC: 3 s, 0.5 a step; 0.7 of them for the Fisher pass over the two minibatches of an epoch, 0.3 each. With 100 steps
    in 5 epochs the pass has 20: 18 · 0.3 more, 6.1 beside the floor's epoch of 50/5; and Avalanche's, 6 s, 0.6 a step,
    0.5 a minibatch of the pass: 6 + 57.6 + 9 beside 3 + 48 + 5.4.
    """
    rows = [
        (contestant("plain", "plain", "train", 2.0, 2.0, 2.0), 0.5),
        (contestant("ours", "lwf", "train", 4.0, 4.0, 4.0), 0.5),
        (contestant("avalanche", "LwF", "train", 3.0, 3.0, 3.0), 0.6),
        (contestant("ours", "ewc", "train", 3.0, 3.0, 3.0, **{"consolidate": 0.7, FISHER: 0.3}), 0.5),
        (contestant("avalanche", "EWC", "train", 6.0, 6.0, 6.0, **{FISHER: 0.5}), 0.6),
    ]
    for one, step in rows:
        for answer, speed in zip(one["answers"], (1, 2, 0.5), strict=True):
            answer["step"] = {"seconds": speed * step, "cpu": speed * step / 2}
    look = contestant("plain", "plain", "look", 1.5, 1.5, 1.5)
    usual = {**result(*(one for one, _ in rows), look), "usual": [100, 5]}
    goals = {goal.what: goal.value for goal in Table(usual).goals()}
    assert goals["(lwf − a bare forward pass) / plain loop, a batch of 100 steps"] == pytest.approx(1.01)
    assert goals["Avalanche's LwF / lwf, a batch of 100 steps"] == pytest.approx(60.6 / 52)
    fisher = "ewc's Fisher pass / an epoch of the plain loop, a batch of 100 steps"
    assert goals[fisher] == pytest.approx((0.7 + 18 * 0.3) / (50 / 5))
    assert goals["Avalanche's EWC / ewc, a batch of 100 steps"] == pytest.approx((6 + 57.6 + 9) / (3 + 48 + 5.4))


def test_a_page_is_filled_between_its_marks_again_and_again() -> None:
    page = (
        "before\n<!-- measured: tiny -->\nold\n<!-- end -->\nbetween\n<!-- measured: other -->\n<!-- end -->\nafter\n"
    )
    once = fill(page, {"tiny": MEASURED})
    assert markdown(MEASURED) in once
    assert "old" not in once
    assert "Not measured yet." in once
    assert once.endswith("after\n")
    assert fill(once, {"tiny": MEASURED}) == once


def test_memory_that_is_kept_is_beside_memory_that_is_not() -> None:
    command = [sys.executable, "-m", "benchmarks.memory_kept", "--size=tiny", "--steps=2", "--threads=1"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "the median of 2 pairs of steps, 1 threads" in printed
    pairs = {"kept": [1.0, 2.0, 4.0], "not": [1.5, 2.2, 8.0]}  # 1.5, 1.1, 2
    machine = {"machine": "a machine", "versions": {"torch": "2"}, "when": "2026-01-02T03:04:05"}
    said = memory_kept.lines({"size": "cifarnet", "seconds": pairs, "steps": 3, "threads": 1, **machine})
    assert "takes 2000 ms with memory kept and 2200 ms without: 1.50 times as long" in said


def test_how_long_the_command_line_takes_to_start() -> None:
    command = [sys.executable, "-m", "benchmarks.start", "--rounds=1"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert re.search(r"^\| `everlearn list strategies` \| \d+\.\d{3} \|", printed, flags=re.MULTILINE)
    machine = {"machine": "a machine", "versions": {"everlearn": "1"}, "when": "2026-01-02T03:04:05", "rounds": 5}
    said = start.lines({"seconds": {"python": 0.01, "everlearn --help": 0.4, "everlearn list": 0.6}, **machine})
    assert said.splitlines()[-2:] == ["| `everlearn --help` | 0.400 | yes |", "| `everlearn list` | 0.600 | **no** |"]


def test_the_page_shows_what_is_stored() -> None:
    """Numbers are never typed: filling the page changes nothing."""
    page = (ROOT / "docs" / "performance.md").read_text()
    stored = {path.stem: json.loads(path.read_text()) for path in (ROOT / "docs" / "performance").glob("*.json")}
    assert fill(page, stored) == page


def test_everything_that_the_page_shows_was_measured() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    shown = set(re.findall(r"<!-- measured: (\S+) -->", page))
    assert (
        {"cifarnet", "caffenet-128"} < shown == {path.stem for path in (ROOT / "docs" / "performance").glob("*.json")}
    )


def test_every_preset_takes_part() -> None:
    everybody = entries(set(), set())
    assert {entry.name for entry in everybody if entry.program == "ours"} == set(PRESETS)
    assert {entry.name for entry in everybody if entry.program == "avalanche"} == set(COUNTERPART.values())
    some = entries({"avalanche"}, {"ar1"})
    assert {(entry.program, entry.name) for entry in some if entry.program != "plain"} == {("ours", "ar1")}


def test_contestants_answer_from_processes_of_their_own() -> None:
    chosen = [
        Entry("ours", "ar1", "evaluate"),
        Entry("ours", "cwr+", "frozen"),
        Entry("plain", "plain fused", "train"),
        Entry("ours", "ar1", "train"),
    ]
    large = bytearray(10**9)  # this process's own memory is not theirs
    measured = json.loads(json.dumps(measure(chosen, {}, "tiny", rounds=1, threads=1)))
    assert measured["steps"] == SIZES["tiny"].steps
    for one in measured["contestants"]:
        assert one["answers"][0]["seconds"] > 0
        assert one["answers"][0]["floor"]["seconds"] > 0
        assert (one["answers"][0]["step"] is None) == (one["job"] == "evaluate")  # of a single minibatch
        assert one["peak"] >= one["start"] > 0
        assert one["peak"] < len(large)
    assert set(measured["versions"]) == {"plain", "ours"}
    assert "| ar1 / plain loop | ≤ 1.05 |" in markdown(measured)
