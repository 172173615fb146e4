"""All records and events of the runs that somebody looks at, read as they grow."""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from everlearn._kit.lines import Json, Tail, opened, parsed
from everlearn.dashboard.entry import LARGEST, RunEntry, short
from everlearn.diagnostics import alarms
from everlearn.diagnostics.importance import check_importance
from everlearn.errors import DataError
from everlearn.records.reading import Event, Record, config_of, event_of, read, record_of

POINTS = 600
"""Steps of a batch that are sent at most; each is one that was logged."""

KEPT = 48
"""Runs of which everything stays in memory; the page compares half as many."""

_RAW = ("F", "F_i")
Alarms = Callable[[Path], list[Json]]
"""What there is to look at in a run, given its folder, as JSON objects with a `text`."""


def alarms_of(folder: Path) -> list[Json]:
    """The alarms of the run in a folder, in words; a comparison with Naive is left to `everlearn doctor`."""
    try:
        runs = read(folder)
    except DataError:  # just being written, or damaged: `problem` says what
        return []
    return [{"text": alarm.sentence, "level": alarm.severity} for run in runs for alarm in alarms(run)]


class Details:
    """One run in full."""

    def __init__(self, entry: RunEntry, alarms: Alarms) -> None:
        self.entry = entry
        self.generation = 0  # another one: forget what was sent
        self.problem: str | None = None
        self.alarms: list[Json] = []
        self._find = alarms
        self._records = Tail(entry.path / "records.jsonl")
        self._events = Tail(entry.path / "events.jsonl")
        self._by_batch: dict[int, Record] = {}
        self._steps: dict[int, list[Event]] = {}
        self._lock = threading.Lock()

    def records(self, generation: int, after: int) -> Json:
        """The run, and its records after the first so many of a generation."""
        with self._lock:
            self._read_records()
            known = [self._by_batch[i] for i in sorted(self._by_batch)]
            first = after if generation == self.generation and 0 <= after <= len(known) else 0
            return {
                "id": self.entry.id,
                "generation": self.generation,
                "after": first,
                "stream": _stream(known[-1]) if known else None,
                "records": [_view(record) for record in known[first:]],
                "config": self._config(),
                "problem": self.problem,
                "alarms": self.alarms,
            }

    def steps(self, i: int) -> Json:
        """The logged steps of B_i, thinned; the newest is always among them."""
        with self._lock:
            self._read_events()
            found = self._steps.get(i, [])
        every = -(-len(found) // POINTS) if found else 1
        kept = found[::-1][::every][::-1]
        points = [[one.step, one.epoch, one.loss, one.eta, one.images_per_second] for one in kept]
        return {"id": self.entry.id, "i": i, "steps": found[-1].steps if found else None, "points": points}

    def raw(self) -> Json:
        """Everything as it stands in the files."""
        path = self.entry.path
        lines = Tail(path / "records.jsonl").read()[1]
        return {
            "place": short(self.entry.place, 1000),
            "config": _object(path / "config.json"),
            "records": [record for line in lines if (record := parsed(line, finite=True)) is not None],
        }

    def _read_records(self) -> None:
        anew, lines = self._records.read()
        if anew:
            self._begin_anew()
        for line in lines:
            data = parsed(line, finite=True)
            try:
                record = record_of(data or {}, "a line of records.jsonl")
                check_importance(record)
            except DataError as error:
                self.problem = short(error, 300)
                continue
            if record.i in self._by_batch:  # a resumed run wrote it twice: the later one counts
                self.generation += 1
            self._by_batch[record.i] = record
        if lines or anew:
            self.alarms = self._find(self.entry.path) if self._by_batch else []

    def _begin_anew(self) -> None:
        self.generation += 1
        self._by_batch, self.problem = {}, None

    def _read_events(self) -> None:
        anew, lines = self._events.read()
        if anew:
            self._steps = {}
        for line in lines:
            data = parsed(line, finite=True)
            event = event_of(data, "events.jsonl") if data else None
            if event:
                self._steps.setdefault(event.i, []).append(event)

    def _config(self) -> Json:
        """What the page says of how a run was made."""
        data = _object(self.entry.path / "config.json")
        try:
            config = config_of(data, "config.json") if data else None
        except (DataError, TypeError):
            config = None
        if config is None:
            return {"knobs": {}, "class_names": [], "network": None, "setting": None, "command": None, "about": None}
        return {
            "knobs": {short(name): short(json.dumps(value), 200) for name, value in list(config.knobs.items())[:200]},
            "class_names": [short(name, 40) for name in config.class_names[:10_000]],
            "network": config.network and short(config.network),
            "setting": config.setting and short(config.setting),
            "command": config.command and short(config.command, 1000),
            "about": short(config.about, 300),
        }


def _stream(record: Record) -> Json:
    """What is the same in all records of a run."""
    return {
        "of": record.of,
        "order": record.order,
        "batches": record.batches,
        "patterns": record.totals.tolist(),
        "arrived": record.arrived,
    }


def _view(record: Record) -> Json:
    """What the page shows of a record."""
    return {
        "i": record.i,
        "classes": record.classes,
        "accuracy": record.accuracy,
        "accuracy_seen": record.accuracy_seen,
        "accuracy_mt": record.accuracy_mt,
        "confusion": record.confusion.tolist(),
        "lam": record.lam,
        "importance": record.importance and _importance(record.importance),
        "change": {short(name, 60): value for name, value in record.change.items()},
        "seconds_train": record.seconds_train,
        "seconds_eval": record.seconds_eval,
        "forgetting": record.forgetting,
        "backward_transfer": record.backward_transfer,
        "forward_transfer": record.forward_transfer,
        "storage": sum(record.storage.values()),
    }


def _importance(found: Json) -> Json:
    """The histograms of F̂, and where they were recorded of F and F^i."""
    raw = {name: found[name] for name in _RAW if found.get(name)}
    of_raw = {name: {key: one[key] for key in ("edges", "counts", "zero")} for name, one in raw.items()}
    return {name: found[name] for name in ("edges", "counts", "zero", "saturated")} | of_raw


def _object(path: Path) -> Json | None:
    try:
        with opened(path) as file:
            return parsed(file.read(LARGEST), finite=True)
    except OSError:
        return None


class Shelf:
    """The details that are in memory: those asked for last."""

    def __init__(self, alarms: Alarms = alarms_of) -> None:
        self._alarms = alarms
        self._kept: OrderedDict[str, Details] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, entry: RunEntry) -> Details:
        """The details of a run."""
        with self._lock:
            found = self._kept.pop(entry.id, None)
            if found is None or found.entry is not entry:  # deleted and made again
                found = Details(entry, self._alarms)
            self._kept[entry.id] = found
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
            return found
