"""All runs below a folder, kept up to date as long as somebody looks."""

import logging
import os
import secrets
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from everlearn.dashboard import locks as lk
from everlearn.dashboard.entry import FILES, RunEntry, Stats, id_of

DEEPEST = 12
"""Folders within folders."""


class Table:
    """The runs by id. Ids are looked up here, and never become paths.

    A scan lists the folders and asks for the times of four files in each; only what changed is read, and of records and
    events only the last line. Links are not followed.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.boot = secrets.token_hex(6)
        self.version = 0
        self.scanned = False
        self._entries: dict[str, RunEntry] = {}
        self._gone: dict[str, int] = {}
        self._lock = threading.Lock()

    def scan(self) -> None:
        """Look once at everything."""
        locks, now = lk.held(), time.time()  # locks first: one that is free then has left its last record by now
        there = set()
        for path, files in _places(self.root):
            place = path.relative_to(self.root).as_posix()
            there.add(id_of(place))
            try:
                self._look(path, place, files, locks, now)
            except Exception:  # one run that cannot be read must not hide the others
                logging.getLogger(__name__).exception("%s cannot be looked at", place)
        with self._lock:
            for gone in self._entries.keys() - there:
                self._drop(gone)
            self.scanned = True

    def _look(self, path: Path, place: str, files: Stats, locks: lk.Held | None, now: float) -> None:
        entry = self._entries.get(id_of(place)) or RunEntry(path, place)
        differs = entry.update(files, locks, now)
        with self._lock:
            if entry.row is None:
                self._drop(entry.id)
            elif differs:
                self.version += 1
                entry.version = self.version
                self._entries[entry.id] = entry
                self._gone.pop(entry.id, None)

    def _drop(self, gone: str) -> None:
        if self._entries.pop(gone, None) is not None:
            self.version += 1
            self._gone[gone] = self.version

    def entry(self, id: str) -> RunEntry | None:  # noqa: A002
        """The run of an id."""
        with self._lock:
            return self._entries.get(id)

    def changes(self, since: str | None) -> dict[str, Any] | None:
        """What changed since a tag that was given out before, None for nothing; everything where there is no tag."""
        boot, _, version = (since or "").partition(".")
        after = int(version) if boot == self.boot and version.isdecimal() and len(version) < 16 else -1
        with self._lock:
            if after == self.version and self.scanned:
                return None
            return {
                "tag": f"{self.boot}.{self.version}",
                "whole": after < 0,
                "scanning": not self.scanned,
                "now": time.time(),
                "folder": self.root.name,
                "runs": [entry.row for entry in self._entries.values() if entry.version > after],
                "gone": [gone for gone, when in self._gone.items() if when > after] if after >= 0 else [],
            }


def _places(root: Path) -> Iterator[tuple[Path, Stats]]:
    """Folders that may be runs, with what is known of their files. What vanishes meanwhile is not there."""
    waiting = [(root, 0)]
    while waiting:
        path, depth = waiting.pop()
        files: Stats = {}
        below = []
        try:
            with os.scandir(path) as entries:
                for one in entries:
                    if one.name in FILES and one.is_file(follow_symlinks=False):
                        files[one.name] = one.stat(follow_symlinks=False)
                    elif depth < DEEPEST and not one.name.startswith(".") and one.is_dir(follow_symlinks=False):
                        below.append((path / one.name, depth + 1))
        except OSError:
            continue
        run = "records.jsonl" in files or "config.json" in files
        waiting += [one for one in sorted(below, reverse=True) if not (run and one[0].name == "predictions")]
        if run:
            yield path, files


class Watch:
    """A thread that scans while somebody looks, and rests otherwise."""

    def __init__(self, table: Table, every: float = 0.5, patience: float = 15.0) -> None:
        self.table, self.every, self.patience = table, every, patience
        self._asked, self._stop = threading.Event(), threading.Event()
        self._first = threading.Event()
        self._last = 0.0
        self._thread = threading.Thread(target=self._work, name="everlearn-dashboard-scan", daemon=True)

    def start(self) -> None:
        """Begin with a first scan."""
        self._thread.start()

    def ask(self, wait: float = 0.5) -> None:
        """Somebody looks. The first to do so waits a moment for the first scan; what is known until then is shown."""
        self._last = time.monotonic()
        self._asked.set()
        self._first.wait(wait)

    def stop(self) -> None:
        """End the thread after the scan at hand."""
        self._stop.set()
        self._asked.set()
        self._thread.join(timeout=5)

    def _work(self) -> None:
        while not self._stop.is_set():
            start = time.monotonic()
            try:
                self.table.scan()
            except Exception:  # one scan that fails must not end the page; the next one tries again
                logging.getLogger(__name__).exception("A scan failed")
            self._first.set()
            took = time.monotonic() - start
            self._stop.wait(max(self.every, 4 * took))  # a fifth of one core at most
            if time.monotonic() - self._last > self.patience:
                self._asked.clear()
                while not (self._stop.is_set() or self._asked.wait(1.0)):
                    pass
