"""What every preset promises, whatever its slots."""

from pathlib import Path

import pytest
import torch

from everlearn import Step, Strategy, load_state, save_state
from everlearn.models import Network
from tests.toys import (
    CLASSES,
    NAMES,
    ORDER,
    assert_same_state,
    live_tensors,
    plain_network,
    quick,
    storages,
    three_outputs,
    toy_batch,
    toy_stream,
)

NETWORKS = {"plain": plain_network, "three": three_outputs}

every_preset = pytest.mark.parametrize("name", NAMES)
every_network = pytest.mark.parametrize("network", NETWORKS)
both_growths = pytest.mark.parametrize("growth", ["maximal", "expanding"])


def learner(name: str, network: str, growth: str = "maximal", seed: int = 3) -> Strategy:
    return quick(name, NETWORKS[network](), seed=seed, head__growth=growth)


@every_preset
@every_network
def test_the_same_seed_gives_the_same_bits(name: str, network: str) -> None:
    a, b, other = learner(name, network), learner(name, network), learner(name, network, seed=4)
    for batch in toy_stream():
        a.learn(batch)
        torch.rand(7)  # what others draw does not matter
        b.learn(batch)
        other.learn(batch)
    assert_same_state(a.state_dict(), b.state_dict())
    assert not torch.equal(a.theta.value, other.theta.value)


@every_preset
@every_network
@both_growths
def test_saved_and_loaded_between_batches_goes_on_bit_for_bit(
    name: str, network: str, growth: str, tmp_path: Path
) -> None:
    stream = toy_stream()
    whole, first = learner(name, network, growth), learner(name, network, growth)
    for batch in stream:
        whole.learn(batch)
    first.learn(stream[0])
    first.learn(stream[1])
    save_state(tmp_path / "state", first.state_dict())
    second = learner(name, network, growth, seed=77)
    second.load_state_dict(load_state(tmp_path / "state"))
    second.learn(stream[2])
    assert_same_state(whole.state_dict(), second.state_dict())


@every_preset
@every_network
@both_growths
@pytest.mark.parametrize("at", [1, 4, 6])
def test_saved_in_the_middle_of_a_batch_goes_on_bit_for_bit(
    name: str, network: str, growth: str, at: int, tmp_path: Path
) -> None:
    """B_2 has 6 steps (24 patterns, minibatches of 8, two epochs); the state is taken after the first, fourth, last."""
    stream = toy_stream()
    whole = learner(name, network, growth)

    def save(step: Step) -> None:
        assert step.steps == 6 or name == "cumulative"
        if step.i == 2 and step.step == at:
            save_state(tmp_path / "state", whole.state_dict())

    whole.learn(stream[0])
    whole.learn(stream[1], on_step=save)
    whole.learn(stream[2])
    second = learner(name, network, growth, seed=77)
    second.load_state_dict(load_state(tmp_path / "state"))
    steps: list[int] = []
    second.learn(stream[1], on_step=lambda step: steps.append(step.step))
    assert steps[:1] in ([at + 1], [])  # no step is made twice
    second.learn(stream[2])
    assert_same_state(whole.state_dict(), second.state_dict())


@every_preset
def test_a_state_may_be_loaded_twice(name: str) -> None:
    """Learning on does not write into the state that it came from."""
    stream = toy_stream()
    first = learner(name, "plain")
    middle: list[dict[str, object]] = []
    first.learn(stream[0])
    first.learn(stream[1], on_step=lambda step: middle.append(first.state_dict()) if step.step == 2 else None)
    ends = []
    for _ in range(2):
        again = learner(name, "plain")
        again.load_state_dict(middle[0])
        again.learn(stream[1])
        ends.append(again.state_dict())
    assert_same_state(*ends)
    assert_same_state(first.state_dict(), ends[0])


@every_preset
@both_growths
def test_a_failed_batch_leaves_no_trace(name: str, growth: str) -> None:
    stream = toy_stream()
    a = learner(name, "three", growth)

    def stop(step: Step) -> None:
        if step.step == 3:
            raise KeyboardInterrupt

    for batch in stream:
        before = a.state_dict()
        with pytest.raises(KeyboardInterrupt):
            a.learn(batch, on_step=stop)
        assert_same_state(before, a.state_dict())
        a.learn(batch)
    never_failed = learner(name, "three", growth)
    for batch in stream:
        never_failed.learn(batch)
    assert_same_state(never_failed.state_dict(), a.state_dict())


@every_preset
def test_the_batch_is_not_mutated(name: str) -> None:
    a = learner(name, "three")
    for batch in toy_stream():
        x, y = batch.x.clone(), batch.y.clone()
        a.learn(batch)
        assert torch.equal(x, batch.x)
        assert torch.equal(y, batch.y)


@every_preset
@both_growths
def test_scores_have_a_column_a_class(name: str, growth: str) -> None:
    a = learner(name, "three", growth)
    stream = toy_stream()
    x = toy_batch(range(CLASSES)).x
    for i, batch in enumerate(stream, start=1):
        a.learn(batch)
        seen = [c for classes in ORDER[:i] for c in classes]
        assert [a.rows_[row] for row in a.columns("seen")] == seen
        assert a.scores(x, "seen").shape == (len(x), len(seen))
        assert a.scores(x, "all").shape == (len(x), CLASSES if growth == "maximal" else len(seen))
        assert set(a.predict(x).tolist()) <= set(seen)
        assert torch.equal(a.scores(x, batch=i), a.scores(x, "seen")[:, -len(batch.classes) :])
        assert torch.equal(a.scores(x, "seen"), a.scores(x, "all")[:, a.columns("seen")])


@every_preset
def test_scores_may_be_asked_in_the_middle_of_a_batch(name: str) -> None:
    """Asking changes nothing, and a CWR head answers with consolidated weights."""
    stream = toy_stream()
    asked, left_alone = learner(name, "three"), learner(name, "three")
    for batch in stream:
        asked.learn(batch, on_step=lambda _: asked.scores(stream[0].x))
        left_alone.learn(batch)
    assert_same_state(asked.state_dict(), left_alone.state_dict())


@every_preset
def test_every_preset_learns(name: str) -> None:
    """B_1's classes are told apart on new patterns, and on every later batch the loss falls."""
    knobs = {"training__first__epochs": 15, "training__first__eta": 0.01, "training__later__epochs": 8}
    a = quick(name, plain_network(dropout=0.0), **knobs)  # type: ignore[arg-type]
    losses: list[float] = []
    for batch in toy_stream():
        a.learn(batch, on_step=lambda step: losses.append(step.loss))
        if a.i_ == 1:
            assert a.evaluate(toy_batch(ORDER[0], seed=1)).seen > 0.95
        else:
            assert sum(losses[-3:]) < sum(losses[:3])
        losses.clear()


@every_preset
@every_network
def test_the_ledger_counts_every_tensor(name: str, network: str) -> None:
    """Between batches, the ledger's bytes are those of all tensors that came alive with the learner."""
    stream = toy_stream()
    before = storages(live_tensors())
    net: Network = NETWORKS[network]()
    a = quick(name, net)
    for batch in stream:
        a.learn(batch)
    made = {p: size for p, size in storages(live_tensors()).items() if p not in before}
    kept = a.storage().kept
    assert sum(made.values()) == sum(entry.bytes for entry in kept.values())


@every_preset
@every_network
def test_the_ledger_counts_every_tensor_within_a_batch(name: str, network: str) -> None:
    """At the last step, what is alive beyond the ledger is only what belongs to B_i and to one step."""
    stream = toy_stream()
    before = storages(live_tensors())
    a = learner(name, network)
    alive: dict[int, int] = {}

    def look(step: Step) -> None:
        if step.i == 3 and step.step == step.steps:
            alive.update({p: size for p, size in storages(live_tensors()).items() if p not in before})

    for batch in stream:
        a.learn(batch, on_step=look)
    ledger = a.storage()
    n = len(stream[2]) if name != "cumulative" else sum(map(len, stream))
    rows_and_order, loss = 2 * 8 * n, 4
    generator = torch.random.get_rng_state().nbytes  # the caller's, put back at the end
    mixed = 0 if name != "cumulative" else n * (64 * 4 + 8)
    counted = sum(entry.bytes for entry in ledger.within.values())
    spare = sum(alive.values()) - counted - rows_and_order - loss - mixed
    assert spare in (0, generator)
    assert set(ledger.why) == {*ledger.kept, *ledger.within}
