"""An engine that learns runs on a Ray cluster: one that is there, or one of this machine alone."""

import ipaddress
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from tqdm import tqdm

from everlearn.errors import ConfigError, EverlearnError, RunError, RunWarning, sentence
from everlearn.runs.cluster.job import Job, Records
from everlearn.runs.cluster.scheduler import Scheduler
from everlearn.runs.config import Config
from everlearn.runs.engine import some, tell_failures
from everlearn.runs.folder import is_finished
from everlearn.runs.runner import OnProgress
from everlearn.runs.stopping import stop_signals


class RayEngine:
    """Learns runs on the workers of a Ray cluster, one a worker, into folders here.

    address: of a cluster, HOST:PORT or auto, as a machine of it sees it; None starts one for this machine alone, which
    nobody else can reach and which ends with the engine. jobs: at a time; None for as many as there is room for.

    A worker shares no file system with this machine: a run's files go to it and come back, with every checkpoint.
    """

    def __init__(self, address: str | None = None, *, jobs: int | None = None) -> None:
        self.address, self.jobs = address, some(jobs)
        self._mine = False

    def __enter__(self) -> "RayEngine":
        self._ray = import_ray(embedded=self.address is None)
        if not self._ray.is_initialized():
            self._mine = True
            with kept_handler():
                self._connect()
        self.scheduler = Scheduler(self._ray, self.jobs)
        self.scheduler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.scheduler.closing.set()
        self.scheduler.join()
        if self._mine:
            self._ray.shutdown()

    def _connect(self) -> None:
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
        if self.address is None:
            cpus = max(os.cpu_count() or 1, self.jobs or 1)
            self._ray.init(address="local", num_cpus=cpus, include_dashboard=False, **quiet)
            refuse_others(self._ray)
            return
        address = address_of(self.address)
        try:
            refuse_silence(address)
            self._ray.init(address=self.address, **quiet)
        except (OSError, ValueError, RuntimeError, self._ray.exceptions.RayError) as error:
            raise RunError(
                sentence(
                    "There is no Ray cluster that can be used at this address",
                    expected="HOST:PORT of a cluster that this machine has joined, or auto, and the cluster's token",
                    got=f"{self.address}: {error}",
                    do="Check it with: ray status --address ADDRESS. A token is read from $RAY_AUTH_TOKEN, or from "
                    "the file $RAY_AUTH_TOKEN_PATH, by default ~/.ray/auth_token.",
                )
            ) from error

    # --- runs -----------------------------------------------------------------------------------------

    def run_all(self, runs: list[tuple[Config, Path]], *, checkpoint_every: float, log: Sequence[str] = ()) -> None:
        """Learn all these runs, each into its folder; those that are done are not learnt again.

        log: loggers, for each. Errors are told when all have ended.
        """
        refuse_loggers_of_files(log)
        jobs = {}
        for config, path in runs:
            job = Job(config, path, checkpoint_every, log)
            jobs[self._submit(job)] = job
        failed: list[tuple[Path, str]] = []
        with tqdm(total=len(runs), unit="run", disable=None) as bar:

            def tell(job: Job) -> None:
                while job.warned:
                    bar.write(f"{job.path}: {job.warned.pop(0)}", file=sys.stderr)

            try:
                for future in self.watch(jobs):
                    job, error = jobs[future], future.exception()
                    failed += [(job.path, str(error))] if error is not None else []
                    tell(job)
                    bar.update()
            finally:  # of those too that were stopped
                for job in jobs.values():
                    tell(job)
        tell_failures(failed, len(runs))

    def run(self, config: Config, path: Path, *, checkpoint_every: float, on_progress: OnProgress) -> Records:
        """Learn one run; from any thread. An error of `on_progress`, told of every record, ends the run."""
        job = Job(config, path, checkpoint_every, on_progress=on_progress)
        try:
            return self._submit(job).result()
        finally:
            for words in job.warned:
                warnings.warn(f"{path}: {words}", RunWarning, stacklevel=2)

    def refuse_after_a_stop(self) -> None:
        """For whoever would begin something that takes long: not after a signal."""
        if self.scheduler.stopping.is_set() or self.scheduler.closing.is_set():
            raise KeyboardInterrupt

    def _submit(self, job: Job) -> "Future[Records]":
        try:
            refuse_no_gpu(job.config)
            done = not job.log and is_finished(job.config, job.path)
        except EverlearnError as error:  # this run alone cannot be learnt
            job.fail(error)
            return job.future
        if done:
            job.succeed()
            return job.future
        return self.scheduler.submit(job)

    def watch(self, futures: Iterable["Future[Any]"]) -> Iterator["Future[Any]"]:
        """Those that are done, as they are. Ctrl-C and SIGTERM save everywhere and stop; a second one stops at once."""
        left = set(futures)
        try:
            with stop_signals() as stop:
                while left:
                    done, left = wait(left, timeout=0.2, return_when=FIRST_COMPLETED)
                    if stop.is_set():
                        self.scheduler.stopping.set()
                    else:
                        yield from done
            if stop.is_set():
                raise KeyboardInterrupt
        except BaseException:
            self.scheduler.closing.set()
            raise


def import_ray(*, embedded: bool) -> Any:
    """Ray, which is an extra; it tells nobody of its use, and a cluster of this machine alone stays on the loopback."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # as processes of the local engine; Ray's own would be 15
    if embedded and "ray" not in sys.modules:
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")  # on Linux too, this is what keeps it there
    if not embedded and has_token():
        os.environ.setdefault("RAY_AUTH_MODE", "token")  # as `ray start` does, but not `ray.init`
    try:
        import ray
    except ImportError as error:
        raise ConfigError(
            sentence(
                "--engine ray needs Ray",
                expected="the package ray",
                got="it is not installed",
                do="pip install 'everlearn[ray]'",
            )
        ) from error
    if embedded and not has_token():
        os.environ["RAY_AUTH_TOKEN"] = token_hex(32)  # for this process's own: Ray would keep one in the home folder
    return ray


def has_token() -> bool:
    """Whether there is a token for clusters that ask for one, where Ray looks for it."""
    path = os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token"
    return bool(os.environ.get("RAY_AUTH_TOKEN")) or Path(path).is_file()


@contextmanager
def kept_handler() -> Iterator[None]:
    """SIGTERM means afterwards what it meant before; Ray takes it, to exit without a word."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def address_of(given: str) -> str:
    """What Ray makes of an address, if it is one of a cluster that is there."""
    named = os.environ.get("RAY_ADDRESS") or given if given == "auto" else given
    host, _, port = named.rpartition(":")
    if named != "auto" and (not host or not port.isdigit() or "/" in host):
        raise ConfigError(
            sentence(
                "This is no address of a Ray cluster",
                expected="HOST:PORT or auto, on a machine of the cluster",
                got=named,
                do="Give the command on a machine that has joined the cluster; Ray's client is not supported.",
            )
        )
    return named


def refuse_silence(address: str) -> None:
    """Raise an error where nobody listens: Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def refuse_others(ray: Any) -> None:
    """A cluster for this machine alone must not be open to others."""
    at = ray.util.get_node_ip_address()
    if not ipaddress.ip_address(at).is_loopback:
        ray.shutdown()
        raise RunError(
            sentence(
                "Ray would be open to other machines",
                expected="a cluster on the loopback",
                got=f"one at {at}, since Ray was imported before",
                do="Call ray.init yourself, or make the engine before Ray is imported.",
            )
        )


def refuse_loggers_of_files(log: Sequence[str]) -> None:
    """MLflow's own store in a run's folder names the folder it was made in, which here is another machine's."""
    if "mlflow" in log and urlsplit(os.environ.get("MLFLOW_TRACKING_URI", "")).scheme not in ("http", "https"):
        raise ConfigError(
            sentence(
                "--log mlflow on a cluster needs a server",
                expected="MLFLOW_TRACKING_URI with http or https, which every machine reaches",
                got="another kind" if os.environ.get("MLFLOW_TRACKING_URI") else "none",
                do="Set it, log to tensorboard, or use --engine local.",
            )
        )


def refuse_no_gpu(config: Config) -> None:
    """Ray hides GPUs from jobs that take no share of them."""
    if config.device.startswith("cuda") and not config.gpus:
        raise ConfigError(
            sentence(
                "A job of the cluster has no GPU",
                expected=f"--gpus with --device {config.device}",
                got="no --gpus",
                do="Add --gpus 1, or a share of one.",
            )
        )
