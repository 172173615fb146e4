"""Locks: one holder at a time, dropped by the system, and a file that is never touched."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from everlearn._kit.locks import opened, take
from everlearn.dashboard import locks as listed

HOLD = """
import sys, time
from pathlib import Path
from everlearn._kit.locks import opened, take
file = opened(Path(sys.argv[1]))
print(take(file), flush=True)
time.sleep(60)
"""


def test_another_process_holds_it_until_it_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        try:
            assert holder.stdout.readline() == b"True\n"
            with opened(path) as file:
                assert not take(file)
            if (there := listed.held()) is not None:  # the page finds it in Linux's table
                assert listed.is_held(path.stat(), there)
        finally:
            holder.kill()
    with opened(path) as file:
        assert take(file)


def test_who_waits_comes_in_when_the_holder_leaves(tmp_path: Path) -> None:
    path, came = tmp_path / "lock", threading.Event()

    def wait() -> None:
        with opened(path) as file:
            assert take(file, wait=True)
            came.set()

    with opened(path) as file:
        assert take(file)
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not came.wait(0.2)
    waiting.join(timeout=10)
    assert came.is_set()


def test_content_stays_and_links_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("kept")
    with opened(path) as file:
        assert take(file)
    assert path.read_text() == "kept"
    (tmp_path / "link").symlink_to(path)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    for name in ("link", "dangling"):
        with pytest.raises(OSError, match="its lock is a symbolic link"):
            opened(tmp_path / name)
    assert path.read_text() == "kept"
    assert not (tmp_path / "nothing").exists()
