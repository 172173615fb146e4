"""Packages of somebody else's, installed as far as an entry point goes: a module and a dist-info on the path."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from everlearn.recipes import registry

Bring = Callable[[str, str, dict[str, dict[str, str]]], None]


@contextmanager
def bringing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bring]:
    """Gives a function that installs a module: its name, its source, and its entry points by group and name."""
    made: list[str] = []

    def bring(module: str, source: str, points: dict[str, dict[str, str]]) -> None:
        info = folder / f"{module}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{module}.py").write_text(source)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
        groups = [
            "\n".join([f"[{group}]", *(f"{name} = {module}:{value}" for name, value in named.items())])
            for group, named in points.items()
        ]
        (info / "entry_points.txt").write_text("\n\n".join(groups) + "\n")
        made.append(module)
        monkeypatch.syspath_prepend(str(folder))
        registry.forget()

    yield bring
    for module in made:
        sys.modules.pop(module, None)
    monkeypatch.undo()
    registry.forget()
