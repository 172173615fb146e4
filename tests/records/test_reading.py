"""What runs left on disk: the short forms of a record and a config say what the long ones say."""

import json
from typing import Any

import pytest

from everlearn._kit.lines import parsed
from everlearn.errors import DataError
from everlearn.records.reading import Outcome, RunPlan, config_of, outcome_of, plan_of, record_of, without_matrices
from tests import report_toys as toys

SIZES = (4, 3, 3)


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_an_outcome_is_the_short_form_of_a_record(separators: tuple[str, str]) -> None:
    data = toys.toy_record("digits", "ar1", 1, 2, SIZES) | {"confusion_mt": [[1, 2], [3, 4]], "seconds_eval": 0.25}
    line = json.dumps(data, separators=separators).encode()
    short = without_matrices(line)
    assert len(short) < len(line)
    outcome = outcome_of(parsed(short) or {}, "here")
    record = record_of({**data, "confusion_mt": None}, "here")
    assert vars(outcome) == {name: getattr(record, name) for name in vars(outcome)}
    assert isinstance(record, Outcome)
    assert (outcome.i, outcome.seconds_eval) == (2, 0.25)


def test_a_plan_is_the_short_form_of_a_config() -> None:
    data = toys.toy_config("digits", "ar1", 1, SIZES) | {"batches": 2, "synthetic": True}
    plan, config = plan_of(data, "here"), config_of(data, "here")
    assert plan == RunPlan(benchmark="digits", strategy="ar1", run=1, batches=2, synthetic=True)
    assert vars(plan) == {name: getattr(config, name) for name in vars(plan)}
    assert config.raw == data


@pytest.mark.parametrize("change", [{"accuracy": 1.5}, {"i": 0}, {"run": None}, {"strategy": 3}, {"seconds_eval": ""}])
def test_both_forms_refuse_the_same(change: dict[str, Any]) -> None:
    data = toys.toy_record("digits", "ar1", 1, 2, SIZES) | change
    for read in (outcome_of, record_of):
        with pytest.raises(DataError, match=f"The field {next(iter(change))!r} of here is wrong"):
            read(data, "here")
