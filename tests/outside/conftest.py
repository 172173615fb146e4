"""The test package, installed as far as an entry point goes: its folder and its dist-info are on the path."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from everlearn.recipes import registry

HERE = Path(__file__).parent


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For this process and for those that it starts."""
    before = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(HERE), before])))
    monkeypatch.syspath_prepend(str(HERE))
    registry.forget()
    yield
    registry.forget()
    for name in [name for name in sys.modules if name.split(".")[0] == "everlearn_toy"]:
        del sys.modules[name]
