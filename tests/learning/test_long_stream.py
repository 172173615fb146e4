"""A long stream costs no more at its end than at its beginning, by counts of operations and bytes."""

import gc
from collections import Counter
from cProfile import Profile
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.long_stream import BATCHES, CLASSES, STRATEGIES, batch, learner
from everlearn import Strategy
from everlearn._kit.lines import read_lines
from everlearn.benchmarks import BENCHMARKS
from everlearn.runs import Config, folder, run
from tests.toys import leaves, live_tensors, storages, toy_benchmark

EARLY, LATE = 20, 200
PATTERNS = 16  # of each class
ROWS = BATCHES * CLASSES


class Count(TorchDispatchMode):
    """Every operation by name, forward and backward, and the bytes that they gave."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operations, self.bytes = Counter[str](), 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        self.operations[str(func)] += 1
        self.bytes += sum(leaf.numel() * leaf.element_size() for leaf in tree_leaves(out) if isinstance(leaf, Tensor))
        return out


def live_bytes() -> int:
    """The memory of all tensors that this process holds."""
    return sum(storages(live_tensors()).values())


def learn(chosen: Strategy, i: int) -> None:
    chosen.learn(batch(i, PATTERNS))


def python_calls(chosen: Strategy, i: int) -> int:
    """How many functions learning B_i calls, Python's and built-in ones."""
    here, profile = batch(i, PATTERNS), Profile()
    gc.disable()  # what it would call is not ours
    try:
        profile.runcall(chosen.learn, here)
    finally:
        gc.enable()
    return sum(entry.callcount for entry in profile.getstats())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_batch_200_costs_what_batch_20_did(strategy: str) -> None:
    """The same operations, the same calls of Python's functions, the same tensors held afterwards and on disk.

    The operations also write the same bytes, but for CWR+, which sets the biases of the rows met so far to 1 when B_i
    begins and when it ends: twice 8 bytes for each class's index.
    """
    chosen, costs, calls = learner(strategy, epochs=1), list[Any](), 0
    for i in range(1, LATE + 1):
        if i + 1 in (EARLY, LATE):
            calls = python_calls(chosen, i)
            continue
        if i not in (EARLY, LATE):
            learn(chosen, i)
            continue
        with Count() as count:
            learn(chosen, i)
        state = dict(leaves(chosen.state_dict()))
        disk = len(save({name: leaf for name, leaf in state.items() if isinstance(leaf, Tensor)}))
        del state
        costs.append((count.bytes, count.operations, calls, live_bytes(), disk, chosen.storage()))
    (written, *early), (later_written, *late) = costs
    assert sum(early[0].values()) > 100
    assert early == late
    assert later_written - written == (0 if strategy == "lwf" else 2 * 8 * CLASSES * (LATE - EARLY))
    check_formula(strategy, chosen)


def check_formula(strategy: str, chosen: Strategy) -> None:
    """The ledger after B_200: the paper's formula by hand, and what is really held for it."""
    ledger, [output] = chosen.storage(), chosen.head.outputs
    m, s, pn, n_i = chosen.theta.m, ROWS, output.pn, CLASSES * PATTERNS
    assert m == sum(parameter.numel() for parameter in chosen.network.parameters())
    expected = {"ar1": s * pn + 2 * (m - s * pn), "cwr+": s * pn, "lwf": n_i * s}
    assert ledger.paper == expected[strategy]
    kept = {name: entry.values for name, entry in ledger.kept.items()}
    within = {name: entry.values for name, entry in ledger.within.items()}
    shared = m - s * pn - s
    importances = {"regulariser.F_": shared, "regulariser.theta_star_": shared} if strategy == "ar1" else {}
    assert kept == {"network": m, "sgd.v": m, **importances}
    if strategy == "lwf":
        assert within["regulariser.y_lwf_"] == n_i * s
    else:
        assert within["head.cw_"] == s * pn + s


def test_a_run_reads_its_records_as_often_however_long_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "digits", toy_benchmark())
    reads = list[Path]()

    def count(path: Path) -> list[dict[str, Any]]:
        reads.append(path)
        return read_lines(path)

    monkeypatch.setattr(folder, "read_lines", count)
    counts = []
    for batches in (2, 5):
        reads.clear()
        run(Config("digits", "naive", batches=batches), tmp_path / str(batches))
        counts.append(len(reads))
    assert counts[0] == counts[1]
