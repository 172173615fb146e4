"""One learner in two processes is the learner of one process: the issue's tolerances, by real processes over gloo."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

from everlearn import Batch, Step, Strategy, load_state, save_state
from everlearn.errors import NotFiniteError, RanksError, RunError
from everlearn.learning.parallel import ALONE, ranks
from everlearn.models import Network
from everlearn.runs import Config, RunFolder, run
from everlearn.runs.together import Elsewhere
from tests.toys import CLASSES, assert_same_state, plain_network, quick, three_outputs, toy_batch, until

STRATEGIES = ["naive", "lwf", "ewc", "si", "cwr+", "ar1"]
WEIGHTS, SCORES = 1e-5, 1e-3  # the tolerances
PROCESSES = 2


# --- what is learnt, by one process or by two --------------------------------------------------------


def still() -> Network:
    """No dropout, no batch norm."""
    return plain_network(dropout=0.0)


def two_batches() -> list[Batch]:
    """36 and 22 patterns: minibatches of 7 (shares of 4 and 3) and one of a single pattern (an empty share)."""
    return [toy_batch((0, 1, 2), n=12), toy_batch((3, 4), n=11)]


def a_lone_pattern() -> list[Batch]:
    """Of which the second process's share is empty."""
    return [toy_batch((0, 1, 2), n=12), toy_batch((3,), n=1)]


def long_batches() -> list[Batch]:
    """More than one evaluation minibatch each, so that passes over B_i are shared out too."""
    return [toy_batch((0, 1, 2), n=100), toy_batch((3, 4), n=150)]


SEVEN = {"training__minibatch": 7, "training__first__epochs": 6, "training__later__epochs": 10}  # 36 and 40 steps
SHORT = {**SEVEN, "training__first__epochs": 2, "training__later__epochs": 3}
SIXTY = {"training__minibatch": 60}  # two epochs

Case = tuple[str, Callable[[], Network], Callable[[], list[Batch]], dict[str, Any]]
MANY, NORM = "more than an evaluation minibatch", "batch norm, dropout and three outputs"
CASES: dict[str, Case] = {
    **{name: (name, still, two_batches, SEVEN) for name in STRATEGIES},
    **{f"{name}, {MANY}": (name, still, long_batches, SIXTY) for name in ("lwf", "cwr+")},
    **{f"{name}, {NORM}": (name, three_outputs, two_batches, SHORT) for name in ("lwf", "cwr+", "ar1")},
    "ewc, per example": ("ewc", three_outputs, two_batches, {**SHORT, "ewc__fisher": "per_example"}),
    "ewc, per example, an empty share": ("ewc", still, a_lone_pattern, {**SHORT, "ewc__fisher": "per_example"}),
    "ewc, single patterns": ("ewc", still, two_batches, {**SHORT, "ewc__fisher": "second_moment", "ewc__minibatch": 1}),
    "si, the gradient's path": ("si", still, two_batches, {**SHORT, "si__path": "gradient"}),
    "cumulative": ("cumulative", still, two_batches, SHORT),
}


def learnt(case: str, together: bool) -> tuple[Strategy, list[Step], int]:
    """A learner after both batches; its steps; the patterns that went through this process's trunk in training."""
    name, network, batches, knobs = CASES[case]
    learner, steps, passed = quick(name, network(), **knobs), list[Step](), [0]
    learner.ranks = ranks() if together else ALONE

    def count(module: torch.nn.Module, inputs: tuple[Tensor], _output: object) -> None:
        passed[0] += len(inputs[0]) * module.training

    learner.network.trunk.register_forward_hook(count)
    for batch in batches():
        before = batch.x.clone()
        learner.learn(batch, on_step=steps.append)
        assert torch.equal(batch.x, before)
    assert max(step.steps for step in steps) <= 40
    return learner, steps, passed[0]


def held_back() -> Tensor:
    return toy_batch(range(CLASSES), n=40, seed=5).x


# --- two real processes --------------------------------------------------------------------------------


def process(rank: int, task: Callable[[int, Path], None], folder: Path) -> None:
    """One of two processes: join, do the task, leave."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=PROCESSES)
    task(rank, folder)
    dist.destroy_process_group()


def in_two_processes(task: Callable[[int, Path], None], folder: Path) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    mp.spawn(process, (task, folder), nprocs=PROCESSES)  # type: ignore[attr-defined, no-untyped-call]


def learn_everything(rank: int, folder: Path) -> None:
    """One pair of processes for all tests, since starting them takes longest."""
    learn_every_case(rank, folder)
    go_wrong(rank, folder)


def learn_every_case(rank: int, folder: Path) -> None:
    for number, case in enumerate(CASES):
        learner, steps, passed = learnt(case, together=True)
        extra = {"scores": learner.scores(held_back()), "losses": [step.loss for step in steps], "passed": passed}
        save_state(folder / f"{number}-{rank}", {**learner.state_dict(), **extra})


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("done")
    in_two_processes(learn_everything, folder)
    return folder


@pytest.fixture
def cases(done: Path) -> Callable[[str, int], dict[str, Any]]:
    return lambda case, rank: load_state(done / f"{list(CASES).index(case)}-{rank}")


def assert_close(one: dict[str, Tensor], two: dict[str, Tensor]) -> None:
    for name, value in one.items():
        assert float((value - two[name]).abs().max()) <= WEIGHTS, name


@pytest.mark.parametrize("case", CASES)
def test_two_processes_learn_what_one_learns(case: str, cases: Callable[[str, int], dict[str, Any]]) -> None:
    one, steps, passed = learnt(case, together=False)
    two, other = cases(case, 0), cases(case, 1)
    shares = two.pop("passed"), other.pop("passed")
    assert_same_state(two, other)  # every process holds the same, byte for byte
    assert_close(one.weights(), two["network"])
    assert two["losses"] == pytest.approx([step.loss for step in steps], abs=1e-4)
    scores = one.scores(held_back())
    best = scores.topk(2).values
    clear = best[:, 0] - best[:, 1] > SCORES
    assert clear.sum() > 200  # of 280
    assert torch.equal(scores.argmax(1)[clear], two["scores"].argmax(1)[clear])
    if case in STRATEGIES:  # shares of 4 and 3, and of 1 and none: there the second process borrows one, uncounted
        first, later = (30, 6), ((30, 10) if case != "cwr+" else (0, 0))  # minibatches of 7 and of 1; trunk frozen
        sevens, ones = (a + b for a, b in zip(first, later, strict=True))
        assert (passed, *shares) == (7 * sevens + ones, 4 * sevens + ones, 3 * sevens + ones)


@pytest.mark.parametrize(
    "case", ["ewc", "si", "si, the gradient's path", "ar1", "ewc, per example", "ewc, single patterns"]
)
def test_importances_are_those_of_the_global_gradients(case: str, cases: Callable[[str, int], dict[str, Any]]) -> None:
    one, two = learnt(case, together=False)[0].state_dict()["regulariser"]["F"], cases(case, 0)["regulariser"]["F"]
    assert float(one.abs().max()) > 0
    assert torch.allclose(one, two, rtol=1e-3, atol=1e-4 * float(one.abs().max()))


# --- what goes wrong -----------------------------------------------------------------------------------


def refused(learner: Strategy, batch: Batch, error: type[Exception], match: str) -> None:
    """Learning this is refused, and leaves no trace."""
    before = learner.state_dict()
    with pytest.raises(error, match=match):
        learner.learn(batch)
    assert_same_state(learner.state_dict(), before)


def go_wrong(rank: int, folder: Path) -> None:
    """Whatever goes wrong, it goes wrong in both processes, and both can go on."""
    first, second = two_batches()
    together = ranks()
    assert (together.rank, together.size, together.first) == (rank, 2, rank == 0)
    learner = quick("ar1")
    learner.ranks = together
    halves = [first, Batch(first.x[:20], first.y[:20])]
    refused(learner, halves[rank], RanksError, "differences in batch. .* whole batch")
    other = quick("ar1", seed=3 + rank, si__lam=1.0 + rank)
    other.ranks = together
    refused(other, first, RanksError, "differences in knobs, seed")
    learner.theta.value[-1] += rank
    refused(learner, first, RanksError, "differences in network")
    learner.theta.value[-1] -= rank
    wild = quick("naive", training__first__eta=1e30)
    wild.ranks = together
    refused(wild, first, NotFiniteError, "diverged in batch 1, epoch 1, step 2")

    def stray(step: Step) -> None:
        if step.step == 3:
            learner.theta.value[0] += rank

    before = learner.state_dict()
    with pytest.raises(RanksError, match="differences in network"):
        learner.learn(first, on_step=stray)
    assert_same_state(learner.state_dict(), before)
    learner.learn(first)
    if rank == 0:  # asking is each process's own affair
        assert learner.scores(first.x).shape == (36, 3)
    learner.learn(second)
    assert together.from_first(b"" if rank else b"told") == b"told"
    assert together.from_first(b"") == b""
    two = resumed_in_the_middle(folder, rank)
    save_state(folder / f"state-{rank}", {"ar1": learner.state_dict(), "run": two})
    if rank == 1:
        return  # gone, while the other goes on
    refused(learner, toy_batch((5, 6)), RanksError, "Another process of this learner is gone")


RUN = Config("digits", "ar1", batches=2, knobs={"training.first.epochs": 2, "training.later.epochs": 2})


def resumed_in_the_middle(folder: Path, rank: int) -> dict[str, Any]:
    """A run that is cut in B_2 and resumed, with a folder that the second process has no part in."""
    path, together = folder / f"run-{rank}", ranks()

    def stop(step: Step | None, _record: object) -> None:
        if rank == 1 and step and (step.i, step.step) == (2, 5):
            os.kill(os.getpid(), signal.SIGINT)  # to one process: both stop

    with pytest.raises(KeyboardInterrupt):
        run(RUN, path, on_progress=stop, ranks=together)
    saved = RunFolder(folder / "run-0").checkpoints.read()  # there before either leaves: torchrun would stop the other
    assert saved is not None
    assert saved["learner"]["within"][0] in (5, 6)
    records = run(RUN, path, ranks=together)
    if rank == 0:  # a record that was lost is made again by both
        lines = (path / "records.jsonl").read_bytes().splitlines(keepends=True)
        (path / "records.jsonl").write_bytes(lines[0])
    again = run(RUN, path, ranks=together)
    assert [r["confusion"] for r in again] == [r["confusion"] for r in records]
    assert path.exists() == (rank == 0)
    whole = folder / f"whole-{rank}"
    undisturbed = run(RUN, whole, ranks=together)
    assert len(undisturbed) == len(records) == (0 if rank else 2)
    if rank:
        return {}
    assert_same_state(RunFolder(path).checkpoints.read()["learner"], RunFolder(whole).checkpoints.read()["learner"])  # type: ignore[index]
    learner: dict[str, Any] = RunFolder(path).checkpoints.read()["learner"]  # type: ignore[index]
    return {"learner": learner, "accuracy": [r["accuracy"] for r in records]}


def test_what_goes_wrong_goes_wrong_everywhere_and_runs_resume(done: Path, tmp_path: Path) -> None:
    one = quick("ar1")  # dropout on: the masks are those of one process
    for batch in two_batches():
        one.learn(batch)
    states = [load_state(done / f"state-{rank}") for rank in (0, 1)]
    assert_same_state(states[0]["ar1"], states[1]["ar1"])
    assert_close(one.weights(), states[0]["ar1"]["network"])
    alone = run(RUN, tmp_path / "alone")
    weights = RunFolder(tmp_path / "alone").checkpoints.read()["learner"]["network"]  # type: ignore[index]
    assert_close(weights, states[0]["run"]["learner"]["network"])
    assert states[0]["run"]["accuracy"] == pytest.approx([r["accuracy"] for r in alone], abs=0.01)


def test_the_others_have_no_part_in_the_folder() -> None:
    """Every verb of a folder is one that the other processes leave to the first."""
    verbs = {name for name, value in vars(RunFolder).items() if callable(value) and not name.startswith("_")}
    assert verbs == {name for name, value in vars(Elsewhere).items() if callable(value)}


# --- torchrun --------------------------------------------------------------------------------------------


def torchrun(*arguments: str) -> list[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={PROCESSES}"]
    return [*launch, "-m", "everlearn", *arguments]


def command(out: Path) -> list[str]:
    knobs = ["--set", "training.first.epochs=10", "--set", "training.later.epochs=2"]
    return ["run", "--benchmark", "digits", "--strategy", "ar1", "--batches", "2", *knobs, "--out", str(out)]


def test_torchrun_learns_stops_and_resumes(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a batch, the same command again, and the result is that of one process."""
    process = subprocess.Popen(torchrun(*command(tmp_path)), stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "config.json").exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=300)
    assert errors.count("interrupted; the same command again goes on") == 1, errors
    state = RunFolder(tmp_path).checkpoints.read()
    assert state is not None
    assert state["learner"]["within"] is not None
    done = subprocess.run(torchrun(*command(tmp_path)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line[:3] for line in done.stdout.splitlines()] == ["B_1", "B_2"]  # printed once
    assert json.loads((tmp_path / "config.json").read_text())["processes"] == PROCESSES
    events = [(event["i"], event["step"]) for event in RunFolder(tmp_path).events()]
    assert events == sorted(set(events))
    config = Config("digits", "ar1", batches=2, knobs={"training.first.epochs": 10, "training.later.epochs": 2})
    alone = run(config, tmp_path / "alone")
    assert run(config, tmp_path) == RunFolder(tmp_path).records()  # one process takes it over: nothing is left to do
    assert [r["accuracy"] for r in RunFolder(tmp_path).records()] == pytest.approx(
        [r["accuracy"] for r in alone], abs=0.01
    )


def test_nobody_learns_on_when_torchrun_is_killed(tmp_path: Path) -> None:
    """What was learnt is saved, and the lock is free."""
    long = [*command(tmp_path), "--set", "training.first.epochs=100000"]
    process = subprocess.Popen(torchrun(*long), stderr=subprocess.DEVNULL)
    until(lambda: RunFolder(tmp_path).events() or process.poll() is not None)
    process.kill()
    process.wait()

    def free() -> bool:
        try:
            with RunFolder(tmp_path).locked():
                return True
        except RunError:
            return False

    until(free, seconds=60)
    state = RunFolder(tmp_path).checkpoints.read()
    assert state is not None
    assert state["step"] >= 1


def test_torchrun_is_for_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from everlearn.cli import main

    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "none")
    monkeypatch.setenv("RANK", "1")
    assert main(["compare", "--benchmark", "digits", "--strategies", "naive", "--out", "runs"]) == 1
    assert "everlearn, process 1: torchrun starts several processes for one learner" in capsys.readouterr().err
