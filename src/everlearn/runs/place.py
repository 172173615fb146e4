"""Where a run is computed: what settles how sums are rounded, and so whether two runs agree bit for bit."""

import platform
import shlex
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy
import torch

import everlearn
from everlearn.errors import RunWarning, sentence


def command() -> str:
    """The command that is at work, as a shell takes it."""
    return shlex.join(["everlearn", *sys.argv[1:]])


def machine() -> dict[str, Any]:
    """What config.json says of the machine."""
    return {
        "cores": torch.get_num_threads(),
        "system": platform.system(),
        "cpu": platform.machine(),
        "instructions": torch.backends.cpu.get_cpu_capability(),
    }


def versions() -> dict[str, str]:
    """What config.json says of the software."""
    known = {"everlearn": everlearn.__version__, "torch": torch.__version__, "numpy": numpy.__version__}
    return {**known, "python": platform.python_version()}


def place(config: dict[str, Any]) -> dict[str, Any]:
    """Where a run was computed by its config.json, as far as that tells.

    >>> place({"threads": 2, "versions": {"torch": "2.6.0"}})
    {'device': 'cpu', 'threads': 2, 'processes': 1, 'torch': '2.6.0'}
    """
    known = {
        "device": config.get("device", "cpu"),
        "threads": config.get("threads"),
        "processes": config.get("processes", 1),
        "torch": config.get("versions", {}).get("torch"),
        "cpu": config.get("machine", {}).get("cpu"),
        "instructions": config.get("machine", {}).get("instructions"),
    }
    return {name: value for name, value in known.items() if value is not None}


def moved(
    folder: Path, stored: dict[str, Any], config: dict[str, Any], *, kept: str = "its config.json says so"
) -> dict[str, list[Any]]:
    """What of the place is another than when the run stopped, then and now; said if there is anything.

    kept: what becomes of it.
    """
    then, now = place(stored), place(config)
    differ = {name: [then[name], now[name]] for name in now if then.get(name, now[name]) != now[name]}
    if differ:
        warnings.warn(
            sentence(
                f"{folder} goes on elsewhere",
                expected="the same place, for a result that is the same bit for bit",
                got="; ".join(f"{name}: {before} before, {here} now" for name, (before, here) in differ.items()),
                do=f"From here on it is the same within rounding only, and {kept}.",
            ),
            RunWarning,
            stacklevel=4,
        )
    return differ
