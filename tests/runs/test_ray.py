"""The Ray engine on a real cluster of two worker processes: the same bits, also when one of them is killed."""

import errno
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from everlearn import report
from everlearn._kit.lines import append_line, line_of, read_lines
from everlearn.benchmarks import prepare
from everlearn.cli import main
from everlearn.data.images import SpoiltError
from everlearn.errors import ConfigError, DataError, RunError, RunWarning
from everlearn.experiments import EXPERIMENTS
from everlearn.experiments.reproduce import Order, reproduce
from everlearn.runs import Config, RunFolder, run
from everlearn.runs.cluster import RayEngine, actor, engine, job, parcels, scheduler
from everlearn.runs.cluster.actor import Actor, End, News
from everlearn.runs.cluster.engine import has_token
from everlearn.runs.cluster.parcels import Change, Outbox, Parcel, deliver, pack, unpack
from everlearn.runs.engine import LocalEngine, engine_of, run_folder
from everlearn.tuning import Search, search_all
from everlearn.weights import save_weights
from tests.toys import assert_same_state, until

needs_ray = pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: pip install 'everlearn[ray]'")
QUICK = {"training.first.epochs": 1, "training.later.epochs": 1}
LONGER = {"training.first.epochs": 1, "training.later.epochs": 8}
TIMES = ("seconds_train", "seconds_eval")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayEngine]:
    """Of two workers at a time, for this machine alone; they are kept from test to test."""
    with pytest.MonkeyPatch.context() as patched, RayEngine(jobs=2) as started:
        patched.setattr(scheduler, "IDLE", 600.0)
        yield started


def without_times(path: Path) -> list[dict[str, Any]]:
    return [{k: v for k, v in record.items() if k not in TIMES} for record in RunFolder(path).records()]


def table(path: Path) -> Any:
    """The table that compare prints, times aside."""

    def plain(node: Any) -> Any:
        if isinstance(node, dict):
            return {name: plain(value) for name, value in node.items() if "second" not in name}
        return [plain(value) for value in node] if isinstance(node, list) else node

    return plain(report.summary(path))


# --- on the cluster -------------------------------------------------------------------------------------


@needs_ray
def test_a_killed_worker_changes_nothing(cluster: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after B_1 and before the end; its run goes on elsewhere from its last checkpoint, to the same bits."""
    configs = [Config("digits", name, run=n, knobs=LONGER) for name in ("ar1", "naive") for n in (1, 2)]
    arrived: list[tuple[Path, str, bytes]] = []

    def note(folder: Path, parcel: Parcel) -> None:
        """Lines that are new; a file that comes as a whole begins with those that were there."""
        known = {name: len(read_lines(folder / name)) for name in ("events.jsonl", "records.jsonl")}
        deliver(folder, parcel)
        for name, offset, data in parcel["changes"]:
            if name in known:
                lines = data.splitlines(keepends=True)[known[name] if offset is None else 0 :]
                arrived.append((folder, name, b"".join(lines)))

    sent: list[tuple[Path, bool]] = []  # runs given to workers, and whether with a checkpoint

    def note_files(folder: Path) -> dict[str, bytes]:
        files = pack(folder)
        sent.append((folder, "checkpoint.safetensors" in files))
        return files

    monkeypatch.setattr(job, "deliver", note)
    monkeypatch.setattr(scheduler, "pack", note_files)
    killed: list[Path] = []

    def fresh(path: Path) -> bool:
        """A step after B_1 has come."""
        return any(event["i"] > 1 for event in read_lines(path))

    def kill() -> None:
        def in_the_middle() -> bool:
            for pid, folder in cluster.scheduler.pids().items():
                if 1 <= len(read_lines(folder / "records.jsonl")) < 4 and fresh(folder / "events.jsonl"):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(folder)
                    return True
            return False

        until(in_the_middle)

    killer = threading.Thread(target=kill)
    killer.start()
    work = [(config, run_folder(tmp_path / "ray", config)) for config in configs]
    cluster.run_all(work, checkpoint_every=0.1)
    killer.join()
    LocalEngine().run_all([(c, run_folder(tmp_path / "local", c)) for c in configs], checkpoint_every=30.0)

    assert table(tmp_path / "ray") == table(tmp_path / "local")
    for config, path in work:
        twin = run_folder(tmp_path / "local", config)
        assert [record["i"] for record in without_times(path)] == [1, 2, 3, 4]
        assert without_times(path) == without_times(twin)
        names = [sorted(f.relative_to(p).as_posix() for f in p.rglob("*") if f.is_file()) for p in (path, twin)]
        assert names[0] == names[1]
        for file in path.glob("predictions/*.npy"):
            assert file.read_bytes() == (twin / "predictions" / file.name).read_bytes()
        states = [RunFolder(p).checkpoints.read() for p in (path, twin)]
        assert states[0] is not None
        assert states[1] is not None
        assert_same_state(states[0]["learner"], states[1]["learner"])
        assert config.differences(json.loads((path / "config.json").read_text())) == []
        assert_no_finished_batch_was_trained_again(arrived, path)
    assert [resumed for folder, resumed in sent if folder == killed[0]] == [False, True]
    assert len(sent) == len(work) + 1


def assert_no_finished_batch_was_trained_again(arrived: list[tuple[Path, str, bytes]], path: Path) -> None:
    """Once a batch's record has come, no step of it or of an earlier one comes any more, and no second record."""
    recorded = 0
    for name, data in [(name, data) for folder, name, data in arrived if folder == path]:
        for line in [json.loads(line) for line in data.splitlines()]:
            assert line["i"] > recorded
            recorded = line["i"] if name == "records.jsonl" else recorded
    assert recorded == 4
    events = [(event["i"], event["step"]) for event in read_lines(path / "events.jsonl")]
    assert events == sorted(set(events))  # what was made again stands once


@needs_ray
def test_what_is_done_is_not_learnt_again(cluster: RayEngine, tmp_path: Path) -> None:
    config = Config("digits", "naive", knobs=QUICK, batches=2)
    told: list[int] = []
    options: dict[str, Any] = {
        "checkpoint_every": 30.0,
        "on_progress": lambda _step, record: told.append(record["i"]),
    }
    first = cluster.run(config, tmp_path, **options)
    assert cluster.run(config, tmp_path, **options) == first
    assert told == [1, 2]
    further = cluster.run(Config("digits", "naive", knobs=QUICK), tmp_path, **options)  # more batches: it goes on
    assert further[:2] == first
    assert told == [1, 2, 3, 4]


@needs_ray
def test_weights_travel_and_errors_keep_their_kind(cluster: RayEngine, tmp_path: Path) -> None:
    _, _, naive = prepare("digits", strategy="naive")
    halves = {name: value * 0.5 for name, value in naive.weights().items()}
    weights = tmp_path / "weights.safetensors"
    save_weights(weights, halves, about={"network": "small"})
    config = Config("digits", "naive", knobs=QUICK, batches=1, weights=str(weights))
    options: dict[str, Any] = {"checkpoint_every": 30.0, "on_progress": lambda *_: None}
    cluster.run(config, tmp_path / "ray", **options)
    run(config, tmp_path / "local")
    assert without_times(tmp_path / "ray") == without_times(tmp_path / "local")
    assert RunFolder(tmp_path / "ray").config() == RunFolder(tmp_path / "local").config()  # the path given, not theirs
    with pytest.raises(DataError, match="Weights cannot be read"):
        cluster.run(Config("digits", "naive", weights=str(tmp_path / "absent")), tmp_path / "a", **options)
    with pytest.raises(ConfigError, match="Unknown strategy"):
        cluster.run(Config("digits", "ar2"), tmp_path / "b", **options)
    weights.write_bytes(b"no weights")
    with pytest.raises(DataError):
        cluster.run(config, tmp_path / "c", **options)
    with pytest.raises(ConfigError, match="A job of the cluster has no GPU"):
        cluster.run(Config("digits", "naive", device="cuda:0"), tmp_path / "d", **options)
    with pytest.raises(ConfigError, match=r"No machine .* 1 CPUs and 99 GPUs"):
        cluster.run(Config("digits", "naive", gpus=99.0), tmp_path / "d", **options)
    with RunFolder(tmp_path / "e").locked(), pytest.raises(RunError, match=r"Some runs failed.*another process"):
        cluster.run_all([(Config("digits", "naive"), tmp_path / "e")], checkpoint_every=30.0)


@needs_ray
def test_a_search_finds_the_same(cluster: RayEngine, tmp_path: Path) -> None:
    """A strategy's trials one after the other, two strategies at a time: as with the local engine."""
    names = ("naive", "cwr+")
    searches = [
        Search(Config("digits", name, knobs=QUICK, batches=2, held_out=0.25), trials=3, etas=(1e-3, 1e6))
        for name in names
    ]
    found = search_all(searches, tmp_path / "ray", engine=cluster)
    assert found == search_all(searches, tmp_path / "local")
    assert 0.0 in [score for name in names for score in found[name]["scores"]]  # a point that diverged
    assert not list((tmp_path / "ray").rglob("trial-*"))


@needs_ray
def test_a_search_whose_worker_is_killed_finds_the_same(cluster: RayEngine, tmp_path: Path) -> None:
    """No batch is told to the search twice, and no trial is made again."""
    searches = [Search(Config("digits", "naive", knobs=LONGER, held_out=0.25), trials=2)]
    killed: list[Path] = []

    def kill() -> None:
        def in_the_middle() -> bool:
            for pid, folder in cluster.scheduler.pids().items():
                if 1 <= len(read_lines(folder / "records.jsonl")) < 4:
                    os.kill(pid, signal.SIGKILL)
                    killed.append(folder)
            return bool(killed)

        until(in_the_middle)

    killer = threading.Thread(target=kill)
    killer.start()
    found = search_all(searches, tmp_path / "ray", engine=cluster)
    killer.join()
    assert found == search_all(searches, tmp_path / "local")
    assert [folder.parts[-2] for folder in killed] == ["trial-0"]


@needs_ray
def test_an_experiment_is_the_same(cluster: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of its four variants, one for each worker."""
    whole = EXPERIMENTS["ar1-regularisers"]
    monkeypatch.setitem(EXPERIMENTS, "ar1-regularisers", replace(whole, variants=lambda name: whole.variants(name)[:2]))
    order = Order(benchmark="digits", knobs=QUICK)
    for name, at in (("ray", cluster), ("local", LocalEngine())):
        reproduce("ar1-regularisers", tmp_path / name, order, engine=at)
    assert table(tmp_path / "ray") == table(tmp_path / "local")
    written = [sorted(path.name for path in (tmp_path / name / "figures").iterdir()) for name in ("ray", "local")]
    assert written[0] == written[1]


@needs_ray
def test_a_damaged_checkpoint_is_told_of_to_who_asked_for_the_run(cluster: RayEngine, tmp_path: Path) -> None:
    config = Config("digits", "naive", knobs=QUICK, batches=2)
    run(config, tmp_path)
    newest = tmp_path / "checkpoint.safetensors"
    newest.write_bytes(newest.read_bytes()[:-9])
    with pytest.warns(RunWarning, match=f"{re.escape(str(newest))}.*goes on from the one before"):
        cluster.run(replace(config, batches=3), tmp_path, checkpoint_every=30.0, on_progress=lambda *_: None)
    assert len(RunFolder(tmp_path).records()) == 3


@needs_ray
def test_who_watches_a_run_can_end_it(cluster: RayEngine, tmp_path: Path) -> None:
    class EnoughError(Exception):
        pass

    def watch(_step: object, record: dict[str, Any] | None) -> None:
        assert record
        if record["i"] == 2:
            raise EnoughError

    config = Config("digits", "naive", knobs=QUICK)
    with pytest.raises(EnoughError):
        cluster.run(config, tmp_path, checkpoint_every=30.0, on_progress=watch)
    assert len(RunFolder(tmp_path).records()) == 2
    cluster.run(config, tmp_path, checkpoint_every=30.0, on_progress=lambda *_: None)
    assert len(RunFolder(tmp_path).records()) == 4


@needs_ray
def test_the_cluster_of_this_machine_is_closed_to_others(cluster: RayEngine) -> None:
    """Ray listens on the loopback only, tells nobody of its use, and shows no dashboard."""
    import ray

    node = ray.nodes()[0]
    assert node["NodeManagerAddress"] == "127.0.0.1"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    ports = {f"{node[name]:04X}" for name in ("NodeManagerPort", "ObjectManagerPort")}
    places = [line.split()[1].split(":") for line in listening.splitlines() if " 0A " in line]
    assert {address[-8:] for address, port in places if port in ports} == {"0100007F"}
    assert not ray._private.worker._global_node.webui_url


@needs_ray
def test_ctrl_c_saves_and_the_local_engine_goes_on(tmp_path: Path) -> None:
    """The whole process group is interrupted, as by a terminal; the same folder then goes on without Ray."""
    knobs = {"training.first.epochs": 60, "training.later.epochs": 1}
    options = ["--benchmark=digits", "--strategies=ar1", "--checkpoint-every=1e9", "--batches=2"]
    options += [f"--set={name}={value}" for name, value in knobs.items()]
    command = [sys.executable, "-m", "everlearn", "compare", *options, f"--out={tmp_path}", "--engine=ray"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    env["HOME"] = str(tmp_path / "home")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=env)
    cut = tmp_path / "ar1" / "run-1"
    until(lambda: read_lines(cut / "events.jsonl") or process.poll() is not None)
    assert (cut / "config.json").exists()  # pages that watch know it from its first step on
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 130, told
    assert "goes on from what was saved last" in told
    assert not list((tmp_path / "home").rglob("auth_token"))  # which other clusters would be asked with
    state = RunFolder(cut).checkpoints.read()
    assert state is not None
    assert state["step"] > 1
    assert RunFolder(cut).records() == []
    for folder in (cut, tmp_path / "whole"):
        run(Config("digits", "ar1", knobs=knobs, batches=2), folder)
    assert without_times(cut) == without_times(tmp_path / "whole")


@needs_ray
def test_a_cluster_that_is_there_and_asks_for_a_token(tmp_path: Path) -> None:
    """Started by `ray start`; the command finds the token where Ray keeps it, and one without is told."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    short = Path(tempfile.mkdtemp(prefix="ray-"))  # Ray's sockets need a short path
    loopback = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_worker_niceness": "0"}
    env = {**os.environ, **loopback, "HOME": str(tmp_path), "RAY_TMPDIR": str(short)}
    env = {name: value for name, value in env.items() if not name.startswith("RAY_AUTH")}
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
    where = ["--head", "--node-ip-address=127.0.0.1", f"--port={port}", f"--temp-dir={short}"]
    ray = [str(Path(sys.executable).with_name("ray")), "start", *where, "--num-cpus=1", "--include-dashboard=false"]
    log = tmp_path / "ray.log"
    with open(log, "w") as file:
        head = subprocess.Popen([*ray, "--block"], env=env, stdout=file, stderr=subprocess.STDOUT)
    try:
        until(lambda: "Ray runtime started" in log.read_text() or head.poll() is not None)
        command = [sys.executable, "-m", "everlearn", "compare", "--benchmark=digits", "--strategies=naive"]
        command += [f"--set={name}={value}" for name, value in QUICK.items()]
        command += ["--engine=ray", f"--address=127.0.0.1:{port}", f"--out={tmp_path / 'out'}"]
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert len(RunFolder(tmp_path / "out" / "naive" / "run-1").records()) == 4
        without = {**env, "HOME": str(tmp_path / "nobody"), "RAY_AUTH_MODE": "token"}
        told = subprocess.run(command, env=without, capture_output=True, text=True, check=False, timeout=60)
        assert told.returncode == 1
        assert "There is no Ray cluster that can be used at this address" in told.stderr
        assert "A token is read from $RAY_AUTH_TOKEN" in told.stderr
    finally:
        head.terminate()
        head.wait()
        shutil.rmtree(short, ignore_errors=True)
    gone = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    assert gone.returncode == 1
    assert "There is no Ray cluster that can be used at this address" in gone.stderr


@needs_ray
def test_a_run_that_cannot_be_handed_over_fails_alone(
    cluster: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No memory to pack it, or no room for it in Ray's store: nobody waits for it, and the others are learnt."""
    bad, good = (run_folder(tmp_path, Config("digits", "naive", run=n)) for n in (1, 2))

    def full(folder: Path) -> dict[str, bytes]:
        if folder == bad:
            raise MemoryError("no room")
        return pack(folder)

    monkeypatch.setattr(scheduler, "pack", full)
    work = [(Config("digits", "naive", run=n, batches=1, knobs=QUICK), path) for n, path in ((1, bad), (2, good))]
    with pytest.raises(RunError, match="it cannot be given to a worker: MemoryError: no room"):
        cluster.run_all(work, checkpoint_every=30.0)
    assert len(RunFolder(good).records()) == 1


@needs_ray
def test_a_source_in_this_folder_is_found_from_others(
    cluster: RayEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers have a folder of their own to be in; the config keeps the words that were asked with."""
    x, y = np.random.default_rng(0).integers(0, 256, (40, 1, 8, 8), dtype=np.uint8), np.arange(40) % 4
    np.savez(tmp_path / "mine.npz", x=x, y=y)
    monkeypatch.chdir(tmp_path)
    config = Config("split-2:mine.npz", "naive", knobs=QUICK)
    cluster.run_all([(config, tmp_path / "run")], checkpoint_every=30.0)
    assert len(RunFolder(tmp_path / "run").records()) == 2
    assert json.loads((tmp_path / "run" / "config.json").read_text())["benchmark"] == "split-2:mine.npz"


# --- without a cluster ----------------------------------------------------------------------------------


class NoRay:
    """Ray as far as a scheduler without workers needs it."""

    def __init__(self) -> None:
        self.killed: list[object] = []

    def remote(self, kind: type) -> type:
        return kind

    def kill(self, handle: object) -> None:
        self.killed.append(handle)

    def nodes(self) -> Any:
        raise ValueError("no such cluster")


def test_a_cluster_that_fails_tells_every_job_why() -> None:
    """Those that wait and those that come too late; nobody is told that it was interrupted."""
    scheduling = scheduler.Scheduler(NoRay(), None)
    first, late = (job.Job(Config("digits", "naive", run=n), Path("nowhere"), 30.0) for n in (1, 2))
    future = scheduling.submit(first)
    scheduling.start()
    for submitted in (future, scheduling.submit(late)):
        with pytest.raises(RunError, match="the cluster cannot be used: ValueError: no such cluster"):
            submitted.result(timeout=60)


@pytest.mark.parametrize(("kind", "kept"), [("", False), ("DataError", True)])
def test_a_worker_that_failed_of_something_unknown_is_not_given_another_run(
    kind: str, kept: bool, tmp_path: Path
) -> None:
    ray = NoRay()
    scheduling = scheduler.Scheduler(ray, None)
    worker = scheduler.RayWorker("handle", (1.0, 0.0), pid=1, job=job.Job(Config("digits", "naive"), tmp_path, 30.0))
    end = End(how="failed", kind=kind, error="CUDA error", warned=[], place="")
    scheduling._heed(worker, {"parcel": parcels.nothing(), "end": end})
    assert scheduling._idle == ([worker] if kept else [])
    assert ray.killed == ([] if kept else ["handle"])


def test_addresses_of_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert [engine.address_of(a) for a in ("auto", "10.0.0.1:6379", "host:1")] == ["auto", "10.0.0.1:6379", "host:1"]
    for bad in ("local", "ray://host:1", "host", ":1"):
        with pytest.raises(ConfigError, match="This is no address of a Ray cluster"):
            engine.address_of(bad)
        monkeypatch.setenv("RAY_ADDRESS", bad)
        with pytest.raises(ConfigError, match="This is no address of a Ray cluster"):
            engine.address_of("auto")
    monkeypatch.setenv("RAY_ADDRESS", "host:1")
    assert engine.address_of("auto") == "host:1"


def test_no_search_begins_after_a_stop(tmp_path: Path) -> None:
    stopped = RayEngine(jobs=1)
    stopped.scheduler = scheduler.Scheduler(NoRay(), 1)
    stopped.scheduler.stopping.set()
    search = Search(Config("digits", "naive", held_out=0.2), trials=1)
    with pytest.raises(KeyboardInterrupt):
        search_all([search], tmp_path, engine=stopped)
    assert not list(tmp_path.iterdir())


def test_a_token_is_looked_for_where_ray_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_AUTH_TOKEN", raising=False)
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not has_token()
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    assert has_token()
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    (tmp_path / "token").write_text("secret")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    assert has_token()


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_no_jobs_are_refused(engine: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["compare", "--benchmark=digits", "--strategies=naive", f"--engine={engine}", "--jobs=-1", "--out=x"])
    assert "argument --jobs: expected a whole number from 1, got '-1'" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="With no jobs nothing is learnt"):
        LocalEngine(jobs=0)
    with pytest.raises(ConfigError, match="With no jobs nothing is learnt"):
        RayEngine(jobs=-1)


def test_files_travel_in_the_order_in_which_they_were_written(tmp_path: Path) -> None:
    far, near = tmp_path / "far", tmp_path / "near"
    near.mkdir()
    (near / "lock").touch()
    append_line(near / "events.jsonl", {"i": 1})
    unpack(far, pack(near))
    outbox = Outbox(far)
    for name in ("config.json", "predictions/true.npy", "checkpoint.safetensors"):
        (far / name).parent.mkdir(exist_ok=True)
        (far / name).write_bytes(name.encode())
        time.sleep(0.02)  # clocks of disks tick slowly
    append_line(far / "events.jsonl", {"i": 2})
    parcel = outbox.parcel()
    assert [change.name for change in parcel["changes"]] == [
        "config.json",
        "predictions/true.npy",
        "checkpoint.safetensors",
        "events.jsonl",
    ]
    assert parcel["changes"][-1] == Change("events.jsonl", 8, b'{"i":2}\n')  # only what is new
    deliver(near, parcel)
    assert read_lines(near / "events.jsonl") == [{"i": 1}, {"i": 2}]
    assert (near / "predictions" / "true.npy").read_bytes() == b"predictions/true.npy"
    assert outbox.parcel() == parcels.nothing()
    (far / "checkpoint.safetensors").unlink()
    append_line(far / "events.jsonl", {"i": 3})
    assert [change.data for change in outbox.grown("events.jsonl")["changes"]] == [b'{"i":3}\n']
    deliver(near, outbox.parcel())
    assert not (near / "checkpoint.safetensors").exists()
    assert list(pack(near)) == ["config.json", "events.jsonl"]  # neither the lock nor old predictions
    with pytest.raises(RunError, match=r"expected events\.jsonl with 99 bytes, got 16"):
        deliver(near, Parcel(moved=[], changes=[Change("events.jsonl", 99, b"")], removed=[]))


def test_a_file_with_a_new_name_does_not_travel_again(tmp_path: Path) -> None:
    """As the checkpoint before the newest; on the near side, too, there is never a moment with neither."""
    far, near = tmp_path / "far", tmp_path / "near"
    for folder in (far, near):
        folder.mkdir()
        (folder / "checkpoint.safetensors").write_bytes(b"first")
    outbox = Outbox(far)
    os.replace(far / "checkpoint.safetensors", far / "checkpoint-before.safetensors")
    (far / "checkpoint.safetensors").write_bytes(b"second")
    parcel = outbox.parcel()
    assert parcel == {
        "moved": [("checkpoint.safetensors", "checkpoint-before.safetensors")],
        "changes": [("checkpoint.safetensors", None, b"second")],
        "removed": [],
    }
    deliver(near, parcel)
    assert pack(near) == pack(far)
    os.replace(far / "checkpoint.safetensors", far / "checkpoint-before.safetensors")
    parcel = outbox.parcel()
    assert parcel["removed"] == []
    deliver(near, parcel)
    assert pack(near) == pack(far) == {"checkpoint-before.safetensors": b"second"}
    with pytest.raises(RunError, match=r"expected checkpoint\.safetensors, got no such file"):
        deliver(near, parcel)


def test_errors_name_the_folder_here(tmp_path: Path) -> None:
    there = "/elsewhere/everlearn-x1/run"
    one = job.Job(Config("digits", "naive"), tmp_path, 30.0)
    words = f"A checkpoint is damaged: {there}/checkpoint.safetensors"
    one.end(End(how="failed", kind="RunError", error=words, warned=[f"see {there}"], place=there))
    with pytest.raises(RunError, match=re.escape(f"damaged: {tmp_path}/checkpoint.safetensors")):
        one.future.result()
    assert one.warned == [f"see {tmp_path}"]
    two = job.Job(Config("digits", "naive", weights="mine.safetensors"), tmp_path, 30.0)
    words = "/elsewhere/everlearn-x1/weights.safetensors is no file of weights"
    two.end(End(how="failed", kind="DataError", error=words, warned=[], place=there))
    with pytest.raises(DataError, match=r"^mine\.safetensors is no file"):
        two.future.result()


def test_a_full_disk_here_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(job, "deliver", full)
    with pytest.raises(RunError, match=re.escape(f"The disk is full: expected room for the run, got {tmp_path}")):
        job.Job(Config("digits", "naive"), tmp_path, 30.0).take(News(parcel=parcels.nothing(), end=None))


def test_a_full_disk_here_leaves_both_checkpoints(tmp_path: Path) -> None:
    """The newest makes room for its successor only when that is whole."""
    both = {"checkpoint-before.safetensors": b"first", "checkpoint.safetensors": b"second"}
    for name, data in both.items():
        (tmp_path / name).write_bytes(data)
    moved = [("checkpoint.safetensors", "checkpoint-before.safetensors")]
    parcel = Parcel(moved=moved, changes=[Change("checkpoint.safetensors", None, b"x" * 100_000)], removed=[])
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, usual[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            deliver(tmp_path, parcel)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert pack(tmp_path) == both
    deliver(tmp_path, parcel)
    assert pack(tmp_path) == {"checkpoint-before.safetensors": b"second", "checkpoint.safetensors": b"x" * 100_000}


def test_every_record_is_told_once(tmp_path: Path) -> None:
    """The file as a whole at first, and when it was cut back after a damaged checkpoint; then what it grows by."""
    told: list[object] = []
    one = job.Job(Config("digits", "naive"), tmp_path, 30.0, on_progress=lambda _step, record: told.append(record))
    one_, two, three = (line_of({"i": i}) for i in (1, 2, 3))
    for change in (
        Change("records.jsonl", None, one_),
        Change("records.jsonl", len(one_), two),
        Change("records.jsonl", None, one_),
        Change("records.jsonl", len(one_), two + three + b'{"half'),  # of a disk that is full over there
    ):
        one.take(News(parcel=Parcel(moved=[], changes=[change], removed=[]), end=None))
    assert told == [{"i": 1}, {"i": 2}, {"i": 2}, {"i": 3}]


def test_half_a_record_is_an_error(tmp_path: Path) -> None:
    """The system writes what fits and calls it a success."""
    (tmp_path / "records.jsonl").write_bytes(b"{}\n")
    parcel = Parcel(moved=[], changes=[Change("records.jsonl", 3, b"x" * 100_000)], removed=[])
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8192, usual[1]))
    try:
        with pytest.raises(RunError, match=r"The disk is full.*File too large"):
            job.Job(Config("digits", "naive"), tmp_path, 30.0).take(News(parcel=parcel, end=None))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def test_a_full_disk_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the machine's name: the folder over there is gone with the worker."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(actor, "unpack", full)
    end = Actor().learn(1, "{}", {}, None)["end"]
    assert end is not None
    assert (end["how"], end["kind"]) == ("failed", "RunError")
    assert f"got {socket.gethostname()}, {tempfile.gettempdir()} (No space left on device)" in end["error"]


def test_a_bad_image_over_there_is_an_error_of_data_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Errors have classes of their own in some rooms; the other side is told the one that everybody knows."""

    def bad(*_: object) -> None:
        raise SpoiltError("This image cannot be read: a.png")

    monkeypatch.setattr(actor, "unpack", bad)
    end = Actor().learn(1, "{}", {}, None)["end"]
    assert end is not None
    one = job.Job(Config("digits", "naive"), tmp_path, 30.0)
    one.end(end)
    with pytest.raises(DataError, match=r"^This image cannot be read"):
        one.future.result()


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", "lock", "./lock", "", "a\\..\\x"])
def test_files_stay_in_their_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="expected a name in the run's folder"):
        deliver(tmp_path / "run", Parcel(moved=[], changes=[Change(name, None, b"x")], removed=[]))
    assert not list(tmp_path.rglob("x"))
    assert parcels.LOCK == "lock"


def test_a_missing_extra_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'everlearn\[ray\]'"), engine_of("ray"):
        pass


def test_senseless_calls_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    call = ["compare", "--benchmark=digits", "--strategies=naive", f"--out={tmp_path}"]
    for extra, words in ((["--address=auto"], "No such engine"), (["--gpus=1"], "Only a cluster has shares")):
        assert main([*call, *extra]) == 1
        assert words in capsys.readouterr().err
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(ConfigError, match="needs a server"):
        engine.refuse_loggers_of_files(["mlflow"])
    engine.refuse_loggers_of_files(["tensorboard"])
    with pytest.raises(ConfigError, match=r"has no GPU: expected --gpus with --device cuda, got no --gpus"):
        engine.refuse_no_gpu(Config("digits", "naive", device="cuda"))
    engine.refuse_no_gpu(Config("digits", "naive", device="cuda", gpus=0.5))
    for bad in ({"cpus": 0.0}, {"cpus": 1e-5}, {"gpus": -1.0}):
        with pytest.raises(ConfigError, match="A bad share"):
            Config("digits", "naive", **bad)  # type: ignore[arg-type]
