"""Every preset learns what it has always learnt: records and weights, bit for bit."""

import pytest

from tests import digests
from tests.toys import NAMES

KNOWN = digests.stored().get(digests.kind(), {})
known = pytest.mark.skipif(not KNOWN, reason=f"no digests are stored for this kind of processor: {digests.kind()}")


def check(benchmark: str, name: str) -> None:
    assert digests.digests(benchmark, name) == KNOWN[f"{benchmark} {name}"]


@known
@pytest.mark.filterwarnings("ignore::everlearn.errors.OvershootWarning")
@pytest.mark.parametrize("name", digests.PRESETS)
def test_digits(name: str) -> None:
    check("digits", name)


@known
@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::everlearn.errors.OvershootWarning")
@pytest.mark.parametrize("name", digests.PRESETS)
def test_mini50(name: str) -> None:
    check("mini50", name)


def test_every_preset_of_this_version_is_there() -> None:
    assert set(digests.PRESETS) <= set(NAMES)
