"""The storage ledger: the paper's formulas beside what is really kept."""

from typing import Any

import pytest

from everlearn import Strategy
from tests.toys import plain_network, quick, three_outputs, toy_stream

M_PLAIN = 64 * 12 + 12 + 12 * 9 + 9 + 9 * 7 + 7
PN_PLAIN = 9
M_THREE = (36 + 4) + 8 + (4 * 9 * 6 + 6) + (96 * 10 + 10) + (64 + 6 + 10) * 7 + 3 * 7
PN_THREE = 64 + 6 + 10


def learnt(name: str, network: Any, **knobs: Any) -> Strategy:
    learner = quick(name, network(), **knobs)
    for batch in toy_stream():
        learner.learn(batch)
    return learner


@pytest.mark.parametrize(
    ("network", "m", "pn"), [(plain_network, M_PLAIN, PN_PLAIN), (three_outputs, M_THREE, PN_THREE)]
)
def test_the_papers_formulas(network: Any, m: int, pn: int) -> None:
    """s = 7 classes; pn summed over the output layers; B_3 has 24 patterns."""
    outputs = 1 if network is plain_network else 3
    expected = {
        "naive": 0,
        "lwf": 24 * 7 * outputs,
        "ewc": 2 * m,
        "si": 2 * m,
        "cwr": 7 * pn,
        "cwr+": 7 * pn,
        "ar1": 7 * pn + 2 * (m - 7 * pn),
        "ar1-ewc": 7 * pn + 2 * (m - 7 * pn),
        "ar1-lwf": 7 * pn + 24 * 7 * outputs,
        "cwr*": 7 * pn,
        "ar1*": 7 * pn + 2 * (m - 7 * pn),
        "fw": 0,
        "cw": 0,
    }
    for name, paper in expected.items():
        assert learnt(name, network).storage().paper == paper, name


def values(entries: dict[str, Any]) -> dict[str, int]:
    return {name: entry.values for name, entry in entries.items()}


def test_what_ar1_really_keeps() -> None:
    """F and Θ* over Θ̄, which lacks the output biases too; cw apart only within a batch."""
    ledger = learnt("ar1", plain_network).storage()
    m_bar = M_PLAIN - 7 * PN_PLAIN - 7
    assert values(ledger.kept) == {
        "network": M_PLAIN,
        "sgd.v": M_PLAIN,
        "regulariser.F_": m_bar,
        "regulariser.theta_star_": m_bar,
    }
    extra = {"sgd.grad": M_PLAIN, "head.cw_": 7 * PN_PLAIN + 7, "head._held": 14, "before": 2 * M_PLAIN}
    path = dict.fromkeys(("regulariser._pulls", "regulariser.path_", "regulariser.theta_start_"), m_bar)
    assert values(ledger.within) == {**values(ledger.kept), **extra, **path}
    kept = ledger.kept["regulariser.F_"].values + ledger.kept["regulariser.theta_star_"].values
    assert ledger.paper - kept - ledger.within["head.cw_"].values == 2 * 7 - 7  # biases: counted in 2·(m − s·pn)


def test_what_the_others_really_keep() -> None:
    for name in ("ewc", "si"):
        kept = values(learnt(name, three_outputs).storage().kept)
        assert kept["regulariser.F_"] == kept["regulariser.theta_star_"] == M_THREE
    lwf = learnt("lwf", three_outputs, head__growth="maximal").storage()
    assert lwf.within["regulariser.y_lwf_"].values == 24 * 7 * 3 == lwf.paper
    assert "regulariser.y_lwf_" not in lwf.kept
    expanding = learnt("lwf", three_outputs).storage()
    assert expanding.within["regulariser.y_lwf_"].values == 24 * 5 * 3  # the old rows alone
    cumulative = learnt("cumulative", plain_network).storage()
    assert cumulative.kept["memory.batch_"].values == 84 * 65
    option_1 = learnt("ewc", plain_network, ewc__terms="per_batch").storage()
    assert option_1.kept["regulariser.history_"].values == 3 * 2 * M_PLAIN == option_1.paper


def test_every_difference_is_explained() -> None:
    ledger = learnt("si", three_outputs, si__path="gradient").storage()
    assert all(len(reason) > 10 for reason in ledger.why.values())
    assert "momentum" in ledger.why["sgd.v"]
    assert ledger.kept["network"].values == M_THREE + 9  # and batch norm's statistics: 4 + 4 + a counter
