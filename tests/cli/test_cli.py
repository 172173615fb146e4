"""The command line, as a user or a script calls it."""

import fcntl
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from everlearn import PRESETS
from everlearn._kit import catalogue
from everlearn._kit.lines import read_lines
from everlearn.benchmarks import BENCHMARKS, make_network
from everlearn.cli import main
from everlearn.cli.show import LISTS
from everlearn.data import digits
from everlearn.recipes.known import KNOWN
from everlearn.runs import Config
from everlearn.runs.engine import Worker
from tests.report_toys import write_run
from tests.toys import toy_batch, until

FAST = ["--set", "training.first.epochs=1", "--set", "training.later.epochs=1"]


@pytest.fixture(scope="module")
def toys(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A benchmark of two batches that a process reads in a moment; scikit-learn's digits take a second to import."""
    file = tmp_path_factory.mktemp("toys") / "toys.npz"
    batch = toy_batch(range(4), n=40)
    np.savez(file, x=batch.x.numpy(), y=batch.y.numpy())
    return f"split-2:{file}"


def everlearn(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "everlearn", *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("text", ["nan", "-1", "inf", "soon"])
def test_a_time_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With NaN no checkpoint would ever be due."""
    with pytest.raises(SystemExit):
        main(["run", "--benchmark", "digits", "--strategy", "ar1", "--out", "there", f"--checkpoint-every={text}"])
    assert f"expected seconds, a number from 0, got {text!r}" in capsys.readouterr().err


def test_the_catalogue_lists_what_there_is() -> None:
    assert list(KNOWN) == list(PRESETS)
    assert list(catalogue.BENCHMARKS) == list(BENCHMARKS)
    for name in catalogue.MODELS:
        if name == "small":
            assert make_network(name, digits(), seed=0).rows == 10


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["run", "--help"], *(["list", what] for what in ("strategies", "benchmarks", "models", "figures"))],
    ids=" ".join,
)
def test_help_and_list_wait_for_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import sys
from everlearn.cli import main
from everlearn.cli.show import LISTS
try:
    main({arguments!r})
except SystemExit as end:
    assert not end.code
heavy = {{"torch", "numpy", "matplotlib", "PIL", "scipy", "httpx"}} & set(sys.modules)
assert not heavy, heavy
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_list_names_strategies_and_benchmarks() -> None:
    assert "ar1 " in everlearn("list", "strategies").stdout
    everything = everlearn("list").stdout
    for what in LISTS:
        assert f"{what}:\n{everlearn('list', what).stdout}" in everything
    assert list(json.loads(everlearn("list", "--json").stdout)) == list(LISTS)
    assert json.loads(everlearn("list", "benchmarks", "--json").stdout) == catalogue.BENCHMARKS
    assert "split-N:SOURCE " in everlearn("list", "benchmarks").stdout


def test_run_writes_records_for_scripts(tmp_path: Path) -> None:
    done = everlearn("run", "--benchmark", "digits", "--strategy", "ar1", "--run", "1", "--out", str(tmp_path), *FAST)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""  # quiet when not a terminal
    assert len(done.stdout.splitlines()) == 4
    records = read_lines(tmp_path / "records.jsonl")
    wanted = "benchmark strategy run i classes accuracy accuracy_seen accuracy_mt confusion confusion_mt lam importance"
    assert {*wanted.split(), "change", "seconds_train", "seconds_eval", "storage"} <= set(records[0])
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["command"].startswith("everlearn run --benchmark digits --strategy ar1")
    again = everlearn("run", "--benchmark", "digits", "--strategy", "ar1", "--out", str(tmp_path), "--json", *FAST)
    assert [json.loads(line) for line in again.stdout.splitlines()] == records


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["run", "--benchmark", "nothing", "--strategy", "ar1"], 1, "Unknown benchmark"),
        (["run", "--benchmark", "digits", "--strategy", "ar2"], 1, "Unknown strategy"),
        (["run", "--benchmark", "digits", "--strategy", "ar1", "--set", "si.lamb=3"], 1, "'si.lamb'"),
        (["run", "--benchmark", "digits", "--strategy", "ar1", "--set", "si.lam"], 1, "A bad --set"),
        (["run", "--benchmark", "digits", "--strategy", "ar1", "--network", "huge"], 1, "Unknown network"),
        (["run", "--benchmark", "digits"], 2, "--strategy"),
        (["report", "absent"], 1, "expected"),
    ],
)
def test_errors_are_explained_and_exit_codes_tell(
    arguments: list[str], code: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extra = ["--out", str(tmp_path / "out")] if arguments[0] == "run" else []
    try:
        got = main([*arguments, *extra])
    except SystemExit as stop:
        got = int(stop.code or 0)
    assert got == code
    assert message in capsys.readouterr().err


def test_compare_runs_in_parallel_and_writes_the_page(tmp_path: Path) -> None:
    call = ["compare", "--benchmark", "digits", "--strategies", "naive,cwr+", "--runs", "2", "--jobs", "2", *FAST]
    done = everlearn(*call, "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert "cwr+" in done.stdout
    assert "report.html" in done.stderr
    assert (tmp_path / "report.html").stat().st_size > 10_000
    folders = sorted(str(p.parent.relative_to(tmp_path)) for p in tmp_path.rglob("records.jsonl"))
    assert folders == ["cwr+/run-1", "cwr+/run-2", "naive/run-1", "naive/run-2"]
    alone = tmp_path / "alone"
    everlearn("run", "--benchmark", "digits", "--strategy", "cwr+", "--run", "2", "--out", str(alone), *FAST)
    pairs = zip(read_lines(alone / "records.jsonl"), read_lines(tmp_path / "cwr+/run-2/records.jsonl"), strict=True)
    assert all(a["confusion"] == b["confusion"] and a["change"] == b["change"] for a, b in pairs)


def test_compare_tells_which_runs_failed(tmp_path: Path) -> None:
    (tmp_path / "ar1" / "run-1").mkdir(parents=True)
    (tmp_path / "ar1" / "run-1" / "config.json").write_text("{")
    done = everlearn("compare", "--benchmark", "digits", "--strategies", "naive,ar1", "--out", str(tmp_path), *FAST)
    assert done.returncode == 1
    assert f"{tmp_path}/ar1/run-1: This run's config is damaged" in done.stderr
    assert len(read_lines(tmp_path / "naive/run-1/records.jsonl")) == 4


def test_a_process_that_dies_is_told_of(tmp_path: Path) -> None:
    worker = Worker()
    worker._process.kill()
    worker._process.wait()
    worker.learn(Config("digits", "naive"), tmp_path, checkpoint_every=30.0)
    assert "died with code -9" in (worker.answer() or "")
    assert not worker.alive
    worker.close()


def test_ctrl_c_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    slow = ["--set", "training.first.epochs=2000", "--set", "training.later.epochs=1"]
    call = [
        sys.executable,
        "-m",
        "everlearn",
        "run",
        "--benchmark",
        "digits",
        "--strategy",
        "ar1",
        "--out",
        str(tmp_path),
    ]
    process = subprocess.Popen([*call, *slow], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (tmp_path / "events.jsonl").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command again goes on from what was saved last" in err
    assert (tmp_path / "checkpoint.safetensors").exists()
    assert read_lines(tmp_path / "records.jsonl") == []


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=["Ctrl-C", "stopped", "killed"])
@pytest.mark.parametrize("command", ["compare", "tune"])
def test_no_run_is_learnt_on_by_itself(command: str, how: signal.Signals, toys: str, tmp_path: Path) -> None:
    """When the process that asked for runs is gone, those that learn them save, stop, and let go of their locks.

    Ctrl-C goes to the whole process group, as from a terminal.
    """
    slow = ["--set", "training.first.epochs=100000", "--checkpoint-every=1e9", f"--benchmark={toys}"]
    call = [sys.executable, "-m", "everlearn", command, "--strategies=ar1,naive", "--jobs=2", f"--out={tmp_path}"]
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # children of a shell's background job ignore it
    try:
        process = subprocess.Popen([*call, *slow], stderr=subprocess.PIPE, text=True, start_new_session=True)
    finally:
        signal.signal(signal.SIGINT, usual)
    below = {"compare": "{}/run-1", "tune": "search/{}/trial-0/seed-1"}[command]
    folders = [tmp_path / below.format(strategy) for strategy in ("ar1", "naive")]
    until(lambda: all(read_lines(folder / "events.jsonl") for folder in folders))
    if how == signal.SIGINT:
        os.killpg(process.pid, how)
    else:
        process.send_signal(how)
    _, told = process.communicate(timeout=60)
    assert process.returncode == (-signal.SIGKILL if how == signal.SIGKILL else 130), told
    for folder in folders:
        until(lambda folder=folder: (folder / "checkpoint.safetensors").exists())
        until(lambda folder=folder: free(folder / "lock"))
        assert read_lines(folder / "records.jsonl") == []


@pytest.mark.parametrize("command", ["compare", "tune"])
@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--benchmark=digits", "--strategies=naive,ar2"], "everlearn: ar2: Unknown strategy"),
        (["--benchmark=digits", "--strategies=ar1,naive", "--set=si.lam=10"], "everlearn: naive: "),
        (["--benchmark=split-0:digits", "--strategies=naive"], "everlearn: Unknown benchmark"),
    ],
)
def test_commands_look_before_they_learn(
    command: str, options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, *options, f"--out={tmp_path / 'out'}"]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_stopped_runs_warned_of_is_told(toys: str, tmp_path: Path) -> None:
    """A damaged checkpoint is replaced at once: if this were not told now, nobody would ever know."""
    call = [
        sys.executable,
        "-m",
        "everlearn",
        "compare",
        f"--benchmark={toys}",
        "--strategies=naive",
        f"--out={tmp_path}",
    ]
    slow = ["--set", "training.first.epochs=100000", "--checkpoint-every=0.05"]
    folder = tmp_path / "naive" / "run-1"

    def stopped_when(ready: Callable[[], bool]) -> str:
        process = subprocess.Popen([*call, *slow], stderr=subprocess.PIPE, text=True)
        until(ready)
        process.send_signal(signal.SIGTERM)
        return process.communicate(timeout=60)[1]

    stopped_when(lambda: (folder / "checkpoint-before.safetensors").exists())
    newest, before = folder / "checkpoint.safetensors", len(read_lines(folder / "events.jsonl"))
    newest.write_bytes(newest.read_bytes()[:-9])
    told = stopped_when(lambda: len(read_lines(folder / "events.jsonl")) > before + 1)
    assert f"{folder}: The newest checkpoint is damaged" in told


def free(lock: Path) -> bool:
    with open(lock) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def test_data_get(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "get", "digits"]) == 0
    assert "training patterns in 4 batches" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["list", "strategies"], 0), (["--help"], 0), (["doctor", "runs"], 3), (["doctor", "none"], 1), (["nonsense"], 2)],
)
def test_a_reader_that_leaves_changes_nothing(arguments: list[str], code: int, tmp_path: Path) -> None:
    """As in `everlearn doctor runs | head -1`: no traceback, and the exit code is the command's own."""
    write_run(tmp_path / "runs", strategy="ewc")
    lines = (tmp_path / "runs" / "records.jsonl").read_text().splitlines()
    forgot = [json.loads(line) for line in lines]
    for record in forgot[1:]:
        place = record["order"].index(record["classes"][0])
        record["confusion"] = [[sum(row) if k == place else 0 for k in range(len(row))] for row in record["confusion"]]
    (tmp_path / "runs" / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in forgot))
    reading, writing = os.pipe()
    os.close(reading)  # nobody reads: every line meets a broken pipe
    command = [sys.executable, "-m", "everlearn", *arguments]
    try:
        done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False)
    finally:
        os.close(writing)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    both = subprocess.run(
        f"{shlex.join(command)} 2>&1 | true", shell=True, cwd=tmp_path, capture_output=True, check=False
    )
    assert (both.stdout, both.stderr) == (b"", b"")
