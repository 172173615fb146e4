"""The search: its space, the same trials for everybody, held-out data only, and going on after a kill."""

import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from everlearn._kit.lines import append_line, read_lines
from everlearn.benchmarks import prepare
from everlearn.cli import main
from everlearn.errors import ConfigError, RunError, RunWarning
from everlearn.recipes.presets import preset, with_knobs
from everlearn.recipes.slot_space import SlotSpace
from everlearn.recipes.space import Range
from everlearn.regularisers import SI
from everlearn.runs import Config, run
from everlearn.runs.folder import one_process
from everlearn.tuning import Search
from everlearn.tuning.search import Score, import_optuna, journal

QUICK = {"training.first.epochs": 1, "training.later.epochs": 1}


def config(strategy: str = "ar1", **changes: Any) -> Config:
    return Config("digits", strategy, **{"knobs": QUICK, "held_out": 0.25, "batches": 2, **changes})


@pytest.mark.parametrize(
    ("strategy", "names"),
    [
        ("naive", {"eta_1", "eta_i"}),
        ("cumulative", {"eta_1", "eta_i"}),
        ("cwr", {"eta_1", "eta_i", "scale"}),
        ("cwr+", {"eta_1", "eta_i"}),
        ("lwf", {"eta_1", "eta_i", "low", "high"}),
        ("ewc", {"eta_1", "eta_i", "pull", "max_F"}),
        ("si", {"eta_1", "eta_i", "pull", "w_1", "w_i"}),
        ("ar1", {"eta_1", "eta_i", "pull", "w_1", "w_i"}),
        ("ar1-ewc", {"eta_1", "eta_i", "pull", "max_F"}),
        ("ar1-lwf", {"eta_1", "eta_i", "low", "high"}),
    ],
)
def test_a_space_is_read_off_the_slots(strategy: str, names: set[str]) -> None:
    slots = preset(strategy, "cifarnet/icifar-100")
    space = SlotSpace(slots, (1e-5, 1e-1), [500] * 10)
    assert set(space.ranges) == names
    assert set(space.first) == names
    for name, value in space.first.items():
        assert space.ranges[name].low <= value <= space.ranges[name].high
    turned = with_knobs(slots, space.knobs(space.first))  # every knob is one that the preset has
    assert turned.training.first.eta == slots.training.first.eta


def test_the_pull_is_what_is_searched_not_lambda() -> None:
    """η·λ·max_F = 0.4 at η = 0.001 and max_F = 0.001 is λ = 4e5, the paper's; at half the η it is twice the λ."""
    space = SlotSpace(preset("ar1", "cifarnet/icifar-100"), (1e-5, 1e-1), [500] * 10)
    assert space.first["pull"] == pytest.approx(0.4)
    assert space.knobs(space.first)["si.lam"] == pytest.approx(4e5)
    assert space.knobs({**space.first, "eta_i": 0.0005})["si.lam"] == pytest.approx(8e5)


def test_ewc_has_max_F_where_si_has_w() -> None:
    """A tenth of the max_F at the same pull is ten times the λ: what is not saturated is held ten times as hard."""
    space = SlotSpace(preset("ewc", "cifarnet/icifar-100"), (1e-5, 1e-1), [500] * 10)
    point = {**space.first, "eta_i": 0.001, "pull": 0.4}
    assert space.knobs({**point, "max_F": 1e-3})["ewc.lam"] == pytest.approx(4e5)
    lower = space.knobs({**point, "max_F": 1e-4})
    assert (lower["ewc.lam"], lower["ewc.max_F"]) == (pytest.approx(4e6), 1e-4)
    fixed = SlotSpace(preset("ewc", "cifarnet/icifar-100"), (1e-5, 1e-1), [500] * 10, fixed=["ewc.max_F"])
    assert fixed.knobs(fixed.first).keys() == {"training.first.eta", "training.later.eta", "ewc.lam"}


def test_lwf_maps_from_the_shares_of_the_stream() -> None:
    """n_2/Σ = 1/2 and n_10/Σ = 1/10: the map starts from 0.5 and 0.9, as the paper's for iCIFAR-100 does."""
    space = SlotSpace(preset("lwf", "cifarnet/icifar-100"), (1e-5, 1e-1), [500] * 10)
    point = {**space.first, "low": 0.8, "high": 0.3}
    assert space.knobs(point)["lwf.map"] == [[0.5, 0.9], [0.3, 0.8]]


def test_knobs_that_are_set_are_not_searched_for() -> None:
    slots = preset("ar1", "cifarnet/icifar-100", {"training.first.eta": 0.02})
    space = SlotSpace(slots, (1e-5, 1e-1), [500] * 10, fixed=["training.first.eta", "si.w_1"])
    assert set(space.ranges) == {"eta_i", "pull", "w_i"}
    assert space.knobs(space.first).keys() == {"training.later.eta", "si.lam", "si.w_i"}


def test_points_are_rounded_so_that_what_is_published_was_run() -> None:
    space = SlotSpace(preset("naive"), (1e-4, 1e-1), [5, 5])
    point = space.point(lambda _name, span: span.low * 1.23456)
    assert point == {"eta_1": 0.000123, "eta_i": 0.000123}
    assert Range(1.0, 2.0).clip(3.0) == 2.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trials": 0}, "Too few trials"),
        ({"seeds": 0}, "Too few seeds"),
        ({"etas": (0.1, 0.1)}, "range of η"),
        ({"score": "classes"}, "Unknown score"),
    ],
)
def test_senseless_searches_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Search(config(), **changes)


def test_a_search_never_scores_on_test_patterns() -> None:
    with pytest.raises(ConfigError, match="must not see test patterns"):
        Search(config(held_out=0.0))
    whole, test, _ = prepare("digits", strategy="naive")
    stream, scored_on, _ = prepare("digits", strategy="naive", held_out=0.25)
    train = {pattern.tobytes() for pattern in whole.source.train.x}
    assert {pattern.tobytes() for pattern in scored_on.x} <= train
    kept = sum(len(chosen) for chosen in stream.indices)
    assert kept + len(scored_on) == len(whole.source.train)
    assert not {pattern.tobytes() for pattern in scored_on.x} & {pattern.tobytes() for pattern in test.x}


@pytest.mark.parametrize(("seed", "wanted"), [(None, [1, 2]), (0, [0, 1]), (5, [5, 6])])
def test_the_seeds_of_a_search_begin_with_the_config_s(seed: int | None, wanted: list[int], tmp_path: Path) -> None:
    seeds: list[int | None] = []

    def learn(one: Config, path: Path, /, **options: Any) -> list[dict[str, Any]]:
        seeds.append(one.seed)
        return run(one, path, **options)

    Search(replace(config("naive"), seed=seed), trials=1, seeds=2).run(tmp_path, learn)
    assert seeds == wanted


def test_the_same_search_finds_the_same(tmp_path: Path) -> None:
    first, again = (Search(config("cwr+"), trials=4).run(tmp_path / name) for name in ("a", "b"))
    assert first == again
    assert len(first["scores"]) + first["given_up"] == 4
    assert first["score"] == max(first["scores"])
    assert first["knobs"].keys() == {*QUICK, "training.first.eta", "training.later.eta"}
    assert all(value == float(f"{value:.2e}") for value in first["knobs"].values())  # as it was run
    assert not list((tmp_path / "a").glob("trial-*"))  # runs of trials are scratch; the journal keeps what they gave


def test_every_pattern_counts_alike_or_every_batch() -> None:
    """B_1's two classes have 40 of 50 patterns, of which 36 are right; B_2's two have 10, of which 1 is.

    By patterns (36 + 1)/50 = 0.74; by batches (36/40 + 1/10)/2 = 0.5.
    """
    counts = [[20, 0, 0, 0], [4, 16, 0, 0], [5, 0, 0, 0], [4, 0, 0, 1]]
    record = {"confusion": counts, "patterns": [20, 20, 5, 5], "order": [3, 1, 0, 2], "batches": [[1, 3], [0, 2]]}
    searches = {score: Search(config(), score=score) for score in get_args(Score)}
    assert searches["patterns"].scored({**record, "accuracy": 0.74}) == 0.74
    assert searches["batches"].scored(record) == pytest.approx(0.5)


def test_a_search_by_batches_is_another_search(tmp_path: Path) -> None:
    """The digits' batches have their classes' held-out patterns in B_1 : B_i as 4 : 2, so the two scores differ."""
    by_patterns = Search(config("naive"), trials=1).run(tmp_path / "patterns")
    by_batches = Search(config("naive"), trials=1, score="batches").run(tmp_path / "batches")
    assert by_batches["knobs"] == by_patterns["knobs"]
    assert by_batches["score"] != by_patterns["score"]
    with pytest.raises(RunError, match=r"another search: expected \{'score': 'patterns'\}, got \{'score': 'batches'\}"):
        Search(config("naive"), trials=1, score="batches").run(tmp_path / "patterns")


def test_a_file_of_another_kind_is_not_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An error about bytes that are no text holds them all."""
    (tmp_path / "weights").write_bytes(b"\xff" * 100_000)
    for option in ("--settings", "--start"):
        call = ["tune", "--benchmark=digits", "--strategies=naive", f"{option}={tmp_path / 'weights'}"]
        assert main([*call, f"--out={tmp_path / 'out'}"]) == 1
        said = capsys.readouterr().err
        assert "There are no settings for naive" in said
        assert len(said) < 500


def test_a_finished_search_is_not_searched_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = Search(config("naive"), trials=2)
    found = search.run(tmp_path)
    monkeypatch.setattr("everlearn.tuning.search.run", lambda *_, **__: pytest.fail("a trial was made again"))
    assert search.run(tmp_path) == found


def test_another_search_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    Search(config("naive"), trials=1).run(tmp_path)
    with pytest.raises(RunError, match=r"another search: expected \{'seeds': 1\}, got \{'seeds': 2\}"):
        Search(config("naive"), trials=1, seeds=2).run(tmp_path)
    assert len(Search(config("naive"), trials=2).run(tmp_path)["scores"]) == 2  # more trials are the same search
    with pytest.raises(RunError, match=r"another search: expected \{'starts': .*got \{'starts': .*0\.003"):
        Search(config("naive"), trials=3, starts=({"training.first.eta": 0.003},)).run(tmp_path)


def test_a_point_that_diverges_is_worth_nothing(tmp_path: Path) -> None:
    found = Search(config("naive"), trials=1, etas=(1e6, 2e6)).run(tmp_path)
    assert found["scores"] == [0.0]


def test_a_hopeless_point_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fourth trial learns nothing: the first of them is among those that all are made, the others end early."""
    batches: list[tuple[bool, int]] = []

    def fake(config: Config, _folder: Path, on_progress: Any, **_: Any) -> list[dict[str, Any]]:
        good = sum(i == 1 for _, i in batches) % 4 != 3
        records: list[dict[str, Any]] = [{"accuracy": 0.2 * i if good else 0.01, "i": i, "of": 4} for i in range(1, 5)]
        for record in records:
            batches.append((good, record["i"]))
            on_progress(None, record)
        return records

    monkeypatch.setattr("everlearn.tuning.search.run", fake)
    found = Search(config("naive"), trials=20, etas=(1e-5, 1e-1)).run(tmp_path)
    ends = {good: [i for which, i in batches if which == good].count(4) for good in (True, False)}
    assert ends == {True: 15, False: 1}
    assert len(found["scores"]) == 16
    assert found["given_up"] == 4
    assert found["score"] == 0.8


def test_a_search_may_start_from_an_earlier_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its points come first, in place of the present settings, moved into the ranges."""
    knobs = {"training.first.eta": 0.003, "training.later.eta": 0.002, "si.lam": 25_000.0, "si.w_i": 9.0, "head": "no"}
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps({"strategies": {"ar1": {"knobs": knobs}}}))
    command = ["tune", "--benchmark=digits", "--strategies=ar1", "--trials=1", "--batches=2", f"--start={earlier}"]
    command += [f"--set={name}={value}" for name, value in QUICK.items()]
    assert main([*command, f"--out={tmp_path / 'a'}"]) == 0
    found = json.loads((tmp_path / "a" / "settings.json").read_text())["strategies"]["ar1"]
    assert found["starts"] == [knobs]
    study = import_optuna().load_study(study_name="ar1", storage=journal(tmp_path / "a" / "search" / "ar1"))
    (only,) = (trial.params for trial in study.get_trials())
    present = preset("ar1", "small/digits").regulariser
    assert isinstance(present, SI)
    assert only == {"eta_1": 0.003, "eta_i": 0.002, "pull": 0.05, "w_1": present.w_1, "w_i": 0.01}
    assert main([*command, "--strategies=naive", f"--out={tmp_path / 'b'}"]) == 1
    assert "no settings for naive" in capsys.readouterr().err


@pytest.mark.parametrize("points", [1, 4])
def test_a_killed_search_goes_on(points: int, tmp_path: Path) -> None:
    """Killed in its third trial, it takes that up where it was: the same trials in the same order, given points too."""
    code = (
        "import sys; from pathlib import Path; from tests.tuning.test_tuning import several; "
        "several(int(sys.argv[2])).run(Path(sys.argv[1]))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "killed"), str(points)])
    deadline = time.monotonic() + 120
    while not (tmp_path / "killed" / "trial-2" / "seed-1" / "config.json").exists():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    resumed, whole = (several(points).run(tmp_path / name) for name in ("killed", "whole"))
    assert resumed == whole
    assert len(whole["scores"]) == 5


def several(points: int) -> Search:
    """Five trials, the first of them at given points."""
    starts = tuple({"training.first.eta": 0.01 / k} for k in range(1, points + 1))
    return Search(config("ar1"), trials=5, starts=starts)


class Killed(BaseException):
    """As SIGKILL at a place in the code: nothing after it is done."""


@pytest.mark.parametrize(
    ("what", "call"),
    [
        ("optuna.study.Study.enqueue_trial", 2),  # with one point queued, and three still to be
        (
            "optuna.trial.Trial.suggest_float",
            28,
        ),  # in the middle of a point that the sampler draws: 5 parameters a trial
        ("optuna.study.Study.tell", 3),  # all is learnt, and its score is not kept yet
        ("shutil.rmtree", 2),  # the score is kept, and the trial's runs are still there
    ],
)
def test_wherever_a_search_is_killed_it_ends_alike(
    what: str, call: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    importlib.import_module("optuna")
    calls, real = [0], pkgutil.resolve_name(what)

    def deadly(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == call:
            raise Killed
        return real(*arguments, **options)

    search = replace(several(4), trials=7)
    with monkeypatch.context() as there:
        there.setattr(what, deadly)
        with pytest.raises(Killed):
            search.run(tmp_path / "killed")
    assert search.run(tmp_path / "killed") == search.run(tmp_path / "whole")
    assert not list((tmp_path / "killed").glob("trial-*"))


def test_a_search_killed_as_it_gave_up_gives_up_at_the_same_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its seventh trial is hopeless at B_2, the first at which it may be given up."""
    learnt: list[int] = []

    def fake(config: Config, folder: Path, on_progress: Any, **_: Any) -> list[dict[str, Any]]:
        good, done = not folder.parts[-2].endswith("-6"), read_lines(folder / "records.jsonl")
        folder.mkdir(parents=True, exist_ok=True)
        for i in range(len(done) + 1, 5):
            learnt.append(i)
            done.append({"accuracy": 0.2 * i if good else 0.01 * i, "i": i, "of": 4})
            append_line(folder / "records.jsonl", done[-1])
            on_progress(None, done[-1])
        return done

    monkeypatch.setattr("everlearn.tuning.search.run", fake)
    search, tell = Search(config("naive"), trials=7), import_optuna().study.Study.tell

    def deadly(study: Any, trial: Any, *arguments: Any, **options: Any) -> Any:
        if trial.number == 6:
            raise Killed
        return tell(study, trial, *arguments, **options)

    with monkeypatch.context() as there:
        there.setattr("optuna.study.Study.tell", deadly)
        with pytest.raises(Killed):
            search.run(tmp_path / "killed")
    before = len(learnt)
    resumed = search.run(tmp_path / "killed")
    assert len(learnt) == before  # no batch is learnt twice
    assert resumed == search.run(tmp_path / "whole")
    trials = import_optuna().load_study(study_name="naive", storage=journal(tmp_path / "killed")).trials
    assert (trials[6].value, resumed["given_up"]) == (0.02, 1)


def test_the_lock_of_a_killed_search_stands_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Optuna's is a link to the journal as it was called: with a relative folder it leads nowhere."""
    monkeypatch.chdir(tmp_path)
    Path("tune").mkdir()
    Path("tune", "journal.lock").symlink_to("tune/journal")
    assert len(Search(config("naive"), trials=1).run(Path("tune"))["scores"]) == 1


def test_a_search_that_goes_on_elsewhere_says_so(tmp_path: Path) -> None:
    Search(config("naive"), trials=1).run(tmp_path)
    with pytest.warns(RunWarning, match=r"goes on elsewhere: .*threads: 1 before, 2 now.*compared all the same"):
        Search(config("naive", threads=2), trials=2).run(tmp_path)
    Search(config("naive"), trials=2).run(tmp_path)  # all is made: it goes on nowhere
    torch.set_num_threads(1)


def test_half_a_line_in_the_journal_is_cut_off(tmp_path: Path) -> None:
    """As a full disk or a power cut may leave it."""
    Search(config("naive"), trials=1).run(tmp_path)
    with open(tmp_path / "journal", "r+b") as file:
        file.truncate(file.seek(0, os.SEEK_END) - 5)
    for trials in (2, 3):
        assert len(Search(config("naive"), trials=trials).run(tmp_path)["scores"]) == trials


def test_fewer_trials_than_before_count_the_first_alone(tmp_path: Path) -> None:
    """So that strategies that were searched for longer have no advantage."""
    whole = Search(config("naive"), trials=3).run(tmp_path)
    short = Search(config("naive"), trials=2).run(tmp_path)
    assert short["scores"] == whole["scores"][:2]
    assert (short["score"], short["given_up"]) == (max(whole["scores"][:2]), 0)


def test_two_processes_on_one_search(tmp_path: Path) -> None:
    """The second is refused, and leaves the first one's trials alone."""
    with (
        one_process(tmp_path, "Taken", expected="one"),
        pytest.raises(RunError, match=r"made by another process: expected one process a search, got .*Wait for it"),
    ):
        Search(config("naive"), trials=1).run(tmp_path)
    assert not (tmp_path / "journal").exists()


def test_the_protocol_in_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Search on run 1 with held-out data; then runs 1 and 2 on the test set, with what was found."""
    knobs = [f"--set={name}={value}" for name, value in QUICK.items()]
    command = ["tune", "--benchmark=digits", "--strategies=naive,cwr+", "--trials=2", "--runs=2", "--jobs=2"]
    assert main([*command, *knobs, f"--out={tmp_path}"]) == 0
    settings = json.loads((tmp_path / "settings.json").read_text())
    assert settings["about"]["trials"] == 2
    assert settings["about"]["held_out"] == 0.2
    for name in ("naive", "cwr+"):
        assert len(settings["strategies"][name]["scores"]) == 2
        for number in (1, 2):
            stored = json.loads((tmp_path / "runs" / name / f"run-{number}" / "config.json").read_text())
            assert stored["knobs"] == settings["strategies"][name]["knobs"]
            assert stored["held_out"] == 0.0
    assert "cwr+" in capsys.readouterr().out
    assert (
        main(
            [
                "compare",
                "--benchmark=digits",
                "--strategies=si",
                f"--settings={tmp_path / 'settings.json'}",
                f"--out={tmp_path / 'x'}",
            ]
        )
        == 1
    )
    assert "no settings for si" in capsys.readouterr().err
