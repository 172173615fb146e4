"""Learners of other packages, slots or not, keep the promises that ours keep."""

from pathlib import Path

import pytest

import everlearn
from everlearn import Learner
from everlearn.models import small
from tests.contract import CHECKS, Check
from tests.toys import QUICK, toy_stream

TRAINED = ("toy-agem", "toy-der", "half-frozen", "ar1")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ["pixel-means", "shrunk-means", "toy-ncm", *TRAINED])
def test_contract(name: str, check: Check, tmp_path: Path) -> None:
    knobs = {**QUICK, "ewc.minibatch": 8} if name == "half-frozen" else QUICK

    def make(seed: int) -> Learner:
        network = small(7, (1, 8, 8), width=4)
        return everlearn.build(name, network, knobs=knobs if name in TRAINED else None, seed=seed)

    check(make, toy_stream(), tmp_path)
