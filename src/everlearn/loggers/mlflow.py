"""MLflow: a run in the store that MLFLOW_TRACKING_URI names, or in one of its own in the run's folder."""

import json
import logging
import os
import re
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from everlearn._kit.files import write_atomically
from everlearn.loggers.base import About, Ending, Pictures, Scalars

FOLDER = "mlflow"
FLUSH_EVERY = 5.0  # seconds until a page that watches sees a step
METRICS, PARAMS = 1000, 100  # so many at once, as MLflow allows
LONGEST = 5000  # letters of a param
STATUS: dict[Ending, str] = {"finished": "FINISHED", "stopped": "KILLED", "failed": "FAILED"}
DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",  # nothing is told to anybody who was not asked for
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",  # some 15 seconds: a server that is away must not hold up the learning
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
}


class MLflow:
    """One MLflow run for the run's folder, also when it goes on: its id is kept in mlflow/run.json.

    MLflow cannot take back a point. What is already there is asked for, and not told again: it is the same bit for bit.
    """

    def __init__(self, about: About, made: int) -> None:
        self._about, self._folder = about, about.folder / FOLDER
        self._folder.mkdir(exist_ok=True)
        uri = os.environ.get("MLFLOW_TRACKING_URI", "").strip()
        self._own = not uri
        with _quiet():
            self._client = _client(uri or f"sqlite:///{quote(str(self._folder.resolve() / 'mlflow.db'))}")
            self._entities = import_module("mlflow.entities")
            self._run = self._take_up(without_secrets(uri) if uri else "here")
            self.steps, self.records = self._last("step/loss"), self._last("batch/accuracy")
            self._tell_params()
        self._waiting: list[Any] = []
        self._flushed = time.monotonic()

    # --- the run --------------------------------------------------------------------------------------

    def _take_up(self, place: str) -> Any:
        """The MLflow run of this folder in this store: the one that is there, or a new one."""
        path = self._folder / "run.json"
        ids: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        error = import_module("mlflow.exceptions").MlflowException
        if place in ids:
            try:
                return self._client.get_run(ids[place])
            except error as problem:
                if problem.error_code != "RESOURCE_DOES_NOT_EXIST":
                    raise
        run = self._client.create_run(self._experiment(error), run_name=self._about.title)
        write_atomically(path, json.dumps({**ids, place: run.info.run_id}, indent=1).encode())
        return run

    def _experiment(self, error: type[Exception]) -> str:
        """The experiment that MLFLOW_EXPERIMENT_ID or _NAME names; by default the benchmark's."""
        if chosen := os.environ.get("MLFLOW_EXPERIMENT_ID"):
            return chosen
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or self._about.benchmark
        if (found := self._client.get_experiment_by_name(name)) is not None:
            return str(found.experiment_id)
        artifacts = (self._folder / "artifacts").resolve().as_uri() if self._own else None
        try:
            return str(self._client.create_experiment(name, artifact_location=artifacts))
        except error:
            if (found := self._client.get_experiment_by_name(name)) is None:
                raise
            return str(found.experiment_id)  # another process was faster

    def _last(self, name: str) -> int:
        return max((point.step for point in self._client.get_metric_history(self._run.info.run_id, name)), default=0)

    def _tell_params(self) -> None:
        """The config: what is settled as params, which never change, and what may change as tags."""
        known = self._run.data.params
        params = [(clean(name), str(value)[:LONGEST]) for name, value in self._about.params.items()]
        new = [self._entities.Param(*pair) for pair in params if pair[0] not in known]
        for k in range(0, len(new), PARAMS):
            self._client.log_batch(self._run.info.run_id, params=new[k : k + PARAMS])
        for name, value in self._about.free.items():
            if self._run.data.tags.get(clean(name)) != str(value):
                self._client.set_tag(self._run.info.run_id, clean(name), str(value))

    # --- points -----------------------------------------------------------------------------------------

    def step(self, at: int, scalars: Scalars) -> None:
        if len(self._waiting) + len(scalars) > METRICS:
            self.flush()
        self._waiting += self._metrics(at, scalars)  # a step is in one request: there whole or not at all
        if time.monotonic() - self._flushed >= FLUSH_EVERY:
            self.flush()

    def record(self, i: int, scalars: Scalars, pictures: Pictures) -> None:
        self.flush()
        self._going_on()
        with TemporaryDirectory() as folder:
            for name, png in pictures.items():
                path = Path(folder) / f"B_{i:03d}.png"
                path.write_bytes(png)
                self._client.log_artifact(self._run.info.run_id, str(path), f"pictures/{name}")
        metrics = self._metrics(i, scalars)[::-1]  # the accuracy comes last: where it is, all is there
        for k in range(0, len(metrics), METRICS):
            self._client.log_batch(self._run.info.run_id, metrics=metrics[k : k + METRICS])

    def _metrics(self, step: int, scalars: Scalars) -> list[Any]:
        now = int(1000 * time.time())
        return [self._entities.Metric(clean(name), value, now, step) for name, value in scalars.items()]

    def flush(self) -> None:
        self._flushed = time.monotonic()
        if self._waiting:
            self._going_on()
            self._client.log_batch(self._run.info.run_id, metrics=self._waiting)
            self._waiting = []

    def _going_on(self) -> None:
        """Say that the run is running, if that is not what MLflow says of it."""
        if self._run.info.status != "RUNNING":
            self._client.update_run(self._run.info.run_id, "RUNNING")
            self._run = self._client.get_run(self._run.info.run_id)

    def close(self, how: Ending) -> None:
        self.flush()
        if self._run.info.status == "RUNNING":
            self._client.set_terminated(self._run.info.run_id, STATUS[how])

    def drop(self) -> None:
        self._waiting = []


def _client(uri: str) -> Any:
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    client = import_module("mlflow.tracking").MlflowClient
    for name, level in (("mlflow", "WARNING"), ("mlflow.store.db.utils", "CRITICAL"), ("urllib3", "ERROR")):
        logging.getLogger(name).setLevel(level)  # one warning of ours says it all
    return client(uri)


@contextmanager
def _quiet() -> Iterator[None]:
    """MLflow's own use of what others deprecate is none of the user's business."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def clean(name: str) -> str:
    """A name as MLflow takes it.

    >>> clean("change/outputs.0.layer"), clean("storage/θ*")
    ('change/outputs.0.layer', 'storage/θ_')
    """
    return re.sub(r"[^\w./ :-]", "_", name)[:250]


def without_secrets(uri: str) -> str:
    """A store's address without a user's name and password.

    >>> without_secrets("https://me:secret@example.org:5000/ml"), without_secrets("sqlite:///ml.db")
    ('https://example.org:5000/ml', 'sqlite:///ml.db')
    """
    parts = urlsplit(uri)
    if "@" not in parts.netloc:
        return uri
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
