"""Where and when something was measured."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any


def processor() -> str:
    """The processor's name, where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def about() -> dict[str, Any]:
    """The machine and the time."""
    return {
        "machine": f"{processor()}, {os.cpu_count()} processors, {platform.system()} {platform.machine()}",
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def versions(*packages: str) -> dict[str, str]:
    """Of Python and of these packages."""
    return {"python": platform.python_version(), **{name: version(name) for name in packages}}


def said(result: dict[str, Any]) -> str:
    """The machine, versions and day of something that was measured here, in words."""
    named = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    return f"{result['machine']}; {named}; {result['when'][:10]}."
