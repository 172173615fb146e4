"""A model is a file: what was learnt comes back without data, can be taught further, and nothing hostile gets in."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import everlearn
from everlearn import Slots, Strategy, models
from everlearn.cli import main
from everlearn.errors import ConfigError, EverlearnError, NetworkError, StateError
from everlearn.heads import CWR
from everlearn.models import Network, Output, small, wrap
from everlearn.recipes import model_file
from everlearn.regularisers import SI
from tests.toys import NAMES, QUICK, assert_same_state, plain_network, toy_batch, toy_stream

PROBE = toy_batch(range(7), n=2, seed=5).x
EVERY = [name for name in models.__all__ if hasattr(getattr(models, name), "__wrapped__")]


def taught(name: str = "ar1", *, batches: int = 2, knobs: dict[str, Any] | None = None) -> Strategy:
    fisher = {"ewc.minibatch": 8} if "ewc" in name else {}
    network = small(7, (1, 8, 8), width=4)
    learner = everlearn.build(name, network, knobs={**QUICK, **fisher, **(knobs or {})}, seed=3)
    for batch in toy_stream()[:batches]:
        learner.learn(batch)
    return learner


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("growth", ["maximal", "expanding"])
def test_it_answers_and_learns_on_as_if_it_had_never_been_a_file(name: str, growth: str, tmp_path: Path) -> None:
    learner = taught(name, knobs={"head.growth": growth})
    everlearn.save(learner, tmp_path / "m.everlearn")
    again = everlearn.load(tmp_path / "m.everlearn")
    assert torch.equal(learner.scores(PROBE), again.scores(PROBE))
    assert again.classes_ == learner.classes_
    assert again.history_ == learner.history_
    for one in (learner, again):
        one.learn(toy_stream()[2])
    assert_same_state(learner.state_dict(), again.state_dict())


def test_in_the_middle_of_a_batch(tmp_path: Path) -> None:
    learner, stream = taught(), toy_stream()
    learner.learn(stream[2], on_step=lambda step: everlearn.save(learner, tmp_path / "m") if step.step == 2 else None)
    again = everlearn.load(tmp_path / "m")
    again.learn(stream[2])
    assert_same_state(learner.state_dict(), again.state_dict())


def test_what_a_file_says_of_itself(tmp_path: Path) -> None:
    learner = everlearn.build("lwf", small(4, (1, 8, 8)), knobs={**QUICK, "head": "per_task"})
    labels = [("pet", 1), ("pet", 2)] * 6
    learner.learn((toy_batch([0]).x, labels))
    everlearn.save(learner, tmp_path / "m", about={"shop": "pets"})
    model = model_file.read(tmp_path / "m")
    assert (model["format"], model["everlearn"], model["about"]) == (1, everlearn.__version__, {"shop": "pets"})
    assert model["recipe"]["name"] == "lwf"
    assert model["recipe"]["knobs"]["head"] == "per_task"
    assert model["recipe"]["knobs"]["training.minibatch"] == 8
    assert model["network"]["arguments"]["input_shape"] == [1, 8, 8]
    [entry] = everlearn.load(tmp_path / "m").history_
    assert entry["classes"] == {("pet", 1): 6, ("pet", 2): 6}
    assert (entry["shape"], entry["dtype"], entry["patterns"]) == ([1, 8, 8], "float32", 12)
    assert entry["values"][0] < 0 < entry["values"][1]


def test_a_learner_of_slots_that_has_no_name(tmp_path: Path) -> None:
    learner = Strategy(small(7, (1, 8, 8)), Slots(CWR(init="zero", shift="batch"), SI(lam=3.0)), seed=4)
    learner.learn(toy_stream()[0])
    everlearn.save(learner, tmp_path / "m")
    again = everlearn.load(tmp_path / "m")
    assert isinstance(again, Strategy)
    assert again.slots == learner.slots
    assert torch.equal(again.scores(PROBE), learner.scores(PROBE))


@pytest.mark.parametrize("name", EVERY)
def test_every_network_of_ours_is_made_again(name: str) -> None:
    """By what it says of itself, with other rows; on no device, since some have sixty million weights."""
    options: dict[str, Any] = {"input_shape": (3, 64, 48)} if name in ("resnet_18", "efficientnet_lite0") else {}
    options |= {"input_shape": (2, 12, 8), "width": 3} if name == "small" else {}
    options |= {"shortcut": "B", "last_relu": False} if name == "resnet_32" else {}
    with torch.device("meta"):
        network = getattr(models, name)(7, **options)
        model = {"network": json.loads(json.dumps(network.made)), "rows": [0] * 7, "learner": {}}
        again = model_file._network(model)
    assert again.made == network.made
    assert repr(again) == repr(network)
    assert again.input_shape == network.input_shape


def test_a_wrapped_module_must_be_given(tmp_path: Path) -> None:
    def own() -> Network:
        module = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, 7))
        return wrap(module, ["3"], torch.zeros(1, 1, 8, 8))

    learner = everlearn.build("naive", own(), knobs=QUICK)
    learner.learn(toy_stream()[0])
    everlearn.save(learner, tmp_path / "m")
    needs = r"m: The network of this model was made outside Everlearn: expected network=: a Network around "
    with pytest.raises(NetworkError, match=needs + r"torch.nn.modules.container.Sequential, .* \(1, 8, 8\), got none"):
        everlearn.load(tmp_path / "m")
    assert torch.equal(everlearn.load(tmp_path / "m", network=own()).scores(PROBE), learner.scores(PROBE))
    with pytest.raises(StateError, match=r"m: This state has other shapes"):
        everlearn.load(tmp_path / "m", network=plain_network())


def test_what_cannot_be_written(tmp_path: Path) -> None:
    learner = taught(batches=1)
    with pytest.raises(ConfigError, match=r"cannot be written: expected a folder that is there.*No such file"):
        everlearn.save(learner, tmp_path / "nowhere" / "m")
    with pytest.raises(ConfigError, match="expected values for JSON"):
        everlearn.save(learner, tmp_path / "m", about={"x": {1, 2}})
    everlearn.save(learner, tmp_path / "m")
    before = (tmp_path / "m").read_bytes()
    with pytest.raises(ConfigError):
        everlearn.save(learner, tmp_path / "m", about={"x": object()})
    assert (tmp_path / "m").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def rewritten(tmp_path: Path, **changes: Any) -> Path:
    """A model file whose header says something else, with a checksum that is right."""
    everlearn.save(taught(batches=1), tmp_path / "m")
    model = {**model_file.read(tmp_path / "m"), **changes}
    everlearn.save_state(tmp_path / "m", {name: value for name, value in model.items() if value is not ...})
    return tmp_path / "m"


SMALL = {"input_shape": [1, 8, 8], "width": 4, "normalise": False}
HOSTILE: dict[str, tuple[dict[str, Any], str]] = {
    "newer": ({"format": 7, "everlearn": "9.0"}, r"newer Everlearn: expected format 1 or older, got format 7.*9\.0"),
    "no format": ({"format": ...}, "not a model"),
    "a word for format": ({"format": "x"}, "newer"),
    "another strategy": ({"recipe": {"name": "ar9", "knobs": {}}}, "Unknown strategy"),
    "no strategy": ({"recipe": {}}, "not a model"),
    "a knob": ({"recipe": {"name": "ar1", "knobs": {"si.lam": "much"}}}, "lam"),
    "a knob that is none": ({"recipe": {"name": "ar1", "knobs": {"os.system": 1}}}, "Unknown knob"),
    "another network": ({"network": {"maker": "resnet_32", "arguments": {}}}, "does not fit its weights"),
    "a maker that is none": ({"network": {"maker": "wrap", "arguments": {}}}, "Unknown network"),
    "code": ({"network": {"maker": "__builtins__", "arguments": {}}}, "Unknown network"),
    "huge": ({"network": {"maker": "small", "arguments": {**SMALL, "width": 10**6}}}, "does not fit its weights"),
    "huge, without weights": (
        {"network": {"maker": "small", "arguments": {**SMALL, "width": 10**6}}, "learner": {}},
        "too large",
    ),
    "an argument that is none": ({"network": {"maker": "small", "arguments": {"path": "/"}}}, "not a model"),
    "no network": ({"network": ...}, "not a model"),
    "a network from nowhere": ({"network": {"plugin": "theirs", "package": "their-package"}}, "Install their-package"),
    "rows": ({"rows": 3}, "not a model"),
    "no state": ({"learner": {}}, "This state has other slots"),
    "labels": ({"labels": {"known": [["a"]]}}, "label"),
    "history": ({"history": [3]}, "not a model"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_and_foreign_files_are_named(case: str, tmp_path: Path) -> None:
    changes, words = HOSTILE[case]
    path = rewritten(tmp_path, **changes)
    with pytest.raises(EverlearnError, match=words) as caught:
        everlearn.load(path)
    assert str(path) in str(caught.value)


@given(
    name=st.sampled_from(["recipe", "network", "rows", "labels", "history", "learner"]),
    value=st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    ),
)
def test_whatever_stands_in_a_header_is_refused_in_our_words(
    tmp_path_factory: pytest.TempPathFactory, name: str, value: Any
) -> None:
    path = rewritten(tmp_path_factory.mktemp("m"), **{name: value})
    refused = ""
    try:
        everlearn.load(path).scores(PROBE)
    except EverlearnError as error:
        refused = str(error)
    assert str(path) in refused or name in ("labels", "history", "rows")  # these may be empty


def test_a_damaged_byte_and_another_file_are_refused(tmp_path: Path) -> None:
    everlearn.save(taught(batches=1), tmp_path / "m")
    data = bytearray((tmp_path / "m").read_bytes())
    data[-7] ^= 1
    (tmp_path / "m").write_bytes(bytes(data))
    with pytest.raises(StateError, match=r"damaged.*its checksum is"):
        everlearn.load(tmp_path / "m")
    everlearn.save_state(tmp_path / "state", taught(batches=1).state_dict())
    with pytest.raises(StateError, match=r"not a model.*state \(another kind of state, such as a run's checkpoint\)"):
        everlearn.load(tmp_path / "state")
    with pytest.raises(StateError, match="no such state"):
        everlearn.load(tmp_path / "nothing")


RUN = ["run", "--benchmark", "digits", "--strategy", "cwr+", "--set", "training.first.epochs=1", "--threads", "1"]
RUN += ["--set", "training.later.epochs=1"]


def test_a_model_is_taken_out_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Stopped and resumed on the way; without the data, with the names of the classes and all that was learnt."""
    out = tmp_path / "d.everlearn"
    assert main([*RUN, "--out", str(tmp_path / "run"), "--batches", "2"]) == 0
    assert main([*RUN, "--out", str(tmp_path / "run")]) == 0
    capsys.readouterr()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("everlearn.runs.runner.prepare", None)  # no data
        assert main(["model", str(tmp_path / "run"), "--out", str(out)]) == 0
    assert capsys.readouterr().out == "cwr+, 4 batches, 10 classes.\n"
    learner, test = everlearn.load(out), everlearn.data.digits().test
    assert learner.classes_ == [str(digit) for digit in range(10)]
    assert [entry["i"] for entry in learner.history_] == [1, 2, 3, 4]
    record = json.loads((tmp_path / "run" / "records.jsonl").read_text().splitlines()[-1])
    assert learner.evaluate((test.x, [str(y) for y in test.y])).seen == pytest.approx(record["accuracy"])
    assert main(["model", str(tmp_path / "run"), "--out", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["about"]["benchmark"] == "digits"


def test_runs_that_have_no_model_to_give(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["model", str(tmp_path), "--out", str(tmp_path / "m")]) == 1
    assert "This is not a run's folder" in capsys.readouterr().err
    assert main([*RUN, "--out", str(tmp_path / "run"), "--batches", "1"]) == 0
    checkpoint = tmp_path / "run" / "checkpoint.safetensors"
    state = everlearn.load_state(checkpoint)
    everlearn.save_state(checkpoint, {**state, "within": True})
    assert main(["model", str(tmp_path / "run"), "--out", str(tmp_path / "m")]) == 1
    assert "stopped in the middle of batch 1" in capsys.readouterr().err
    old = {name: value for name, value in state.items() if name not in ("i", "within", "model")}
    everlearn.save_state(checkpoint, old)  # as 0.1.0 wrote it
    assert main(["model", str(tmp_path / "run"), "--out", str(tmp_path / "m")]) == 0
    assert len(everlearn.load(tmp_path / "m").classes_) == 4
    assert main([*RUN, "--out", str(tmp_path / "run")]) == 0  # and resumed
    checkpoint.unlink()
    (tmp_path / "run" / "checkpoint-before.safetensors").unlink()
    assert main(["model", str(tmp_path / "run"), "--out", str(tmp_path / "m")]) == 1
    assert "checkpoints of this run are gone" in capsys.readouterr().err


def test_output_layers_may_be_of_any_kind() -> None:
    """A network built by hand says what it needs."""
    network = Network(nn.Flatten(), [Output(nn.Linear(64, 7))], input_shape=(1, 8, 8))
    learner = everlearn.build("naive", network)
    assert learner.recipe_ is not None
    assert learner.recipe_["network"]["needs"].startswith("a Network around torch.nn.modules.flatten.Flatten")


def test_fixed_parameters_stay_fixed(tmp_path: Path) -> None:
    network = small(7, (1, 8, 8), width=4)
    next(network.trunk.parameters()).requires_grad_(False)
    learner = everlearn.build("naive", network, knobs=QUICK)
    learner.learn(toy_stream()[0])
    everlearn.save(learner, tmp_path / "m")
    assert torch.equal(everlearn.load(tmp_path / "m").scores(PROBE), learner.scores(PROBE))


def test_slots_that_no_file_can_name_are_refused_when_saved(tmp_path: Path) -> None:
    class Mine(SI):
        name = "mine"

    learner = Strategy(small(7, (1, 8, 8)), Slots(CWR(init="zero", shift="batch"), Mine()))
    with pytest.raises(ConfigError, match=r"cannot be built again from a file.*got \['mine'\]"):
        everlearn.save(learner, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_tensors_among_the_terms_are_refused_for_several_processes() -> None:
    regulariser, term = SI(), torch.zeros(())
    regulariser.check_together([term], processes=1)
    with pytest.raises(ConfigError, match="cannot be shared out between processes"):
        regulariser.check_together([term], processes=2)
