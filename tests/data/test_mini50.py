"""mini50: its shape, that it is settled by seed and version, and that sessions really shift the distribution."""

import numpy as np
import pytest

from everlearn import Batch, Learner, build
from everlearn.benchmarks import BENCHMARKS, object_groups
from everlearn.data import Source, mini50
from everlearn.data.mini50 import pretraining
from everlearn.data.render import VERSION, render
from everlearn.models import small


@pytest.fixture(scope="module")
def source() -> Source:
    return mini50()


def test_its_shape_is_core50s(source: Source) -> None:
    assert source.synthetic
    assert source.train.x.shape == (50 * 8 * 12, 3, 32, 32)
    assert source.test.x.shape == (50 * 3 * 12, 3, 32, 32)
    assert source.train.x.dtype == np.uint8
    assert set(source.test.session) == {3, 7, 10}
    assert set(source.train.session) == {1, 2, 4, 5, 6, 8, 9, 11}
    pairs, counts = np.unique(np.stack([source.train.y, source.train.session]), axis=1, return_counts=True)
    assert pairs.shape[1] == 400
    assert set(counts) == {12}


def test_the_same_seed_renders_the_same_bytes() -> None:
    a, b, other, elsewhere = (
        render(2, 2, 2, seed=seed, world=world) for seed, world in ((5, "w"), (5, "w"), (6, "w"), (5, "v"))
    )
    assert all(np.array_equal(a[name], b[name]) for name in a)
    for another in (other, elsewhere):
        assert not np.array_equal(a["x"], another["x"])


def test_what_is_drawn_changes_only_with_the_version() -> None:
    """Block means of one frame of version 1, to a grey level: processors may round a pixel otherwise."""
    frame = render(1, 1, 2, seed=0, world="golden")["x"][0]
    blocks = frame.reshape(3, 4, 8, 4, 8).mean(axis=(2, 4))
    assert VERSION == 1
    np.testing.assert_allclose(blocks, GOLDEN, atol=1.5)


GOLDEN = np.array(
    [
        [173, 142, 135, 135, 161, 186, 183, 137],
        [181, 215, 145, 135, 134, 135, 133, 131],
        [160, 195, 200, 200, 176, 167, 196, 198],
        [201, 190, 185, 197, 194, 193, 197, 193],
        [141, 168, 168, 170, 156, 148, 194, 176],
        [203, 210, 171, 185, 171, 169, 178, 188],
    ]
).reshape(3, 4, 4)


def test_pretraining_has_other_objects_and_other_sessions(source: Source) -> None:
    other = pretraining()
    assert len(other.classes) == 100
    assert not set(map(bytes, other.train.x[:200])) & set(map(bytes, source.train.x))


@pytest.fixture(scope="module")
def learnt(source: Source) -> tuple[Learner, Batch]:
    """A small network that has learnt three of four frames of every training video, and the frames left out."""
    x, y = source.train.x, source.train.y
    held = np.arange(len(y)) % 4 == 3
    knobs = {"training.minibatch": 32, "training.first.epochs": 5}
    learner = build("naive", small(50, (3, 32, 32), normalise=True), knobs=knobs)
    learner.learn(Batch(x[~held], y[~held]))
    return learner, Batch(x[held], y[held])


def test_sessions_shift_the_distribution(source: Source, learnt: tuple[Learner, Batch]) -> None:
    """On new frames of the sessions it has seen, a small network is at least 25 points better than on others."""
    learner, held = learnt
    same, cross = (learner.evaluate(batch).seen for batch in (held, Batch(source.test.x, source.test.y)))
    assert same - cross >= 0.25
    assert cross > 0.2  # and yet something carries over: chance is 0.02


def test_objects_of_one_category_resemble_each_other(source: Source, learnt: tuple[Learner, Batch]) -> None:
    """What it mistakes, it takes for an object of the same category at least twice as often as by chance."""
    predicted, y = learnt[0].predict(source.test.x).numpy(), source.test.y
    wrong = predicted != y
    assert (predicted[wrong] // 5 == y[wrong] // 5).mean() > 2 * 4 / 49


def test_the_streams_of_mini50(source: Source) -> None:
    assert sorted(c for group in object_groups() for c in group) == list(range(50))
    sizes = {"mini50": 9, "mini50-ni": 8, "mini50-nic": 79, "mini50-25x2": 25}
    streams = {name: [BENCHMARKS[name].stream(name, source, run) for run in (1, 2)] for name in sizes}
    for name, (first, second) in streams.items():
        assert len(first) == sizes[name]
        everything = np.sort(np.concatenate(first.indices))
        assert np.array_equal(everything, np.arange(4800))  # every training pattern once
        assert first.batches != second.batches or name == "mini50-ni"
        assert any(not np.array_equal(a, b) for a, b in zip(first.indices, second.indices, strict=True))
    nc = streams["mini50"]
    assert nc[0].batches[0] == nc[1].batches[0] == [5 * k for k in range(10)]
    assert [len(b) for b in nc[0].batches] == [10, *[5] * 8]
    assert sorted(nc[0].batches) == sorted(nc[1].batches)
    assert [len(b) for b in streams["mini50-nic"][0].batches] == [10, *[5] * 78]
