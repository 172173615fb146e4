"""What of a run's folder travels between machines that share no file system: files' bytes, in the order written."""

import os
import stat
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypedDict

from everlearn._kit.files import append, writing
from everlearn.errors import RunError, sentence

LOCK = "lock"
GROWS = (".jsonl", ".everlearn")  # files that only grow: records, events, TensorBoard's
NOT_NEEDED = "predictions/"  # a run goes on without those of earlier batches


class Change(NamedTuple):
    """A file's new bytes: all of them, or where it only grew, those after the first `offset`."""

    name: str
    offset: int | None
    data: bytes


class Parcel(TypedDict):
    """What changed in a folder: files with a new name, then those written since, in order; names that are no more."""

    moved: list[tuple[str, str]]
    changes: list[Change]
    removed: list[str]


def nothing() -> Parcel:
    """No change."""
    return Parcel(moved=[], changes=[], removed=[])


class _Seen(NamedTuple):
    inode: int
    size: int
    time: int


class Outbox:
    """Finds what has changed in a folder since it was last looked at; what is there when it is made is known."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._seen = folder, _files(folder)

    def parcel(self) -> Parcel:
        """Everything that has changed."""
        now = _files(self.folder)
        changed = [name for name, seen in now.items() if seen != self._seen.get(name)]
        known = {seen: name for name, seen in self._seen.items()}
        moved = [(known[now[name]], name) for name in changed if now[name] in known]
        changed = [name for name in changed if now[name] not in known]
        # A clock that ticks slowly may give several files one time: the config goes first then, and records last.
        changed.sort(key=lambda name: (now[name].time, name != "config.json", name == "records.jsonl"))
        removed = [name for name in self._seen if name not in now and name not in dict(moved)]
        changes = [self._change(name, now[name]) for name in changed]
        self._seen = now
        return Parcel(moved=moved, changes=changes, removed=removed)

    def grown(self, name: str) -> Parcel:
        """What has changed in one file alone."""
        now = _seen(self.folder / name)
        if now is None or now == self._seen.get(name):
            return nothing()
        change = self._change(name, now)
        self._seen[name] = now
        return Parcel(moved=[], changes=[change], removed=[])

    def _change(self, name: str, now: _Seen) -> Change:
        before = self._seen.get(name)
        grew = name.endswith(GROWS) and before is not None and before.inode == now.inode and before.size <= now.size
        offset = before.size if grew and before is not None else 0
        with open(self.folder / name, "rb") as file:
            file.seek(offset)
            return Change(name, offset if grew else None, file.read(now.size - offset))


def pack(folder: Path) -> dict[str, bytes]:
    """The files that a run needs to go on."""
    return {name: (folder / name).read_bytes() for name in _files(folder) if not name.startswith(NOT_NEEDED)}


def unpack(folder: Path, files: dict[str, bytes]) -> None:
    """Lay packed files into a new folder."""
    folder.mkdir(parents=True)
    for name, data in files.items():
        path = _place(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def deliver(folder: Path, parcel: Parcel) -> None:
    """Change a folder as the one far away has changed; whatever is killed meanwhile, the run can go on from it."""
    written = {change[0] for change in parcel["changes"]}
    kept = {}  # what makes room for a new file does so when that is whole
    for old, new in parcel["moved"]:
        source = _place(folder, old)
        if not source.exists():
            raise _changed(expected=old, got=f"no such file in {folder}")
        if old in written:
            kept[old] = _place(folder, new)
        else:
            os.replace(source, _place(folder, new))
    for name, offset, data in parcel["changes"]:
        path = _place(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if offset is None:
            with writing(path, keep=kept.get(name)) as file:
                file.write(data)
        else:
            _append(path, offset, data)
    for name in parcel["removed"]:
        _place(folder, name).unlink(missing_ok=True)


def _append(path: Path, offset: int, data: bytes) -> None:
    size = path.stat().st_size if path.exists() else 0
    if size != offset:
        raise _changed(expected=f"{path.name} with {offset} bytes", got=f"{size} in {path}")
    append(path, data, sync=True)


def _changed(*, expected: str, got: str) -> RunError:
    do = "Give the same command again: the run goes on from its last checkpoint."
    return RunError(sentence("A run's folder was changed by somebody else", expected=expected, got=got, do=do))


def _place(folder: Path, name: str) -> Path:
    """Where a file belongs; a name that leads out of the folder is refused.

    >>> _place(Path("run"), "predictions/true.npy").as_posix()
    'run/predictions/true.npy'
    """
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\\" in name or parts == (LOCK,):
        raise RunError(
            sentence("A file from elsewhere", expected="a name in the run's folder", got=repr(name), do="Drop it.")
        )
    return folder.joinpath(*parts)


def _files(folder: Path) -> dict[str, _Seen]:
    """Every regular file below a folder but the lock and those that are just being written."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        half_written = path.name.startswith(".") and path.name.endswith(".tmp")
        seen = None if half_written or name == LOCK else _seen(path)
        if seen is not None:
            found[name] = seen
    return found


def _seen(path: Path) -> _Seen | None:
    try:
        about = path.lstat()
    except FileNotFoundError:
        return None
    return _Seen(about.st_ino, about.st_size, about.st_mtime_ns) if stat.S_ISREG(about.st_mode) else None
