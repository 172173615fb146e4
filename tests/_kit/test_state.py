"""States on disk: whole, atomic, and never executed."""

import hashlib
import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save

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


def test_every_flipped_byte_is_noticed(tmp_path: Path) -> None:
    """Wherever it is: in the checksum, in the tree, in the names of the tensors and in their values."""
    path = tmp_path / "s"
    save_state(path, TREE)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(StateError, match="damaged"):
            load_state(path)
    path.write_bytes(whole)
    assert_same_state(TREE, load_state(path))


def test_a_flipped_byte_is_said_to_be_one(tmp_path: Path) -> None:
    save_state(tmp_path / "s", TREE)
    content = bytearray((tmp_path / "s").read_bytes())
    content[-1] ^= 128
    (tmp_path / "s").write_bytes(content)
    with pytest.raises(
        StateError, match=r"/s \(its checksum is [0-9a-f]{8}…, and was [0-9a-f]{8}… when it was written"
    ):
        load_state(tmp_path / "s")


def test_the_checksum_is_that_of_the_file_with_zeros_in_its_place(tmp_path: Path) -> None:
    save_state(tmp_path / "s", TREE)
    content = (tmp_path / "s").read_bytes()
    [digest] = re.findall(rb"[0-9a-f]{64}", content)
    assert hashlib.sha256(content.replace(digest, b"0" * 64)).hexdigest() == digest.decode()


def test_states_of_before_there_was_a_checksum_are_read(tmp_path: Path) -> None:
    tree = {"dict": {"i": 3, "theta": {"tensor": "/theta"}, "list": [{"dict": {}}, None]}}
    theta = torch.arange(3.0)
    (tmp_path / "s").write_bytes(save({"/theta": theta}, metadata={"everlearn": json.dumps(tree)}))
    assert_same_state(load_state(tmp_path / "s"), {"i": 3, "theta": theta, "list": [{}, None]})


def test_the_state_before_may_be_kept(tmp_path: Path) -> None:
    for i in (1, 2, 3):
        save_state(tmp_path / "s", {"i": i}, keep=tmp_path / "before")
    assert [load_state(tmp_path / name)["i"] for name in ("s", "before")] == [3, 2]
    assert len(list(tmp_path.iterdir())) == 2


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
    from everlearn._kit.state import mapped

    copy: dict[str, Any] = mapped(state, torch.Tensor.clone)
    return copy
