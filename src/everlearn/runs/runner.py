"""Learns a stream into a folder, and goes on where it stopped."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from everlearn._kit import catalogue
from everlearn._kit.allocation import give_back
from everlearn._kit.knobs import flat
from everlearn._kit.state import State, mapped
from everlearn.benchmarks import check_device, prepare
from everlearn.data.labels import Labels
from everlearn.errors import RunError, sentence
from everlearn.learning.learner import Learner, Step
from everlearn.learning.parallel import ALONE, Ranks
from everlearn.loggers import About, Ending, Log
from everlearn.loggers import check as check_loggers
from everlearn.recipes.model_file import header
from everlearn.runs import measure
from everlearn.runs.config import FREE, Config
from everlearn.runs.folder import RunFolder
from everlearn.runs.place import command, machine, moved, versions
from everlearn.runs.stopping import Stop, stop_signals
from everlearn.runs.together import folder_of, same_state

EVENT_EVERY = 0.2  # seconds between two events

OnProgress = Callable[[Step | None, dict[str, Any] | None], object]
"""Told of every step, and of every record."""


@dataclass
class Timer:
    """Seconds of training on the batch at hand, over all sittings, and when the last checkpoint and event were made."""

    seconds: float = 0.0
    since: float = 0.0
    checkpoint: float = 0.0
    event: float = 0.0


class Runner:
    """One run in progress."""

    def __init__(
        self,
        config: Config,
        path: Path,
        checkpoint_every: float,
        on_progress: OnProgress,
        stop: Stop,
        loggers: Sequence[str] = (),
        ranks: Ranks = ALONE,
    ) -> None:
        self.config, self.folder, self.ranks = config, folder_of(path, ranks), ranks
        self.checkpoint_every, self.on_progress = checkpoint_every, on_progress
        self.timer, self.stop = Timer(), stop
        with ranks.in_turn(), self._at_once():  # what is rendered, decoded or pre-trained first, the others find
            self.stream, self.test, self.learner = prepare(config.benchmark, **choices(config), ranks=ranks)
        self.last = min(len(self.stream), config.batches or len(self.stream))
        self.learner.check_stream(self.stream.batches[: self.last])
        self.loggers, self.at = loggers, (0, 0)
        self.within = False  # in the middle of a batch
        self.before: dict[str, Tensor] = {}
        self.untrained: dict[str, Any] = {}
        self.R: list[list[float]] = []

    def run(self) -> list[dict[str, Any]]:
        """Learn what is left of the stream."""
        pending, first = self._take_up()
        with self._logging():
            if pending is not None:
                self._record(pending)
            for i in range(first, self.last + 1):
                self._record(self._learn(i))
                give_back()
        return self.folder.records()

    def _take_up(self) -> tuple[dict[str, Any] | None, int]:
        """Go on from the last checkpoint: what is still to be recorded of the batch before it, and the next batch."""
        stored = self.folder.refuse_other(self.config)
        self._refuse_other_data(stored or {})
        state = same_state(self.folder.take_checkpoint(), self.ranks)
        if state is None and self.ranks.any(len(self.folder.records()) >= self.last):
            self.at = (self.last, sys.maxsize)
            return None, self.last + 1  # all is learnt: records alone will do, published ones for example
        records = self._cut_back(state)
        if len(records) < self.last:
            about = {**self._about(), **self.config.to_json()}
            self.folder.save_config({**about, "resumed": self._resumed(about, stored, state)})
        self.folder.save_truth(self.test.y)
        self.R = [measure.row_of_R(self.stream, record) for record in records]
        pending = self._restore(state)
        return pending, self.learner.i_ if self.within else self.learner.i_ + 1

    def _refuse_other_data(self, stored: dict[str, Any]) -> None:
        """Refuse to go on with other data than the run was begun with: what is learnt would mean something else."""
        for name, now in self._data().items():
            then = stored.get(name, now)
            if then != now:
                pairs = enumerate(zip_longest(then, now, fillvalue="none"), start=1)
                k, (before, here) = next((k, pair) for k, pair in pairs if pair[0] != pair[1])
                raise RunError(
                    sentence(
                        "The data have changed since this run was begun",
                        expected=f"{name} as in its config.json: {len(then)}, number {k} being {before!r}",
                        got=f"{len(now)}, number {k} being {here!r}",
                        do=f"Bring them back, or begin anew in another folder than {self.folder.path}.",
                    )
                )

    @contextmanager
    def _logging(self) -> Iterator[None]:
        """Have the loggers, and tell them how the run ended."""
        values, asked = flat(self.config.to_json()), bool(self.loggers)
        about = About(
            self.folder.path,
            self.config.benchmark,
            f"{self.config.strategy} run {self.config.run}",
            {name: value for name, value in values.items() if name not in FREE} | self.config.hyperparameters,
            {name: values[name] for name in FREE},
        )
        self.log = Log(
            self.loggers,
            about,
            events=self.folder.events() if asked else (),
            records=self.folder.records() if asked else (),
            at=self.at,
            last=self.last,
        )
        how: Ending = "failed"
        try:
            yield
            how = "finished"
        except KeyboardInterrupt:
            how = "stopped"
            raise
        finally:
            self.log.close(how)

    def _cut_back(self, state: State | None) -> list[dict[str, Any]]:
        """Drop the events and records after a checkpoint, since they will be made again; gives the other records."""
        self.at = (0, 0) if state is None else (state["i"], state["step"])
        learnt = self.at[0] - (state is not None and state["within"])
        records = self.folder.records()
        if state is None and records:
            raise gone(self.folder)
        self.folder.keep_events(*self.at)
        return self.folder.keep_records(learnt, last_may_lack=state is not None and state["pending"] is not None)

    def _resumed(
        self, about: dict[str, Any], stored: dict[str, Any] | None, state: State | None
    ) -> list[dict[str, Any]]:
        """Where the run went on elsewhere, so that it is the same to rounding only; said when it happens."""
        if stored is None or state is None:
            return []
        before: list[dict[str, Any]] = stored.get("resumed", [])
        differ = moved(self.folder.path, stored, about)
        step = None if state["step"] == sys.maxsize else state["step"]
        return [*before, {"i": self.at[0], "step": step, "differ": differ, "exact": False}] if differ else before

    def _restore(self, state: State | None) -> dict[str, Any] | None:
        """Take back a checkpoint; gives what is still to be recorded of the batch before it."""
        if state is None:
            self.untrained = measure.matrices(self.stream, self.test, self._predict())
            return None
        self.learner.load_state_dict(state["learner"])
        self.learner.history_ = [
            {**entry, "classes": dict(entry["classes"])} for entry in state.get("model", {}).get("history", [])
        ]
        self.untrained, self.timer.seconds = state["untrained"], state["seconds"]
        self.before, self.within = state["before"], state["within"]
        pending: dict[str, Any] | None = state["pending"]
        missing = self.ranks.any(self.ranks.first and len(self.R) < self.learner.i_)
        return pending if missing else None

    def _learn(self, i: int) -> dict[str, Any]:
        """Learn B_i, with a checkpoint every so often and one at the end."""
        if not self.within:
            self.before, self.timer.seconds = mapped(self.learner.weights(), Tensor.clone), 0.0
        self.within = True
        self.timer.since = self.timer.checkpoint = self.timer.event = time.monotonic()
        self.learner.learn(self.stream[i - 1], on_step=self._on_step)
        seconds = self.timer.seconds + time.monotonic() - self.timer.since
        diagnostics = self.learner.diagnostics()
        ledger = self.learner.storage()
        pending = {
            "lam": diagnostics.get("lam"),
            "eta": diagnostics.get("eta"),
            "importance": measure.importance(diagnostics),
            "change": measure.change(self.before, self.learner.weights()),
            "seconds_train": seconds,
            "storage": {name: entry.bytes for name, entry in ledger.kept.items()},
            "storage_paper": {"formula": ledger.formula, "values": ledger.paper},
        }
        self.before, self.within = {}, False
        self._checkpoint(step=sys.maxsize, pending=pending)
        return pending

    def _on_step(self, step: Step) -> None:
        now = time.monotonic()
        interrupted = self.ranks.any(self.stop.is_set())  # all stop after the same step
        batch = len(self.stream.indices[step.i - 1])
        rate = step.step / step.steps * batch * step.epochs / max(self.timer.seconds + now - self.timer.since, 1e-9)
        event = {**asdict(step), "images_per_second": round(rate, 1)}
        if now - self.timer.event >= EVENT_EVERY or step.step == step.steps:
            self.folder.append_event(event)
            self.timer.event = now
        self.log.step(event)
        self.on_progress(step, None)
        if now - self.timer.checkpoint >= self.checkpoint_every or interrupted:
            self.timer.seconds += now - self.timer.since
            self.timer.since = now
            self._checkpoint(step=step.step, pending=None)
            self.timer.checkpoint = time.monotonic()
        if interrupted:
            self.ranks.any(False)  # nobody leaves before the first has saved: torchrun would stop it then
            raise KeyboardInterrupt

    def _checkpoint(self, *, step: int, pending: dict[str, Any] | None) -> None:
        self.log.flush()  # steps before a checkpoint are not made again
        state: State = {
            "i": self.learner.i_,
            "within": self.within,
            "model": {
                **header(self.learner),
                "labels": named(self.stream.source.classes).state(),
                "about": self._source(),
            },
            "learner": self.learner.state_dict(),
            "untrained": self.untrained,
            "before": self.before,
            "seconds": self.timer.seconds,
            "step": step,
            "pending": pending,
        }
        self.folder.save_checkpoint(state)

    def _at_once(self) -> AbstractContextManager[None]:
        """Where nothing is to be saved a stop need not wait; several processes stop together, after a step."""
        return self.stop.at_once() if self.ranks.size == 1 else nullcontext()

    def _predict(self) -> measure.Predictions:
        """Evaluate; all that was learnt is saved by then."""
        with self._at_once():
            return measure.predict(self.learner, self.stream, self.test, self.ranks)

    def _record(self, pending: dict[str, Any]) -> None:
        """Evaluate after B_i and write its record."""
        i, start = self.learner.i_, time.monotonic()
        predictions = self._predict()
        if not self.ranks.first:
            return
        record = {
            "benchmark": self.config.benchmark,
            "strategy": self.config.strategy,
            "run": self.config.run,
            "i": i,
            "of": len(self.stream),
            "classes": self.stream.batches[i - 1],
            "order": self.stream.order,
            "batches": self.stream.batches,
            **measure.accuracies(self.stream, self.test, predictions, i),
            **measure.matrices(self.stream, self.test, predictions),
            **pending,
        }
        self.R.append(measure.row_of_R(self.stream, record))
        record |= measure.transfers(self.R, measure.row_of_R(self.stream, self.untrained))
        self.folder.save_predictions(i, predictions)
        record["seconds_eval"] = time.monotonic() - start
        self.folder.append_record(record)
        self.log.record(record)
        self.on_progress(None, record)

    def _about(self) -> dict[str, Any]:
        """What made the run: the command, versions, the machine, the data, every hyperparameter."""
        return {
            "command": command(),
            "versions": versions(),
            "machine": machine(),
            **({} if self.ranks.size == 1 else {"processes": self.ranks.size}),
            "synthetic": self.stream.source.synthetic,
            "about": "; ".join(filter(None, [catalogue.about(self.config.benchmark), self.stream.about])),
            **self._data(),
            "hyperparameters": self.config.hyperparameters,
        }

    def _source(self) -> dict[str, Any]:
        """What a model that is taken out of this run says of it."""
        return {"benchmark": self.config.benchmark, "run": self.config.run, "made": command()}

    def _data(self) -> dict[str, Any]:
        """What tells other data: the names of the classes, and how many patterns each batch has."""
        sizes = [len(places) for places in self.stream.indices]
        return {"class_names": list(self.stream.source.classes), "n_i": sizes}


def learner_of(config: Config, folder: RunFolder) -> Learner:
    """The learner of a run as its last checkpoint has it."""
    state = folder.checkpoints.read()
    if state is None:
        raise gone(folder)
    _, _, learner = prepare(config.benchmark, **choices(config))
    learner.load_state_dict(state["learner"])
    return learner


def named(names: Sequence[str]) -> Labels:
    """Classes by their names, where each has another; else by their numbers."""
    return Labels(list(names)) if names and len(set(names)) == len(names) else Labels(integers=True)


def gone(folder: RunFolder) -> RunError:
    """That what was learnt is not there any more, though there are records of it."""
    return RunError(
        sentence(
            "The checkpoints of this run are gone",
            expected=folder.checkpoints.newest,
            got=f"{len(folder.records())} records alone",
            do=f"Bring it back from a backup, or remove {folder.path} to learn anew.",
        )
    )


def choices(config: Config) -> dict[str, Any]:
    """What `prepare` is told beside the benchmark."""
    return {
        "strategy": config.strategy,
        "run": config.run,
        "setting": config.setting,
        "network": config.network,
        "weights": config.weights,
        "knobs": config.knobs,
        "seed": config.run if config.seed is None else config.seed,
        "held_out": config.held_out,
        "device": config.device,
    }


def run(
    config: Config,
    path: Path,
    *,
    checkpoint_every: float = 30.0,
    on_progress: OnProgress = lambda _step, _record: None,
    log: Sequence[str] = (),
    ranks: Ranks = ALONE,
) -> list[dict[str, Any]]:
    """Learn a stream into a folder; the same call again goes on where the last one stopped.

    Args:
        config: what to learn, and with which hyperparameters.
        path: the run's folder.
        checkpoint_every: seconds between two checkpoints within a batch.
        on_progress: called with each `Step` and None, and with None and each record.
        log: loggers by name, from `everlearn._kit.catalogue.LOGGERS`.
        ranks: the processes that learn it together; the first one alone writes and logs, and gets the records.

    Returns:
        One record for each batch, as in records.jsonl.
    """
    check_loggers(log)
    check_device(config.device)
    torch.set_num_threads(config.threads)
    with folder_of(path, ranks).locked(), stop_signals() as stop:
        return Runner(config, path, checkpoint_every, on_progress, stop, log if ranks.first else (), ranks).run()
