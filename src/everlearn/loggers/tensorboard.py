"""TensorBoard's event files, in the run's folder."""

import json
import os
import re
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from PIL import Image

from everlearn.loggers.base import About, Ending, Pictures, Scalars

FOLDER = "tensorboard"
FLUSH_EVERY = 2.0  # seconds until a page that watches sees a step
_NAME = re.compile(r"events\.out\.tfevents\.(\d+)\.")
_LENGTH = struct.Struct("<Q")


class TensorBoard:
    """One event a step, one a record with its pictures: each is there whole or not at all.

    Every sitting has a file of its own, whose first event tells readers to forget the steps that were logged after the
    checkpoint (what SummaryWriter calls purge_step), since they are made again.
    """

    def __init__(self, about: About, made: int) -> None:
        self._event = import_module("tensorboard.compat.proto.event_pb2")
        self._summary = import_module("tensorboard.compat.proto.summary_pb2")
        self._folder, self._about, self._made = about.folder / FOLDER, about, made
        self._folder.mkdir(exist_ok=True)
        self._old = sorted(
            (int(found[1]), path) for path in self._folder.iterdir() if (found := _NAME.match(path.name))
        )
        self.steps = self.records = 0
        for _, path in self._old:
            self._take_up(path)
        self.steps, self.records = min(self.steps, made), min(self.records, made)
        self._file: BinaryIO | None = None
        self._records: Any = None
        self._flushed = time.monotonic()

    def _take_up(self, path: Path) -> None:
        """See what an old file holds."""
        for data in whole_events(path):
            event = self._event.Event.FromString(data)
            if event.session_log.status == self._event.SessionLog.START:
                self.steps, self.records = min(self.steps, event.step - 1), min(self.records, event.step - 1)
            tags = {value.tag for value in event.summary.value}
            self.steps = max(self.steps, event.step) if "step/loss" in tags else self.steps
            self.records = max(self.records, event.step) if "batch/accuracy" in tags else self.records

    def step(self, at: int, scalars: Scalars) -> None:
        self._write(at, [self._scalar(*pair) for pair in scalars.items()])
        if time.monotonic() - self._flushed >= FLUSH_EVERY:
            self.flush()

    def record(self, i: int, scalars: Scalars, pictures: Pictures) -> None:
        self._write(
            i,
            [self._scalar(*pair) for pair in scalars.items()] + [self._picture(*pair) for pair in pictures.items()],
        )
        self.flush()

    def flush(self) -> None:
        self._flushed = time.monotonic()
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())

    def close(self, how: Ending) -> None:
        if self._file is not None:
            self.flush()
            self._file.close()

    def drop(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()

    # --- events -------------------------------------------------------------------------------------

    def _scalar(self, tag: str, value: float) -> Any:
        return self._summary.Summary.Value(tag=tag, simple_value=value)

    def _picture(self, tag: str, png: bytes) -> Any:
        with Image.open(BytesIO(png)) as image:
            width, height = image.size
        image = self._summary.Summary.Image(height=height, width=width, colorspace=4, encoded_image_string=png)
        return self._summary.Summary.Value(tag=tag, image=image)

    def _write(self, step: int, values: list[Any]) -> None:
        if self._file is None:
            self._open()
        self._append(step=step, summary=self._summary.Summary(value=values))

    def _append(self, **what: Any) -> None:
        self._records.write(self._event.Event(wall_time=time.time(), **what).SerializeToString())

    def _open(self) -> None:
        """A new file, when there is something to write: after the old ones in the order in which readers take them."""
        number = self._old[-1][0] + 1 if self._old else 1
        self._file = open(self._folder / f"events.out.tfevents.{number:010d}.everlearn", "xb")  # noqa: SIM115
        self._records = import_module("tensorboard.summary.writer.record_writer").RecordWriter(self._file)
        self._append(file_version="brain.Event:2")
        if self._old:
            start = self._event.SessionLog(status=self._event.SessionLog.START)
            self._append(step=self._made + 1, session_log=start)
        else:
            self._append(step=0, summary=self._config())

    def _config(self) -> Any:
        """The config, as a text and for the page of hyperparameters."""
        text = import_module("tensorboard.plugins.text.summary_v2")
        hparams = import_module("tensorboard.plugins.hparams.summary_v2")
        params = {**self._about.params, **self._about.free}
        words = "    " + json.dumps(params, indent=1, ensure_ascii=False).replace("\n", "\n    ")  # Markdown's code
        plain = {
            name: value if isinstance(value, bool | int | float | str) else str(value) for name, value in params.items()
        }
        summary = text.text_pb("config", words)
        summary.MergeFrom(hparams.hparams_pb(plain, trial_id=self._about.title))
        return summary


def whole_events(path: Path) -> Iterator[bytes]:
    """The events of a file, without one at its end that was cut short: length, its sum, the event, its sum."""
    with open(path, "rb") as file:
        while len(head := file.read(12)) == 12:
            length = _LENGTH.unpack_from(head)[0]
            data = file.read(length + 4)
            if len(data) < length + 4:
                return
            yield data[:-4]
