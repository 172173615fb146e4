"""TensorBoard and MLflow: the records' numbers exactly, every point once, and nothing learnt depends on them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from mlflow.tracking import MlflowClient
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from everlearn._kit.lines import read_lines
from everlearn._kit.state import load_state
from everlearn.cli import main
from everlearn.errors import ConfigError, LogWarning, NotFiniteError
from everlearn.learning.learner import Step
from everlearn.loggers import About, Log, check
from everlearn.loggers.pictures import Painter
from everlearn.loggers.tensorboard import TensorBoard
from everlearn.recipes.presets import preset
from everlearn.runs import Config, run
from everlearn.runs.engine import run_all, run_folder
from tests.toys import assert_same_state

QUICK = {"training.first.epochs": 1, "training.later.epochs": 1}
BOTH = ("tensorboard", "mlflow")
TIMES = ("seconds_train", "seconds_eval")
Points = dict[str, list[tuple[int, float]]]
"""Steps and values, by the name of the scalar."""


def config(**changes: Any) -> Config:
    return Config("digits", "ar1", **{"knobs": QUICK, "batches": 2, **changes})


@dataclass
class Learnt:
    """A run that was learnt, and the steps it told of."""

    folder: Path
    records: list[dict[str, Any]]
    steps: list[Step]


def learn(folder: Path, log: tuple[str, ...] = (), **changes: Any) -> Learnt:
    steps: list[Step] = []
    records = run(config(**changes), folder, on_progress=lambda s, _: steps.append(s) if s else None, log=log)
    return Learnt(folder, records, steps)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Learnt:
    """A run that is not logged."""
    return learn(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Learnt]:
    """The same, logged; its folder has a name that addresses must not trip over."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield learn(tmp_path_factory.mktemp("logged") / "a+b %20#1", BOTH)


@pytest.fixture
def store(logged: Learnt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A store for several runs, named as MLflow's users name theirs."""
    (tmp_path / "store.db").write_bytes((logged.folder / "mlflow" / "mlflow.db").read_bytes())
    uri = f"sqlite:///{tmp_path / 'store.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", tmp_path.name)
    monkeypatch.chdir(tmp_path)  # where MLflow puts the artifacts of such a store
    return uri


def accumulated(folder: Path) -> EventAccumulator:
    events = EventAccumulator(str(folder / "tensorboard"), size_guidance={"scalars": 0, "images": 0})
    events.Reload()
    return events


def in_tensorboard(folder: Path) -> Points:
    events = accumulated(folder)
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def of_mlflow(folder: Path, uri: str | None = None) -> tuple[MlflowClient, str]:
    ids = json.loads((folder / "mlflow" / "run.json").read_text())
    here = f"sqlite:///{quote(str(folder / 'mlflow' / 'mlflow.db'))}"
    return MlflowClient(uri or here), ids[uri or "here"]


def in_mlflow(folder: Path, uri: str | None = None) -> Points:
    client, run_id = of_mlflow(folder, uri)
    names = client.get_run(run_id).data.metrics
    return {name: [(p.step, p.value) for p in client.get_metric_history(run_id, name)] for name in names}


def expected(learnt: Learnt) -> Points:
    """Every scalar of a run, written out name by name."""
    found: Points = {"step/loss": [], "step/eta": []}
    for at, step in enumerate(learnt.steps, 1):
        found["step/loss"].append((at, step.loss))
        found["step/eta"].append((at, step.eta))
    for r in learnt.records:
        names = ["accuracy", "accuracy_all_rows", "accuracy_seen", "lam", "seconds_train", "seconds_eval"]
        scalars = {f"batch/{name}": r[name] for name in names}
        scalars |= {f"accuracy_mt/B_{j + 1}": r["accuracy_mt"][j] for j in range(r["i"])}
        scalars |= {"importance/zero": r["importance"]["zero"], "importance/saturated": r["importance"]["saturated"]}
        for layer in ("trunk.0", "trunk.3", "trunk.7", "outputs.0.layer"):
            scalars[f"change/{layer}"] = r["change"][layer]
        for name in ("network", "sgd.v", "regulariser.F_", "regulariser.theta_star_"):
            scalars[f"storage/{name}"] = r["storage"][name]
        scalars["storage/paper_values"] = r["storage_paper"]["values"]
        if r["i"] > 1:
            scalars |= {f"batch/{n}": r[n] for n in ("backward_transfer", "forward_transfer", "forgetting")}
        for name, value in scalars.items():
            found.setdefault(name, []).append((r["i"], value))
    return found


def in_32_bits(points: Points) -> Points:
    return {name: [(at, float(np.float32(value))) for at, value in those] for name, those in points.items()}


def without_times(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in record.items() if name not in TIMES} for record in records]


def test_the_scalars_are_those_of_the_records(logged: Learnt) -> None:
    """MLflow keeps 64 bits, TensorBoard 32; the rate is told of every step and agrees with the events' there."""
    wanted = expected(logged)
    tensorboard, mlflow = in_tensorboard(logged.folder), in_mlflow(logged.folder)
    rates = mlflow.pop("step/images_per_second")
    assert tensorboard.pop("step/images_per_second") == in_32_bits({"": rates})[""]
    assert mlflow == wanted
    assert tensorboard == in_32_bits(wanted)
    assert len(logged.steps) > 20
    before = {i: sum(s.step == s.steps and s.i < i and s.steps for s in logged.steps) for i in (1, 2)}
    for event in read_lines(logged.folder / "events.jsonl"):
        assert dict(rates)[before[event["i"]] + event["step"]] == event["images_per_second"]


def test_the_pictures_are_there(logged: Learnt) -> None:
    events = accumulated(logged.folder)
    client, run_id = of_mlflow(logged.folder)
    wanted = {"confusion": [1, 2], "importance": [1, 2], "confusion_strip": [2], "weight_change": [2]}
    assert sorted(events.Tags()["images"]) == sorted(wanted)
    assert {path.path for path in client.list_artifacts(run_id, "pictures")} == {f"pictures/{name}" for name in wanted}
    for name, batches in wanted.items():
        images = events.Images(name)
        assert [image.step for image in images] == batches
        kept = client.list_artifacts(run_id, f"pictures/{name}")
        assert [file.path for file in kept] == [f"pictures/{name}/B_{i:03d}.png" for i in batches]
        for image, i in zip(images, batches, strict=True):
            data = client.download_artifacts(run_id, f"pictures/{name}/B_{i:03d}.png")
            assert Path(data).read_bytes() == image.encoded_image_string  # the same picture in both
            with Image.open(BytesIO(image.encoded_image_string)) as opened:
                opened.load()
                assert opened.size == (image.width, image.height)
                assert len(opened.convert("L").getcolors() or []) > 20


def test_the_config_is_told(logged: Learnt) -> None:
    client, run_id = of_mlflow(logged.folder)
    told = client.get_run(run_id)
    assert told.data.params["strategy"] == "ar1"
    assert told.data.params["knobs.training.first.epochs"] == "1"
    assert told.data.params["si.lam"] == str(preset("ar1", "small/digits").hyperparameters["si.lam"])  # not turned
    assert told.data.tags["batches"] == "2"  # may be raised: no param, since those never change
    assert (told.info.run_name, told.info.status) == ("ar1 run 1", "FINISHED")
    assert client.get_experiment(told.info.experiment_id).name == "digits"
    assert Path(logged.folder / "mlflow" / "artifacts").is_dir()
    text = accumulated(logged.folder).Tensors("config")[0].tensor_proto.string_val[0].decode()
    assert json.loads(text)["knobs.training.later.epochs"] == 1


def test_nothing_learnt_depends_on_it(plain: Learnt, logged: Learnt) -> None:
    assert without_times(plain.records) == without_times(logged.records)
    assert plain.steps == logged.steps
    states = [load_state(learnt.folder / "checkpoint.safetensors") for learnt in (plain, logged)]
    assert_same_state(states[0]["learner"], states[1]["learner"])
    for path in sorted((plain.folder / "predictions").iterdir()):
        assert path.read_bytes() == (logged.folder / "predictions" / path.name).read_bytes()


KILLED = """
import json, os, signal, sys
from pathlib import Path
from everlearn.runs import Config, run
assert not {"tensorboard", "mlflow", "matplotlib"} & set(sys.modules), "imported before anybody asks"
from everlearn.loggers import log, mlflow, tensorboard
folder, config, when, checkpoint_every, flush_every = Path(sys.argv[1]), *map(json.loads, sys.argv[2:])
tensorboard.FLUSH_EVERY = mlflow.FLUSH_EVERY = flush_every
die = lambda: os.kill(os.getpid(), signal.SIGKILL)
if when == "record":
    log.Log.record = lambda *_: die()
def watch(step, record):
    if step and [step.i, step.step] == when:
        die()
run(Config(**config), folder, checkpoint_every=checkpoint_every, on_progress=watch, log=["tensorboard", "mlflow"])
"""


def test_killed_and_resumed_every_point_is_there_once(plain: Learnt, store: str, tmp_path: Path) -> None:
    """Killed in B_2 with steps in the log that no checkpoint knows, and with B_1's record written but not logged."""
    cases = {"later": ([2, 5], 1e9, 0.0), "earlier": ("record", 0.0, 1e9)}
    plans = {name: [tmp_path / name, *map(json.dumps, (config().to_json(), *case))] for name, case in cases.items()}
    processes = [subprocess.Popen([sys.executable, "-c", KILLED, *map(str, plan)]) for plan in plans.values()]
    assert [process.wait(timeout=300) for process in processes] == [-signal.SIGKILL] * 2
    first = plain.steps[0].steps
    assert in_tensorboard(tmp_path / "later")["step/loss"][-1][0] == first + 5  # five that are made again
    assert "batch/accuracy" not in in_tensorboard(tmp_path / "earlier")
    for name in cases:
        with open(tmp_path / name / "tensorboard" / "events.out.tfevents.0000000001.everlearn", "ab") as file:
            file.write(b"\x40\0\0\0\0\0\0\0half")  # an event cut short
        resumed = learn(tmp_path / name, BOTH)
        assert len(resumed.steps) == len(plain.steps) - first  # both go on behind B_1
        assert without_times(resumed.records) == without_times(plain.records)
        wanted = expected(Learnt(tmp_path / name, resumed.records, plain.steps))
        tensorboard, mlflow = in_tensorboard(tmp_path / name), in_mlflow(tmp_path / name, store)
        for found in (tensorboard, mlflow):
            assert [at for at, _ in found.pop("step/images_per_second")] == list(range(1, len(plain.steps) + 1))
        assert tensorboard == in_32_bits(wanted)
        assert mlflow == wanted
        assert [image.step for image in accumulated(tmp_path / name).Images("confusion")] == [1, 2]
    assert len({of_mlflow(tmp_path / name, store)[1] for name in cases}) == 2


def test_mlflow_knows_whether_a_run_goes_on(store: str, tmp_path: Path) -> None:
    """Stopped, then finished, then gone on with by more batches: one MLflow run all along."""

    def stop(step: Step | None, _record: object) -> None:
        if step and step.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(config(batches=1), tmp_path / "run", on_progress=stop, log=["mlflow"])
    client, run_id = of_mlflow(tmp_path / "run", store)
    assert client.get_run(run_id).info.status == "KILLED"
    for batches in (1, 2):
        learn(tmp_path / "run", ("mlflow",), batches=batches)
        told = client.get_run(run_id)
        assert (told.info.status, told.data.tags["batches"]) == ("FINISHED", str(batches))
        assert [at for at, _ in in_mlflow(tmp_path / "run", store)["batch/accuracy"]] == list(range(1, batches + 1))
    assert client.get_experiment(told.info.experiment_id).name == tmp_path.name
    assert list(json.loads((tmp_path / "run" / "mlflow" / "run.json").read_text())) == [store]


def test_a_logger_that_is_asked_for_later_is_filled_in(plain: Learnt, tmp_path: Path) -> None:
    """Records in full; of the steps, those that were kept as events. The same command again adds nothing."""
    first = learn(tmp_path, batches=1)
    kept = [event["loss"] for event in read_lines(tmp_path / "events.jsonl")]
    then = learn(tmp_path, ("tensorboard",))
    files = sorted((tmp_path / "tensorboard").iterdir())
    for _ in range(2):
        found = in_tensorboard(tmp_path)
        assert [at for at, _ in found["batch/accuracy"]] == [1, 2]
        losses = [*kept, *(step.loss for step in then.steps)]
        assert [loss for _, loss in found["step/loss"]] == [float(np.float32(loss)) for loss in losses]
        assert found["step/loss"][-1][0] == len(first.steps) + len(then.steps) == len(plain.steps)
        learn(tmp_path, ("tensorboard",))
        assert sorted((tmp_path / "tensorboard").iterdir()) == files


def test_an_absent_package_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    monkeypatch.setitem(sys.modules, "alembic", None)
    with pytest.raises(
        ConfigError, match=r"--log mlflow needs an extra.*no alembic.*pip install 'everlearn\[mlflow\]'"
    ):
        run(config(), tmp_path, log=["mlflow"])
    for command in (
        ["run", "--strategy", "naive"],
        ["compare", "--strategies", "naive"],
        ["tune", "--strategies", "naive", "--runs", "1"],
    ):
        call = [*command, "--benchmark", "digits", "--out", str(tmp_path / "out"), "--log", "tensorboard"]
        assert main(call) == 1
        assert "pip install 'everlearn[tensorboard]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    with pytest.raises(ConfigError, match="Unknown logger"):
        check(["wandb"])


def test_a_search_logs_the_runs_that_follow_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    call = ["tune", "--benchmark", "digits", "--strategies", "naive", "--out", str(tmp_path / "out")]
    assert main([*call, "--log", "tensorboard"]) == 1
    assert "trials are scored and removed" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_logger_that_cannot_begin_does_not_stop_the_run(
    plain: Learnt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in the way of one, a server that is away for the other. Mended, the same command fills in."""
    (tmp_path / "tensorboard").touch()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.warns(LogWarning, match="Learning goes on") as warned:
        learnt = learn(tmp_path, BOTH, batches=1)
    assert sorted(str(one.message).split()[1] for one in warned) == ["mlflow", "tensorboard"]  # once each
    assert without_times(learnt.records) == without_times(plain.records)[:1]
    assert "secret" not in "".join(path.read_text() for path in (tmp_path / "mlflow").iterdir())
    (tmp_path / "tensorboard").unlink()
    learn(tmp_path, ("tensorboard",), batches=1)
    assert in_tensorboard(tmp_path)["batch/accuracy"] == in_32_bits(expected(learnt))["batch/accuracy"]


def test_a_full_disk_does_not_stop_the_run(plain: Learnt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event file is /dev/full: the first flush fails; the weights are those of the run without a log."""
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")

    def full(self: TensorBoard) -> None:
        self._file = open("/dev/full", "wb")  # noqa: SIM115
        self._records = self._file

    monkeypatch.setattr(TensorBoard, "_open", full)
    with pytest.warns(LogWarning, match="No space left on device") as warned:
        learnt = learn(tmp_path, ("tensorboard",))
    assert len(warned) == 1
    assert without_times(learnt.records) == without_times(plain.records)
    states = [load_state(folder / "checkpoint.safetensors")["learner"] for folder in (plain.folder, tmp_path)]
    assert_same_state(*states)


def test_pictures_that_cannot_be_drawn_are_left_out(
    plain: Learnt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no ink")

    monkeypatch.setattr(Painter, "pictures", fail)
    with pytest.warns(LogWarning, match="no ink") as warned:
        learnt = learn(tmp_path, ("tensorboard",))
    assert len(warned) == 1
    assert [at for at, _ in in_tensorboard(tmp_path)["batch/accuracy"]] == [1, 2]
    assert without_times(learnt.records) == without_times(plain.records)


def test_compare_logs_in_its_processes_and_tells_what_failed(
    plain: Learnt, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configs = [config(batches=1, run=run) for run in (1, 2)]
    bad = run_folder(tmp_path, configs[1])
    bad.mkdir(parents=True)
    (bad / "tensorboard").touch()
    work = [(config, run_folder(tmp_path, config)) for config in configs]
    run_all(work, jobs=1, checkpoint_every=30.0, log=["tensorboard"])
    good = run_folder(tmp_path, configs[0])
    losses = [float(np.float32(step.loss)) for step in plain.steps if step.i == 1]
    assert [loss for _, loss in in_tensorboard(good)["step/loss"]] == losses
    assert len(read_lines(bad / "records.jsonl")) == 1
    err = capsys.readouterr().err
    assert err.count("LogWarning") == 0
    assert f"{bad}: --log tensorboard fails and is left out" in err


def test_no_logger_costs_nothing(tmp_path: Path) -> None:
    log = Log((), About(tmp_path, "digits", "ar1 run 1", {}, {}))
    log.step({"i": 1})  # not even looked at
    log.record({})
    log.flush()
    log.close("finished")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_begun_anew_has_logs_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first diverges before its first checkpoint; the second has another η in the same folder."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    with pytest.raises(NotFiniteError):
        learn(tmp_path, BOTH, knobs={**QUICK, "training.first.eta": 1e9})
    second = learn(tmp_path, BOTH)
    for told, wanted in (
        (in_mlflow(tmp_path), expected(second)),
        (in_tensorboard(tmp_path), in_32_bits(expected(second))),
    ):
        assert {name: told[name] for name in ("step/loss", "step/eta", "batch/accuracy")} == {
            name: wanted[name] for name in ("step/loss", "step/eta", "batch/accuracy")
        }
    client, run_id = of_mlflow(tmp_path)
    ran = client.get_run(run_id)
    assert ran.info.status == "FINISHED"
    assert float(ran.data.params["training.first.eta"]) == preset("ar1", "small/digits").training.first.eta
