"""States on disk: whole, atomic, and never executed."""

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

from everlearn import load_state, save_state
from everlearn.errors import StateError
from tests.toys import assert_same_state, quick, toy_stream

TREE: dict[str, Any] = {
    "a": torch.arange(6).view(2, 3),
    "empty": torch.zeros(0, 4),
    "b": [1, 2.5, None, True, "λ", [torch.ones(2, dtype=torch.uint8)]],
    "c": {"tensor": "a name", "dict": {}},
}


def test_a_tree_comes_back_as_it_was(tmp_path: Path) -> None:
    save_state(tmp_path / "s", TREE)
    assert_same_state(TREE, load_state(tmp_path / "s"))
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


def test_views_of_one_memory_may_be_saved(tmp_path: Path) -> None:
    whole = torch.arange(10.0)
    save_state(tmp_path / "s", {"a": whole[:5], "b": whole[3:], "c": whole.view(2, 5).T})
    back = load_state(tmp_path / "s")
    assert torch.equal(back["b"], whole[3:])
    assert torch.equal(back["c"], whole.view(2, 5).T)


def test_a_failed_save_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_state(tmp_path / "s", {"i": 1})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_state(tmp_path / "s", {"i": 2})
    monkeypatch.undo()
    assert load_state(tmp_path / "s") == {"i": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["s"]


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("executed",)


def test_files_that_are_no_state_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save_state("whole", quick("naive").state_dict())
    content = Path("whole").read_bytes()
    Path("short").write_bytes(content[: len(content) // 2])
    Path("pickle").write_bytes(pickle.dumps(Evil()))
    torch.save(Evil(), "torch")
    Path("nothing").write_bytes(b"")
    for name in ("short", "pickle", "torch", "nothing"):
        with pytest.raises(StateError, match=f"not a state, or it is damaged.*{name}"):
            load_state(name)
    assert not Path("executed").exists()
    with pytest.raises(StateError, match="no such state"):
        load_state("absent")


def test_a_state_is_a_copy() -> None:
    learner = quick("ar1")
    stream = toy_stream()
    learner.learn(stream[0])
    state = learner.state_dict()
    kept = load_of(state)
    learner.learn(stream[1])
    assert_same_state(state, kept)


def load_of(state: dict[str, Any]) -> dict[str, Any]:
    """A deep copy."""
    from everlearn.state import mapped

    copy: dict[str, Any] = mapped(state, torch.Tensor.clone)
    return copy
