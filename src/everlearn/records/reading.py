"""What runs left on disk, typed and checked: config.json, records.jsonl, events.jsonl."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn._kit.knobs import flat
from everlearn._kit.lines import Json
from everlearn.errors import DataError, sentence
from everlearn.records import fields as f

Matrix = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Outcome:
    """The short form of a record: all that a list of runs shows. Accuracies are shares from 0 to 1.

    Args:
        benchmark: the benchmark's name.
        strategy: the strategy's name.
        run: the number of the run, which is that of its class order, from 1.
        i: the number of the batch just learnt (1-based).
        of: the number of batches in the stream.
        accuracy: on the fixed test set, all classes of the stream.
        accuracy_seen: on the test patterns of the classes seen so far.
        seconds_train: seconds of training on B_i.
        seconds_eval: seconds of testing after B_i.
    """

    benchmark: str
    strategy: str
    run: int
    i: int
    of: int
    accuracy: float
    accuracy_seen: float
    seconds_train: float | None = None
    seconds_eval: float | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Record(Outcome):
    """What is known after batch B_i. Matrices: rows true, columns predicted.

    Args:
        classes: the classes of B_i.
        order: all classes in order of arrival: the class of each row and column of the matrices.
        batches: the classes of each batch of the stream, B_1 first.
        confusion: how often each class was taken for each, predicted among the classes seen so far.
        patterns: the test patterns of each class, in `order`; empty in older records.
        accuracy_mt: the accuracy on the classes of each batch so far, with the task known.
        confusion_mt: the matrix with the task known.
        lam: λ of B_i, where the strategy has one.
        eta: the largest η used on B_i.
        importance: the histogram of F̂: `edges`, `counts`, the shares `zero` and `saturated`, and `max`; with it those
            of F and of F^i, where they are known.
        change: mean |Δθ| in B_i, by layer.
        storage: bytes that the learner keeps between batches, by what they are for.
        formula: the paper's storage formula for the strategy, in words.
        values: what the formula gives for this learner, in values.
        backward_transfer: what B_2 … B_i did to the batches before them; None after B_1.
        forward_transfer: what batches gained before they were learnt; None after B_1.
        forgetting: how far batches are below their best; None after B_1.
    """

    classes: tuple[int, ...]
    order: tuple[int, ...]
    batches: tuple[tuple[int, ...], ...]
    confusion: Matrix
    patterns: tuple[int, ...] = ()
    accuracy_mt: tuple[float, ...] = ()
    confusion_mt: Matrix | None = None
    lam: float | None = None
    eta: float | None = None
    importance: Json | None = None
    change: dict[str, float] = field(default_factory=dict)
    storage: dict[str, int] = field(default_factory=dict)
    formula: str | None = None
    values: int | None = None
    backward_transfer: float | None = None
    forward_transfer: float | None = None
    forgetting: float | None = None

    @property
    def arrived(self) -> tuple[int, ...]:
        """How many classes have arrived after each batch of the stream."""
        seen: set[int] = set()
        return tuple(len(seen := seen | set(batch)) for batch in self.batches)

    @property
    def totals(self) -> Matrix:
        """The test patterns of each class. A learner need not predict a class for each of them."""
        return np.array(self.patterns, dtype=np.int64) if self.patterns else self.confusion.sum(axis=1)


@dataclass(frozen=True)
class Event:
    """One logged step of training.

    Args:
        i: the number of the batch (1-based).
        epoch: the epoch within the batch (1-based).
        step: the step within the batch (1-based), over all epochs.
        steps: how many steps the batch has.
        loss: L of the step's minibatch; None where it was not finite.
        eta: η, the learning rate of the step.
        images_per_second: patterns trained on in a second, on average over the batch so far.
    """

    i: int
    epoch: int
    step: int
    steps: int | None
    loss: float | None
    eta: float | None
    images_per_second: float | None


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """The short form of a config: which run it is.

    Args:
        benchmark: the benchmark's name.
        strategy: the strategy's name.
        run: the number of the run, which is that of its class order, from 1.
        batches: how many to learn; None for all.
        synthetic: whether the patterns are drawn, not photographed.
    """

    benchmark: str
    strategy: str
    run: int
    batches: int | None = None
    synthetic: bool = False


@dataclass(frozen=True, kw_only=True)
class RunConfig(RunPlan):
    """How a run was made.

    Args:
        raw: all of config.json.
        network: the network's name; None for the benchmark's.
        setting: the hyperparameter set; None for the benchmark's.
        weights: the file that the network's weights started from; None for none.
        seed: of everything random; None for the run's number.
        held_out: the share of the training data that was tested on instead of the test set.
        about: what the benchmark and its stream are, in words.
        knobs: those that were set, by dotted name.
        command: the command that made the run, as a shell takes it.
        versions: of Everlearn, PyTorch, NumPy and Python.
        machine: what it was computed on: cores, system and processor.
        class_names: the names of the classes, by number.
    """

    raw: Json
    network: str | None = None
    setting: str | None = None
    weights: str | None = None
    seed: int | None = None
    held_out: float = 0.0
    about: str = ""
    knobs: dict[str, Any] = field(default_factory=dict)
    command: str | None = None
    versions: Json = field(default_factory=dict)
    machine: Json = field(default_factory=dict)
    class_names: tuple[str, ...] = ()

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Every knob as it was learnt with, by dotted name; empty for runs of versions that did not write them."""
        learnt = self.raw.get("hyperparameters")
        return learnt if isinstance(learnt, dict) else {}


@dataclass(frozen=True, eq=False)
class Run:
    """A run: where it is, how it was made, and what it left, batch by batch.

    Args:
        place: where it is, from the folder that was read.
        config: how it was made; None where config.json is lost.
        records: one for each batch learnt, B_1 first.
        events: the logged steps of training.
        folder: where its files are, if it came from disk.
    """

    place: str
    config: RunConfig | None
    records: tuple[Record, ...]
    events: tuple[Event, ...] = ()
    folder: Path | None = None

    @property
    def _named(self) -> Record | RunConfig:
        named = self.records[0] if self.records else self.config
        assert named is not None  # read() drops runs that left neither
        return named

    @property
    def benchmark(self) -> str:
        return self._named.benchmark

    @property
    def strategy(self) -> str:
        return self._named.strategy

    @property
    def number(self) -> int:
        return self._named.run

    @property
    def of(self) -> int | None:
        """The number of batches in the stream; None if the run died before its first record."""
        return self.records[-1].of if self.records else None

    @property
    def progress(self) -> str:
        """How far it came, in words."""
        return f"{'' if self.finished else 'unfinished, '}{len(self.records)} of {self.of or '?'} batches"

    @property
    def finished(self) -> bool:
        return bool(self.records) and self.records[-1].i == self.of


def read(folder: Path) -> list[Run]:
    """All runs in a folder and below it, by benchmark, strategy and number.

    Args:
        folder: a run's folder, or one with runs below it.
    """
    folder = Path(folder)
    runs = [run for place in _places(folder) if (run := _read_run(place, folder)) is not None]
    if not runs:
        raise DataError(
            sentence(
                f"There is nothing to report on in {folder}",
                expected="a folder with the records.jsonl of a run, itself or below it",
                got="no run" if folder.is_dir() else "no such folder",
                do="Make a run first (everlearn run), or name the folder that holds the runs.",
            )
        )
    return sorted(runs, key=lambda run: (run.benchmark, run.strategy, run.number, run.place))


def _places(folder: Path) -> Iterator[Path]:
    for here, below, files in os.walk(folder):
        below.sort()
        if {"records.jsonl", "config.json"} & set(files):
            yield Path(here)


def _read_run(place: Path, folder: Path) -> Run | None:
    name = place.relative_to(folder).as_posix()
    made, path = place / "config.json", place / "records.jsonl"
    config = f.read_object(made, f"{name}/config.json") if made.is_file() else None
    if not path.is_file() and config is not None and not {"benchmark", "strategy", "run"} <= set(config):
        return None  # some other program's config.json
    records = _read_records(path, f"{name}/records.jsonl") if path.is_file() else ()
    if config is None and not records:
        return None
    checked = None if config is None else config_of(config, f"{name}/config.json")
    return Run(name, checked, records, _read_events(place / "events.jsonl"), place)


def plan_of(data: Json, where: str) -> RunPlan:
    """The short form of a config, from what config.json holds. where: for messages."""
    read = f.Fields(data, where)
    return RunPlan(
        benchmark=read.need("benchmark", f.text),
        strategy=read.need("strategy", f.text),
        run=read.need("run", f.count),
        batches=read.may("batches", f.position, None),
        synthetic=data.get("synthetic") is True,
    )


def config_of(data: Json, where: str) -> RunConfig:
    """A config from what config.json holds. where: for messages."""
    read = f.Fields(data, where)
    return RunConfig(
        **vars(plan_of(data, where)),
        raw=data,
        network=read.may("network", f.text, None),
        setting=read.may("setting", f.text, None),
        weights=read.may("weights", f.text, None),
        seed=read.may("seed", f.count, None),
        held_out=read.may("held_out", f.share, 0.0),
        about=read.may("about", f.text, ""),
        knobs=flat(read.may("knobs", f.mapping, {})),
        command=read.may("command", f.text, None),
        versions=read.may("versions", f.mapping, {}),
        machine=read.may("machine", f.mapping, {}),
        class_names=read.may("class_names", f.texts, ()),
    )


def _read_records(path: Path, where: str) -> tuple[Record, ...]:
    """The records by batch. Where a resumed run wrote a batch twice, the later one counts."""
    found = {record.i: record for record in (record_of(*line) for line in f.read_objects(path, where))}
    if sorted(found) != list(range(1, len(found) + 1)):
        raise DataError(
            sentence(
                f"{where} has gaps",
                expected="a record for each batch from the first on",
                got=f"batches {sorted(found)}",
                do="Repeat the run, or move its folder elsewhere to report on the others.",
            )
        )
    return tuple(found[i] for i in sorted(found))


_MATRICES = re.compile(rb'"confusion(?:_mt)?"\s*:\s*\[[\[\]\d,\s]*\]')


def without_matrices(line: bytes) -> bytes:
    """A record's line without its matrices: they are most of it, and an outcome is parsed ten times as fast so.

    >>> without_matrices(b'{"i": 1, "confusion": [[1, 2], [3, 4]], "confusion_mt": [[1]], "lam": [0]}')
    b'{"i": 1, "confusion":0, "confusion":0, "lam": [0]}'
    """
    return _MATRICES.sub(b'"confusion":0', line)


def outcome_of(data: Json, where: str) -> Outcome:
    """The short form of a record, from one line of records.jsonl, which need not have its matrices."""
    read = f.Fields(data, where)
    return Outcome(
        benchmark=read.need("benchmark", f.text),
        strategy=read.need("strategy", f.text),
        run=read.need("run", f.count),
        i=read.need("i", f.position),
        of=read.need("of", f.position),
        accuracy=read.need("accuracy", f.share),
        accuracy_seen=read.need("accuracy_seen", f.share),
        seconds_train=read.may("seconds_train", f.number, None),
        seconds_eval=read.may("seconds_eval", f.number, None),
    )


def record_of(data: Json, where: str) -> Record:
    """One line of records.jsonl, checked. where: what it is called in errors."""
    read = f.Fields(data, where)
    paper = f.Fields(read.may("storage_paper", f.mapping, {}), where)
    record = Record(
        **vars(outcome_of(data, where)),
        classes=read.need("classes", f.counts),
        order=read.need("order", f.counts),
        batches=read.need("batches", f.groups),
        confusion=read.need("confusion", f.matrix),
        patterns=read.may("patterns", f.counts, ()),
        accuracy_mt=read.may("accuracy_mt", f.shares, ()),
        confusion_mt=read.may("confusion_mt", f.matrix, None),
        lam=read.may("lam", f.number, None),
        eta=read.may("eta", f.number, None),
        importance=read.may("importance", f.mapping, None),
        change=read.may("change", f.numbers_by_name, {}),
        storage=read.may("storage", f.bytes_by_name, {}),
        formula=paper.may("formula", f.text, None),
        values=paper.may("values", f.count, None),
        backward_transfer=read.may("backward_transfer", f.number, None),
        forward_transfer=read.may("forward_transfer", f.number, None),
        forgetting=read.may("forgetting", f.number, None),
    )
    _check(record, where)
    return record


def _check(record: Record, where: str) -> None:
    n = len(record.order)
    if not (record.i <= record.of == len(record.batches) and len(record.confusion) == len(record.totals) == n):
        raise DataError(
            sentence(
                f"{where} contradicts itself",
                expected="i ≤ of, as many lists in batches as of, as many rows in confusion as classes in order",
                got=f"i {record.i}, of {record.of}, {len(record.batches)} batches, {len(record.confusion)} rows and "
                f"{n} classes",
                do="Repeat the run, or move its folder elsewhere to report on the others.",
            )
        )
    named = {c for batch in (record.classes, *record.batches) for c in batch}
    if len(set(record.order)) < n or not named <= set(record.order):
        raise DataError(
            sentence(
                f"{where} contradicts itself",
                expected="every class of classes and batches once in order",
                got=f"order {list(record.order)[:20]}, classes {sorted(named)[:20]}",
                do="Repeat the run, or move its folder elsewhere to report on the others.",
            )
        )


def _read_events(path: Path) -> tuple[Event, ...]:
    """The logged steps. They only tell how fast and how far a run was, so that what cannot be read is left out."""
    lines = f.read_objects(path, path.name, strict=False) if path.is_file() else ()
    return tuple(event for data, where in lines if (event := event_of(data, where)) is not None)


def event_of(data: Json, where: str) -> Event | None:
    """A step from one line of events.jsonl, None where it cannot be read. where: for messages."""
    read = f.Fields(data, where)
    try:
        i, epoch, step = (read.need(name, f.count) for name in ("i", "epoch", "step"))
        steps = read.may("steps", f.count, None)
        loss, eta, speed = (read.may(name, f.finite, None) for name in ("loss", "eta", "images_per_second"))
    except DataError:
        return None
    return Event(i, epoch, step, steps, loss, eta, speed)
