"""Engines: many runs in a few processes of their own, which is the default, or on a Ray cluster."""

import json
import selectors
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from tqdm import tqdm

from everlearn._kit.lines import line_of
from everlearn.benchmarks import benchmark_of, stream_of
from everlearn.errors import ConfigError, DataError, EverlearnError, RunError, sentence
from everlearn.runs.config import Config
from everlearn.runs.folder import is_finished

TOLD = 5  # different errors that are told at once


def folder_name(strategy: str) -> str:
    """A strategy's name as a folder's; without the `*`, which shells and some disks take otherwise."""
    return strategy.replace("*", "-star")


def run_folder(out: Path, config: Config) -> Path:
    """The folder of one run below the folder of all.

    >>> run_folder(Path("runs"), Config("mini50-nic", "ar1*")).as_posix()
    'runs/ar1-star/run-1'
    """
    return out / folder_name(config.strategy) / f"run-{config.run}"


class Engine(Protocol):
    """Something that learns many runs."""

    jobs: int | None
    """How many at a time; None for as many as there is room for."""

    def run_all(self, runs: list[tuple[Config, Path]], *, checkpoint_every: float, log: Sequence[str] = ()) -> None:
        """Learn all these runs, each into its folder; those that are done are not learnt again."""


class LocalEngine:
    """Processes of this machine, with nothing to start or to install."""

    def __init__(self, *, jobs: int | None = None) -> None:
        self.jobs: int | None = some(jobs) or 1

    def run_all(self, runs: list[tuple[Config, Path]], *, checkpoint_every: float, log: Sequence[str] = ()) -> None:
        left = [(config, path) for config, path in runs if log or _is_left(config, path)]
        check_streams(config for config, _ in left)
        run_all(left, jobs=self.jobs or 1, checkpoint_every=checkpoint_every, log=log)


def _is_left(config: Config, path: Path) -> bool:
    """Whether there is something to learn, or an error to tell of this run alone."""
    try:
        return not is_finished(config, path)
    except EverlearnError:
        return True


def check_configs(configs: Iterable[Config]) -> None:
    """Raise what is wrong with a benchmark's or strategy's name or a knob before anything is learnt."""
    for config in configs:
        benchmark_of(config.benchmark, config.network)
        try:
            config.hyperparameters  # noqa: B018
        except ConfigError as error:
            raise ConfigError(f"{config.strategy}: {error}") from error


def check_streams(configs: Iterable[Config]) -> None:
    """Raise now what runs would later: that data or a run are not there, or that a strategy refuses the stream."""
    by_stream: dict[tuple[str, str | None], list[Config]] = {}
    for config in configs:
        by_stream.setdefault((config.benchmark, config.network), []).append(config)
    for (benchmark, network), those in by_stream.items():
        batches = stream_of(benchmark, network, max(config.run for config in those)).batches
        for config in those:
            try:
                config.recipe.check_stream(batches[: config.batches], config.own_setting, config.knobs)
            except DataError as error:
                raise DataError(f"{config.strategy}: {error}") from error


def some(jobs: int | None) -> int | None:
    """Jobs at a time, None for the engine's own number.

    >>> some(0)
    Traceback (most recent call last):
    everlearn.errors.ConfigError: With no jobs nothing is learnt: expected a number from 1, got 0. Ask for more.
    """
    if jobs is not None and jobs < 1:
        raise ConfigError(
            sentence("With no jobs nothing is learnt", expected="a number from 1", got=jobs, do="Ask for more.")
        )
    return jobs


@contextmanager
def engine_of(name: str, *, address: str | None = None, jobs: int | None = None) -> Iterator[Engine]:
    """An engine by name: local, or ray, which is ended when done with. address: of a cluster that is there already."""
    if name == "ray":
        from everlearn.runs.cluster import RayEngine  # an extra

        with RayEngine(address, jobs=jobs) as engine:
            yield engine
    elif name == "local" and address is None:
        yield LocalEngine(jobs=jobs)
    else:
        raise ConfigError(
            sentence(
                "No such engine",
                expected="local, or ray with or without an address",
                got=name if address is None else f"{name} at {address}",
                do="Choose one: --engine ray --address ADDRESS.",
            )
        )


def run_all(runs: list[tuple[Config, Path]], *, jobs: int, checkpoint_every: float, log: Sequence[str] = ()) -> None:
    """Learn all these runs, each into its folder, in so many processes; those that are done are not learnt again.

    log: loggers, for each.

    A process that dies leaves the others alone, and its run counts as failed. Errors are told when all have ended.
    """
    waiting, failed = list(runs), list[tuple[Path, str]]()
    workers: dict[Worker, Path] = {}
    bar = tqdm(total=len(runs), unit="run", disable=None)
    try:
        with selectors.DefaultSelector() as ready:
            while waiting or workers:
                while waiting and len(workers) < jobs:
                    worker = Worker()
                    ready.register(worker.stdout, selectors.EVENT_READ, worker)
                    workers[worker] = worker.learn(*waiting.pop(0), checkpoint_every, log)
                for worker in [key.data for key, _ in ready.select()]:
                    folder, error = workers.pop(worker), worker.answer()
                    failed += [(folder, error)] if error else []
                    worker.tell(bar, folder)
                    bar.update()
                    if waiting and worker.alive:
                        workers[worker] = worker.learn(*waiting.pop(0), checkpoint_every, log)
                    else:
                        ready.unregister(worker.stdout)
                        worker.close()
    except KeyboardInterrupt:
        for worker in workers:
            worker.interrupt()
        for worker, folder in workers.items():
            worker.answer()
            worker.tell(bar, folder)
            worker.close()
        raise
    finally:
        bar.close()
    tell_failures(failed, len(runs))


def tell_failures(failed: list[tuple[Path, str]], runs: int) -> None:
    """Raise what went wrong with some of so many runs, if anything did; what is the same in several, once.

    >>> tell_failures([(Path("a"), "No room."), (Path("b"), "No room."), (Path("c"), "No light.")], 4)
    Traceback (most recent call last):
    everlearn.errors.RunError: Some runs failed: expected 4 runs to end well, got 3 errors: a and 1 more: No room | \
c: No light. Mend them and give the same command again; what is done is not learnt again.
    """
    if failed:
        folders: dict[str, list[Path]] = {}
        for folder, error in failed:
            folders.setdefault(error.rstrip("."), []).append(folder)
        told = [
            f"{those[0]}{f' and {len(those) - 1} more' if those[1:] else ''}: {error}"
            for error, those in list(folders.items())[:TOLD]
        ]
        told += [f"other errors: {len(folders) - TOLD}"] if len(folders) > TOLD else []
        raise RunError(
            sentence(
                "Some runs failed",
                expected=f"{runs} runs to end well",
                got=f"{len(failed)} errors: " + " | ".join(told),
                do="Mend them and give the same command again; what is done is not learnt again.",
            )
        )


class Worker:
    """A process that learns one run after the other."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115, closed with the worker
        command = [sys.executable, "-m", "everlearn.runs.worker", *sys.argv[1:]]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._errors, start_new_session=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self.stdout = self._process.stdin, self._process.stdout
        self.alive, self.warned = True, list[str]()

    def learn(self, config: Config, folder: Path, checkpoint_every: float, log: Sequence[str] = ()) -> Path:
        """Give it a run to learn."""
        job: dict[str, Any] = {"folder": str(folder), "config": config.to_json(), "log": list(log)}
        with suppress(BrokenPipeError):  # it has died: `answer` says so
            self._stdin.write(line_of({**job, "checkpoint_every": checkpoint_every}))
            self._stdin.flush()
        return folder

    def answer(self) -> str | None:
        """What went wrong with the run it was given, None for nothing; `warned` is what is to be told besides."""
        line = self.stdout.readline()
        self.warned = []
        if line:
            answer = json.loads(line)
            error: str | None = answer["error"]
            self.warned, self.alive = answer["warned"], not answer["stopped"]
            return error
        self.alive = False
        code = self._process.wait()
        self._errors.seek(0)
        return f"its process died with code {code}. {self._errors.read().decode(errors='replace')[-2000:]}".strip()

    def tell(self, bar: "tqdm[Any]", folder: Path) -> None:
        """Say what the run that it was given warned of."""
        for words in self.warned:
            bar.write(f"{folder}: {words}", file=sys.stderr)

    def interrupt(self) -> None:
        """Ask it to save and stop; it has when `answer` comes back."""
        self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Let it end."""
        with suppress(BrokenPipeError):
            self._stdin.close()
        self.stdout.close()
        self._process.wait()
        self._errors.close()
