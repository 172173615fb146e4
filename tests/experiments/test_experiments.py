"""The paper's experiments as commands, and pre-training."""

import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from everlearn import data, models
from everlearn._kit import catalogue
from everlearn.benchmarks import benchmark_of, prepare
from everlearn.cli import main
from everlearn.data.scaling import scaled
from everlearn.data.source import Patterns, Source
from everlearn.errors import ConfigError
from everlearn.experiments import EXPERIMENTS
from everlearn.experiments.reproduce import Order, configs, described
from everlearn.experiments.trajectories import Way, trajectories
from everlearn.learning.equations import divergence_limit
from everlearn.learning.learner import Step
from everlearn.learning.loop import Strategy
from everlearn.recipes.presets import preset
from everlearn.regularisers import LWF
from everlearn.regularisers.quadratic import Quadratic
from everlearn.runs import Config, RunFolder
from everlearn.weights import read_about, save_weights

QUICK = ["--set=training.first.epochs=1", "--set=training.later.epochs=1"]


def test_the_catalogue_lists_every_experiment() -> None:
    assert list(catalogue.EXPERIMENTS) == list(EXPERIMENTS)


@pytest.mark.parametrize("budget", ["cpu", "paper"])
@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_every_variant_is_a_strategy_that_can_be_built(name: str, budget: Any) -> None:
    """Knobs, settings, benchmarks and figures are such that exist; folders are each their own."""
    experiment = EXPERIMENTS[name]
    found = configs(experiment, Order(budget=budget, runs=2))
    assert len({folder for folder, _ in found}) == len(found)
    for _, config in found:
        chosen = benchmark_of(config.benchmark)
        slots = preset(config.strategy, config.setting or chosen.setting, config.knobs)
        slots.refuse_senseless()
    assert set(experiment.figures) <= set(catalogue.FIGURES)


def epochs(name: str, budget: Any) -> dict[str, tuple[int, int]]:
    """Epochs on B_1 and later, by strategy."""
    found = {}
    for _, config in configs(EXPERIMENTS[name], Order(budget=budget)):
        setting = config.setting or benchmark_of(config.benchmark).setting
        training = preset(config.strategy, setting, config.knobs).training
        found[config.strategy] = (training.first.epochs, training.later.epochs)
    return found


def test_the_paper_s_budget_has_the_paper_s_epochs() -> None:
    assert epochs("icifar100", "paper") == {
        "naive": (60, 60),
        "lwf": (20, 20),
        "ewc": (60, 25),
        "si": (60, 60),
        "cwr": (60, 60),
        "cwr+": (60, 60),
        "ar1": (60, 60),
        "cumulative": (180, 180),
    }
    split = {"naive": (60, 60), "lwf": (20, 20), "ewc": (60, 25), "si": (60, 60), "cwr": (60, 60)}
    assert epochs("mt-vs-sit", "paper") == split
    of_core50 = {
        config.network: config.hyperparameters
        for _, config in configs(EXPERIMENTS["core50-nc"], Order(budget="paper"))
        if config.strategy == "ewc"
    }
    told = ("training.minibatch", "training.first.epochs", "training.later.eta", "ewc.lam")
    assert [of_core50["caffenet-128"][name] for name in told] == [256, 2, 0.000025, 5.0e7]  # Table 4
    assert [of_core50["googlenet-128"][name] for name in told] == [64, 4, 0.000035, 3.4e7]
    on_everything = [config for _, config in configs(EXPERIMENTS["table2"], Order(budget="paper"))]
    assert [config.hyperparameters["training.minibatch"] for config in on_everything] == [256, 256, 64, 12]  # Table 2
    assert {config.hyperparameters["training.first.epochs"] for config in on_everything} == {4}


def test_a_network_has_its_own_setting_whoever_asks() -> None:
    """Not only in `reproduce`."""
    assert Config("core50-nc", "ewc", network="googlenet-128").hyperparameters["ewc.lam"] == 3.4e7
    assert Config("core50-nc+test20", "ewc").hyperparameters["ewc.lam"] == 5.0e7
    given = Config("core50-nc", "ewc", network="googlenet-128", setting="caffenet/core50")
    assert given.hyperparameters["ewc.lam"] == 5.0e7


def test_the_cpu_s_budget_has_four_epochs_and_settings_of_its_own() -> None:
    assert set(epochs("icifar100", "cpu").values()) == {(4, 4)}
    assert set(epochs("mt-vs-sit", "cpu").values()) == {(4, 4)}
    found = {config.setting for _, config in configs(EXPERIMENTS["icifar100"], Order(budget="cpu"))}
    assert found == {"cifarnet/icifar-100/cpu"}
    assert {config.setting for _, config in configs(EXPERIMENTS["icifar100"], Order(budget="paper"))} == {None}
    assert {config.setting for _, config in configs(EXPERIMENTS["ablation"], Order(benchmark="digits"))} == {None}
    for name in ("table2", "core50-nc", "25x2", "no-fc"):
        assert set(epochs(name, "cpu").values()) == {(1, 1)}
    split = "cifarnet/cifar-split-6/cpu"
    assert {preset(name, split).training.first.eta for name in ("naive", "ewc", "lwf", "si", "cwr")} == {0.01}
    settings = {folder.split()[1]: config.setting for folder, config in configs(EXPERIMENTS["mt-vs-sit"], Order())}
    assert settings == {"MT/run-1": f"{split}/mt", "SIT/run-1": split}
    assert {config.setting for _, config in configs(EXPERIMENTS["mt-vs-sit"], Order(benchmark="digits"))} == {None}
    stream = [50_000, *[5_000] * 5]
    shares = [1 - n / sum(stream[: i + 1]) for i, n in enumerate(stream)][1:]
    for setting in ("cifarnet/cifar-split-6", split, f"{split}/mt"):
        lwf = preset("lwf", setting).regulariser
        assert isinstance(lwf, LWF)
        assert lwf.map[0] == pytest.approx((min(shares), max(shares)), abs=5e-4)  # a search has three digits


@pytest.mark.parametrize("budget", ["cpu", "paper"])
def test_the_ablation_is_one_step_at_a_time(budget: Any) -> None:
    """From CWR to CWR+ nothing changes but the head."""
    found = dict(configs(EXPERIMENTS["ablation"], Order(budget=budget)))
    slots = {
        folder: preset(config.strategy, config.setting or "cifarnet/icifar-100", config.knobs)
        for folder, config in found.items()
        if config.strategy != "naive"
    }
    assert len({repr(one.training) for one in slots.values()}) == 1
    assert len({repr(one.head) for one in slots.values()}) == len(slots) == 6


@pytest.mark.parametrize("budget", ["cpu", "paper"])
@pytest.mark.parametrize("name", list(EXPERIMENTS))
def test_no_variant_s_pull_diverges(name: str, budget: Any) -> None:
    """At the largest η and with F̂ at max_F."""
    for folder, config in configs(EXPERIMENTS[name], Order(budget=budget)):
        slots = preset(config.strategy, config.setting or benchmark_of(config.benchmark).setting, config.knobs)
        regulariser, training = slots.regulariser, slots.training
        if isinstance(regulariser, Quadratic) and regulariser.max_F:
            pull = max(training.later.etas) * regulariser.lam * regulariser.max_F
            assert pull < divergence_limit(training.momentum), folder


def test_classes_that_never_come_are_not_tested() -> None:
    """CIFAR-10/100 Split's first six batches are of 60 of the 110 classes."""
    y = np.repeat(np.arange(110), 2)
    patterns = Patterns(np.broadcast_to(y[:, None, None, None], (220, 3, 32, 32)).astype(np.uint8), y)
    source = Source("toy", patterns, patterns, tuple(f"c{c}" for c in range(110)))
    chosen = benchmark_of("cifar-split-6")
    for run in (1, 2):
        stream = chosen.stream("cifar-split-6", source, run)
        assert [len(classes) for classes in stream.batches] == [10] * 6
        assert stream.batches[0] == list(range(10))
        assert sorted(set(stream.test.y.tolist())) == list(range(60)) == sorted(stream.order)
        names = {f"c{int(x[0, 0, 0])}" for x in stream.test.x}
        assert names == set(stream.source.classes)
        for batch in stream:
            assert [f"c{int(x[0, 0, 0])}" for x in batch.x] == [stream.source.classes[c] for c in batch.y]
    assert benchmark_of("cifar-split-11").stream("cifar-split-11", source, 1).source.classes == source.classes


def knobs_of(name: str) -> dict[str, dict[str, Any]]:
    """What an experiment turns at the paper's budget, by variant."""
    found = configs(EXPERIMENTS[name], Order(budget="paper"))
    return {folder.removesuffix("/run-1"): {"strategy": c.strategy, **c.knobs} for folder, c in found}


def test_what_the_variants_are() -> None:
    per_task, names = {"head": "per_task"}, {"Naive": "naive", "EWC": "ewc", "LWF": "lwf", "SI": "si"}
    assert knobs_of("mt-vs-sit") == {
        **{f"{label} MT": {"strategy": name, **per_task} for label, name in names.items()},
        **{f"{label} SIT": {"strategy": name} for label, name in {**names, "CWR": "cwr"}.items()},
    }
    assert knobs_of("cm-lwf") == {
        "LWF, the map": {"strategy": "lwf"},
        "LWF, λ = 0.5": {"strategy": "lwf", "lwf.lam": 0.5},
        "LWF, λ = 0.8": {"strategy": "lwf", "lwf.lam": 0.8},
    }
    assert EXPERIMENTS["cm-ewc"].options["confusion_strip"]["batches"] == [-2, -1]
    assert list(knobs_of("weight-change")) == ["Naive", "LWF", "EWC", "SI", "CWR+", "AR1"]
    on = [(config.strategy, config.network) for _, config in configs(EXPERIMENTS["no-fc"], Order())]
    assert on == [(name, f"caffenet-128{end}") for name in ("ewc", "lwf") for end in ("", "-conv")]
    native = knobs_of("native")
    assert [label.partition(", ")[2] for label in native] == ["the paper's", "native"] * 3
    assert all(native[f"{label}, the paper's"] == {"strategy": label.lower()} for label in ("LWF", "EWC", "SI"))
    forms = [native["LWF, native"]["lwf.form"], native["EWC, native"]["ewc.terms"], native["SI, native"]["si.path"]]
    assert forms == ["distillation", "per_batch", "gradient"]
    assert native["EWC, native"]["ewc.lam"] * 2e-5 == pytest.approx(0.09)  # λ follows η, which the paper has so small
    on_a_cpu = dict(configs(EXPERIMENTS["native"], Order(budget="cpu")))["EWC, native/run-1"]
    assert on_a_cpu.knobs["ewc.lam"] * 0.03 == pytest.approx(0.09)
    asked = dict(configs(EXPERIMENTS["native"], Order(knobs={"training.later.eta": 0.3})))["SI, native/run-1"]
    assert asked.knobs["si.lam"] == pytest.approx(0.001 / 0.3)
    growths = [config.knobs["head.growth"] for _, config in configs(EXPERIMENTS["head-growth"], Order())]
    assert growths == ["maximal", "expanding", "expanding"] * 2
    strategies = [config.strategy for _, config in configs(EXPERIMENTS["ar1-regularisers"], Order())]
    assert strategies == ["cwr+", "ar1", "ar1-ewc", "ar1-lwf"]
    networks = {config.network for _, config in configs(EXPERIMENTS["mt-vs-sit"], Order())}
    assert networks == {None}
    assert benchmark_of("cifar-split-6").network == "cifarnet"  # random weights: CIFAR-10 is B_1 there


def test_the_budget_is_told(tmp_path: Path) -> None:
    text = described("ablation", Order(budget="paper", benchmark="icifar-100"))
    assert "budget paper" in text
    network = "cifarnet-cifar10 from its pre-trained weights"
    assert f"CWR+, unit deviation: cwr+ on icifar-100, {network}, 60 epochs on B_1, 60 on later batches" in text
    file = tmp_path / "n.safetensors"
    file.touch()
    text = described("table2", Order(weights=(f"nin-128={file}",)))
    assert "CaffeNet: cumulative on core50-whole, caffenet-128 from random weights, 1 epoch on B_1" in text
    assert f"NiN: cumulative on core50-whole, nin-128 from {file}, 1 epoch on B_1" in text
    assert "(Figure 10 of the paper, there CaffeNet on CORe50)" in described("cm-naive", Order())
    assert "(Figure 10 of the paper)" in described("cm-naive", Order(benchmark="core50-nc"))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ("googlenet={file}", "got googlenet, of ['caffenet-128', 'googlenet-128', 'nin-128', 'resnet-50']"),
        ("nin-128={file}.not", "n.safetensors.not"),
        ("{file}.not", "n.safetensors.not"),
        ("nin-128", "got nin-128."),
        ("{file} {file}", "got two for all networks"),
        ("nin-128={file} nin-128={file}", "got two for nin-128"),
    ],
)
def test_weights_that_nothing_starts_from_are_refused(weights: str, words: str, tmp_path: Path) -> None:
    """A slip of the pen would cost days with random weights."""
    file = tmp_path / "n.safetensors"
    file.touch()
    with pytest.raises(ConfigError, match="Nothing can start from these weights") as caught:
        configs(EXPERIMENTS["table2"], Order(weights=tuple(weights.format(file=file).split())))
    assert words in str(caught.value)


def test_cifar_split_never_starts_from_cifar_10(tmp_path: Path) -> None:
    """It is B_1: neither from the network that comes with the package, nor from such weights in a file."""
    with pytest.raises(ConfigError, match="know B_1 already"):
        prepare("cifar-split-6", strategy="naive", network="cifarnet-cifar10")
    file = tmp_path / "mine.safetensors"
    for benchmark in ("cifar-10", "whole:cifar10", "split-10:cifar10"):
        save_weights(file, models.cifarnet(10), about={"benchmark": benchmark})
        with pytest.raises(ConfigError, match=rf"know B_1 already: .*got {re.escape(str(file))}\."):
            prepare("cifar-split-11", strategy="naive", weights=str(file))
    for about in (
        {"network": "cifarnet-cifar10"},
        {"benchmark": "whole:digits", "learnt": ["cifar-10", "whole:digits"]},
    ):
        save_weights(file, models.cifarnet(10), about=about)  # what came after it does not unlearn it
        with pytest.raises(ConfigError, match="know B_1 already"):
            prepare("cifar-split-6", strategy="naive", weights=str(file))


def test_pretraining_says_what_was_learnt_before_it_and_what_it_was_scored_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = tmp_path / "first.safetensors", tmp_path / "second.safetensors"
    save_weights(first, models.small(classes=10, input_shape=(1, 8, 8)), about={"benchmark": "cifar-10"})
    call = ["pretrain", "--benchmark=whole:digits", "--network=small", f"--weights={first}", *QUICK, f"--out={second}"]
    assert main([*call, "--held-out=0.2"]) == 0
    assert "% on held-out training patterns." in capsys.readouterr().out
    about = read_about(second)
    assert about["learnt"] == ["cifar-10", "whole:digits"]
    assert about["held_out"] == 0.2


def test_a_knob_is_turned_where_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    found = dict(configs(EXPERIMENTS["weight-change"], Order(knobs={"si.lam": 3.0})))
    given = {config.strategy: config.knobs.get("si.lam") for config in found.values()}
    assert given == {**dict.fromkeys(("naive", "lwf", "ewc", "cwr+")), "si": 3.0, "ar1": 3.0}
    assert main(["reproduce", "cm-naive", "--benchmark=digits", "--set", "si.lam=3"]) == 1
    assert "No variant has this knob: expected" in capsys.readouterr().err


def test_the_paper_s_budget_says_where_the_paper_has_none() -> None:
    none = "(the paper has no table for this)"
    for name, benchmark, said in (("ablation", "digits", True), ("ablation", None, False), ("mt-vs-sit", None, True)):
        assert (none in described(name, Order(budget="paper", benchmark=benchmark))) == said
    assert none not in described("ablation", Order(benchmark="digits"))


def test_a_stream_that_a_strategy_refuses_is_told_before_anything_is_learnt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Naive comes first, and would learn for hours before CWR's turn."""
    assert main(["compare", "--benchmark=mini50-ni", "--strategies=naive,cwr", f"--out={tmp_path / 'out'}"]) == 1
    assert "everlearn: cwr: CWR and CWR+ would overwrite" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_absent_data_are_told_once_before_anything_is_learnt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path / "data"))
    assert main(["reproduce", "core50-nc", "--runs=3", f"--out={tmp_path / 'out'}"]) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("everlearn: CORe50")
    assert error.count("everlearn data get core50") == 1
    assert not (tmp_path / "out").exists()


def test_an_experiment_is_learnt_drawn_and_not_learnt_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["reproduce", "ablation", "--benchmark=digits", *QUICK, f"--out={tmp_path}", "--jobs=2"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "| CWR, mean shift |" in printed.out
    for name in ("digits-accuracy_curves.png", "digits-accuracy_curves.svg", "digits-bars.svg", "digits-table.md"):
        assert (tmp_path / "figures" / name).stat().st_size > 200
    assert (tmp_path / "report.html").exists()
    records = RunFolder(tmp_path / "CWR+ (both)" / "run-1").records()
    assert len(records) == 4
    assert f"{100 * records[-1]['accuracy']:.1f}" in printed.out
    before = {path: path.read_text() for path in tmp_path.glob("*/run-1/records.jsonl")}
    assert len(before) == 8
    assert main(command) == 0
    assert before == {path: path.read_text() for path in tmp_path.glob("*/run-1/records.jsonl")}  # times and all


def test_an_unknown_experiment_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "table3"]) == 1
    assert "Unknown experiment: expected one of ['table2'" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["reproduce", "ablation"], ["compare", "--strategies=naive", "--out=x"]])
def test_no_runs_at_all_are_refused_at_once(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for number in ("0", "-1", "two"):
        with pytest.raises(SystemExit):
            main([*command, "--benchmark=digits", f"--runs={number}"])
        assert f"argument --runs: expected a whole number from 1, got '{number}'" in capsys.readouterr().err


def test_joined_batches_are_the_same_classes() -> None:
    y = np.repeat(np.arange(100), 2)
    x = np.zeros((200, 3, 32, 32), dtype=np.uint8)
    source = data.Source("toy", data.Patterns(x, y), data.Patterns(x, y), tuple(map(str, range(100))))
    plain, joined = (benchmark_of(n).stream(n, source, 3) for n in ("icifar-100", "icifar-100+joined"))
    assert [len(batch) for batch in joined.batches] == [10, 30, 30, 30]
    assert set(joined.batches[1]) == {c for batch in plain.batches[1:4] for c in batch}


# --- data of one's own ------------------------------------------------------------------------------


def test_own_data_come_so_many_classes_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Real digits in a file, four classes at a time: the last batch has what is left, and each run its own order."""
    train, test = data.digits().train, data.digits().test
    np.savez(tmp_path / "mine.npz", x_train=train.x, y_train=train.y, x_test=test.x, y_test=test.y)
    benchmark = f"split-4:{tmp_path / 'mine.npz'}"
    streams = [prepare(benchmark, strategy="ar1", run=run)[0] for run in (1, 2)]
    assert [[len(batch) for batch in stream.batches] for stream in streams] == [[4, 4, 2]] * 2
    assert streams[0].batches != streams[1].batches
    command = ["compare", f"--benchmark={benchmark}", "--strategies=cwr+", *QUICK, f"--out={tmp_path / 'out'}"]
    assert main(command) == 0
    assert "cwr+ *" in capsys.readouterr().out
    assert "mine.npz, 4 classes at a time" in json.loads((tmp_path / "out/cwr+/run-1/config.json").read_text())["about"]
    with pytest.raises(ConfigError, match=r"For data of your own: split-2:"):
        prepare(str(tmp_path / "mine.npz"), strategy="ar1")


# --- pre-training -----------------------------------------------------------------------------------


def test_pretraining_saves_a_network_that_runs_start_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "digits.safetensors"
    command = ["pretrain", "--benchmark=whole:digits", "--network=small", *QUICK, f"--out={out}"]
    assert main(command) == 0
    about = read_about(out)
    assert about["accuracy"] > 0.5
    assert f"{100 * about['accuracy']:.1f} %" in capsys.readouterr().out
    records = (tmp_path / "digits.run" / "records.jsonl").read_text()
    assert main(command) == 0  # the run beside it is done already: its times are the same
    assert (tmp_path / "digits.run" / "records.jsonl").read_text() == records
    _, _, fresh = prepare("digits", strategy="ar1")
    _, _, warm = prepare("digits", strategy="ar1", weights=str(out))
    stored = RunFolder(tmp_path / "digits.run").checkpoints.read()
    assert stored is not None
    trained = stored["learner"]["network"]
    for name, value in warm.weights().items():
        if name.startswith("trunk."):
            assert torch.equal(value, trained[name])
            assert not torch.equal(value, fresh.weights()[name])
    assert (
        main(["run", "--benchmark=digits", "--strategy=cwr+", f"--weights={out}", *QUICK, f"--out={tmp_path}/r"]) == 0
    )
    assert json.loads((tmp_path / "r" / "config.json").read_text())["weights"] == str(out)
    before = out.read_bytes()
    for name in ("checkpoint.safetensors", "checkpoint-before.safetensors"):
        (tmp_path / "digits.run" / name).unlink(missing_ok=True)
    assert main(command) == 1  # there is nothing to take weights from: untrained ones are none
    assert "The checkpoints of this run are gone" in capsys.readouterr().err
    assert out.read_bytes() == before


def test_pretraining_writes_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for out in (tmp_path, tmp_path / "mine.run"):
        assert main(["pretrain", "--benchmark=whole:digits", *QUICK, f"--out={out}"]) == 1
        assert f"This is no file: expected a file for the weights, got {out}" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_no_weights_of_ours_are_called_as_others_are(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They would be refused by whoever is to start from them."""
    assert main(["pretrain", "--benchmark=whole:digits", "--network=small", f"--out={tmp_path / 'mine.PTH'}"]) == 1
    assert f"E.g. {tmp_path / 'mine.safetensors'}." in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_pretraining_takes_one_batch(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pretrain", "--benchmark=digits", *QUICK, f"--out={tmp_path / 'x.safetensors'}"]) == 1
    assert "expected a benchmark of one batch, got digits, with 4 batches" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())  # refused before anything was learnt


@pytest.mark.filterwarnings("ignore::everlearn.errors.OvershootWarning")  # SI on digits is tuned to 1.5
def test_importance_follows_the_weights_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["reproduce", "importance", "--benchmark=digits", *QUICK, f"--out={tmp_path}"]
    assert main(command) == 0
    found = json.loads((tmp_path / "figures" / "trajectories.json").read_text())
    assert list(found) == ["EWC", "SI"]
    for one in found.values():
        assert [batch["i"] for batch in one] == [1, 2, 3]
        assert all(0 < batch["unmoved"] < 1 and 0 <= batch["closed"] <= 1 for batch in one)  # in spite of weight decay
    assert "| SI | 3 |" in (tmp_path / "figures" / "trajectories.md").read_text()
    assert not list((tmp_path / "figures").glob("*table.md"))  # three of four batches are no finished stream
    for label, one in found.items():
        recorded = [record["importance"] for record in RunFolder(tmp_path / label / "run-1").records()]
        assert [batch["saturated"] for batch in one] == [importance["saturated"] for importance in recorded]
        assert [batch["F"]["largest"] for batch in one] == [importance["F"]["max"] for importance in recorded]
    monkeypatch.setattr("everlearn.experiments.trajectories.prepare", None)  # nothing is learnt again
    assert main(command) == 0
    assert main([*command, "--threads=2"]) == 0  # nor elsewhere


def test_importance_on_a_stream_that_has_no_third_batch(tmp_path: Path) -> None:
    assert main(["reproduce", "importance", "--benchmark=split-5:digits", *QUICK, f"--out={tmp_path}"]) == 0
    found = json.loads((tmp_path / "figures" / "trajectories.json").read_text())
    assert [batch["i"] for batch in found["EWC"]] == [1, 2]


def test_trajectories_go_on_where_they_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = Config("digits", "ewc", batches=3, knobs={"training.first.epochs": 1, "training.later.epochs": 1})
    whole = trajectories(config, tmp_path / "whole.json")
    learn, learnt = Strategy.learn, list[int]()

    def stopped(self: Strategy, *args: Any, **kwargs: Any) -> None:
        if self.i_ == 2 and len(learnt) == 2:
            raise KeyboardInterrupt
        learn(self, *args, **kwargs)
        learnt.append(self.i_)

    monkeypatch.setattr(Strategy, "learn", stopped)
    with pytest.raises(KeyboardInterrupt):
        trajectories(config, tmp_path / "cut.json")
    learnt.append(0)
    assert trajectories(config, tmp_path / "cut.json") == whole
    assert learnt == [1, 2, 0, 3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cut.json", "whole.json"]


def test_the_way_of_a_weight() -> None:
    """Steps of +2 and −1, of nothing, and of an output weight."""
    weights = {"trunk.weight": torch.zeros(2), "outputs.0.weight": torch.zeros(1)}
    way = Way(SimpleNamespace(weights=lambda: weights))  # type: ignore[arg-type]
    for k, move in enumerate(([2.0, 0.0, 1.0], [-1.0, 0.0, 1.0])):
        weights["trunk.weight"] += torch.tensor(move[:2])
        weights["outputs.0.weight"] += move[2]
        way(Step(1, 1, 1, k + 1, 2, 0.0, 0.1))
    assert [value.tolist() for value in way.length.values()] == [[3.0, 0.0], [2.0]]
    assert [(way.end[name] - way.start[name]).tolist() for name in weights] == [[1.0, 0.0], [2.0]]
    assert way.shares() == {"unmoved": pytest.approx(1 / 3), "closed": 0.0, "unmoved_output": 0.0}
    weights["outputs.0.weight"] = torch.tensor([2.0, 5.0])  # a row has grown
    way(Step(2, 1, 1, 1, 1, 0.0, 0.1))
    assert way.length["outputs.0.weight"].tolist() == [2.0, 0.0]


def test_strips_are_on_the_page_and_folders_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "cm-ewc", "--benchmark=digits", *QUICK]) == 0
    assert [path.name for path in Path("runs").iterdir()] == ["cm-ewc-digits"]  # runs/cm-ewc is for iCIFAR-100
    page = Path("runs/cm-ewc-digits/report.html").read_text()
    assert "Confusion, batch after batch" in page
    strip = page.partition("Confusion, batch after batch")[2]
    assert "2 of the 4 batches are shown." in strip


def test_any_source_as_one_batch(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", x=rng.integers(0, 256, (20, 8, 8), dtype=np.uint8), y=np.arange(20) % 2)
    stream, _, learner = prepare(f"whole:{tmp_path / 'mine.npz'}", strategy="naive")
    assert [batch.classes for batch in stream] == [[0, 1]]
    assert isinstance(learner, Strategy)
    assert learner.network.input_shape == (1, 8, 8)
    with pytest.raises(ConfigError, match=r"Unknown source: expected one of \['digits'"):
        prepare("whole:nothing", strategy="naive")


def test_any_network_takes_any_source(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "w.safetensors"
    fast = [*QUICK, "--set=training.minibatch=64"]
    assert main(["pretrain", "--benchmark=whole:digits", "--network=cifarnet", *fast, f"--out={out}"]) == 0
    assert read_about(out)["network"] == "cifarnet"
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "mine.npz", x=rng.integers(0, 256, (4, 40, 30), dtype=np.uint8), y=np.arange(4) % 2)
    for network, side in (("caffenet-128", 128), ("resnet-18", 40), ("resnet-32", 32), ("googlenet", 224)):
        stream, test, learner = prepare(f"whole:{tmp_path / 'mine.npz'}", strategy="naive", network=network)
        assert stream[0].x.shape[1:] == (3, side, side)
        assert learner.scores(test.x, rows="all").shape == (len(test), 2)


def test_patterns_are_scaled() -> None:
    """By hand: to half the size with antialiasing, to twice the size between the middles of the pixels."""
    x = np.array([[[[0, 100], [200, 100]]]], dtype=np.uint8)
    source = Source("toy", Patterns(x, np.array([0])), Patterns(x, np.array([0])), ("a",))
    large = scaled(source, 4).train.x
    assert large.dtype == np.uint8
    assert large.shape == (1, 3, 4, 4)
    assert large[0, 2, 0].tolist() == [0, 25, 75, 100]
    assert large[0, 1, :, 0].tolist() == [0, 50, 150, 200]
    assert scaled(source, 1).train.x[0, :, 0, 0].tolist() == [100, 100, 100]
    as_floats = scaled(replace(source, train=Patterns(x / np.float32(8), np.array([0]))), 4).train.x
    assert as_floats[0, 0, 0].tolist() == [0, 3.125, 9.375, 12.5]
    colours = replace(source, train=Patterns(np.zeros((1, 3, 4, 4)), np.array([0])))
    assert scaled(colours, 4) is colours


def test_a_folder_of_images_is_scaled_for_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVERLEARN_DATA", str(tmp_path / "data"))
    for name in "ab":
        (tmp_path / "photos" / name).mkdir(parents=True)
        for k in range(5):
            Image.new("RGB", (150, 140), (40 * k, 0, 0)).save(tmp_path / "photos" / name / f"{k}.png")
    for network, side in (("nin-128", 128), ("resnet-18", 224), (None, 32)):
        stream, test, learner = prepare(f"whole:{tmp_path / 'photos'}", strategy="naive", network=network)
        assert stream[0].x.shape[1:] == (3, side, side)
        assert learner.scores(test.x, rows="all").shape == (2, 2)
