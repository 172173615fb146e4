"""Streams that bring known classes again (NI, NIC): who takes them and how, CWR* and AR1*, and who refuses them."""

from collections import Counter
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from everlearn import Batch, Step, Strategy, build, load_state, save_state
from everlearn.benchmarks import BENCHMARKS
from everlearn.data import Source, mini50
from everlearn.data.source import Patterns
from everlearn.errors import ConfigError, DataError
from everlearn.heads import CWRStar
from everlearn.memories import Everything
from everlearn.models import small
from everlearn.regularisers import LWF
from everlearn.runs import Config, run
from tests.toys import CLASSES, NAMES, assert_same_state, plain_network, quick, three_outputs, toy_batch, toy_stream

REFUSE = ("cwr", "cwr+", "ar1", "ar1-ewc", "ar1-lwf")
TAKE = [name for name in NAMES if name not in REFUSE]
STARS = ("cwr*", "ar1*")
NETWORKS = {"plain": plain_network, "three": three_outputs}

both_growths = pytest.mark.parametrize("growth", ["maximal", "expanding"])
both_networks = pytest.mark.parametrize("network", NETWORKS)


def counted(counts: dict[int, int], seed: int = 0) -> Batch:
    """So many patterns of each class."""
    parts = [toy_batch([c], n, seed) for c, n in counts.items()]
    return Batch(torch.cat([b.x for b in parts]), torch.cat([b.y for b in parts]))


def nic_stream() -> list[Batch]:
    """New classes; known and new ones; known ones alone, in other numbers."""
    counts = ({0: 8, 1: 6, 2: 10}, {1: 12, 2: 5, 3: 7}, {0: 4, 1: 9, 3: 11})
    return [counted(c, seed) for seed, c in enumerate(counts)]


def parts(learner: Strategy) -> list[Tensor]:
    """The output layers' weights and biases, each with a row a class."""
    return [part.clone() for part in learner.theta.output_views(learner.theta.value)]


def raw(learner: Strategy) -> bytes:
    return learner.theta.value.numpy().tobytes() + learner.theta.v.numpy().tobytes()


def star(learner: Strategy) -> CWRStar:
    assert isinstance(learner.head, CWRStar)
    return learner.head


def past(learner: Strategy) -> list[int]:
    counts = star(learner).past_
    assert counts is not None
    return [int(n) for n in counts]


# --- CWR* and AR1* ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", ["fixed", "learned"])
@pytest.mark.parametrize("name", STARS)
def test_cw_is_the_weighted_average_of_old_rows_and_new(name: str, bias: str) -> None:
    """B_1 has 8, 6 and 10 patterns of classes 0, 1, 2; B_2 12, 5 and 7 of 1, 2, 3.

    wpast is √(6/12), √(10/5) and √(0/7); for B_3's 4, 9 and 11 of 0, 1, 3 it is √(8/4), √(18/9) and √(7/11). avg(tw) is
    one scalar for each output layer, over B_i's rows, known and new together.
    """
    learner = quick(name, three_outputs(), head__bias=bias)
    weights = [{}, {1: sqrt(6 / 12), 2: sqrt(10 / 5), 3: 0.0}, {0: sqrt(8 / 4), 1: sqrt(18 / 9), 3: sqrt(7 / 11)}]
    tw: list[list[Tensor]] = []
    for batch, wpast in zip(nic_stream(), weights, strict=True):
        before = parts(learner)
        learner.learn(batch, on_step=lambda _: tw.append(parts(learner)))
        if not wpast:
            continue
        for old, last, now in zip(before, tw[-1], parts(learner), strict=True):
            if now.ndim == 1 and bias == "fixed":
                assert now.tolist() == [1.0] * 4 + [0.0] * 3
                continue
            avg = last[list(wpast)].mean()
            for j in range(CLASSES):
                if j in wpast:
                    expected = (old[j] * wpast[j] + (last[j] - avg)) / (wpast[j] + 1)
                    torch.testing.assert_close(now[j], expected, rtol=1e-5, atol=1e-7)
                else:
                    assert torch.equal(now[j], old[j])


@both_growths
@both_networks
@pytest.mark.parametrize("bias", ["fixed", "learned", "zero"])
def test_tw_starts_from_cw_where_the_class_is_known(bias: str, network: str, growth: str) -> None:
    """With η close to 0 tw stays as it starts: cw for B_2's known classes 1 and 2, and 0 for 0, 3 and those unseen."""
    learner = quick("cwr*", NETWORKS[network](), head__bias=bias, head__growth=growth, training__later__eta=1e-30)
    first, second, _ = nic_stream()
    learner.learn(first)
    cw = parts(learner)
    tw: list[list[Tensor]] = []
    learner.learn(second, on_step=lambda _: tw.append(parts(learner)))
    for old, start in zip(cw, tw[0], strict=True):
        assert torch.equal(start[[1, 2]], old[[1, 2]])
        assert old[[1, 2]].any() or network == "three" or bias == "zero"  # zero rows under a ReLU do not learn
        others = start[[0, *range(3, len(start))]]
        if start.ndim == 1 and bias == "fixed":
            assert others.tolist() == [1.0, 1.0, 0.0, 0.0, 0.0][: len(others)]
        else:
            assert others.abs().max() < 1e-20


@both_growths
@both_networks
@pytest.mark.parametrize("bias", ["fixed", "learned", "zero"])
@pytest.mark.parametrize(("name", "other"), [("cwr*", "cwr+"), ("ar1*", "ar1")])
def test_where_all_classes_are_new_it_is_cwr_plus_bit_for_bit(
    name: str, other: str, bias: str, network: str, growth: str
) -> None:
    """past_j = 0 makes wpast_j = 0: weights, momentum and what SI learns, byte for byte."""
    a, b = (quick(kind, NETWORKS[network](), head__bias=bias, head__growth=growth) for kind in (name, other))
    for batch in toy_stream():
        a.learn(batch)
        b.learn(batch)
        assert raw(a) == raw(b)
        assert_same_state(a.regulariser.state(), b.regulariser.state())
        assert torch.equal(a.scores(batch.x), b.scores(batch.x))


@given(
    stream=st.lists(
        st.dictionaries(st.integers(0, CLASSES - 1), st.integers(1, 9), min_size=2, max_size=4), min_size=1, max_size=4
    ),
    growth=st.sampled_from(["maximal", "expanding"]),
)
def test_past_counts_every_pattern_once_and_other_rows_stay(stream: list[dict[int, int]], growth: str) -> None:
    """past_j over any stream; rows of classes outside B_i byte for byte."""
    learner = quick("ar1*", head__growth=growth, training__minibatch=64)
    total: Counter[int] = Counter()
    for seed, counts in enumerate(stream):
        outside = [row for row in learner.head.seen_ if learner.rows_[row] not in counts]
        before = [part[outside] for part in parts(learner)]
        learner.learn(counted(counts, seed))
        total.update(counts)
        assert past(learner) == [total[c] for c in learner.rows_]
        assert star(learner).cur_ is None
        for old, now in zip(before, parts(learner), strict=True):
            assert torch.equal(old, now[outside])


@pytest.mark.parametrize("name", STARS)
def test_scores_in_the_middle_of_a_batch_are_those_of_the_average(name: str) -> None:
    """At the last step the scores are those that remain; asking changes nothing."""
    asked, left_alone = quick(name), quick(name)
    scores: list[Tensor] = []
    for batch in nic_stream():
        asked.learn(batch, on_step=lambda _: scores.append(asked.scores(toy_batch(range(CLASSES)).x)))
        left_alone.learn(batch)
        assert torch.equal(scores[-1], asked.scores(toy_batch(range(CLASSES)).x))
    assert_same_state(asked.state_dict(), left_alone.state_dict())


def test_the_ledger_counts_past_and_cur() -> None:
    """A count for each of 7 rows, eight bytes each, besides what CWR+ holds."""
    ledgers = {}
    for name in ("cwr*", "cwr+"):
        learner = quick(name)
        for batch in toy_stream():
            learner.learn(batch)
        ledgers[name] = learner.storage()
    for when, more in (("kept", ["head.past_"]), ("within", ["head.past_", "head.cur_"])):
        entries, plain = getattr(ledgers["cwr*"], when), getattr(ledgers["cwr+"], when)
        assert {name: entry for name, entry in entries.items() if name not in more} == plain
        assert [(entries[name].values, entries[name].bytes) for name in more] == [(7, 56)] * len(more)
    assert "patterns of each class" in ledgers["cwr*"].why["head.past_"]
    assert (ledgers["cwr*"].formula, ledgers["cwr*"].paper) == (ledgers["cwr+"].formula, ledgers["cwr+"].paper)


def test_a_star_is_a_head_that_others_can_take() -> None:
    """EWC and LWF over a CWR* head, by a knob; a memory is still refused, and so are CWR's scales."""
    for name in ("ar1-ewc", "ar1-lwf"):
        learner = quick(name, head="cwr_star")
        for batch in nic_stream():
            learner.learn(batch)
        assert past(learner)[:4] == [12, 27, 15, 18]
    with pytest.raises(ConfigError, match="unused"):
        build("cwr*", plain_network(), knobs={"memory": "everything", "regulariser": "none"})
    with pytest.raises(ConfigError, match=r"Unknown knob.*'head\.w_i'"):
        quick("cwr*", head__w_i=1.25)


# --- what every strategy that takes known classes promises ---------------------------------------------


@pytest.mark.parametrize("name", TAKE)
@both_growths
@pytest.mark.parametrize("i", [2, 3])
def test_saved_in_the_middle_of_a_batch_goes_on_bit_for_bit(name: str, growth: str, i: int, tmp_path: Path) -> None:
    """B_2 has known classes and a new one, B_3 known ones alone; the state is taken after the second step."""
    stream = nic_stream()
    whole = quick(name, three_outputs(), head__growth=growth)

    def save(step: Step) -> None:
        if (step.i, step.step) == (i, 2):
            save_state(tmp_path / "state", whole.state_dict())

    for batch in stream:
        whole.learn(batch, on_step=save)
    second = quick(name, three_outputs(), seed=77, head__growth=growth)
    second.load_state_dict(load_state(tmp_path / "state"))
    for batch in stream[i - 1 :]:
        second.learn(batch)
    assert_same_state(whole.state_dict(), second.state_dict())


@pytest.mark.parametrize("name", TAKE)
def test_a_failed_batch_leaves_no_trace(name: str) -> None:
    a, never_failed = (quick(name, three_outputs(), head__growth="expanding") for _ in range(2))

    def stop(step: Step) -> None:
        if step.step == 2:
            raise KeyboardInterrupt

    for batch in nic_stream():
        before = a.state_dict()
        with pytest.raises(KeyboardInterrupt):
            a.learn(batch, on_step=stop)
        assert_same_state(before, a.state_dict())
        a.learn(batch)
        never_failed.learn(batch)
    assert_same_state(never_failed.state_dict(), a.state_dict())


# --- the others, one by one ----------------------------------------------------------------------------


def test_fw_holds_the_rows_of_classes_that_b_i_lacks() -> None:
    """So on NI, where B_i has every class, it is CW bit for bit."""
    learner = quick("fw")
    for batch in nic_stream():
        lacks = [row for row in learner.head.seen_ if learner.rows_[row] not in batch.classes]
        again = [row for row in learner.head.seen_ if row not in lacks]
        before = parts(learner)
        learner.learn(batch)
        for old, now in zip(before, parts(learner), strict=True):
            assert torch.equal(old[lacks], now[lacks])
            assert not again or not torch.equal(old[again], now[again])
    fw, cw = quick("fw"), quick("cw")
    for seed in range(3):
        fw.learn(toy_batch([0, 1, 2], seed=seed))
        cw.learn(toy_batch([0, 1, 2], seed=seed))
    assert raw(fw) == raw(cw)


def test_cumulative_learns_known_classes_from_all_their_patterns() -> None:
    learner = quick("cumulative")
    stream = nic_stream()
    steps: list[int] = []
    for batch in stream:
        learner.learn(batch, on_step=lambda step: steps.append(step.steps))
    assert isinstance(learner.memory, Everything)
    assert learner.memory.batch_ is not None
    assert learner.memory.batch_.counts == {0: 12, 1: 27, 2: 15, 3: 18}
    assert steps[-1] == 2 * 9  # two epochs of 72 patterns, eight at a time
    assert learner.head.batches_ == [[0, 1, 2], [1, 2, 3], [0, 1, 3]]


def test_lwf_takes_lambda_from_patterns_and_distils_known_rows() -> None:
    """λ_i = 1 − n_i / Σ n_j whatever the classes: 24, 24 and 24 patterns give 0, 1/2 and 2/3.

    The target of a known class j is (1 − λ)·y_1h + λ·y_lwf, which still sums to 1 and has 1 − λ + λ·y_lwf[j] at j.
    """
    learner = quick("lwf")
    regulariser = learner.regulariser
    assert isinstance(regulariser, LWF)
    lams: list[float] = []
    for batch in nic_stream():
        seen = list(learner.rows_)
        y_lwf = learner.scores(batch.x, "all").softmax(dim=1) if seen else torch.empty(0)
        held: list[Tensor] = []
        learner.learn(batch, on_step=lambda _, held=held: held.extend(regulariser.y_lwf_))  # type: ignore[misc]
        lams.append(round(regulariser.lam_, 9))
        assert not seen or torch.allclose(held[0], y_lwf, atol=1e-6)
    assert lams == [0.0, 0.5, round(2 / 3, 9)]


# --- refusals ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", REFUSE)
def test_the_cwr_family_of_the_paper_refuses_and_names_the_stars(name: str) -> None:
    learner = quick(name)
    learner.learn(toy_batch([0, 1]))
    before = learner.state_dict()
    with pytest.raises(DataError, match=r"overwrite.*got \[1\].*cwr\* or ar1\*.*cwr_star"):
        learner.learn(toy_batch([1, 2]))
    assert_same_state(before, learner.state_dict())
    learner.learn(toy_batch([2, 3]))  # and goes on with new ones


@pytest.mark.parametrize("name", ["naive", "lwf", "ewc", "si"])
def test_mt_refuses_a_class_in_two_tasks(name: str) -> None:
    learner = quick(name, head="per_task")
    learner.learn(toy_batch([0, 1]))
    before = learner.state_dict()
    with pytest.raises(DataError, match=r"each class in one task.*ambiguous.*got \[1\].*plain head"):
        learner.learn(toy_batch([1, 2]))
    assert_same_state(before, learner.state_dict())


def test_a_stream_is_refused_before_anything_is_learnt() -> None:
    again, new = [[0, 1], [2], [1, 3]], [[0, 1], [2], [3]]
    for name in NAMES:
        quick(name).check_stream(new)
        if name in REFUSE:
            with pytest.raises(DataError, match=r"overwrite.*got \[1\]"):
                quick(name).check_stream(again)
        else:
            quick(name).check_stream(again)
    with pytest.raises(DataError, match="each class in one task"):
        quick("naive", head="per_task").check_stream(again)


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rotated MNIST's place is taken by toys in three sessions, so that a run takes a moment."""
    batches = [toy_batch(range(4), 8, seed) for seed in range(4)]
    x, y = (np.concatenate([getattr(b, part).numpy() for b in batches]) for part in ("x", "y"))
    session, train = np.repeat(np.arange(4), 32), np.arange(128) < 96
    kept, test = (Patterns(x[mask], y[mask], session[mask]) for mask in (train, ~train))
    source = Source("toys", kept, test, tuple("abcd"))
    from everlearn import benchmarks

    stream = BENCHMARKS["rotated-mnist"].stream
    monkeypatch.setitem(benchmarks.BENCHMARKS, "rotated-mnist", benchmarks.Benchmark(lambda: source, stream))


@pytest.mark.usefixtures("sessions")
def test_a_run_over_sessions(tmp_path: Path) -> None:
    """AR1* learns three sessions of all classes; AR1 is refused at once, unless one batch is all that is asked."""
    knobs = {"training.first.epochs": 2, "training.later.epochs": 2}
    records = run(Config("rotated-mnist", "ar1*", knobs=knobs), tmp_path / "star")
    assert [r["classes"] for r in records] == [[0, 1, 2, 3]] * 3
    assert records[-1]["storage"]["head.past_"] == 4 * 8
    with pytest.raises(DataError, match=r"overwrite.*cwr\* or ar1\*"):
        run(Config("rotated-mnist", "ar1", knobs=knobs), tmp_path / "refused")
    assert not (tmp_path / "refused" / "records.jsonl").exists()
    assert len(run(Config("rotated-mnist", "ar1", knobs=knobs, batches=1), tmp_path / "one")) == 1


# --- mini50 --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def source() -> Source:
    return mini50()


def tiny(name: str) -> Strategy:
    knobs: dict[str, Any] = {"training.first.epochs": 1, "training.later.epochs": 1}
    network = small(50, (3, 32, 32), width=4, normalise=True)
    return build(name, network, knobs=knobs, setting="small/mini50", seed=1)


def thinned(batch: Batch, every: int) -> Batch:
    """Fewer patterns of all classes, to save time."""
    return Batch(batch.x[::every], batch.y[::every])


@pytest.mark.parametrize(("benchmark", "count"), [("mini50-ni", 2), ("mini50-nic", 5)])
def test_every_preset_on_mini50(benchmark: str, count: int, source: Source) -> None:
    """The first batch with known classes is B_2 (NI) or B_5 (NIC): each preset learns it, or says why it does not."""
    stream = BENCHMARKS[benchmark].stream(benchmark, source, 1)
    for name in NAMES:
        learner = tiny(name)
        *new, last = (thinned(stream[k], len(stream[k]) // 50) for k in range(count))
        for batch in new:
            learner.learn(batch)
        if name not in REFUSE:
            learner.learn(last)
            continue
        with pytest.raises(DataError, match=r"cwr\* or ar1\*"):
            learner.learn(last)


@pytest.mark.parametrize("name", STARS)
def test_all_79_batches_of_mini50_nic(name: str, source: Source) -> None:
    """Every fourth pattern: 3 of each object and session, so 24 of each class in the end."""
    stream = BENCHMARKS["mini50-nic"].stream("mini50-nic", source, 1)
    learner = tiny(name)
    for batch in stream:
        learner.learn(thinned(batch, 4))
    assert past(learner) == [24] * 50
    assert all(part[row].any() for part in parts(learner) for row in range(50))
