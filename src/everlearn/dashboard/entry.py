"""One run in the list: a line's worth of facts, read again only where its files changed."""

import hashlib
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from everlearn._kit.lines import last_line, opened, parsed
from everlearn.dashboard import locks as lk
from everlearn.dashboard.status import Pace, left, status
from everlearn.errors import DataError
from everlearn.records import names
from everlearn.records.reading import Event, Outcome, RunPlan, event_of, outcome_of, plan_of, without_matrices
from everlearn.report.markup import plain

FILES = ("config.json", "records.jsonl", "events.jsonl", "lock")
LARGEST = 8 << 20
"""Bytes of config.json beyond which it is not ours."""

Stats = dict[str, os.stat_result]
Row = dict[str, Any]


def short(text: object, most: int = 120) -> str:
    r"""A text that is safe to show: no control characters, no turned writing, not too long.

    >>> short("a\x1bb"), short("x" * 500, 5)
    ('a�b', 'xxxx…')
    """
    clean = plain(str(text)[: most + 1])
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def id_of(place: str) -> str:
    """What the page calls a run: a name for its place that is no path."""
    return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def stamp(file: os.stat_result | None) -> str:
    """Changes whenever a file does."""
    return "" if file is None else f"{file.st_ino:x}.{file.st_size:x}.{file.st_mtime_ns:x}"


@dataclass
class RunEntry:
    """A run and what was last read of it. version: when its row last changed."""

    path: Path
    place: str
    plan: RunPlan | None = None
    newest: Outcome | None = None
    event: Event | None = None
    epochs: int | None = None
    was_held: bool = False
    pace: Pace = field(default_factory=Pace)
    problems: dict[str, str] = field(default_factory=dict)
    row: Row | None = None
    version: int = 0
    _stamps: dict[str, str] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return id_of(self.place)

    def update(self, files: Stats, locks: lk.Held | None, now: float) -> bool:
        """Read what changed and write the row anew; gives whether it differs."""
        for name, read in (
            ("config.json", self._config),
            ("records.jsonl", self._record),
            ("events.jsonl", self._event),
        ):
            mark = stamp(files.get(name))
            if self._stamps.get(name) != mark:
                self._stamps[name] = mark
                self.problems.pop(name, None)
                read(files.get(name))
        row = self._row(files, locks, now)
        differs = row != self.row
        self.row = row
        return differs

    # --- files --------------------------------------------------------------------------------------

    def _config(self, file: os.stat_result | None) -> None:
        self.plan = None
        try:
            if file is None:
                return
            with opened(self.path / "config.json") as text:
                data = parsed(text.read(LARGEST), finite=True)
            self.plan = plan_of(data or {}, "config.json")
        except (OSError, DataError) as error:
            self.problems["config.json"] = short(error, 300)

    def _record(self, file: os.stat_result | None) -> None:
        self.newest = None
        try:
            line = last_line(self.path / "records.jsonl") if file is not None else None
            if line is None:
                return
            data = parsed(without_matrices(line), finite=True)
            self.newest = outcome_of(data or {}, "the last line of records.jsonl")
        except (OSError, DataError) as error:
            self.problems["records.jsonl"] = short(error, 300)

    def _event(self, file: os.stat_result | None) -> None:
        self.event = None
        if file is None or self.finished:
            return
        try:
            line = last_line(self.path / "events.jsonl", block=1 << 12)
        except OSError:
            return
        data = parsed(line or b"", finite=True)
        self.event = event_of(data, "events.jsonl") if data else None
        if data and self.event:
            epochs = data.get("epochs")
            self.epochs = epochs if isinstance(epochs, int) else None
            self.pace.note(file.st_mtime, self.event.i, self.event.step)

    # --- the row ------------------------------------------------------------------------------------

    @property
    def named(self) -> RunPlan | Outcome | None:
        """Who says what the run is called; None for some other program's folder."""
        return self.newest or self.plan

    @property
    def planned(self) -> int | None:
        """How many batches the run is to learn, None while nothing tells."""
        asked = self.plan.batches if self.plan else None
        if self.newest is None:
            return asked
        return min(self.newest.of, asked or self.newest.of)

    @property
    def finished(self) -> bool:
        return self.newest is not None and self.newest.i >= (self.planned or 0)

    def _row(self, files: Stats, locks: lk.Held | None, now: float) -> Row | None:
        named = self.named
        if named is None and "records.jsonl" not in self.problems:
            return None
        held = "lock" in files and lk.is_held(files["lock"], locks)
        self.was_held |= held
        written = [files[name].st_mtime for name in FILES[1:3] if name in files]
        news = max(written, default=files["config.json"].st_mtime if "config.json" in files else now)
        if "config.json" in files:  # written anew when a run goes on
            news = max(news, files["config.json"].st_mtime)
        doing = status(finished=self.finished, held=held, was_held=self.was_held, age=now - news)
        strategy = named.strategy if named else "?"
        style = names.style(strategy)
        return {
            "id": self.id,
            "place": short(self.place, 160),
            "benchmark": short(named.benchmark if named else "?"),
            "synthetic": names.is_synthetic(named.benchmark if named else "")
            or bool(self.plan and self.plan.synthetic),
            "strategy": short(names.spelt(strategy)),
            "style": {"colour": style.colour, "dash": style.dash, "marker": style.marker},
            "bound": names.is_bound(strategy),
            "run": named.run if named else 0,
            "status": doing,
            "held": held,
            "was_held": self.was_held,
            "news": news,
            "done": self.newest.i if self.newest else 0,
            "planned": self.planned,
            "accuracy": self.newest.accuracy if self.newest else None,
            "accuracy_seen": self.newest.accuracy_seen if self.newest else None,
            "problem": next(iter(self.problems.values()), None),
            "stamps": {"records": stamp(files.get("records.jsonl")), "events": stamp(files.get("events.jsonl"))},
            **self._progress(doing),
        }

    def _progress(self, doing: str) -> Row:
        """The batch at hand, its rate and what is left. A finished run has none; one that stopped has no time left."""
        event = self.event if self.event and self.event.i > (self.newest.i if self.newest else 0) else None
        if self.finished:
            return {"step": None, "left_batch": None, "left": None}
        step = (event.i, event.step, event.steps or 0) if event else None
        found = left(
            done=self.newest.i if self.newest else 0,
            planned=self.planned,
            seconds=_seconds(self.newest),
            step=step,
            pace=self.pace.steps_per_second if event and self.pace.i == event.i else None,
        )
        told = doing in ("learning", "quiet")
        return {
            "step": event
            and {
                "i": event.i,
                "epoch": event.epoch,
                "epochs": self.epochs,
                "step": event.step,
                "steps": event.steps,
                "loss": event.loss,
                "eta": event.eta,
                "images_per_second": event.images_per_second,
            },
            "left_batch": found.batch if told else None,
            "left": found.run if told else None,
        }


def _seconds(newest: Outcome | None) -> float | None:
    """What the newest batch took, as far as its record tells."""
    if newest is None or newest.seconds_train is None:
        return None
    return newest.seconds_train + (newest.seconds_eval or 0.0)
