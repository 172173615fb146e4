"""Which worker of the cluster learns which run; a job whose worker dies goes on with another."""

import contextlib
import queue
import sys
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from everlearn.errors import ConfigError, DataError, EverlearnError, RunError, sentence
from everlearn.runs.cluster.actor import Actor, News, versions
from everlearn.runs.cluster.job import Job, Records
from everlearn.runs.cluster.parcels import pack
from everlearn.runs.config import Config
from everlearn.runs.folder import RunFolder

TURN = 0.1  # seconds until new jobs are looked for
IDLE = 5.0  # seconds that a worker without a job is kept
LOOK = 5.0  # seconds between two looks at what machines there are
DEATHS = 3  # workers that a job may lose without a new checkpoint, and that may die before their first word


@dataclass(eq=False)
class RayWorker:
    """A process of the cluster: not there yet (no pid), with a job, without one, or ending one that nobody wants."""

    handle: Any
    shares: tuple[float, float]
    pid: int | None = None
    job: Job | None = None
    number: int = 0
    since: float = 0.0
    asked: bool = False  # to stop


class Scheduler(threading.Thread):
    """Runs jobs as the cluster has room, or so many at a time; the only thread that talks with Ray."""

    def __init__(self, ray: Any, at_once: int | None) -> None:
        super().__init__(name="everlearn-ray", daemon=True)
        self._ray, self._at_once = ray, at_once or sys.maxsize
        self._kind = ray.remote(Actor)
        self._inbox: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._waiting: deque[Job] = deque()
        self._unfinished: set[Job] = set()
        self._pending: dict[Any, RayWorker] = {}  # by what they were asked last
        self._idle: list[RayWorker] = []
        self._weights: dict[tuple[str, int, int], Any] = {}  # by path, size and time
        self._stillborn, self._looked, self._numbered = 0, 0.0, 0
        self.stopping, self.closing = threading.Event(), threading.Event()
        self._error: BaseException = KeyboardInterrupt()  # what jobs that come too late are told

    def submit(self, job: Job) -> "Future[Records]":
        self._inbox.put(job)
        if self.closing.is_set():
            job.fail(self._error)
        return job.future

    def pids(self) -> dict[int, Path]:
        """The processes that learn, each with its run's folder."""
        return {worker.pid: worker.job.path for worker in [*self._pending.values()] if worker.pid and worker.job}

    # --- the loop -----------------------------------------------------------------------------------

    def run(self) -> None:
        """Until closed. Whatever happens, no future is left waiting."""
        try:
            while not self.closing.is_set():
                self._take_in()
                if self.stopping.is_set():
                    self._stop()
                self._hire()
                self._hear()
        except EverlearnError as problem:
            self._error = problem
        except BaseException as problem:
            self._error = RunError(f"the cluster cannot be used: {type(problem).__name__}: {problem}")
            self._error.__cause__ = problem
        finally:
            self.closing.set()
            for worker in [*self._pending.values(), *self._idle]:
                self._dismiss(worker)
            self._take_in()
            for job in [*self._unfinished]:
                job.fail(self._error)

    def _take_in(self) -> None:
        with contextlib.suppress(queue.Empty):
            while True:
                self._accept(self._inbox.get_nowait())

    def _accept(self, job: Job) -> None:
        self._waiting.append(job)
        self._unfinished.add(job)
        job.future.add_done_callback(lambda _: self._unfinished.discard(job))

    def _stop(self) -> None:
        """Those who learn save and stop, and nobody begins."""
        while self._waiting:
            self._waiting.popleft().fail(KeyboardInterrupt())
        for worker in self._pending.values():
            if worker.job and not worker.asked:
                self._ask_to_stop(worker)

    def _hire(self) -> None:
        """Give waiting jobs to idle workers, ask for as many more as there are jobs, let others go."""
        for worker in [*self._idle]:
            job = next((job for job in self._waiting if job.shares == worker.shares), None)
            if job is not None:
                self._waiting.remove(job)
                self._idle.remove(worker)
                self._give(worker, job)
            elif time.monotonic() - worker.since > IDLE:
                self._idle.remove(worker)
                self._dismiss(worker)
        self._refuse_what_nobody_can()
        coming = [ref for ref, worker in self._pending.items() if worker.pid is None]
        for ref in coming[len(self._waiting) :]:
            self._dismiss(self._pending.pop(ref))
        for job in [*self._waiting][len(coming) :][: max(0, self._at_once - len(self._pending) - len(self._idle))]:
            cpus, gpus = job.shares
            options = {"num_cpus": cpus, "num_gpus": gpus, "max_concurrency": 2, "scheduling_strategy": "SPREAD"}
            handle = self._kind.options(**options).remote()
            self._pending[handle.hello.remote()] = RayWorker(handle, job.shares)

    def _refuse_what_nobody_can(self) -> None:
        """A job that no machine has room for would wait for ever."""
        if not self._waiting or time.monotonic() - self._looked < LOOK:
            return
        self._looked = time.monotonic()
        rooms = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        for job in [*self._waiting]:
            cpus, gpus = job.shares
            if not any(room.get("CPU", 0) >= cpus and room.get("GPU", 0) >= gpus for room in rooms):
                self._waiting.remove(job)
                most = {name: max((room.get(name, 0) for room in rooms), default=0) for name in ("CPU", "GPU")}
                job.fail(
                    ConfigError(
                        sentence(
                            "No machine of the cluster has room for a job",
                            expected=f"one with {cpus:g} CPUs and {gpus:g} GPUs",
                            got=f"{len(rooms)} machines, with at most {most['CPU']:g} and {most['GPU']:g}",
                            do="Lower --cpus and --gpus, or let a larger machine join.",
                        )
                    )
                )

    def _hear(self) -> None:
        if not self._pending:
            with contextlib.suppress(queue.Empty):
                self._accept(self._inbox.get(timeout=TURN))
            return
        ready, _ = self._ray.wait([*self._pending], num_returns=1, timeout=TURN)
        for ref in ready:
            worker = self._pending.pop(ref)
            try:
                answer = self._ray.get(ref)
            except self._ray.exceptions.RayTaskError as error:  # it answers, with an error of its own
                self._lose(worker, error, again=False)
            except self._ray.exceptions.RayError as error:
                self._lose(worker, error, again=True)
            else:
                self._heed(worker, answer)

    # --- one worker ---------------------------------------------------------------------------------

    def _heed(self, worker: RayWorker, answer: Any) -> None:
        """Its first word, or news of its run."""
        if worker.pid is None:
            self._greet(worker, answer)
            return
        job, news = worker.job, News(parcel=answer["parcel"], end=answer["end"])
        if job is not None:
            try:
                job.take(news)
            except BaseException as error:  # of who watches the run, or of the disk here: the run is given up
                worker.job = None
                self._ask_to_stop(worker)
                job.fail(error)
        if news["end"] is None:
            self._pending[worker.handle.news.remote()] = worker
            return
        if worker.job is not None:
            worker.job.end(news["end"])
        if news["end"]["how"] == "failed" and not news["end"]["kind"]:
            self._dismiss(worker)  # of something unknown: it may be broken, and would fail one job after the other
        else:
            self._rest(worker)

    def _greet(self, worker: RayWorker, answer: dict[str, Any]) -> None:
        self._stillborn = 0
        worker.pid = answer["pid"]
        if answer["versions"] != versions():
            self._dismiss(worker)
            self._refuse(
                sentence(
                    "A worker of the cluster has other versions",
                    expected=versions(),
                    got=answer["versions"],
                    do="Install the same ones on every machine: others may give other bits.",
                )
            )
        else:
            self._rest(worker)

    def _ask_to_stop(self, worker: RayWorker) -> None:
        worker.asked = True
        worker.handle.stop.remote(worker.number)

    def _rest(self, worker: RayWorker) -> None:
        worker.job, worker.since = None, time.monotonic()
        self._idle.append(worker)

    def _give(self, worker: RayWorker, job: Job) -> None:
        """Have a job learnt from where its folder is; one whose folder is another's fails."""
        try:
            if not job.deaths:
                job.held.enter_context(RunFolder(job.path).locked())
            files, weights = pack(job.path), self._weights_of(job.config)
            self._numbered += 1
            news = worker.handle.learn.remote(self._numbered, job.order(), files, weights)
        except (EverlearnError, OSError) as error:
            job.fail(error)
            self._rest(worker)
        except Exception as error:  # of Ray, whose store is full for example
            job.fail(RunError(f"it cannot be given to a worker: {type(error).__name__}: {error}"))
            self._dismiss(worker)
        else:
            worker.job, worker.number, worker.asked = job, self._numbered, False
            self._pending[news] = worker

    def _weights_of(self, config: Config) -> Any:
        """The file that the network starts from, put into the cluster once."""
        if config.weights is None:
            return None
        try:
            path = Path(config.weights)
            about = path.stat()
            key = config.weights, about.st_size, about.st_mtime_ns
            if key not in self._weights:
                self._weights[key] = self._ray.put(path.read_bytes())
        except OSError as error:
            raise DataError(
                sentence("Weights cannot be read", expected="a file", got=error, do="Check --weights.")
            ) from error
        return self._weights[key]

    def _lose(self, worker: RayWorker, error: Exception, *, again: bool) -> None:
        """A worker died, or its machine: what it was learning goes on elsewhere from the last checkpoint here."""
        self._dismiss(worker)
        job = worker.job
        if worker.pid is None:
            self._stillborn += 1
            if self._stillborn >= DEATHS:
                self._refuse(
                    sentence(
                        "Workers of the cluster die before they can begin",
                        expected="everlearn to be installed on every machine, and RAY_AUTH_MODE to be as the cluster's",
                        got=str(error)[-2000:],
                        do="Mend that and give the same command again.",
                    )
                )
        elif job is not None:
            job.deaths += 1
            if again and job.deaths < DEATHS and not self.stopping.is_set():
                self._waiting.appendleft(job)
            else:
                how = f"its worker died, the last of {job.deaths} without a new checkpoint." if again else "it failed."
                job.fail(RunError(f"{how} {str(error)[-2000:]}"))

    def _refuse(self, words: str) -> None:
        while self._waiting:
            self._waiting.popleft().fail(RunError(words))

    def _dismiss(self, worker: RayWorker) -> None:
        with contextlib.suppress(Exception):  # it may be gone
            self._ray.kill(worker.handle)
