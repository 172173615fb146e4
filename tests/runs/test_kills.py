"""Nothing is lost: real processes killed with SIGKILL, on real digits, end as if nothing had happened."""

from pathlib import Path
from random import Random
from typing import get_args

import pytest

from everlearn.runs import Config, RunFolder, run
from tests.kills import Moment, assert_refused_while, assert_same_end, kill_at, start

SHORT = {"training.first.epochs": 2, "training.later.epochs": 2}
LONG = {"training.first.epochs": 12, "training.later.epochs": 12}


def test_three_kills_and_the_same_end(tmp_path: Path) -> None:
    """One in training, one while a checkpoint is written, one in evaluation; the next process is never refused."""
    config, random = Config("digits", "ar1", knobs=SHORT), Random(20)
    run(config, tmp_path / "whole")
    done = list[Moment]()
    for moment in ("training", "writing", "evaluation"):
        process = start(config, tmp_path / "killed", checkpoint_every=0.0)
        assert kill_at(process, tmp_path / "killed", moment, random.uniform(0, 0.05), random), (done, moment)
        done.append(moment)
        if moment == "writing":
            assert len(list((tmp_path / "killed").glob(".checkpoint*.tmp"))) == 1
    process = start(config, tmp_path / "killed", checkpoint_every=0.0)
    assert_refused_while(process, tmp_path / "killed")
    assert process.wait(timeout=60) == 0
    assert_same_end(tmp_path / "killed", tmp_path / "whole")


@pytest.mark.soak
@pytest.mark.parametrize("strategy", ["ar1", "ewc", "cwr+"])
def test_twenty_kills_and_the_same_end(strategy: str, tmp_path: Path) -> None:
    """At random moments of all kinds; a run that ends before its next kill is compared, and another one begun."""
    config, random = Config("digits", strategy, knobs=LONG), Random(strategy)
    records = run(config, tmp_path / "whole", checkpoint_every=0.02)
    seconds = sum(record["seconds_train"] + record["seconds_eval"] for record in records)
    kills = dict.fromkeys(get_args(Moment), 0)
    folder, begun = tmp_path / "1", 1
    while sum(kills.values()) < 20:
        moment = random.choice(get_args(Moment))
        process = start(config, folder, checkpoint_every=random.choice([0.0, 0.02, 0.2]))
        if kill_at(process, folder, moment, random.uniform(0, seconds / 8), random):
            kills[moment] += 1
        else:
            assert_same_end(folder, tmp_path / "whole")
            begun += 1
            folder = tmp_path / str(begun)
    assert start(config, folder, checkpoint_every=0.2).wait() == 0
    assert_same_end(folder, tmp_path / "whole")
    assert min(kills.values()) > 0, kills
    assert len(RunFolder(folder).records()) == 4
