"""Lines of JSON: written whole, and read whatever a writer left."""

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn._kit.lines import (
    Damaged,
    Tail,
    append_line,
    last_line,
    line_of,
    objects,
    opened,
    parsed,
    read_lines,
    whole_lines,
)

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(st.none() | st.booleans() | NUMBERS | st.text(), st.lists)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES))


def add(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


@given(OBJECTS, st.integers(min_value=0))
def test_whatever_is_cut_off_the_lines_before_it_are_read(values: list[dict[str, object]], cut: int) -> None:
    """The k-th line is read as soon as, and only if, its newline is there."""
    lines = [line_of(value) for value in values]
    data = b"".join(lines)
    cut %= len(data) + 1
    ends = [sum(map(len, lines[: k + 1])) for k in range(len(lines))]
    expected = [(k, value) for k, (value, end) in enumerate(zip(values, ends, strict=True), start=1) if end <= cut]
    for damaged in ("stop", "skip", "refuse"):
        assert list(objects(whole_lines(data[:cut]), damaged=damaged)) == expected


def test_a_file_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    assert read_lines(path) == []
    append_line(path, {"i": 1})
    append_line(path, {"i": 2, "name": "ä\u2028"}, sync=True)
    add(path, '{"i": 3')
    assert read_lines(path) == [{"i": 1}, {"i": 2, "name": "ä\u2028"}]
    add(path, "}\r\n")  # by another program
    assert read_lines(path)[2:] == [{"i": 3}]
    with pytest.raises(ValueError, match="JSON compliant"):
        append_line(path, {"loss": math.nan})
    assert len(read_lines(path)) == 3


@pytest.mark.parametrize("bad", [b"", b"  ", b"[4]", b"4", b"null", b'{"i": ', b"\xff{}", b"[" * 100_000, b"\0" * 9])
def test_a_damaged_line(bad: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'{"i": 1}\n' + bad + b'\n{"i": 3}\n')
    found: dict[Damaged, list[int]] = {"stop": [1], "skip": [1, 3]}
    for damaged, expected in found.items():
        assert [one["i"] for one in read_lines(path, damaged=damaged)] == expected
    if bad.strip():
        with pytest.raises(ValueError, match="Line 2 is not a JSON object"):
            read_lines(path, damaged="refuse")
        with pytest.raises(KeyError, match="2"):
            list(objects(whole_lines(path.read_bytes()), damaged="refuse", error=KeyError))
    else:
        assert len(read_lines(path, damaged="refuse")) == 2


def test_numbers_that_are_not_finite() -> None:
    line = b'{"a": NaN, "b": [Infinity, -Infinity, 1e999], "c": 1.5}'
    assert parsed(line, finite=True) == {"a": None, "b": [None, None, None], "c": 1.5}
    found = parsed(line)
    assert found is not None
    assert math.isnan(found["a"])
    assert found["b"] == json.loads("[Infinity, -Infinity, Infinity]")


def test_a_growing_file_is_read_once_and_in_whole_lines(tmp_path: Path) -> None:
    path, tail = tmp_path / "x.jsonl", Tail(tmp_path / "x.jsonl")
    assert tail.read() == (False, [])
    add(path, "one\ntw")
    assert (tail.read(), tail.read()) == ((False, [b"one"]), (False, []))
    assert last_line(path) == b"one"
    add(path, "o\nthree\n")
    assert tail.read() == (False, [b"two", b"three"])
    path.write_text("one\n")  # shrunk
    assert tail.read() == (True, [b"one"])
    path.with_suffix(".new").write_text("uno\ndos\n")
    os.replace(path.with_suffix(".new"), path)  # replaced, and longer than before
    assert tail.read() == (True, [b"uno", b"dos"])
    with open(path, "r+") as file:  # written over in place, and longer
        file.write("eins\nzwei\ndrei\n")
    assert tail.read() == (True, [b"eins", b"zwei", b"drei"])
    path.unlink()
    assert tail.read() == (True, [])
    path.write_text("x" * 300_000 + "\n" + "y" * 100_000 + "\nhalf")
    assert last_line(path, block=1 << 10) == b"y" * 100_000
    path.write_text("half")
    assert last_line(path) is None


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("{}\n")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(OSError, match=r"regular|symbolic"):
            opened(tmp_path / name)
        with pytest.raises(OSError, match=r"regular|symbolic"):
            last_line(tmp_path / name)
        assert Tail(tmp_path / name).read() == (False, [])
    assert last_line(tmp_path / "target") == b"{}"
